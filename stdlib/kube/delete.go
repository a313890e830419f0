package kube

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type deleteArgs struct {
	Kind       string        `star:"kind,required" doc:"Kind, plural or short name, as for get."`
	Name       string        `star:"name,required" doc:"Name of the object."`
	Namespace  string        `star:"namespace" doc:"Its namespace, if the kind has one; default if empty."`
	APIVersion string        `star:"api_version" doc:"Version of the kind; the one that the cluster prefers if empty."`
	Wait       bool          `star:"wait" doc:"Wait until the object is gone."`
	Timeout    time.Duration `star:"timeout" doc:"How long to wait."`
}

func deleteFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Cluster, deleteArgs]{
		Name:     "delete",
		Doc:      "Delete an object, and in the background what depends on it. While it waits it names the finalizers that hold the object.",
		Returns:  "None",
		Example:  `cluster.delete("ConfigMap", "site", namespace = "default")`,
		Effect:   builtin.Changes,
		Errors:   []fault.Kind{fault.Invalid, fault.Denied, fault.Unavailable, fault.Unreachable, fault.Timeout},
		Defaults: deleteArgs{Wait: true, Timeout: 5 * time.Minute},
		Run: func(ctx context.Context, c *Cluster, a deleteArgs) (any, error) {
			op, err := c.deletion(ctx, a)
			if err != nil || op == nil {
				return nil, err
			}
			if _, err := effect.Do(ctx, op); err != nil {
				return nil, err
			}
			if !a.Wait || op.uid == "" {
				return nil, nil
			}
			return nil, op.await(ctx)
		},
	})
}

// A deleteOp deletes one object.
type deleteOp struct {
	c               *Cluster
	kind            kubeclient.Kind
	namespace, name string
	timeout         time.Duration
	uid             types.UID // of the object that was there; another of its name isn't meant
}

// deletion returns the op that deletes what a names, or nil if a plan can't tell
// more, or there can't be such an object yet.
func (c *Cluster) deletion(ctx context.Context, a deleteArgs) (*deleteOp, error) {
	if !c.known() {
		_, err := effect.DoLater(ctx, c.target(a.Kind, a.Namespace, a.Name))
		return nil, err
	}
	found, err := effect.Read(ctx, effect.Query{Target: c.target("kinds", "", a.Kind)}, func(ctx context.Context) (any, error) {
		_, k, err := c.lookup(ctx, a.Kind, a.APIVersion)
		return k, err
	})
	if err != nil {
		return nil, err
	}
	k := found.(kubeclient.Kind)
	return &deleteOp{c: c, kind: k, namespace: within(k, a.Namespace), name: a.Name, timeout: a.Timeout}, nil
}

// Removes reports that the op only deletes.
func (*deleteOp) Removes() bool { return true }

func (op *deleteOp) Target() effect.Target {
	return op.c.target(op.kind.String(), op.namespace, op.name)
}

// get returns the object, or nil if there is none.
func (op *deleteOp) get(ctx context.Context) (*kubeclient.Object, error) {
	client, err := op.c.client()
	if err != nil {
		return nil, err
	}
	o, err := client.Get(ctx, op.kind, op.namespace, op.name)
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil
	}
	return o, err
}

func (op *deleteOp) Observe(ctx context.Context) (effect.State, error) {
	o, err := op.get(ctx)
	if err != nil || o == nil {
		return effect.State{}, err
	}
	op.uid = o.GetUID()
	return effect.State{Exists: true, Raw: o, Attrs: map[string]any{"api_version": o.GetAPIVersion(), "kind": o.GetKind(),
		"namespace": o.GetNamespace(), "name": o.GetName(), "uid": string(o.GetUID())}}, nil
}

func (op *deleteOp) Diff(st effect.State) (effect.Change, error) {
	// One that is being deleted already is only waited for.
	if !st.Exists || st.Raw.(*kubeclient.Object).GetDeletionTimestamp() != nil {
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Delete}, nil
}

func (op *deleteOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	o := c.Before.Raw.(*kubeclient.Object)
	client, err := op.c.client()
	if err != nil {
		return effect.State{}, err
	}
	err = client.Delete(ctx, op.kind, o.GetNamespace(), o.GetName(), o.GetUID())
	if fault.KindOf(err) == fault.NotFound {
		err = nil
	}
	return effect.State{}, err
}

// await waits until the object is gone.
func (op *deleteOp) await(ctx context.Context) error {
	wait := effect.Wait{Query: op.c.query(op.kind.String(), op.namespace, op.name), Timeout: op.timeout, Interval: glance,
		For: fmt.Sprintf("%s being gone", op.Target())}
	_, err := effect.Await(ctx, wait, func(ctx context.Context) (effect.Poll, error) {
		o, err := op.get(ctx)
		if err != nil {
			return effect.Poll{}, err
		}
		if o == nil || o.GetUID() != op.uid {
			return effect.Poll{Done: true}, nil
		}
		return effect.Poll{Seen: kubeclient.Blocking(o)}, nil
	})
	return err
}
