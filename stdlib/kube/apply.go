package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// atOnce is how many objects of a stage are applied at the same time.
const atOnce = 8

type applyArgs struct {
	Objects   effect.Data   `star:"objects,positional" doc:"List of objects as dicts. Values in them may be secret, or not known yet."`
	Manifests effect.Text   `star:"manifests" doc:"Text of YAML documents."`
	Namespace string        `star:"namespace" doc:"Namespace of objects that have to be in one and name none; default if empty."`
	Wait      bool          `star:"wait" doc:"Wait until all objects are as they should be: rolled out, bound, ready."`
	Timeout   time.Duration `star:"timeout" doc:"How long to wait in all."`
	Force     bool          `star:"force" doc:"Take over fields that another manager has set, and objects that another recipe owns."`
}

func applyFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Cluster, applyArgs]{
		Name: "apply",
		Doc: "Make objects what is given, by server-side apply with the field manager gsrun. Namespaces and CRDs come first and are waited for, " +
			"then what belongs to no namespace, then configuration, then workloads and custom resources, webhooks last. " +
			"Each object is a change of its own in a plan. An object that is as wanted already, which a dry run tells, isn't written. " +
			"Each carries its owner in the annotation gsrun.dev/owner. A custom resource whose controller has written no status yet counts as ready: use wait for those.",
		Returns: "list of objects with api_version, kind, namespace, name and uid",
		Example: `cluster.apply([{
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "site", "namespace": "default"},
    "data": {"region": "west"},
}])`,
		Effect:   builtin.Changes,
		Errors:   []fault.Kind{fault.Invalid, fault.NotFound, fault.Exists, fault.Denied, fault.Quota, fault.Unavailable, fault.Unreachable, fault.Timeout, fault.Failed},
		Defaults: applyArgs{Wait: true, Timeout: 5 * time.Minute},
		Run:      func(ctx context.Context, c *Cluster, a applyArgs) (any, error) { return c.apply(ctx, a) },
	})
}

func (c *Cluster) apply(ctx context.Context, a applyArgs) (any, error) {
	list, later, err := items(ctx, a)
	if err != nil {
		return nil, err
	}
	for _, origin := range later {
		if _, err := effect.DoLater(ctx, effect.Target{Scope: c.scope(), Name: origin}); err != nil {
			return nil, err
		}
	}
	if err := c.place(ctx, list, a.Namespace); err != nil {
		return nil, err
	}
	deadline := effect.From(ctx).Door.Clock.Now().Add(a.Timeout)
	states := make(map[*item]effect.State, len(list))
	var rest []*item // what isn't waited for on the way
	for stage, members := range inStages(list) {
		if err := c.applyStage(ctx, members, a.Force, states); err != nil {
			return nil, err
		}
		if stage != stageGround {
			rest = append(rest, members...)
			continue
		}
		if err := c.settle(ctx, "namespaces and CRDs", members, states, deadline); err != nil {
			return nil, err
		}
		if err := c.awaitKinds(ctx, members, deadline); err != nil {
			return nil, err
		}
	}
	if a.Wait {
		if err := c.settle(ctx, "objects", rest, states, deadline); err != nil {
			return nil, err
		}
	}
	if len(later) > 0 {
		return effect.Unknown{Of: c.scope() + " apply()"}, nil
	}
	out := make([]any, len(list))
	for i, it := range list {
		attrs := states[it].Attrs
		if states[it].Unknown {
			attrs = it.attrs(effect.Unknown{Of: it.String() + " uid"})
		}
		out[i] = effect.NewObject("kube.object", attrs)
	}
	return out, nil
}

// applyStage applies the objects of one stage. Those that are refused don't keep
// the others from being tried, so that all refusals are told at once; any other
// failure does.
func (c *Cluster) applyStage(ctx context.Context, members []*item, force bool, states map[*item]effect.State) error {
	ops := make([]*applyOp, len(members))
	for i, it := range members {
		ops[i] = &applyOp{c: c, it: it, force: force}
	}
	width := atOnce
	if planning(ctx) {
		// A plan lists its changes in the order in which they are found. What
		// takes time is looked at beforehand.
		c.foresee(ctx, ops)
		width = 1
	}
	var mu sync.Mutex
	var refused []error
	fatal := false
	var group errgroup.Group
	group.SetLimit(width)
	for _, op := range ops {
		mu.Lock()
		stop := fatal
		mu.Unlock()
		if stop {
			break
		}
		group.Go(func() error {
			st, err := effect.Do(ctx, op)
			mu.Lock()
			defer mu.Unlock()
			states[op.it] = st
			if err != nil {
				refused = append(refused, fmt.Errorf("%w (%s)", err, op.it.origin))
				switch fault.KindOf(err) {
				case fault.Invalid, fault.Exists, fault.NotFound, fault.Quota:
				default:
					fatal = true
				}
			}
			return nil
		})
	}
	_ = group.Wait() // failures are in refused
	return together(refused, len(members))
}

// foresee observes what the ops are about, several at a time. A failure is left
// to the op itself, which tries again.
func (c *Cluster) foresee(ctx context.Context, ops []*applyOp) {
	if !c.known() {
		return
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, op := range ops {
		group.Go(func() error {
			if st, err := op.Observe(ctx); err == nil {
				op.foreseen = &st
			}
			return nil
		})
	}
	_ = group.Wait() // its functions don't fail
}

// together returns the failures of several objects as one, of the kind of the
// first.
func together(failures []error, of int) error {
	switch len(failures) {
	case 0:
		return nil
	case 1:
		return failures[0]
	}
	const shown = 5
	var texts []string
	for _, err := range failures[:min(shown, len(failures))] {
		texts = append(texts, err.Error())
	}
	if more := len(failures) - shown; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return &fault.Error{Op: fmt.Sprintf("applying %d of %d objects", len(failures), of), Kind: fault.KindOf(failures[0]), Hint: fault.HintOf(first(failures)),
		Err: errors.New(strings.Join(texts, "\n"))}
}

// first returns the first failure that has a hint, or nil.
func first(failures []error) error {
	for _, err := range failures {
		if fault.HintOf(err) != "" {
			return err
		}
	}
	return nil
}
