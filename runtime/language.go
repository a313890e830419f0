package runtime

import (
	"context"
	"regexp"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/thread"
)

// language is what every recipe can call without a prefix.
type language struct{ threads *thread.Factory }

func newInput(kind string) func(context.Context, any, inputArgs) (any, error) {
	return func(ctx context.Context, _ any, a inputArgs) (any, error) {
		if kind == kindSecret && (len(a.Choices) > 0 || a.Pattern != "" || a.Min != nil || a.Max != nil) {
			return nil, fault.New(fault.Invalid, "input.secret has no choices, pattern, min or max")
		}
		in := &Input{Kind: kind, Doc: a.Doc, Choices: a.Choices, Min: a.Min, Max: a.Max, pos: callPos(builtin.Thread(ctx))}
		if a.Pattern != "" {
			re, err := regexp.Compile(a.Pattern)
			if err != nil {
				return nil, &fault.Error{Op: "reading pattern of", Target: "input." + kind, Kind: fault.Invalid, Err: err}
			}
			in.Pattern = re
		}
		if a.Default != nil {
			v, err := in.Check(a.Default)
			if err != nil {
				return nil, fault.Wrap("checking the default of", "input."+kind, err)
			}
			in.Default = v
		}
		return in, nil
	}
}

type stepArgs struct {
	Fn      starlark.Callable `star:"fn,required" doc:"The step's function."`
	Timeout time.Duration     `star:"timeout" doc:"Deadline of one try of the step."`
	Retries *int              `star:"retries" doc:"How often the step is tried again after a failure that isn't one of the recipe."`
	When    starlark.Callable `star:"when" doc:"Function of steps; if it returns False, the step is skipped and its result is None."`
	Each    starlark.Callable `star:"each" doc:"Function of steps that returns a list; the step runs once for each item (ctx.item), and its result is the list of results."`
	Max     int               `star:"max" doc:"How many items run at the same time; 10 if it isn't said."`
	After   []string          `star:"after" doc:"Names of steps that this one comes after without taking their results."`
	Before  []string          `star:"before" doc:"Names of steps that come after this one without taking its result."`
}

func (l *language) step(ctx context.Context, a stepArgs) (any, error) {
	p := placeOf(builtin.Thread(ctx))
	if p == nil {
		return nil, fault.Hinted(fault.Invalid, "make steps at the top level of a file", "step() was called while a recipe runs")
	}
	fn, ok := a.Fn.(*starlark.Function)
	if !ok {
		return nil, fault.New(fault.Invalid, "step: got %s, want a function", a.Fn.Type())
	}
	s, err := newStep(fn, p)
	if err != nil {
		return nil, err
	}
	s.Timeout, s.Max = a.Timeout, a.Max
	s.After, s.Before = a.After, a.Before
	if a.Retries != nil {
		s.Retries, s.retriesGiven = *a.Retries, true
	}
	if s.When, err = asFunction("when", a.When); err != nil {
		return nil, err
	}
	if s.Each, err = asFunction("each", a.Each); err != nil {
		return nil, err
	}
	return s, nil
}

func asFunction(what string, c starlark.Callable) (*starlark.Function, error) {
	if c == nil {
		return nil, nil
	}
	fn, ok := c.(*starlark.Function)
	if !ok {
		return nil, fault.New(fault.Invalid, "%s: got %s, want a function or lambda", what, c.Type())
	}
	return fn, nil
}

type useArgs struct {
	Name     string            `star:"name,required" doc:"Name of the step."`
	Recipe   *Recipe           `star:"recipe,required" type:"recipe" doc:"The recipe to run as a step; the step's result is the struct of its outputs."`
	Inputs   starlark.Callable `star:"inputs" doc:"Function of steps that returns a dict of the recipe's inputs."`
	Instance string            `star:"instance" doc:"Tells two uses of one recipe apart; it becomes part of names and owner marks."`
	When     starlark.Callable `star:"when" doc:"Function of steps; if it returns False, the step is skipped and its result is None."`
	Timeout  time.Duration     `star:"timeout" doc:"Deadline of one try of the step."`
	After    []string          `star:"after" doc:"Names of steps that this one comes after without taking their results."`
	Before   []string          `star:"before" doc:"Names of steps that come after this one without taking its result."`
}

func (l *language) use(ctx context.Context, a useArgs) (any, error) {
	thread := builtin.Thread(ctx)
	p := placeOf(thread)
	if p == nil {
		return nil, fault.Hinted(fault.Invalid, "use recipes at the top level of a file", "use() was called while a recipe runs")
	}
	if !isIdentifier(a.Name) {
		return nil, fault.Hinted(fault.Invalid, "other steps need it by that name as a parameter", "use: %q is no name for a step", a.Name)
	}
	s := &Step{Name: a.Name, Doc: a.Recipe.Doc, Use: a.Recipe, Instance: a.Instance, Timeout: a.Timeout, After: a.After, Before: a.Before}
	s.from(callPos(thread), p.loader)
	var err error
	if s.Inputs, err = asFunction("inputs", a.Inputs); err != nil {
		return nil, err
	}
	if s.When, err = asFunction("when", a.When); err != nil {
		return nil, err
	}
	return s, nil
}

// module declares the language's own functions.
func (l *language) module() *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Doc:   "What every recipe can call without a prefix, beside Starlark's own functions and `struct(a = 1)`.",
		Types: []*builtin.Type{recipeType(), ctxType()},
		Funcs: []builtin.Func{
			builtin.Of(builtin.Spec[any, recipeArgs]{
				Name: "recipe", Doc: "Make a recipe: inputs, a graph of steps, and outputs. A file's `main` is what `gsrun FILE` runs.",
				Returns: "recipe", Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
				Example: "main = recipe(steps = [network, server], outputs = lambda server: {\"address\": server.address})",
				Run:     func(ctx context.Context, _ any, a recipeArgs) (any, error) { return l.recipe(ctx, a) },
			}),
			builtin.Of(builtin.Spec[any, stepArgs]{
				Name: "step", Doc: "Give a step's function options. A bare function in `steps` has none. A step comes after those that its parameters name; `after` and `before` say so of others.",
				Returns: "step", Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
				Example: "step(nat, timeout = \"5m\", retries = 2)",
				Run:     func(ctx context.Context, _ any, a stepArgs) (any, error) { return l.step(ctx, a) },
			}),
			builtin.Of(builtin.Spec[any, useArgs]{
				Name: "use", Doc: "Use a recipe as a step of another.",
				Returns: "step", Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
				Example: "use(\"seed\", seed, inputs = lambda gateway: {\"gateway\": gateway.public_ip})",
				Run:     func(ctx context.Context, _ any, a useArgs) (any, error) { return l.use(ctx, a) },
			}),
			builtin.Of(builtin.Spec[any, attemptArgs]{
				Name: "attempt", Doc: "Call a function and return how it ended instead of failing. The end of the run, a plan's stop at an unknown value and a lost lock aren't caught.",
				Returns: "struct: ok (bool), value, error (None, or a struct of kind, message, hint)", Effect: builtin.Connect,
				Example: "r = attempt(lambda: host.run([\"true\"]))\nif not r.ok and r.error.kind == \"unreachable\":\n    fail(r.error.message)",
				Run:     func(ctx context.Context, _ any, a attemptArgs) (any, error) { return l.attempt(ctx, a) },
			}),
			builtin.Of(builtin.Spec[any, parallelArgs]{
				Name: "parallel", Doc: "Call a function with each item, several at the same time, and return the results in the items' order. The first failure ends it.",
				Returns: "list", Effect: builtin.Connect,
				Example:  "parallel([\"a\", \"b\"], lambda name: name.upper())",
				Defaults: parallelArgs{Max: 10},
				Run:      func(ctx context.Context, _ any, a parallelArgs) (any, error) { return l.parallel(ctx, a) },
			}),
			builtin.Of(builtin.Spec[any, waitArgs]{
				Name: "wait", Doc: "Call a function until it returns a true value, and return that. When the time is up, the error says what was waited for and what was seen last.",
				Returns: "the function's result", Effect: builtin.Waits, Errors: []fault.Kind{fault.Timeout},
				Example:  "wait(\"the answer\", until = lambda: 42, timeout = \"1m\")",
				Defaults: waitArgs{Timeout: 10 * time.Minute, Interval: 2 * time.Second},
				Run:      func(ctx context.Context, _ any, a waitArgs) (any, error) { return l.wait(ctx, a) },
			}),
			builtin.Of(builtin.Spec[any, approveArgs]{
				Name: "approve", Doc: "Wait until a person approves that the step goes on: at the terminal, or by `gsrun approve RUN` from another one. Who answered is kept in the run's journal. A denial ends the step; so does the end of the time. A plan shows what would be asked and goes on. A run asks whether or not there is something left to change; a resumed one doesn't ask again what was approved.",
				Returns: "None", Effect: builtin.Waits, Errors: []fault.Kind{fault.Denied, fault.Timeout},
				Example:  "approve(\"Delete the old cluster?\", timeout = \"30m\")",
				Defaults: approveArgs{Timeout: time.Hour},
				Run:      func(ctx context.Context, _ any, a approveArgs) (any, error) { return l.approve(ctx, a) },
			}),
			builtin.Of(builtin.Spec[any, failArgs]{
				Name: "fail", Doc: "End the step with an error.",
				Returns: "nothing", Effect: builtin.Pure, Errors: []fault.Kind{fault.Failed},
				Example: "fail(\"no spare address\", hint = \"release one\")",
				Run: func(_ context.Context, _ any, a failArgs) (any, error) {
					return nil, fault.Hinted(fault.Failed, a.Hint.String(), "%s", a.Message)
				},
			}),
		},
	})
}

type failArgs struct {
	Message effect.Text `star:"message,required" doc:"What is wrong."`
	Hint    effect.Text `star:"hint" doc:"What the reader could do about it."`
}

// structFunc is struct(a = 1), which takes any names.
var structFunc = starlark.NewBuiltin("struct", starlarkstruct.Make)
