package runtime

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A Stale override is of a step that has changed since: the digest that it pins
// isn't that of the step below.
type Stale struct {
	Recipe string // its path
	Step   string
	Path   string // of the step, from the recipe that was asked: "gateway/nat"
	Layer  string // the name of that of the override
	Pinned string // "sha256:..."
	Now    string
	Pos    syntax.Position // of the override
	// Copy is where the code of the step below may be kept as it was pinned: a
	// path within the recipes of the override's layer. Kept is what was found
	// there, "" if nothing, or the code of another pin.
	Copy, Kept string
	// Code is that of the step below as it is now, in the same form.
	Code string
}

// CopyOf returns the path, within the recipes of the layer that overrides it,
// of the copy that is kept of a step's code.
func CopyOf(recipe, step string) string { return path.Join(".shipped", recipe, step+".txt") }

// Copy returns what a kept copy of a step's code holds, for a step with that
// digest: so that a later gsrun knows what the copy is of.
func Copy(recipe, step, digest, code string) string {
	return "# Step " + step + " of " + recipe + ".star with all that it reaches, as the override beside it was written for.\n# " + digest + "\n\n" + code
}

// readCopy returns the code in a kept copy if it is of that digest.
func readCopy(text, digest string) string {
	head, code, _ := strings.Cut(text, "\n\n")
	if lines := strings.Split(head, "\n"); lines[len(lines)-1] != "# "+digest {
		return ""
	}
	return code
}

// pins compares the digests that the override knows with those of the steps
// that it overrides.
func (e *extension) pins(r *Recipe, of *starlark.Dict) {
	l := e.place.loader
	for name := range e.how {
		e.r.belows[name] = below{recipe: r, layer: e.place.id.Layer, from: min(e.place.id.Layer+1, l.ids[r.pos.Filename()].Layer)}
	}
	if of == nil {
		return
	}
	for _, item := range of.Items() {
		name, _ := starlark.AsString(item[0])
		want, ok := starlark.AsString(item[1])
		if !ok || !strings.HasPrefix(want, "sha256:") {
			e.fail("gsrun override writes it", "of %s: got %s, want a digest such as \"sha256:9f2c...\"", name, item[1])
			continue
		}
		s := r.Step(name)
		if s == nil && e.r.Step(name) == nil {
			e.at("of", name)
			continue
		}
		if s == nil || e.how[name] == "" {
			e.fail("a pin belongs to a step that is replaced, wrapped or removed here", "of %s: the step isn't overridden", name)
			continue
		}
		have, code, err := e.r.belows[name].reached(l, name)
		if err != nil {
			e.fail("", "of %s: %v", name, err)
			continue
		}
		if have == want {
			continue
		}
		st := Stale{Recipe: e.r.Path, Step: name, Path: name, Layer: l.layers[e.place.id.Layer].Name, Pinned: want, Now: have, Pos: e.pos, Copy: CopyOf(e.r.Path, name), Code: code}
		layer := l.layers[e.place.id.Layer]
		if text, err := fs.ReadFile(layer.Recipes, st.Copy); err == nil {
			st.Kept = readCopy(string(text), want)
		}
		e.r.stale = append(e.r.stale, st)
	}
}

// Stale lists the overrides in r, and in the recipes that it uses, whose pins no
// longer hold.
func (r *Recipe) Stale() []Stale {
	all := slices.Clone(r.stale)
	for _, s := range r.Steps {
		if s.Use == nil {
			continue
		}
		for _, st := range s.Use.Stale() {
			st.Path = s.Name + "/" + st.Path
			all = append(all, st)
		}
	}
	return all
}
