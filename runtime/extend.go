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

// A Change says how a step came into a recipe that extends another.
type Change string

// The changes; "" is that of a step which is as the recipe below has it.
const (
	Replaced Change = "replaces"
	Wrapped  Change = "wraps"
	Added    Change = "added"
)

// A Removal is a step that an override leaves out.
type Removal struct {
	Step  *Step  // as it was below
	Pos   string // of the override
	Layer string
}

// extension is one call of extend.
type extension struct {
	r     *Recipe
	place *place
	pos   syntax.Position
	errs  []error
	how   map[string]string // by the name of a step: the argument that overrides it
}

type extendArgs struct {
	Replace starlark.Value `star:"replace" doc:"List of functions or step(...): each replaces the step of its name, and keeps that step's options unless given anew."`
	Add     starlark.Value `star:"add" doc:"List of functions, step(...) or use(...) to add; step(fn, after = [...], before = [...]) says where."`
	Remove  starlark.Value `star:"remove" doc:"List of names of steps to leave out."`
	Wrap    *starlark.Dict `star:"wrap" type:"dict[str, function]" doc:"By the name of a step, a function that is called in its place; it calls the step as original(), which is one of its parameters and takes no arguments."`
	Inputs  *starlark.Dict `star:"inputs" type:"dict" doc:"Other defaults by the name of the input, or new inputs such as input.string(...)."`
	Of      *starlark.Dict `star:"of" type:"dict[str, str]" doc:"By the name of an overridden step, the digest of the step that the override was written for; gsrun check says when that has changed."`
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
	c.belows = make(map[string]below)
	maps.Copy(c.belows, r.belows)
	e := &extension{r: &c, place: p, pos: pos, how: make(map[string]string)}
	e.replace(a.Replace)
	e.wrap(a.Wrap)
	e.remove(a.Remove)
	e.add(a.Add)
	e.inputs(a.Inputs)
	if a.Outputs != nil && a.Outputs != starlark.None {
		fn, ok := a.Outputs.(*starlark.Function)
		if !ok {
			e.fail("", "outputs: got %s, want a function", a.Outputs.Type())
		}
		c.Outputs = fn
	}
	c.setSteps(c.Steps)
	e.pins(r, a.Of)
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

// at returns the index of the step of that name for an override of it, and
// complains if there is none, or if it is overridden already.
func (e *extension) at(verb, name string) int {
	if how, twice := e.how[name]; twice {
		other := "say one of the two"
		if how != verb {
			other = "a replacement can do what a wrapper would, and a removed step needs neither"
		}
		e.fail(other, "step %s is overridden twice: by %s and by %s", name, how, verb)
		return -1
	}
	i := slices.IndexFunc(e.r.Steps, func(s *Step) bool { return s.Name == name })
	if i < 0 {
		names := e.r.names()
		hint := fmt.Sprintf("the steps are %v", names)
		if near := builtin.Nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		if i := slices.IndexFunc(e.r.removed, func(gone Removal) bool { return gone.Step.Name == name }); i >= 0 {
			hint = "it was removed at " + e.r.removed[i].Pos
		}
		e.fail(hint, "%s %s: there is no such step below", verb, name)
		return i
	}
	e.how[name] = verb
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
			e.r.Steps[i] = inherit(s, e.r.Steps[i], Replaced)
		}
	}
}

// inherit returns s with the options of old, whose place it takes, where it
// gives none itself.
func inherit(s, old *Step, how Change) *Step {
	c := *s
	c.below, c.change = old, how
	if c.After == nil {
		c.After = old.After
	}
	if c.Before == nil {
		c.Before = old.Before
	}
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
		s := &Step{}
		if given, isStep := item[1].(*Step); isStep && given.Fn != nil {
			*s = *given
		} else if fn, isFn := item[1].(*starlark.Function); isFn {
			s.Doc, s.Fn = fn.Doc(), fn
			s.from(fn.Position(), e.place.loader)
		} else {
			e.fail("", "wrap %s: got %s, want a function", name, item[1].Type())
			continue
		}
		i := e.at("wrap", name)
		if i < 0 {
			continue
		}
		if !hasParam(s.Fn, paramOriginal) {
			e.errs = append(e.errs, at(s.pos, fault.Hinted(fault.Invalid, "take `original` as a parameter and call it, or use replace", "wrap %s: the function has no parameter original", name)))
			continue
		}
		if e.r.Steps[i].Use != nil {
			e.fail("override the recipe itself, in a file at its path", "wrap %s: it is a recipe, not a function", name)
			continue
		}
		old := *e.r.Steps[i]
		s.Name = name
		s = inherit(s, e.r.Steps[i], Wrapped)
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
			layer := e.place.loader.layers[e.place.id.Layer].Name
			e.r.removed = append(e.r.removed, Removal{Step: e.r.Steps[i], Pos: line(e.pos), Layer: layer})
			e.r.Steps = slices.Delete(e.r.Steps, i, i+1)
		}
	}
}

func (e *extension) add(v starlark.Value) {
	for _, s := range e.steps("add", v) {
		if i := slices.IndexFunc(e.r.Steps, func(have *Step) bool { return have.Name == s.Name }); i >= 0 {
			e.errs = append(e.errs, at(s.pos, fault.Hinted(fault.Invalid, "replace it, or rename one", "add %s: two steps are called %s; the other is at %s", s.Name, s.Name, e.r.Steps[i].Pos())))
			continue
		}
		added := *s
		added.change = Added
		e.r.Steps = append(e.r.Steps, &added)
	}
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
				c := *in
				c.below = e.r.Inputs[i].Input
				e.r.Inputs[i].Input = &c
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
		in.Default, in.pos, in.below = v, e.pos, e.r.Inputs[i].Input
		e.r.Inputs[i].Input = &in
	}
}

// check is the recipe's own check; a need of a removed step is told as that.
func (e *extension) check() []error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(e.how)) {
		if e.how[name] != "remove" {
			continue
		}
		complain := func(hint, format string, args ...any) {
			errs = append(errs, at(e.pos, fault.Hinted(fault.Invalid, hint, format, args...)))
		}
		for _, s := range e.r.Steps {
			switch {
			case slices.Contains(s.Needs(), name):
				complain("replace "+s.Name+" too, or remove it", "remove %s: step %s needs it", name, s.Name)
			case slices.Contains(s.After, name):
				complain("replace "+s.Name+" by step("+s.Name+", after = [...]) without it", "remove %s: step %s comes after it", name, s.Name)
			case slices.Contains(s.Before, name):
				complain("replace "+s.Name+" by step("+s.Name+", before = [...]) without it", "remove %s: step %s comes before it", name, s.Name)
			}
		}
		if e.r.Outputs != nil && slices.Contains(params(e.r.Outputs), name) {
			complain("give extend new outputs", "remove %s: the outputs need it", name)
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return e.r.check()
}

// Removed lists the steps that overrides left out.
func (r *Recipe) Removed() []Removal { return r.removed }

// Change says how the step came into the recipe: "" if it was there from the
// first.
func (s *Step) Change() Change { return s.change }

// Below returns the step that an override took the place of, or nil.
func (s *Step) Below() *Step { return s.below }
