package openstack

import (
	"context"
	"slices"
	"strings"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type waitArgs struct {
	Name    string        `star:"name,required" doc:"The name, or the id. It needn't be there yet."`
	Status  string        `star:"status" doc:"The status to wait for, or several with commas between them. Default: one in which it can be used."`
	Timeout time.Duration `star:"timeout" doc:"How long to wait."`
}

// A waiter is what the wait verbs of nouns differ in.
type waiter struct {
	kind, example string
	find          func(ctx context.Context, cl *client.Client, name string) (client.Object, error)
	phase         func(client.Object) phase
	data          func(client.Object) map[string]any
}

// waitVerb returns the verb that waits for a resource's status.
func (n *noun) waitVerb(example string) builtin.Func {
	return waiter{kind: n.name, example: example, phase: n.phaseOf, data: n.data,
		find: func(ctx context.Context, cl *client.Client, name string) (client.Object, error) {
			obj, err := n.byName(ctx, cl, name)
			if err == nil && n.expand != nil {
				err = n.expand(ctx, cl, obj)
			}
			return obj, err
		}}.verb()
}

func (w waiter) verb() builtin.Func {
	label := strings.ReplaceAll(w.kind, "_", " ")
	return builtin.Of(builtin.Spec[*Cloud, waitArgs]{
		Name:     "wait",
		Doc:      "Wait until the " + label + " of that name or id can be used, or has a status. One that failed isn't waited for, unless that is what is asked for.",
		Returns:  "openstack." + w.kind,
		Example:  w.example,
		Effect:   builtin.Waits,
		Errors:   []fault.Kind{fault.Invalid, fault.Failed, fault.Timeout},
		Defaults: waitArgs{Timeout: readyTime},
		Run:      w.run,
	})
}

func (w waiter) run(ctx context.Context, c *Cloud, a waitArgs) (any, error) {
	var wanted []string
	what := "ready"
	if a.Status != "" {
		wanted = strings.Split(strings.ReplaceAll(a.Status, " ", ""), ",")
		what = strings.Join(wanted, " or ")
		for _, s := range wanted {
			if err := knownStatus(s, statusesOf(w.kind)); err != nil {
				return nil, fault.Wrap("", c.target(w.kind, a.Name).String(), err)
			}
		}
	}
	t := c.target(w.kind, a.Name)
	return effect.Await(ctx, effect.Wait{Query: effect.Query{Target: t, Scope: t.String()}, For: t.String() + " being " + what, Timeout: a.Timeout, Interval: c.config.Interval},
		func(ctx context.Context) (effect.Poll, error) {
			cl, err := c.client(ctx)
			if err != nil {
				return effect.Poll{}, err
			}
			obj, err := w.find(ctx, cl, a.Name)
			if err != nil {
				return effect.Poll{}, err
			}
			p := w.phase(obj)
			done := p.ready && !p.failed
			if wanted != nil {
				done = slices.Contains(wanted, p.state)
			}
			switch {
			case done:
				return effect.Poll{Done: true, Value: effect.NewObject("openstack."+w.kind, w.data(obj))}, nil
			case p.failed:
				why := ""
				if p.why != "" {
					why = ": " + p.why
				}
				return effect.Poll{}, fault.New(fault.Failed, "it (%s) is in %s%s", str(obj, "id"), p.state, why)
			}
			return effect.Poll{Seen: "it is " + p.state}, nil
		})
}
