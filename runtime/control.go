package runtime

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"golang.org/x/sync/errgroup"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type attemptArgs struct {
	Fn starlark.Callable `star:"fn,required" doc:"Function without arguments."`
}

// attempt calls a function and returns how it ended.
func (l *language) attempt(ctx context.Context, a attemptArgs) (any, error) {
	thread := builtin.Thread(ctx)
	inner, doubt := effect.WithAttempt(builtin.Context(thread))
	outer := builtin.Context(thread)
	builtin.SetContext(thread, inner)
	v, err := starlark.Call(thread, a.Fn, nil, nil)
	builtin.SetContext(thread, outer)
	if err == nil {
		// Whether a change that is only planned will succeed isn't known, nor is
		// how a read will end that depends on one.
		u, unknown := v.(effect.Unknown)
		if !unknown && doubt.Met() {
			u, unknown = effect.Unknown{Of: "how what is attempted ends"}, true
		}
		if unknown {
			return effect.NewStruct(starlark.StringDict{"ok": u, "value": v, "error": u}), nil
		}
		return effect.NewStruct(starlark.StringDict{"ok": starlark.True, "value": v, "error": starlark.None}), nil
	}
	if ctx.Err() != nil {
		return nil, err
	}
	err = l.threads.Explain(err)
	kind := fault.KindOf(err)
	if !effect.Attemptable(kind) {
		return nil, err
	}
	if s := effect.From(ctx); s != nil {
		err = s.Door.Redacted(err)
	}
	return effect.NewStruct(starlark.StringDict{"ok": starlark.False, "value": starlark.None, "error": effect.NewStruct(starlark.StringDict{
		"kind": starlark.String(kind), "message": errorText(err.Error()), "hint": errorText(fault.HintOf(err))})}), nil
}

// errorText returns a text of an error, which isn't known if something in it
// isn't.
func errorText(s string) starlark.Value {
	if strings.Contains(s, effect.UnknownText) {
		return effect.Unknown{Of: "the text of the error"}
	}
	return starlark.String(s)
}

type parallelArgs struct {
	Items starlark.Value    `star:"items,required" doc:"List of what to call the function with."`
	Fn    starlark.Callable `star:"fn,required" doc:"Function of one item."`
	Max   int               `star:"max" doc:"How many calls run at the same time."`
}

// parallel calls a function with each item, each on a thread of its own. The
// function and the items are frozen: nothing is shared that could change.
func (l *language) parallel(ctx context.Context, a parallelArgs) (any, error) {
	items, err := sequence(a.Items, "items")
	if err != nil {
		if u, ok := a.Items.(effect.Unknown); ok {
			return nil, u.Deferred("iterated over")
		}
		return nil, err
	}
	a.Fn.Freeze()
	results := make([]starlark.Value, len(items))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(max(a.Max, 1))
	name := builtin.Thread(ctx).Name
	for i, item := range items {
		item.Freeze()
		group.Go(func() error {
			if err := fault.FromContext(gctx); err != nil {
				return err
			}
			v, err := l.threads.Call(effect.Branch(gctx, i), fmt.Sprintf("%s[%d]", name, i), a.Fn, starlark.Tuple{item}, nil)
			if err != nil {
				return err
			}
			v.Freeze()
			results[i] = v
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return starlark.NewList(results), nil
}

type waitArgs struct {
	What     string            `star:"what,required" doc:"What is waited for, for people."`
	Until    starlark.Callable `star:"until,required" doc:"Function without arguments; its first true result ends the wait."`
	Timeout  time.Duration     `star:"timeout" doc:"How long to wait at most."`
	Interval time.Duration     `star:"interval" doc:"Longest pause between two calls; the first pauses are shorter, from an eighth of it."`
}

// wait calls a function until its result is true.
func (l *language) wait(ctx context.Context, a waitArgs) (any, error) {
	name := builtin.Thread(ctx).Name
	w := effect.Wait{For: a.What, Timeout: a.Timeout, Interval: a.Interval}
	return effect.Await(ctx, w, func(ctx context.Context) (effect.Poll, error) {
		v, err := l.threads.Call(ctx, name, a.Until, nil, nil)
		if err != nil {
			return effect.Poll{}, err
		}
		if u, ok := v.(effect.Unknown); ok {
			return effect.Poll{}, u.Deferred("waited for")
		}
		return effect.Poll{Done: bool(v.Truth()), Value: v, Seen: show(v)}, nil
	})
}

type approveArgs struct {
	Text    effect.Text   `star:"text,required" doc:"What the person is asked, as one line."`
	Timeout time.Duration `star:"timeout" doc:"How long to wait for the answer."`
}

// approve waits until a person lets the step go on.
func (l *language) approve(ctx context.Context, a approveArgs) (any, error) {
	switch {
	case a.Text.Empty():
		return nil, fault.Hinted(fault.Invalid, "say what is about to happen", "approve: the text is empty")
	case a.Timeout <= 0:
		return nil, fault.New(fault.Invalid, "approve: the timeout is %s", a.Timeout)
	}
	return nil, effect.Approve(ctx, a.Text, a.Timeout)
}

// show writes a value for a message, shortened.
func show(v starlark.Value) string {
	s := v.String()
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return s
}
