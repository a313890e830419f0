package runtime

import (
	"context"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/thread"
)

// Config says what recipes can see.
type Config struct {
	Layers   []Layer
	Modules  []*builtin.Module
	MaxSteps uint64 // limit of one step's computation; 0 means the default
}

// An Engine loads and runs recipes.
type Engine struct {
	layers   []Layer
	threads  *thread.Factory
	loader   *Loader
	language *builtin.Module
}

// New returns an engine.
func New(c Config) *Engine {
	t := &thread.Factory{MaxSteps: c.MaxSteps, Print: printLog}
	predeclared := starlark.StringDict{"struct": structFunc}
	all := append(Language(), c.Modules...)
	for _, m := range all {
		if m.Name != "" {
			predeclared[m.Name] = m.Value()
		}
	}
	lang := (&language{threads: t}).module()
	for name, v := range lang.Globals() {
		predeclared[name] = v
	}
	e := &Engine{layers: c.Layers, threads: t, language: lang}
	e.loader = &Loader{language: lang, layers: c.Layers, predeclared: predeclared, threads: t, catalog: newCatalog(all),
		files: make(map[FileID]*loaded), sources: make(map[string]*dialect.File), ids: make(map[string]FileID)}
	return e
}

// Language returns the modules that the runtime itself declares.
func Language() []*builtin.Module {
	return []*builtin.Module{(&language{threads: new(thread.Factory)}).module(), inputModule()}
}

// printLog makes print a line of the run's log; while a file is loaded it
// goes nowhere, since loading has no effects.
func printLog(thread *starlark.Thread, msg string) {
	if ctx := builtin.Context(thread); ctx != nil {
		effect.Logf(ctx, "%s", msg)
	}
}

// Load loads the recipe `main` of the file at path, which is looked up in the
// layers: "gateway.star", "spoke/scale.star".
func (e *Engine) Load(file string) (*Recipe, error) {
	id, globals, err := e.loader.Load(file)
	if err != nil {
		return nil, err
	}
	name := e.layers[id.Layer].show(id.Path)
	switch v := globals["main"].(type) {
	case nil:
		return nil, fault.Hinted(fault.Invalid, "end it with main = recipe(...)", "%s has no main", name)
	case *Recipe:
		if err := invalid(append(v.checkInputs(), v.checkUses()...)); err != nil {
			return nil, err
		}
		if v.Path != strings.TrimSuffix(file, ".star") {
			// A file may hand on another's recipe as its own.
			c := *v
			c.Path = strings.TrimSuffix(file, ".star")
			return &c, nil
		}
		return v, nil
	default:
		return nil, fault.New(fault.Invalid, "main of %s is a %s, want a recipe", name, v.Type())
	}
}

// Globals loads a file and returns all that it defines.
func (e *Engine) Globals(file string) (starlark.StringDict, error) {
	_, globals, err := e.loader.Load(file)
	return globals, err
}

// ResolveInputs makes the inputs of a run of r from what was given on the
// command line as text, what the site says, and the defaults. The error lists
// everything that is wrong.
func (r *Recipe) ResolveInputs(given map[string]string, site map[string]any) (starlark.StringDict, error) {
	values := make(starlark.StringDict)
	var errs problems
	for name, text := range given {
		in := r.input(name)
		if in == nil {
			errs.add(name, r.unknownInput(name, "--"))
			continue
		}
		v, err := in.Parse(text)
		if err != nil {
			errs.add(name, fault.New(fault.Invalid, "--%s: %v", flagName(name), err))
			continue
		}
		values[name] = v
	}
	for name, x := range site {
		if r.input(name) == nil {
			errs.add(name, r.unknownInput(name, "site.yaml: inputs: "))
			continue
		}
		if _, ok := given[name]; ok {
			continue
		}
		v, err := r.input(name).Check(effect.ToStarlark(x))
		if err != nil {
			errs.add(name, fault.New(fault.Invalid, "site.yaml: inputs: %s: %v", name, err))
			continue
		}
		values[name] = v
	}
	return values, r.complete(values, &errs, func(in NamedInput) error {
		return fault.New(fault.Invalid, "--%s is missing: %s", flagName(in.Name), in.Doc)
	})
}

// fill makes the inputs of a use of r from what the using recipe gives, what
// the site says, and the defaults.
func (r *Recipe) fill(given starlark.StringDict, site map[string]any) (starlark.StringDict, error) {
	values := make(starlark.StringDict)
	var errs problems
	for name, x := range site {
		if in := r.input(name); in != nil {
			v, err := in.Check(effect.ToStarlark(x))
			if err != nil {
				errs.add(name, fault.New(fault.Invalid, "site.yaml: inputs: %s: %v", name, err))
			}
			values[name] = v
		}
	}
	for name, v := range given {
		in := r.input(name)
		if in == nil {
			errs.add(name, r.unknownInput(name, "inputs of "+r.Path+": "))
			continue
		}
		if v, err := in.Check(v); err != nil {
			errs.add(name, fault.New(fault.Invalid, "inputs of %s: %s: %v", r.Path, name, err))
		} else {
			values[name] = v
		}
	}
	return values, r.complete(values, &errs, func(in NamedInput) error {
		return fault.New(fault.Invalid, "inputs of %s: %s is missing: %s", r.Path, in.Name, in.Doc)
	})
}

// complete sets the defaults, and returns all problems as one error.
func (r *Recipe) complete(values starlark.StringDict, errs *problems, missing func(NamedInput) error) error {
	for _, in := range r.Inputs {
		switch {
		case values[in.Name] != nil || errs.has(in.Name):
		case in.Default != nil:
			values[in.Name] = in.Default
		default:
			errs.add(in.Name, missing(in))
		}
	}
	return errs.err()
}

// CheckInput returns an error if the recipe has no input of that name, or one
// that can't be v.
func (r *Recipe) CheckInput(name string, v starlark.Value) error {
	in := r.input(name)
	if in == nil {
		return r.unknownInput(name, "")
	}
	if _, err := in.Check(v); err != nil {
		return fault.Hinted(fault.Invalid, fault.HintOf(err), "%s: %v", name, err)
	}
	return nil
}

func (r *Recipe) input(name string) *Input {
	for _, in := range r.Inputs {
		if in.Name == name {
			return in.Input
		}
	}
	return nil
}

func (r *Recipe) unknownInput(name, prefix string) error {
	names := make([]string, len(r.Inputs))
	for i, in := range r.Inputs {
		names[i] = in.Name
		if prefix == "--" {
			names[i] = flagName(in.Name)
		}
	}
	if prefix == "--" {
		name = flagName(name)
	}
	hint := fmt.Sprintf("%s takes %s", r.Path, strings.Join(names, ", "))
	if len(names) == 0 {
		hint = r.Path + " takes no inputs"
	} else if near := builtin.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	return fault.Hinted(fault.Invalid, hint, "%s%s is no input of %s", prefix, name, r.Path)
}

// flagName returns the flag of an input: node_flavor is --node-flavor.
func flagName(input string) string { return strings.ReplaceAll(input, "_", "-") }

// CallFile loads a file and calls one of its functions as a step of a plan
// would, for tests and tools that work with a recipe's helpers.
func (e *Engine) CallFile(ctx context.Context, file, name string, args starlark.Tuple) (starlark.Value, error) {
	globals, err := e.Globals(file)
	if err != nil {
		return nil, err
	}
	fn, ok := globals[name].(starlark.Callable)
	if !ok {
		return nil, fault.New(fault.Invalid, "%s has no function %s", file, name)
	}
	door := &effect.Door{Mode: effect.Plan, Clock: effect.SystemClock{}, Redactor: new(effect.Redactor)}
	scope := effect.NewScope(door, effect.Owner{}, name, nil)
	scope.Files = func(name string) ([]byte, error) { return readFile(e.layers, name) }
	return e.threads.Call(effect.With(ctx, scope), name, fn, args, nil)
}

// Struct returns a Starlark struct of the given fields, such as ctx.inputs is.
func Struct(fields starlark.StringDict) starlark.Value { return effect.NewStruct(fields) }
