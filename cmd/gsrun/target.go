package main

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab"
	"git.vanillacore.net/govstack/gsrun/internal/site"
	"git.vanillacore.net/govstack/gsrun/recipes"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// siteVariable names the environment variable that says which site is meant.
const siteVariable = "GSRUN_SITE"

// siteLayer is the name of the layer of the site's own files.
const siteLayer = "site"

// place says which site a verb works for.
type place struct {
	site string
	lab  bool
}

func (p *place) flags(f *pflag.FlagSet) {
	f.StringVar(&p.site, "site", "", "the site's `folder`; default: $"+siteVariable+", else the nearest folder upward with a "+site.FileName)
	f.BoolVar(&p.lab, "lab", false, "run against the lab on this machine instead of a real cloud; it is started if need be")
}

// findSite returns the site that p names; nil if there is none.
func (a *app) findSite(p place) (*site.Site, error) {
	dir := p.site
	if dir == "" {
		dir = a.getenv(siteVariable)
	}
	if dir == "" && !p.lab {
		cwd, err := os.Getwd()
		if err != nil {
			return nil, &fault.Error{Op: "finding the site", Kind: fault.Invalid, Err: err}
		}
		dir = site.Find(cwd)
	}
	if dir == "" {
		return nil, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, &fault.Error{Op: "finding the site", Kind: fault.Invalid, Err: err}
	}
	return site.Load(abs)
}

// requireSite returns the site that p names; with --lab the lab is started,
// and its site stands in for what the named one lacks.
func (a *app) requireSite(ctx context.Context, p place) (*site.Site, error) {
	s, err := a.findSite(p)
	if err != nil {
		return nil, err
	}
	if !p.lab {
		if s == nil {
			return nil, fault.Hinted(fault.Invalid, "name one with --site DIR, or try the recipe with --lab", "no site: nothing says which cloud and hosts are meant")
		}
		return s, nil
	}
	l, err := a.labSite(ctx)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return l, nil
	}
	return s.Under(l), nil
}

// labSite starts the lab if it isn't up, and returns its site.
func (a *app) labSite(ctx context.Context) (*site.Site, error) {
	dir, err := lab.Dir()
	if err != nil {
		return nil, err
	}
	info, err := a.labUp(ctx, dir)
	if err != nil {
		return nil, err
	}
	return site.Load(info.Site)
}

// source is where a recipe was found: its path within the recipes, and the
// layers that it is looked up in.
type source struct {
	name   string // what finds it again from any folder: a file's absolute path, else the name
	path   string
	layers []runtime.Layer
}

// findRecipe resolves what the command line calls a recipe: a file, or a name
// among the recipes of the site, the tree or the binary.
func findRecipe(name string, s *site.Site) (source, error) {
	tree, rel, err := treeOf(name)
	if err != nil {
		return source{}, err
	}
	var src source
	src.path, src.name = rel, name
	if file := filepath.Join(tree, filepath.FromSlash(rel)); tree != "" {
		if _, err := os.Stat(file); err == nil {
			src.name = file // treeOf's folders are absolute
		}
	}
	if s != nil {
		src.layers = append(src.layers, folderLayer(siteLayer, filepath.Join(s.Dir, "recipes"), filepath.Join(s.Dir, "files")))
	}
	if tree != "" && (s == nil || tree != filepath.Join(s.Dir, "recipes")) {
		src.layers = append(src.layers, folderLayer("tree", tree, filepath.Join(tree, "files")))
	}
	files, err := fs.Sub(recipes.FS, "files")
	if err != nil {
		return source{}, &fault.Error{Op: "reading the embedded recipes", Kind: fault.Internal, Err: err}
	}
	src.layers = append(src.layers, runtime.Layer{Name: "embedded", Prefix: "(embedded)", Recipes: recipes.FS, Files: files, FilesAt: "(embedded)/files"})
	if err := src.check(name); err != nil {
		return src, err
	}
	return src, src.knownRecipes(s)
}

// check returns an error if no layer has the recipe. The hint is what was
// probably meant: a recipe or a verb.
func (src source) check(name string) error {
	var looked, known []string
	for _, l := range src.layers {
		if _, err := fs.Stat(l.Recipes, src.path); err == nil {
			return nil
		}
		looked = append(looked, l.Prefix)
		files, err := fs.Glob(l.Recipes, "*.star")
		if err != nil {
			continue
		}
		for _, f := range files {
			known = append(known, strings.TrimSuffix(f, ".star"))
		}
	}
	hint := "recipes are files that end in .star"
	if near := builtin.Nearest(strings.TrimSuffix(src.path, ".star"), append(known, verbs...)); near != "" {
		hint = "did you mean " + near + "?"
	}
	return fault.Hinted(fault.Invalid, hint, "there is no recipe %s: no file %s in %s", name, src.path, strings.Join(looked, ", "))
}

// verbs are those that a misspelled recipe may have been meant to be.
var verbs = []string{"run", "plan", "show", "destroy", "check", "graph", "explain", "override", "resume", "approve", "runs", "doc", "lab", "test", "vendor", "version", "completion", "help"}

func folderLayer(name, recipesDir, filesDir string) runtime.Layer {
	return runtime.Layer{Name: name, Prefix: display(recipesDir), Recipes: os.DirFS(recipesDir), Files: os.DirFS(filesDir), FilesAt: display(filesDir)}
}

// display writes a folder relative to the working folder where that is
// shorter.
func display(dir string) string {
	cwd, err := os.Getwd()
	if err != nil {
		return dir
	}
	rel, err := filepath.Rel(cwd, dir)
	if err != nil || strings.HasPrefix(rel, "../..") || len(rel) > len(dir) {
		return filepath.ToSlash(dir)
	}
	return filepath.ToSlash(rel)
}

// treeOf returns the folder of recipes that a name on the command line lies
// in, and its path there. The folder is "" if only the site and the binary
// remain to be looked at.
func treeOf(name string) (tree, rel string, err error) {
	bare := !strings.HasSuffix(name, ".star")
	if _, err := os.Stat(name); err == nil && !bare {
		abs, err := filepath.Abs(name)
		if err != nil {
			return "", "", &fault.Error{Op: "finding", Target: name, Kind: fault.Invalid, Err: err}
		}
		// The tree is the folder called recipes that the file lies in, else its
		// own folder.
		for dir := filepath.Dir(abs); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if filepath.Base(dir) == "recipes" {
				rel, err := filepath.Rel(dir, abs)
				return dir, filepath.ToSlash(rel), err
			}
		}
		return filepath.Dir(abs), filepath.Base(abs), nil
	}
	rel = path.Clean(filepath.ToSlash(name))
	if bare {
		rel += ".star"
	}
	// What isn't there may be in the site or in the binary, under its path
	// within a folder called recipes.
	if _, after, ok := strings.Cut("/"+rel, "/recipes/"); ok {
		rel = after
	}
	if filepath.IsAbs(rel) || strings.HasPrefix(rel, "../") {
		if st, err := os.Stat(name); err == nil && !st.IsDir() {
			return "", "", fault.New(fault.Invalid, "%s is no recipe: its name doesn't end in .star", name)
		}
		return "", "", fault.New(fault.Invalid, "there is no file %s", name)
	}
	cwd, err := os.Getwd()
	if err != nil {
		return "", rel, nil
	}
	for dir := cwd; ; dir = filepath.Dir(dir) {
		if st, err := os.Stat(filepath.Join(dir, "recipes")); err == nil && st.IsDir() {
			return filepath.Join(dir, "recipes"), rel, nil
		}
		if dir == filepath.Dir(dir) {
			return "", rel, nil
		}
	}
}

// siteValues is ctx.site: the values of the site, and its name.
func siteValues(s *site.Site) starlark.Value {
	fields := map[string]any{"name": ""}
	if s != nil {
		maps.Copy(fields, s.Values)
		fields["name"] = s.Name
	}
	return effect.NewObject("ctx.site", fields).WithMissing(func(name string) error {
		if s == nil {
			return fault.Hinted(fault.Invalid, "give one with --site, or with --lab for the lab's", "there is no site, so ctx.site has no value %q", name)
		}
		hint := "add it under `values:` in site.yaml"
		if near := builtin.Nearest(name, slices.Collect(maps.Keys(fields))); near != "" {
			hint = "did you mean " + near + "? else " + hint
		}
		return fault.Hinted(fault.Invalid, hint, "the site has no value %q", name)
	})
}

// runtimeSite is the site as the runtime sees it.
func runtimeSite(s *site.Site) runtime.Site {
	if s == nil {
		return runtime.Site{Values: siteValues(nil)}
	}
	return runtime.Site{Name: s.Name, Values: siteValues(s), Inputs: s.Inputs}
}

// explain is the error of loading or running a recipe, with the places in the
// recipe that led to it.
func explain(e *runtime.Engine, err error) error {
	if err == nil {
		return nil
	}
	return &reported{report: e.Explain(err), err: err}
}

// reported is an error that is shown with its places.
type reported struct {
	report runtime.Report
	err    error
}

func (r *reported) Error() string { return r.err.Error() }
func (r *reported) Unwrap() error { return r.err }

func asReported(err error) (*reported, bool) {
	var r *reported
	ok := errors.As(err, &r)
	return r, ok
}

// loadOnly loads a recipe for a verb that only looks at it.
func (a *app) loadOnly(ctx context.Context, name string, p place) (*runtime.Engine, *runtime.Recipe, *site.Site, source, error) {
	s, err := a.findSite(p)
	if err != nil {
		return nil, nil, nil, source{}, err
	}
	src, err := findRecipe(name, s)
	if err != nil {
		return nil, nil, nil, source{}, err
	}
	if ctx.Err() != nil {
		return nil, nil, nil, source{}, fault.FromContext(ctx)
	}
	e := textEngine(src)
	r, err := e.Load(src.path)
	if err != nil {
		return nil, nil, nil, source{}, explain(e, err)
	}
	return e, r, s, src, nil
}
