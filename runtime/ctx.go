package runtime

import (
	"context"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
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

func (c *stepCtx) AttrNames() []string {
	return []string{"defer", "index", "inputs", "item", "log", "name", "progress", "run", "site"}
}

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
	}
	return c.run.engine.language.Method("ctx", name, c), nil
}

type nameArgs struct {
	Name string `star:"name,positional" doc:"What the resource is for, within the recipe."`
}

type messageArgs struct {
	Message starlark.Value `star:"message,required" doc:"A text, or any value."`
}

// text returns the message as text; a secret shows as its mask.
func (a messageArgs) text() string {
	if s, ok := starlark.AsString(a.Message); ok {
		return s
	}
	return a.Message.String()
}

type deferArgs struct {
	Fn starlark.Callable `star:"fn,required" doc:"Function without arguments."`
}

// ctxType declares ctx, which a step gets as the parameter of that name.
func ctxType() *builtin.Type {
	return &builtin.Type{
		Name: "ctx", Of: builtin.TypeOf[*stepCtx](),
		Doc: "What a step knows of its run. It is passed to functions with a parameter of that name, and doesn't say whether this is a plan: a recipe has one path.",
		Attrs: []builtin.Attr{
			{Name: "inputs", Type: "struct", Doc: "The recipe's inputs."},
			{Name: "site", Type: "struct", Doc: "The site's name and values."},
			{Name: "item", Type: "any", Doc: "What this call of a step with `each` is for; else None."},
			{Name: "index", Type: "int", Doc: "Which of the items that is, from 0."},
			{Name: "run", Type: "str", Doc: "The run's id."},
		},
		Methods: []builtin.Func{
			builtin.Of(builtin.Spec[*stepCtx, nameArgs]{
				Name: "name", Doc: "Make the name of a resource: the site's name, the instance if there is one, and the given name. Two sites in one project don't collide.",
				Returns: "str", Effect: builtin.Pure, Example: `net = cloud.network.ensure(ctx.name("mgmt"))`,
				Run: func(_ context.Context, c *stepCtx, a nameArgs) (any, error) { return c.scope.Owner.Name(a.Name), nil },
			}),
			builtin.Of(builtin.Spec[*stepCtx, messageArgs]{
				Name: "log", Doc: "Write a line into the run's log.", Returns: "None", Effect: builtin.Pure, Example: `ctx.log("nothing to rotate")`,
				Run: func(ctx context.Context, _ *stepCtx, a messageArgs) (any, error) {
					effect.Logf(ctx, "%s", a.text())
					return nil, nil
				},
			}),
			builtin.Of(builtin.Spec[*stepCtx, messageArgs]{
				Name: "progress", Doc: "Say what the step is doing now.", Returns: "None", Effect: builtin.Pure, Example: `ctx.progress("draining")`,
				Run: func(ctx context.Context, _ *stepCtx, a messageArgs) (any, error) {
					effect.Progressf(ctx, "%s", a.text())
					return nil, nil
				},
			}),
			builtin.Of(builtin.Spec[*stepCtx, deferArgs]{
				Name: "defer", Doc: "Call a function when the step ends, however it ends: also after a failure, a timeout or Ctrl-C. The last one deferred is called first.",
				Returns: "None", Effect: builtin.Pure, Example: `ctx.defer(lambda: host.file.delete("/run/maintenance"))`,
				Run: func(_ context.Context, c *stepCtx, a deferArgs) (any, error) {
					c.mu.Lock()
					defer c.mu.Unlock()
					c.deferred = append(c.deferred, a.Fn)
					return nil, nil
				},
			}),
		},
	}
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
