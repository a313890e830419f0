package runtime

import (
	"context"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// deferTimeout bounds what ctx.defer runs after a step was cancelled.
const deferTimeout = 30 * time.Second

// stepCtx is the value `ctx` of a step.
type stepCtx struct {
	run    *run
	scope  *effect.Scope
	inputs starlark.Value
	item   starlark.Value
	index  int

	mu       sync.Mutex
	deferred []starlark.Callable
}

func (c *stepCtx) String() string        { return "<ctx " + c.scope.Step + ">" }
func (c *stepCtx) Type() string          { return "ctx" }
func (c *stepCtx) Freeze()               {}
func (c *stepCtx) Truth() starlark.Bool  { return true }
func (c *stepCtx) Hash() (uint32, error) { return 0, fault.New(fault.Invalid, "ctx can't be a key") }

// ctxNames are the attributes of ctx, in order.
var ctxNames = []string{"defer", "index", "inputs", "item", "log", "name", "progress", "run", "site"}

func (c *stepCtx) AttrNames() []string { return ctxNames }

func (c *stepCtx) Attr(name string) (starlark.Value, error) {
	switch name {
	case "inputs":
		return c.inputs, nil
	case "site":
		return c.run.opts.Site.Values, nil
	case "item":
		return c.item, nil
	case "index":
		return starlark.MakeInt(c.index), nil
	case "run":
		return starlark.String(c.run.opts.ID), nil
	case "name":
		return c.text("ctx.name", func(_ context.Context, s string) starlark.Value { return starlark.String(c.scope.Owner.Name(s)) }), nil
	case "log":
		return c.text("ctx.log", func(ctx context.Context, s string) starlark.Value {
			effect.Logf(ctx, "%s", s)
			return starlark.None
		}), nil
	case "progress":
		return c.text("ctx.progress", func(ctx context.Context, s string) starlark.Value {
			effect.Progressf(ctx, "%s", s)
			return starlark.None
		}), nil
	case "defer":
		return starlark.NewBuiltin("ctx.defer", c.addDeferred), nil
	}
	return nil, nil
}

// text returns a method of one text.
func (c *stepCtx) text(name string, f func(context.Context, string) starlark.Value) starlark.Value {
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var v starlark.Value
		if err := starlark.UnpackPositionalArgs(name, args, kwargs, 1, &v); err != nil {
			return nil, err
		}
		s, ok := starlark.AsString(v)
		if !ok {
			if name == "ctx.name" {
				return nil, fault.New(fault.Invalid, "ctx.name: got %s, want string", v.Type())
			}
			s = v.String()
		}
		return f(effect.With(context.Background(), c.scope), s), nil
	})
}

func (c *stepCtx) addDeferred(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn starlark.Callable
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &fn); err != nil {
		return nil, err
	}
	fn.Freeze()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deferred = append(c.deferred, fn)
	return starlark.None, nil
}

// runDeferred calls what the step deferred, the last one first, even if the
// step was cancelled. It returns the first error.
func (c *stepCtx) runDeferred(ctx context.Context) error {
	c.mu.Lock()
	fns := c.deferred
	c.deferred = nil
	c.mu.Unlock()
	if len(fns) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deferTimeout)
	defer cancel()
	var first error
	for i := len(fns) - 1; i >= 0; i-- {
		if _, err := c.run.engine.threads.Call(ctx, c.scope.Step+" (deferred)", fns[i], nil, nil); err != nil && first == nil {
			first = err
		}
	}
	return first
}
