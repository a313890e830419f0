package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// defaultMaxSteps bounds one step's computation: some tens of seconds of
// nothing but Starlark.
const defaultMaxSteps = 500_000_000

// threads makes every Starlark thread there is, so that the limits, the
// context and the way print goes are the same for all of them.
type threads struct {
	maxSteps uint64
	print    func(thread *starlark.Thread, msg string)
}

// new returns a thread on which calls run under ctx; nil for one that loads a
// file, where nothing but pure functions can be called.
func (t *threads) new(name string, ctx context.Context) *starlark.Thread {
	thread := &starlark.Thread{Name: name, Print: t.print}
	if t.maxSteps > 0 {
		thread.SetMaxExecutionSteps(t.maxSteps)
	}
	if ctx != nil {
		builtin.SetContext(thread, ctx)
	}
	return thread
}

// call calls fn on a new thread that ends when ctx does.
func (t *threads) call(ctx context.Context, name string, fn starlark.Callable, args starlark.Tuple, kwargs []starlark.Tuple) (v starlark.Value, err error) {
	thread := t.new(name, ctx)
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { thread.Cancel("the context ended") })
		defer stop()
	}
	defer func() {
		if r := recover(); r != nil {
			err = fault.Hinted(fault.Internal, "this is a defect of gsrun; please report it", "panic in %s: %v", name, r)
		}
	}()
	v, err = starlark.Call(thread, fn, args, kwargs)
	if err != nil {
		if ctxErr := fault.FromContext(ctx); ctxErr != nil && fault.KindOf(err) == fault.Internal {
			return nil, &stopped{cause: ctxErr, at: err}
		}
		return nil, t.explain(err)
	}
	return v, nil
}

// stopped is the end of a thread by its context: the kind and text of the
// context's end, at the place where the thread was.
type stopped struct{ cause, at error }

func (s *stopped) Error() string   { return s.cause.Error() }
func (s *stopped) Unwrap() []error { return []error{s.cause, s.at} }

// explain gives the interpreter's own errors a kind and a hint.
func (t *threads) explain(err error) error {
	if fault.KindOf(err) != fault.Internal {
		return err
	}
	msg := err.Error()
	switch {
	case strings.Contains(msg, "too many steps"):
		return &fault.Error{Kind: fault.Limit, Hint: "move the work into a primitive or a plugin, or raise limits.steps in site.yaml",
			Err: &located{msg: fmt.Sprintf("the computation took more than %d steps", t.maxSteps), err: err}}
	case strings.Contains(msg, "called recursively"):
		return &fault.Error{Kind: fault.Limit, Hint: "recipes can't recurse, so that each of them ends; use a loop", Err: err}
	}
	var own *fault.Error
	if errors.As(err, &own) {
		return err
	}
	return &fault.Error{Kind: fault.Invalid, Err: err}
}

// located is an error with another text than the one that says where it was.
type located struct {
	msg string
	err error
}

func (l *located) Error() string { return l.msg }
func (l *located) Unwrap() error { return l.err }

// scopeOf returns the scope that calls on thread run in, or nil.
func scopeOf(thread *starlark.Thread) *effect.Scope {
	if ctx := builtin.Context(thread); ctx != nil {
		return effect.From(ctx)
	}
	return nil
}
