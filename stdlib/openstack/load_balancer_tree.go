package openstack

import (
	"context"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
)

// readBalancer puts the parts of a load balancer into it.
func readBalancer(ctx context.Context, cl *client.Client, obj client.Object) error {
	lists := func(path, key string, query ...string) ([]client.Object, error) {
		call := client.Call{Service: client.LoadBalancer, Path: "/lbaas/" + path, Query: map[string][]string{}}
		if len(query) == 2 {
			call.Query.Set(query[0], query[1])
		}
		return cl.List(ctx, call, key)
	}
	t := &balancerTree{members: map[string][]client.Object{}, monitors: map[string]client.Object{}}
	var err error
	if t.listeners, err = lists("listeners", "listeners", "loadbalancer_id", str(obj, "id")); err != nil {
		return err
	}
	if t.pools, err = lists("pools", "pools", "loadbalancer_id", str(obj, "id")); err != nil {
		return err
	}
	for _, p := range t.pools {
		id := str(p, "id")
		if t.members[id], err = lists("pools/"+id+"/members", "members"); err != nil {
			return err
		}
		if m := str(p, "healthmonitor_id"); m != "" {
			if t.monitors[id], err = cl.One(ctx, client.Call{Service: client.LoadBalancer, Method: "GET", Path: "/lbaas/healthmonitors/" + m}, "healthmonitor"); err != nil {
				return err
			}
		}
	}
	obj["tree"] = t
	ids := func(all []client.Object) []any {
		out := make([]any, len(all))
		for i, x := range all {
			out[i] = client.Object{"id": str(x, "id")}
		}
		return out
	}
	obj["listeners"], obj["pools"] = ids(t.listeners), ids(t.pools)
	return nil
}

// A balancerTree is the parts that a load balancer has.
type balancerTree struct {
	listeners, pools []client.Object
	members          map[string][]client.Object // by the pool's id
	monitors         map[string]client.Object
}

func (t *balancerTree) pool(id string) client.Object {
	for _, p := range t.pools {
		if str(p, "id") == id && id != "" {
			return p
		}
	}
	return nil
}
