package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
)

// A Stale override replaced a step that has changed since: the digest that it
// pins isn't that of the step below.
type Stale struct {
	Step   string
	Pinned string // "sha256:..."
	Now    string
	Pos    syntax.Position // of the override
}

// extension is one call of extend.
type extension struct {
	r      *Recipe
	place  *place
	pos    syntax.Position
	errs   []error
	change map[string]string // what happened to a step: "removed"
}

type extendArgs struct {
	Replace starlark.Value `star:"replace" doc:"List of functions or step(...): each replaces the step of its name, and keeps that step's options unless given anew."`
	Add     starlark.Value `star:"add" doc:"List of functions, step(...) or use(...) to add."`
	Remove  starlark.Value `star:"remove" doc:"List of names of steps to leave out."`
	Wrap    *starlark.Dict `star:"wrap" type:"dict[str, function]" doc:"By the name of a step, a function that is called in its place; it calls the step as its parameter original."`
	Inputs  *starlark.Dict `star:"inputs" type:"dict" doc:"Other defaults by the name of the input, or new inputs such as input.string(...)."`
	Of      *starlark.Dict `star:"of" type:"dict[str, str]" doc:"By the name of a replaced step, the digest of the step that it was written for; gsrun check says when that has changed."`
	Outputs starlark.Value `star:"outputs" doc:"Other outputs."`
}

// recipeType declares what recipe() returns.
func recipeType() *builtin.Type {
	return &builtin.Type{
		Name: "recipe", Of: builtin.TypeOf[*Recipe](),
		Doc: "A recipe, as recipe() makes it and load() gets it from another file.",
		Methods: []builtin.Func{builtin.Of(builtin.Spec[*Recipe, extendArgs]{
			Name: "extend", Doc: "Make another recipe of this one, with steps replaced, wrapped, added and left out. An override of a step that isn't there, or whose parameters don't fit, is an error.",
			Returns: "recipe", Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
			Example: "main = base.extend(replace = [nat], add = [audit], remove = [\"wireguard\"], inputs = {\"cidr\": \"10.30.0.0/24\"})",
			Run: func(ctx context.Context, r *Recipe, a extendArgs) (any, error) {
				return r.extend(builtin.Thread(ctx), a)
			},
		})},
	}
}

// extend returns a copy of the recipe with steps replaced, wrapped, added and
// removed, and with other defaults.
func (r *Recipe) extend(thread *starlark.Thread, a extendArgs) (starlark.Value, error) {
	p := placeOf(thread)
	if p == nil {
		return nil, fault.Hinted(fault.Invalid, "extend recipes at the top level of a file", "extend() was called while a recipe runs")
	}
	pos := callPos(thread)
	c := *r
	c.Steps = slices.Clone(r.Steps)
	c.Inputs = slices.Clone(r.Inputs)
	c.Path = recipePath(p.id)
	c.pos, c.loader = pos, p.loader
	c.stale, c.removed = slices.Clone(r.stale), slices.Clone(r.removed)
	e := &extension{r: &c, place: p, pos: pos, change: make(map[string]string)}
	e.replace(a.Replace)
	e.wrap(a.Wrap)
	e.remove(a.Remove)
	e.add(a.Add)
	e.inputs(a.Inputs)
	e.pins(r, a.Of)
	if a.Outputs != nil && a.Outputs != starlark.None {
		fn, ok := a.Outputs.(*starlark.Function)
		if !ok {
			e.fail("", "outputs: got %s, want a function", a.Outputs.Type())
		}
		c.Outputs = fn
	}
	c.setSteps(c.Steps)
	if len(e.errs) == 0 {
		e.errs = e.check()
	}
	if err := invalid(e.errs); err != nil {
		return nil, err
	}
	return &c, nil
}

func (e *extension) fail(hint, format string, args ...any) {
	e.errs = append(e.errs, at(e.pos, fault.Hinted(fault.Invalid, hint, format, args...)))
}

// at returns the index of the step of that name, and complains if there is
// none.
func (e *extension) at(verb, name string) int {
	i := slices.IndexFunc(e.r.Steps, func(s *Step) bool { return s.Name == name })
	if i < 0 {
		names := e.r.names()
		hint := fmt.Sprintf("the steps are %v", names)
		if near := builtin.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		e.fail(hint, "%s %s: there is no such step below", verb, name)
	}
	return i
}

func (e *extension) steps(what string, v starlark.Value) []*Step {
	values, err := sequence(v, what)
	if err != nil {
		e.fail("", "%v", err)
	}
	lang := &language{threads: e.place.loader.threads}
	steps, errs := lang.asSteps(values, e.place)
	e.errs = append(e.errs, errs...)
	return steps
}

func (e *extension) replace(v starlark.Value) {
	for _, s := range e.steps("replace", v) {
		if i := e.at("replace", s.Name); i >= 0 {
			e.r.Steps[i] = inherit(s, e.r.Steps[i])
		}
	}
}

// inherit returns s with the options of old where it gives none itself.
func inherit(s, old *Step) *Step {
	c := *s
	if c.Timeout == 0 {
		c.Timeout = old.Timeout
	}
	if !c.retriesGiven {
		c.Retries = old.Retries
	}
	if c.Max == 0 {
		c.Max = old.Max
	}
	if c.When == nil {
		c.When = old.When
	}
	if c.Each == nil {
		c.Each = old.Each
	}
	return &c
}

func (e *extension) wrap(d *starlark.Dict) {
	if d == nil {
		return
	}
	for _, item := range d.Items() {
		name, _ := starlark.AsString(item[0])
		fn, ok := item[1].(*starlark.Function)
		if !ok {
			e.fail("", "wrap %s: got %s, want a function", name, item[1].Type())
			continue
		}
		i := e.at("wrap", name)
		if i < 0 {
			continue
		}
		if !hasParam(fn, paramOriginal) {
			e.fail("take `original` as a parameter and call it, or use replace", "wrap %s: the function has no parameter original", name)
			continue
		}
		if e.r.Steps[i].Use != nil {
			e.fail("override the recipe itself", "wrap %s: it is a recipe, not a function", name)
			continue
		}
		old := *e.r.Steps[i]
		s := inherit(&Step{Name: name, Doc: fn.Doc(), Fn: fn, pos: fn.Position(), layer: e.place.loader.layerOf(fn)}, &old)
		if s.Doc == "" {
			s.Doc = old.Doc
		}
		old.When, old.Each = nil, nil
		s.original = &old
		e.r.Steps[i] = s
	}
}

func (e *extension) remove(v starlark.Value) {
	values, err := sequence(v, "remove")
	if err != nil {
		e.fail("", "%v", err)
	}
	for _, x := range values {
		name, ok := starlark.AsString(x)
		if fn, isFn := x.(*starlark.Function); isFn {
			name, ok = fn.Name(), true
		}
		if !ok {
			e.fail("", "remove: got %s, want the name of a step", x.Type())
			continue
		}
		if i := e.at("remove", name); i >= 0 {
			e.r.Steps = slices.Delete(e.r.Steps, i, i+1)
			e.change[name] = "removed"
			e.r.removed = append(e.r.removed, name)
		}
	}
}

func (e *extension) add(v starlark.Value) {
	e.r.Steps = append(e.r.Steps, e.steps("add", v)...)
}

func (e *extension) inputs(d *starlark.Dict) {
	if d == nil {
		return
	}
	for _, item := range d.Items() {
		name, _ := starlark.AsString(item[0])
		i := slices.IndexFunc(e.r.Inputs, func(in NamedInput) bool { return in.Name == name })
		if in, isInput := item[1].(*Input); isInput {
			if i >= 0 {
				e.r.Inputs[i].Input = in
			} else {
				e.r.Inputs = append(e.r.Inputs, NamedInput{Name: name, Input: in})
			}
			continue
		}
		if i < 0 {
			e.errs = append(e.errs, at(e.pos, fault.Hinted(fault.Invalid, fault.HintOf(e.r.unknownInput(name, "")), "inputs: %s is no input of %s", name, e.r.Path)))
			continue
		}
		v, err := e.r.Inputs[i].Check(item[1])
		if err != nil {
			e.fail("", "inputs: %s: %v", name, err)
			continue
		}
		in := *e.r.Inputs[i].Input
		in.Default = v
		e.r.Inputs[i].Input = &in
	}
}

// pins compares the digests that the override knows with those of the steps
// that it replaced.
func (e *extension) pins(below *Recipe, of *starlark.Dict) {
	if of == nil {
		return
	}
	for _, item := range of.Items() {
		name, _ := starlark.AsString(item[0])
		want, _ := starlark.AsString(item[1])
		s := below.Step(name)
		if s == nil {
			e.at("of", name)
			continue
		}
		have, err := s.digest(e.place.loader)
		if err != nil {
			e.fail("", "of %s: %v", name, err)
			continue
		}
		if have != want {
			e.r.stale = append(e.r.stale, Stale{Step: name, Pinned: want, Now: have, Pos: e.pos})
		}
	}
}

// check is the recipe's own check; a need of a removed step is told as that.
func (e *extension) check() []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(e.change)) {
		for _, s := range e.r.Steps {
			if slices.Contains(s.Needs(), name) {
				errs = append(errs, at(e.pos, fault.Hinted(fault.Invalid, "replace "+s.Name+" too, or remove it", "remove %s: step %s needs it", name, s.Name)))
			}
		}
		if e.r.Outputs != nil && slices.Contains(params(e.r.Outputs), name) {
			errs = append(errs, at(e.pos, fault.Hinted(fault.Invalid, "give extend new outputs", "remove %s: the outputs need it", name)))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return e.r.check()
}

// Stale lists the overrides in r, and in the recipes that it uses, whose pins no
// longer hold.
func (r *Recipe) Stale() []Stale {
	all := slices.Clone(r.stale)
	for _, s := range r.Steps {
		if s.Use != nil {
			all = append(all, s.Use.Stale()...)
		}
	}
	return all
}

// Removed lists the steps that overrides left out.
func (r *Recipe) Removed() []string { return r.removed }
