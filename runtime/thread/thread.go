// Package thread makes the Starlark threads: of every step, of every file that
// is loaded and of every test. One factory gives all of them the same limits,
// cancellation and print.
package thread

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
)

// DefaultMaxSteps bounds one step's computation: some tens of seconds of
// nothing but Starlark.
const DefaultMaxSteps = 500_000_000

// A Factory makes threads. Several goroutines may use it at once; a thread
// belongs to one.
type Factory struct {
	MaxSteps uint64                                    // limit of one thread's computation; 0 means DefaultMaxSteps
	Print    func(thread *starlark.Thread, msg string) // what print does; nil writes to standard error
}

// maxDepth bounds calls on threads that calls on other threads wait for, as
// parallel and wait make them: a recipe could recurse through those.
const maxDepth = 64

type depthKey struct{}

// deeper returns ctx for a call within the one that ctx is of.
func deeper(ctx context.Context) (context.Context, error) {
	depth, _ := ctx.Value(depthKey{}).(int)
	if depth >= maxDepth {
		return nil, fault.Hinted(fault.Limit, "recipes can't recurse, so that each of them ends; use a loop", "calls within parallel() or wait() are nested more than %d deep", maxDepth)
	}
	return context.WithValue(ctx, depthKey{}, depth+1), nil
}

// New returns a thread on which calls run under ctx; nil for one that loads a
// file, where nothing but pure functions can be called.
func (f *Factory) New(name string, ctx context.Context) *starlark.Thread {
	thread := &starlark.Thread{Name: name, Print: f.Print}
	thread.SetMaxExecutionSteps(f.limit())
	if ctx != nil {
		builtin.SetContext(thread, ctx)
	}
	return thread
}

func (f *Factory) limit() uint64 {
	if f.MaxSteps == 0 {
		return DefaultMaxSteps
	}
	return f.MaxSteps
}

// Call calls fn on a new thread that ends when ctx does. Errors are those of
// Explain, or of the kind that ctx ended with; a panic is one of kind Internal.
func (f *Factory) Call(ctx context.Context, name string, fn starlark.Callable, args starlark.Tuple, kwargs []starlark.Tuple) (v starlark.Value, err error) {
	if ctx, err = deeper(ctx); err != nil {
		return nil, err
	}
	thread := f.New(name, ctx)
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
		return nil, f.Explain(err)
	}
	return v, nil
}

// stopped is the end of a thread by its context: the kind and text of the
// context's end, at the place where the thread was.
type stopped struct{ cause, at error }

func (s *stopped) Error() string   { return s.cause.Error() }
func (s *stopped) Unwrap() []error { return []error{s.cause, s.at} }

// Explain gives the interpreter's own errors a kind and a hint: Limit for a
// computation that is too long or recursive, Invalid for what else is wrong
// with a recipe. Errors that have a kind keep it.
func (f *Factory) Explain(err error) error {
	if fault.KindOf(err) != fault.Internal {
		return err
	}
	msg := err.Error()
	switch {
	case strings.Contains(msg, "too many steps"):
		return &fault.Error{Kind: fault.Limit, Hint: "move the work into a primitive or a plugin, or raise limits.steps in site.yaml",
			Err: &located{msg: fmt.Sprintf("the computation took more than %d steps", f.limit()), err: err}}
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
