package runtime

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.starlark.net/starlark"
	"golang.org/x/sync/errgroup"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// step runs one step to its end and sets the node's value.
func (in *inst) step(ctx context.Context, n *node) error {
	x := in.run
	door := x.opts.Door
	start := door.Clock.Now()
	door.Send(effect.Event{Kind: effect.StepStart, Step: n.scope.Step, Message: n.step.Doc})
	ctx = effect.With(ctx, n.scope)
	out, err := in.evaluate(ctx, n)
	res := StepResult{Path: n.scope.Step, Status: OK, Elapsed: door.Clock.Now().Sub(start), Value: out.form, Key: out.key, Files: out.files}
	switch {
	case x.stops(err):
		res.Status, res.Err = Deferred, &StepError{Step: n.scope.Step, Err: err}
		n.scope.Stop()
		out.value, err = effect.Unknown{Of: "the result of step " + n.scope.Step}, nil
	case err != nil:
		res.Status = Failed
		if _, nested := err.(*StepError); !nested {
			err = &StepError{Step: n.scope.Step, Err: err}
		}
		res.Err = err
		if fault.KindOf(err) == fault.Cancelled {
			res.Status = Stopped
		}
	case out.value == nil:
		res.Status = Skipped
		out.value = starlark.None
	case out.kept:
		res.Status = Kept
	}
	if x.opts.Done != nil && !out.kept {
		if derr := x.opts.Done(res); err == nil {
			err = derr
		}
	}
	n.value = out.value
	x.ended(res)
	return err
}

// A StepError is the failure of a step.
type StepError struct {
	Step string // its path
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("step %s: %v", e.Step, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// evaluate runs the step's condition and, if that holds, the step; the value is
// nil if it was skipped.
func (in *inst) evaluate(ctx context.Context, n *node) (outcome, error) {
	s := n.step
	threads := in.run.engine.threads
	if s.When != nil {
		v, err := threads.Call(ctx, n.scope.Step, s.When, nil, in.arguments(s.When, in.newCtx(n.scope, nil, 0), nil))
		if err != nil {
			return outcome{}, err
		}
		if u, ok := v.(effect.Unknown); ok {
			return outcome{}, undecided(s.When, u, "the condition of step "+s.Name)
		}
		if !v.Truth() {
			return outcome{}, nil
		}
	}
	if s.Each == nil {
		return in.finish(ctx, n.scope, s, starlark.None, 0)
	}
	out, err := in.fanOut(ctx, n)
	if err != nil {
		return outcome{}, err
	}
	return in.keep(ctx, out, s.Name)
}

// fanOut runs the step for each of its items; the outcome's value is the list of
// results.
func (in *inst) fanOut(ctx context.Context, n *node) (outcome, error) {
	s := n.step
	items, err := in.items(ctx, n)
	if err != nil {
		return outcome{}, err
	}
	var ran atomic.Int64
	results := make([]starlark.Value, len(items))
	scopes := make([]*effect.Scope, len(items))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(s.limit())
	for i, item := range items {
		scopes[i] = in.newScope(fmt.Sprintf("%s[%d]", n.scope.Step, i), n.scope.Needs)
		group.Go(func() error {
			if err := fault.FromContext(gctx); err != nil {
				return err
			}
			out, err := in.finish(effect.With(gctx, scopes[i]), scopes[i], s, item, i)
			if in.run.stops(err) {
				scopes[i].Stop()
				in.run.opts.Door.Send(effect.Event{Kind: effect.Deferred, Step: scopes[i].Step, Err: err})
				results[i] = effect.Unknown{Of: "the result of " + scopes[i].Step}
				return nil
			}
			if err != nil {
				return fmt.Errorf("item %d: %w", i, err)
			}
			results[i] = out.value
			if !out.kept {
				ran.Add(1)
			}
			if in.run.opts.Done == nil || out.kept || out.key == "" {
				return nil
			}
			return in.run.opts.Done(StepResult{Path: scopes[i].Step, Status: OK, Value: out.form, Key: out.key, Files: out.files})
		})
	}
	err = group.Wait()
	n.scope.Needs = append(n.scope.Needs[:len(n.scope.Needs):len(n.scope.Needs)], scopes...)
	return outcome{value: starlark.NewList(results), kept: ran.Load() == 0 && len(items) > 0}, err
}

// undecided returns the stop of a step's plan at a function of its options
// whose result isn't known.
func undecided(fn *starlark.Function, u effect.Unknown, how string) error {
	err := u.Deferred(how)
	return at(fn.Position(), &fault.Error{Kind: fault.Deferred, Hint: fault.HintOf(err), Err: err})
}

// items returns what a step that fans out runs for.
func (in *inst) items(ctx context.Context, n *node) ([]starlark.Value, error) {
	fn := n.step.Each
	v, err := in.run.engine.threads.Call(ctx, n.scope.Step, fn, nil, in.arguments(fn, in.newCtx(n.scope, nil, 0), nil))
	if err != nil {
		return nil, err
	}
	if u, ok := v.(effect.Unknown); ok {
		return nil, undecided(fn, u, "what step "+n.step.Name+" runs for")
	}
	v.Freeze()
	items, err := sequence(v, "each")
	if err != nil {
		return nil, at(fn.Position(), fault.New(fault.Invalid, "%v", err))
	}
	return items, nil
}

func (in *inst) newCtx(scope *effect.Scope, item starlark.Value, index int) *stepCtx {
	if item == nil {
		item = starlark.None
	}
	return &stepCtx{run: in.run, scope: scope, inputs: in.inputs, item: item, index: index}
}

// retrying runs the step's function, or its recipe, as often as its options
// allow.
func (in *inst) retrying(ctx context.Context, scope *effect.Scope, s *Step, item starlark.Value, index int) (starlark.Value, error) {
	for try := 0; ; try++ {
		v, err := in.once(ctx, scope, s, item, index)
		if err == nil || try >= s.Retries || !worthRetrying(err) || ctx.Err() != nil || in.run.opts.Door.Survey {
			return v, err
		}
		pause := in.run.opts.Door.Pause(try+1, fault.AfterOf(err))
		in.run.opts.Door.Send(effect.Event{Kind: effect.OpRetry, Step: scope.Step, Err: err, Try: try + 1})
		if in.run.opts.Door.Clock.Sleep(ctx, pause) != nil {
			return nil, err
		}
	}
}

// worthRetrying reports whether a step that failed so may succeed the next
// time: not if the recipe is wrong, somebody or a quota said no, or somebody said
// stop.
func worthRetrying(err error) bool {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.Denied, fault.Cancelled, fault.Deferred, fault.Untrusted, fault.Limit, fault.Locked, fault.Drift, fault.Internal, fault.Exists, fault.Quota:
		return false
	}
	return true
}

func (in *inst) once(ctx context.Context, scope *effect.Scope, s *Step, item starlark.Value, index int) (starlark.Value, error) {
	if s.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.Timeout,
			fault.New(fault.Timeout, "step %s took longer than %s", scope.Step, s.Timeout))
		defer cancel()
	}
	if s.Use != nil {
		return in.used(ctx, scope, s)
	}
	ctx = effect.WithTry(ctx)
	c := in.newCtx(scope, item, index)
	v, err := in.call(ctx, s, c)
	if in.run.planning() && fault.KindOf(err) == fault.Deferred {
		scope.Stop() // what is deferred comes after the part that isn't known
	}
	if derr := c.runDeferred(ctx); derr != nil && err == nil {
		err = fault.Wrap("running what was deferred by", "step "+s.Name, derr)
	}
	return v, err
}

// call calls the step's function. A step that wraps another gets it as the
// parameter `original`.
func (in *inst) call(ctx context.Context, s *Step, c *stepCtx) (starlark.Value, error) {
	var original starlark.Value
	if s.original != nil {
		original = starlark.NewBuiltin(s.original.Name, func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			if len(args)+len(kwargs) > 0 {
				return nil, fault.New(fault.Invalid, "original() takes no arguments: it gets what the step that it wraps would get")
			}
			inner := builtin.Context(thread)
			return in.call(inner, s.original, c)
		})
	}
	return in.run.engine.threads.Call(ctx, c.scope.Step, s.Fn, nil, in.arguments(s.Fn, c, original))
}

// used runs a recipe as a step. Its result is the struct of its outputs.
func (in *inst) used(ctx context.Context, scope *effect.Scope, s *Step) (starlark.Value, error) {
	given := make(starlark.StringDict)
	if s.Inputs != nil {
		v, err := in.run.engine.threads.Call(ctx, scope.Step, s.Inputs, nil, in.arguments(s.Inputs, in.newCtx(scope, nil, 0), nil))
		if err != nil {
			return nil, err
		}
		if u, ok := v.(effect.Unknown); ok {
			return nil, undecided(s.Inputs, u, "what step "+s.Name+" is given")
		}
		d, ok := v.(*starlark.Dict)
		if !ok {
			return nil, at(s.Inputs.Position(), fault.New(fault.Invalid, "inputs of %s: got %s, want a dict", s.Name, v.Type()))
		}
		for _, item := range d.Items() {
			name, _ := starlark.AsString(item[0])
			given[name] = item[1]
		}
	}
	given.Freeze()
	inputs, err := s.Use.fill(given, in.run.opts.Site.Inputs[s.Use.Path])
	if err != nil {
		return nil, at(s.pos, &fault.Error{Kind: fault.Invalid, Hint: fault.HintOf(err), Err: err})
	}
	child := &inst{run: in.run, recipe: s.Use, owner: usedOwner(in.owner, s), prefix: scope.Step + "/", needs: []*effect.Scope{scope}}
	out, err := child.execute(ctx, inputs)
	// What depends on this step depends on all of the recipe's steps.
	for _, n := range child.nodes {
		if n.scope != nil {
			scope.Needs = append(scope.Needs[:len(scope.Needs):len(scope.Needs)], n.scope)
		}
	}
	return out, err
}
