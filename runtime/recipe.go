package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
)

// A Recipe is what recipe(...) returns: inputs, a graph of steps, and outputs.
type Recipe struct {
	Path    string // the file within the recipes, without .star: "gateway"
	Doc     string // the file's docstring
	Inputs  []NamedInput
	Steps   []*Step
	Outputs *starlark.Function // nil for none

	index   map[string]*Step
	order   map[string][]string // by the name of a step: those that it comes after without needing their results
	stale   []Stale
	removed []Removal
	belows  map[string]below // by the name of a step that is overridden
	pos     syntax.Position  // of the call that made it
	loader  *Loader
}

// A NamedInput is one input of a recipe.
type NamedInput struct {
	Name string
	*Input
}

// A Step is one node of a recipe's graph: a function, or a recipe that is used
// as a step.
type Step struct {
	Name     string
	Doc      string
	Fn       *starlark.Function // nil for a recipe
	Use      *Recipe            // nil for a function
	Instance string             // of Use
	Inputs   *starlark.Function // of Use; may be nil
	When     *starlark.Function
	Each     *starlark.Function
	Max      int // items of Each at a time
	Timeout  time.Duration
	Retries  int
	After    []string // steps that it comes after without needing their results; nil if nothing is said
	Before   []string // steps that come after it so

	retriesGiven bool   // that there are none may be said, too
	original     *Step  // what Fn wraps
	below        *Step  // what it took the place of
	change       Change // how it came into the recipe
	pos          syntax.Position
	file         FileID // that it comes from
	layer        string // the name of that file's layer
}

func (r *Recipe) String() string       { return "<recipe " + r.Path + ">" }
func (r *Recipe) Type() string         { return "recipe" }
func (r *Recipe) Freeze()              {}
func (r *Recipe) Truth() starlark.Bool { return true }
func (r *Recipe) Hash() (uint32, error) {
	return 0, fault.New(fault.Invalid, "a recipe can't be a key")
}
func (r *Recipe) AttrNames() []string { return []string{"extend"} }

// Attr returns the method extend.
func (r *Recipe) Attr(name string) (starlark.Value, error) {
	return r.loader.language.Method("recipe", name, r), nil
}

func (s *Step) String() string        { return "<step " + s.Name + ">" }
func (s *Step) Type() string          { return "step" }
func (s *Step) Freeze()               {}
func (s *Step) Truth() starlark.Bool  { return true }
func (s *Step) Hash() (uint32, error) { return 0, fault.New(fault.Invalid, "a step can't be a key") }

// Pos returns the file and line that the step comes from.
func (s *Step) Pos() string { return line(s.pos) }

// line writes a position as people read it.
func line(pos syntax.Position) string { return fmt.Sprintf("%s:%d", pos.Filename(), pos.Line) }

// File returns the file that the step comes from.
func (s *Step) File() FileID { return s.file }

// Layer returns the name of the layer that the step comes from.
func (s *Step) Layer() string { return s.layer }

// Pos returns the file and line at which the recipe was made.
func (r *Recipe) Pos() string { return line(r.pos) }

// limit returns how many items of Each run at the same time.
func (s *Step) limit() int {
	if s.Max > 0 {
		return s.Max
	}
	return 10
}

// functions returns the functions of a step whose parameters name its needs.
func (s *Step) functions() []*starlark.Function {
	var fns []*starlark.Function
	for _, fn := range []*starlark.Function{s.Fn, s.When, s.Each, s.Inputs} {
		if fn != nil {
			fns = append(fns, fn)
		}
	}
	return fns
}

// Names that a parameter may have without naming a step.
const (
	paramCtx      = "ctx"
	paramOriginal = "original"
)

// params returns the names of the steps that fn needs.
func params(fn *starlark.Function) []string {
	var names []string
	for i := range fn.NumParams() {
		name, _ := fn.Param(i)
		if name != paramCtx && name != paramOriginal && fn.ParamDefault(i) == nil {
			names = append(names, name)
		}
	}
	return names
}

// Needs returns the names of the steps that s depends on, without repetition.
func (s *Step) Needs() []string {
	var names []string
	seen := make(map[string]bool)
	for _, fn := range s.functions() {
		for _, n := range params(fn) {
			if !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
		}
	}
	if s.original != nil {
		for _, n := range s.original.Needs() {
			if !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
		}
	}
	return names
}

// Step returns the step of that name, or nil.
func (r *Recipe) Step(name string) *Step { return r.index[name] }

// setSteps sets the steps of the recipe. Of two with one name, the first is
// the one that Step returns.
func (r *Recipe) setSteps(steps []*Step) {
	r.Steps = steps
	r.index = make(map[string]*Step, len(steps))
	for _, s := range steps {
		if r.index[s.Name] == nil {
			r.index[s.Name] = s
		}
	}
	r.order = make(map[string][]string)
	for _, s := range steps {
		for _, name := range s.After {
			r.comesAfter(s, name)
		}
		for _, name := range s.Before {
			if later := r.index[name]; later != nil {
				r.comesAfter(later, s.Name)
			}
		}
	}
}

// comesAfter notes that s comes after the step of that name, unless it needs
// its result anyway.
func (r *Recipe) comesAfter(s *Step, name string) {
	if r.index[name] != nil && !slices.Contains(s.Needs(), name) && !slices.Contains(r.order[s.Name], name) {
		r.order[s.Name] = append(r.order[s.Name], name)
	}
}

// Follows returns the names of the steps that s comes after without needing
// their results: those in its `after`, and those that name it in their `before`.
func (r *Recipe) Follows(s *Step) []string { return r.order[s.Name] }

// first returns the names of all steps that end before s begins.
func (r *Recipe) first(s *Step) []string { return append(s.Needs(), r.order[s.Name]...) }

type recipeArgs struct {
	Inputs  starlark.Value `star:"inputs" doc:"Dict of name to input.string(...), input.int(...) and so on; they become the command's flags."`
	Steps   starlark.Value `star:"steps,required" doc:"List of functions, step(...) and use(...). A function's parameters name the steps that it needs."`
	Outputs starlark.Value `star:"outputs" doc:"Function whose parameters name steps, and that returns a dict of results."`
}

func (l *language) recipe(ctx context.Context, a recipeArgs) (any, error) {
	thread := builtin.Thread(ctx)
	p := placeOf(thread)
	if p == nil {
		return nil, fault.Hinted(fault.Invalid, "make recipes at the top level of a file", "recipe() was called while a recipe runs")
	}
	r := &Recipe{Path: recipePath(p.id), pos: callPos(thread), loader: p.loader}
	if f := p.loader.files[p.id]; f != nil && f.file != nil {
		r.Doc = f.file.Doc()
	}
	var errs []error
	errs = append(errs, r.addInputs(a.Inputs)...)
	steps, err := sequence(a.Steps, "steps")
	if err != nil {
		return nil, err
	}
	list, stepErrs := l.asSteps(steps, p)
	errs = append(errs, stepErrs...)
	r.setSteps(list)
	if a.Outputs != nil && a.Outputs != starlark.None {
		fn, ok := a.Outputs.(*starlark.Function)
		if !ok {
			errs = append(errs, fault.New(fault.Invalid, "outputs: got %s, want a function such as lambda server: {\"address\": server.address}", a.Outputs.Type()))
		}
		r.Outputs = fn
	}
	if len(errs) == 0 {
		errs = r.check()
	}
	if err := invalid(errs); err != nil {
		return nil, err
	}
	return r, nil
}

// recipePath returns the path that a recipe in the file goes by.
func recipePath(id FileID) string { return strings.TrimSuffix(id.Path, ".star") }

func (r *Recipe) addInputs(v starlark.Value) []error {
	if v == nil || v == starlark.None {
		return nil
	}
	d, ok := v.(*starlark.Dict)
	if !ok {
		return []error{fault.New(fault.Invalid, "inputs: got %s, want a dict", v.Type())}
	}
	var errs []error
	for _, item := range d.Items() {
		name, ok := starlark.AsString(item[0])
		in, isInput := item[1].(*Input)
		switch {
		case !ok || !isIdentifier(name):
			errs = append(errs, fault.New(fault.Invalid, "inputs: %s is no name for an input", item[0]))
		case !isInput:
			errs = append(errs, fault.New(fault.Invalid, "inputs: %s is a %s, want input.string(...) or the like", name, item[1].Type()))
		default:
			r.Inputs = append(r.Inputs, NamedInput{Name: name, Input: in})
		}
	}
	return errs
}

func isIdentifier(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func (l *language) asSteps(values []starlark.Value, p *place) (steps []*Step, errs []error) {
	for _, v := range values {
		s, err := l.asStep(v, p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		steps = append(steps, s)
	}
	return steps, errs
}

// asStep makes a step of what stands in a list of steps.
func (l *language) asStep(v starlark.Value, p *place) (*Step, error) {
	switch v := v.(type) {
	case *Step:
		return v, nil
	case *starlark.Function:
		return newStep(v, p)
	case *Recipe:
		return nil, fault.Hinted(fault.Invalid, `write use("name", recipe)`, "steps: a recipe needs a name to be a step")
	}
	return nil, fault.New(fault.Invalid, "steps: got %s, want a function, step(...) or use(...)", v.Type())
}

func newStep(fn *starlark.Function, p *place) (*Step, error) {
	s := &Step{Name: fn.Name(), Doc: fn.Doc(), Fn: fn}
	s.from(fn.Position(), p.loader)
	switch {
	case s.Name == "lambda":
		return nil, at(s.pos, fault.Hinted(fault.Invalid, "give it a name with def", "a lambda can't be a step"))
	case s.Doc == "":
		return nil, at(s.pos, fault.Hinted(fault.Invalid, "say in a docstring what the step achieves", "step %s has no docstring", s.Name))
	case fn.HasVarargs() || fn.HasKwargs():
		return nil, at(s.pos, fault.Hinted(fault.Invalid, "name the steps that it needs as parameters", "step %s takes * or ** arguments", s.Name))
	}
	return s, nil
}

// from notes where the step comes from.
func (s *Step) from(pos syntax.Position, l *Loader) {
	s.pos, s.file = pos, l.ids[pos.Filename()]
	s.layer = l.layers[s.file.Layer].Name
}

// at gives err a position.
func at(pos syntax.Position, err *fault.Error) error {
	err.Err = &dialect.PosError{Pos: pos, Msg: err.Err.Error()}
	return err
}

// callPos returns where the running builtin was called from.
func callPos(thread *starlark.Thread) syntax.Position {
	if thread.CallStackDepth() < 2 {
		return syntax.Position{}
	}
	return thread.CallFrame(1).Pos
}

// sequence returns the elements of a list or of anything else that a loop can
// go through; nil for None.
func sequence(v starlark.Value, what string) ([]starlark.Value, error) {
	switch x := v.(type) {
	case nil, starlark.NoneType:
		return nil, nil
	case starlark.Iterable:
		var out []starlark.Value
		it := x.Iterate()
		defer it.Done()
		var e starlark.Value
		for it.Next(&e) {
			out = append(out, e)
		}
		return out, nil
	}
	return nil, fault.New(fault.Invalid, "%s: got %s, want a list", what, v.Type())
}
