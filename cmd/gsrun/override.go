package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/override"
	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/site"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
)

func (a *app) overrideCmd() *cobra.Command {
	var p place
	var wrap, repin bool
	c := &cobra.Command{
		Use:   "override RECIPE STEP",
		Short: "Write the file by which a site overrides a step of a recipe",
		Long: "Write a file at the recipe's path in the site, or add to the one that is there: the step's function as it is\n" +
			"shipped, to be changed, in a call of extend that replaces the step. Nothing changes until it is edited.\n" +
			"The override pins the shipped step. Its code is kept beside it, in recipes/.shipped, and belongs into the\n" +
			"site's history too: when the shipped step changes, gsrun check shows the difference by it.",
		Example:           "  gsrun override gateway nat --site sites/oslab\n  gsrun override bootstrap gateway/nat --site sites/oslab --wrap\n  gsrun override gateway nat --site sites/oslab --repin",
		ValidArgsFunction: a.completeRecipe,
		Args:              cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if wrap && repin {
				return fault.New(fault.Invalid, "--wrap and --repin: the one writes an override, the other keeps it as it is")
			}
			o, err := a.overriding(args[0], args[1], p)
			if err != nil {
				return err
			}
			if repin {
				return o.repin(cmd)
			}
			return o.write(cmd, wrap)
		},
	}
	c.Flags().StringVar(&p.site, "site", "", "the site's `folder`; default: $"+siteVariable+", else the nearest folder upward with a "+site.FileName)
	c.Flags().BoolVar(&wrap, "wrap", false, "call the shipped step from the new one instead of replacing it")
	c.Flags().BoolVar(&repin, "repin", false, "pin the shipped step as it is now in the override that is there")
	return c
}

// overriding is an override that is to be written.
type overriding struct {
	name   string // of the recipe, as it was given
	place  place
	site   *site.Site
	src    source
	engine *runtime.Engine
	path   []string // of the step: "gateway", "nat"
	recipe *runtime.Recipe
	file   string          // of the override, on disk
	stale  []runtime.Stale // what is stale once the files are written
}

func (a *app) overriding(recipe, step string, p place) (*overriding, error) {
	s, err := a.findSite(p)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, fault.Hinted(fault.Invalid, "name one with --site DIR; a folder with a site.yaml is one", "no site: an override is a file of a site")
	}
	o := &overriding{name: recipe, place: p, site: s, path: strings.Split(step, "/")}
	if o.src, err = findRecipe(recipe, s); err != nil {
		return nil, err
	}
	o.engine = textEngine(o.src)
	main, err := o.engine.Load(o.src.path)
	if err != nil {
		return nil, explain(o.engine, err)
	}
	if o.recipe, err = usedAt(main, o.path); err != nil {
		return nil, err
	}
	o.file = filepath.Join(o.site.Dir, "recipes", filepath.FromSlash(o.recipe.Path)+".star")
	return o, nil
}

// usedAt returns the recipe, used by r or r itself, that has the step at a path.
func usedAt(r *runtime.Recipe, path []string) (*runtime.Recipe, error) {
	for _, name := range path[:len(path)-1] {
		s := r.Step(name)
		if s == nil || s.Use == nil {
			return nil, fault.Hinted(fault.Invalid, stepHint(r, name), "%s has no step %s that is a recipe", r.Path, name)
		}
		r = s.Use
	}
	return r, nil
}

func stepHint(r *runtime.Recipe, name string) string {
	var names []string
	for _, s := range r.Order() {
		names = append(names, s.Name)
	}
	if near := builtin.Nearest(name, names); near != "" {
		return "did you mean " + near + "?"
	}
	return "the steps are " + strings.Join(names, ", ")
}

func (o *overriding) step() string { return o.path[len(o.path)-1] }

// mine reports whether a step comes from the site.
func mine(s *runtime.Step) bool { return s.File().Layer == 0 }

// shipped returns the step that is to be overridden.
func (o *overriding) shipped() (*runtime.Step, error) {
	name := o.step()
	s := o.recipe.Step(name)
	for _, gone := range o.recipe.Removed() {
		if s == nil && gone.Step.Name == name {
			return nil, fault.Hinted(fault.Invalid, "take it out of the list there first", "step %s is removed at %s", name, gone.Pos)
		}
	}
	switch {
	case s == nil:
		return nil, fault.Hinted(fault.Invalid, stepHint(o.recipe, name), "%s has no step %s", o.recipe.Path, name)
	case mine(s):
		return nil, fault.Hinted(fault.Invalid, "edit it there", "step %s is the site's own, at %s", name, s.Pos())
	case s.Use != nil:
		inner := "STEP"
		if len(s.Use.Steps) > 0 {
			inner = s.Use.Steps[0].Name
		}
		return nil, fault.Hinted(fault.Invalid, "override one of its steps, such as "+strings.Join(o.path, "/")+"/"+inner, "step %s is a recipe, %s", name, s.Use.Path)
	}
	return s, nil
}

func (o *overriding) write(cmd *cobra.Command, wrap bool) error {
	s, err := o.shipped()
	if err != nil {
		return err
	}
	digest, code, err := o.engine.Code(o.recipe, s.Name)
	if err != nil {
		return err
	}
	r := override.Request{Recipe: o.recipe.Path, Step: s.Name, Digest: digest, Doc: s.Doc, Wrap: wrap}
	if !wrap {
		if s.Change() == runtime.Wrapped {
			return fault.Hinted(fault.Invalid, "write --wrap, or replace it by hand", "step %s wraps another, at %s: a replacement has nothing to call", s.Name, s.Pos())
		}
		if err := o.locate(&r, s); err != nil {
			return err
		}
	}
	have, err := os.ReadFile(o.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fault.Error{Op: "reading", Target: o.file, Kind: fault.Invalid, Err: err}
	}
	text, err := override.Write(r, have)
	if err != nil {
		return o.refuse(r, have, err)
	}
	if err := o.store(have, text, digest, code); err != nil {
		return err
	}
	verb := "replaces"
	if wrap {
		verb = "wraps"
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s %s the step %s of %s.star (%s), without a difference so far.\nEdit it, then: gsrun check %s --site %s\n",
		display(o.file), verb, s.Name, o.recipe.Path, s.Pos(), o.name, display(o.site.Dir))
	return nil
}

// locate finds the text of the file that the step's function stands in.
func (o *overriding) locate(r *override.Request, s *runtime.Step) error {
	id := s.File()
	r.Function, r.File = s.Fn.Name(), id.Path
	var err error
	if r.Source, err = fs.ReadFile(o.src.layers[id.Layer].Recipes, id.Path); err != nil {
		return &fault.Error{Op: "reading", Target: s.Pos(), Kind: fault.Invalid, Err: err}
	}
	// @base// is the first layer below the site's that has the file.
	first := slices.IndexFunc(o.src.layers[1:], func(l runtime.Layer) bool {
		_, err := fs.Stat(l.Recipes, id.Path)
		return err == nil
	})
	r.Reached = first+1 == id.Layer
	return nil
}

// refuse says what can't be written, and what a person would write.
func (o *overriding) refuse(r override.Request, have []byte, why error) error {
	hint := "wrap the step instead: --wrap"
	if have != nil {
		if sample, err := override.Write(r, nil); err == nil {
			hint = "write it by hand; in a file of its own it would be:\n\n" + strings.TrimRight(string(sample), "\n")
		}
	}
	return fault.Hinted(fault.Invalid, hint, "%s: the step %s can't be overridden there: %v", display(o.file), r.Step, why)
}

func (o *overriding) repin(cmd *cobra.Command) error {
	name := o.step()
	var below *runtime.Step
	if s := o.recipe.Step(name); s != nil && mine(s) {
		below = s.Below()
	}
	for _, gone := range o.recipe.Removed() {
		if gone.Step.Name == name && gone.Layer == o.src.layers[0].Name {
			below = gone.Step
		}
	}
	if below == nil {
		return fault.Hinted(fault.Invalid, strings.TrimSuffix(repinCommand(o.name, strings.Join(o.path, "/"), o.place), " --repin")+" writes one", "the site overrides no step %s of %s", name, o.recipe.Path)
	}
	digest, code, err := o.engine.Code(o.recipe, name)
	if err != nil {
		return err
	}
	have, err := os.ReadFile(o.file)
	if err != nil {
		return &fault.Error{Op: "reading", Target: o.file, Kind: fault.Invalid, Err: err}
	}
	text, err := override.Repin(o.recipe.Path, name, digest, have)
	if err != nil {
		return fault.Hinted(fault.Invalid, fmt.Sprintf("write of = {%q: %q} by hand", name, digest), "%s: the step %s can't be pinned there: %v", display(o.file), name, err)
	}
	if err := o.store(have, text, digest, code); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s pins %s of step %s (%s)\n", display(o.file), digest, name, below.Pos())
	for _, st := range o.stale {
		left := staleOf(st, o.name, o.place)
		fmt.Fprintf(cmd.OutOrStdout(), "gsrun check %s still fails: %s\n  %s\n", o.name, left.Message, left.Hint)
	}
	return nil
}

// store writes the override, whose file says have now, and the copy of the
// shipped step, once it is sure that the recipe loads with them.
func (o *overriding) store(have, text []byte, digest, code string) error {
	name := o.recipe.Path + ".star"
	copyAt := runtime.CopyOf(o.recipe.Path, o.step())
	kept := []byte(runtime.Copy(o.recipe.Path, o.step(), digest, code))
	if err := o.prove(overlay{FS: o.src.layers[0].Recipes, files: map[string][]byte{name: text, copyAt: kept}}); err != nil {
		return fault.Wrap("proving the override in", display(o.file), err)
	}
	dir := filepath.Join(o.site.Dir, "recipes")
	copyFile := filepath.Join(dir, filepath.FromSlash(copyAt))
	for _, d := range []string{filepath.Dir(copyFile), filepath.Dir(o.file)} {
		if err := durable.MkdirAll(d, 0o755); err != nil {
			return &fault.Error{Op: "making", Target: d, Kind: fault.Invalid, Err: err}
		}
	}
	if err := durable.WriteFile(copyFile, kept, 0o644); err != nil {
		return &fault.Error{Op: "writing", Target: copyFile, Kind: fault.Invalid, Err: err}
	}
	if have != nil {
		if err := durable.WriteFile(o.file, text, 0o644); err != nil {
			return &fault.Error{Op: "writing", Target: o.file, Kind: fault.Invalid, Err: err}
		}
		return nil
	}
	_, created, err := durable.CreateFile(o.file, text, 0o644)
	if err == nil && !created {
		err = errors.New("somebody else has just written it")
	}
	if err != nil {
		return &fault.Error{Op: "writing", Target: o.file, Kind: fault.Invalid, Err: err}
	}
	return nil
}

// prove loads the recipe with the files that are to be written.
func (o *overriding) prove(files overlay) error {
	src := o.src
	src.layers = slices.Clone(src.layers)
	src.layers[0].Recipes = files
	e := textEngine(src)
	main, err := e.Load(src.path)
	if err != nil {
		return explain(e, err)
	}
	r, err := usedAt(main, o.path)
	if err != nil {
		return err
	}
	if s := r.Step(o.step()); s != nil && !mine(s) {
		return fault.New(fault.Invalid, "the step %s would still be that of %s: the recipe isn't looked up in the site", s.Name, s.Pos())
	}
	o.stale = main.Stale()
	for _, st := range r.Stale() {
		if st.Recipe == o.recipe.Path && st.Step == o.step() {
			return fault.New(fault.Internal, "the pin %s isn't that of the step, %s", st.Pinned, st.Now)
		}
	}
	return nil
}

// overlay is a folder with some files that aren't there yet.
type overlay struct {
	fs.FS
	files map[string][]byte
}

// ReadFile returns the content of a file.
func (o overlay) ReadFile(name string) ([]byte, error) {
	if b, ok := o.files[name]; ok {
		return b, nil
	}
	return fs.ReadFile(o.FS, name)
}
