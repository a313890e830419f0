package runtime

import (
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
)

// below says of which recipe an override takes a step, and where the layers
// begin that are below the override.
type below struct {
	recipe *Recipe // as the override loaded it
	layer  int     // of the override
	from   int     // the first layer below it
}

// view returns a loader that looks everything up from a layer down, as if
// there were none above it. The caller holds l.mu, which guards the view too.
func (l *Loader) view(from int) *Loader {
	if from <= l.from {
		return l
	}
	if v := l.views[from]; v != nil {
		return v
	}
	v := &Loader{from: from, language: l.language, layers: l.layers, predeclared: l.predeclared, threads: l.threads, catalog: l.catalog,
		files: make(map[FileID]*loaded), sources: make(map[string]*dialect.File), ids: make(map[string]FileID)}
	if l.views == nil {
		l.views = make(map[int]*Loader)
	}
	l.views[from] = v
	return v
}

// reached returns the digest of the step of that name, and what it reaches as
// text, both as the layers below the override have it: what the site has
// instead of a file or of a loaded value isn't what the override was written
// for. A recipe that doesn't load without the layers above is taken as it is.
func (b below) reached(l *Loader, name string) (digest, code string, err error) {
	v := l.view(b.from)
	if v != l {
		if s := v.same(b.recipe, l.ids[b.recipe.pos.Filename()].Path, name); s != nil {
			return s.reached(v)
		}
	}
	s := b.recipe.Step(name)
	if s == nil {
		return "", "", fault.New(fault.Invalid, "%s has no step %s", b.recipe.Path, name)
	}
	return s.reached(l)
}

// same returns the step of a recipe that another loader made of the file, as
// this one makes it; nil if there is none.
func (l *Loader) same(r *Recipe, file, name string) *Step {
	id, src, err := l.find(0, file)
	if err != nil {
		return nil
	}
	globals, err := l.load(id, src, nil)
	if err != nil {
		return nil
	}
	have, _ := globals["main"].(*Recipe)
	for _, v := range globals {
		if x, ok := v.(*Recipe); ok && x.pos == r.pos {
			have = x
		}
	}
	if have == nil {
		return nil
	}
	return have.Step(name)
}

// Code returns the digest of a step of the recipe, as `of` pins it in the top
// layer, and the code that the digest is of, for people to compare. It is the
// step that the top layer overrides, if it does, and the step as the layers
// below have it. Not everything in the digest shows in the code.
func (e *Engine) Code(r *Recipe, name string) (digest, code string, err error) {
	e.loader.mu.Lock()
	defer e.loader.mu.Unlock()
	b, ok := r.belows[name]
	if !ok || b.layer != 0 {
		b = below{recipe: r, from: 1}
	}
	s := b.recipe.Step(name)
	if s != nil && s.Fn == nil {
		return "", "", fault.New(fault.Invalid, "%s is a recipe, which has no code of its own", s.Name)
	}
	return b.reached(e.loader, name)
}

// find returns the first layer from the given one down, of those that the
// loader knows, that has the file.
func (l *Loader) find(layer int, file string) (FileID, []byte, error) {
	return find(l.layers, max(layer, l.from), file)
}
