package kube

import (
	"context"
	"fmt"
	"time"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type admitsArgs struct {
	Object    effect.Data   `star:"object,required" doc:"Object to try, as a dict. It isn't made."`
	Namespace string        `star:"namespace" doc:"Namespace of the object if it has to be in one and names none; default if empty."`
	Timeout   time.Duration `star:"timeout" doc:"How long to wait."`
}

func admitsFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Cluster, admitsArgs]{
		Name: "admits",
		Doc: "Wait until the API server would create an object, which a dry run tells: until its kind and namespace are there, and its webhooks answer. " +
			"An object that a webhook or the schema refuses is an error at once.",
		Returns: "True",
		Example: `cluster.admits({
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "probe", "namespace": "default"},
})`,
		Effect:   builtin.Waits,
		Errors:   []fault.Kind{fault.Invalid, fault.Denied, fault.Timeout},
		Defaults: admitsArgs{Timeout: 5 * time.Minute},
		Run: func(ctx context.Context, c *Cluster, a admitsArgs) (any, error) {
			list, later, err := given(a.Object.V)
			if err != nil {
				return nil, err
			}
			if len(later) > 0 {
				return effect.Unknown{Of: "kube.admits()"}, nil
			}
			if len(list) != 1 {
				return nil, fault.New(fault.Invalid, "kube.admits: got %d objects, want one", len(list))
			}
			if list[0].unknown {
				return effect.Unknown{Of: "kube.admits()"}, nil
			}
			return c.admits(ctx, list[0], a)
		},
	})
}

func (c *Cluster) admits(ctx context.Context, it *item, a admitsArgs) (any, error) {
	it.tidy()
	gvk := it.object.GroupVersionKind()
	q := c.query(kubeclient.KindName(gvk.GroupKind()), it.object.GetNamespace(), it.object.GetName())
	w := effect.Wait{Query: q, For: fmt.Sprintf("%s being admitted", q.Target), Timeout: a.Timeout, Interval: glance}
	return effect.Await(ctx, w, func(ctx context.Context) (effect.Poll, error) {
		client, err := c.client()
		if err != nil {
			return effect.Poll{}, err
		}
		k, err := client.Kind(ctx, gvk)
		if err != nil {
			return effect.Poll{}, err
		}
		if k.Namespaced && it.object.GetNamespace() == "" {
			it.object.SetNamespace(within(k, a.Namespace))
		}
		if err := client.Admit(ctx, k, it.object, manager); err != nil {
			return effect.Poll{}, err
		}
		return effect.Poll{Done: true, Value: true}, nil
	})
}
