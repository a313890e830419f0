package openstack

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Others lists the ports of somebody else that keep networks, subnets and
// security groups from being deleted.
func (c *Clouds) Others(ctx context.Context, scope string, going []effect.Owned) ([]effect.Other, error) {
	cloud, err := c.named(scope)
	if err != nil {
		return nil, err
	}
	cl, err := cloud.client(ctx)
	if err != nil {
		return nil, err
	}
	goes := make(map[string]bool)
	var balancers []effect.Owned
	for _, o := range going {
		if o.ID != "" { // whatever login it was found by
			goes[o.ID] = true
		}
		if o.Target.Kind == "load_balancer" {
			balancers = append(balancers, o)
		}
	}
	var mu sync.Mutex
	about := make(map[string]effect.Other) // by the port's id
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, o := range going {
		if o.Target.Scope != scope {
			continue
		}
		var query url.Values
		switch o.Target.Kind {
		case "network":
			query = url.Values{"network_id": {o.ID}}
		case "subnet":
			query = url.Values{"fixed_ips": {"subnet_id=" + o.ID}}
		case "security_group":
			query = url.Values{"security_groups": {o.ID}}
		default:
			continue
		}
		group.Go(func() error {
			v, err := effect.Read(gctx, effect.Query{Target: o.Target}, func(ctx context.Context) ([]client.Object, error) {
				return portNoun().list(ctx, cl, query)
			})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for _, p := range v.([]client.Object) {
				id := str(p, "id")
				if before, ok := about[id]; goes[id] || goes[str(p, "device_id")] || neutronsOwn(p) || goesWithBalancer(p, balancers) || ok && before.Of.Kind == "network" {
					continue
				}
				about[id] = effect.Other{Target: cloud.target("port", id), Of: o.Target, Text: portText(p),
					Hint: "delete what it belongs to first, or the port itself"}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out := make([]effect.Other, 0, len(about))
	for _, other := range about {
		out = append(out, other)
	}
	slices.SortFunc(out, func(a, b effect.Other) int { return strings.Compare(a.Of.String()+a.Text, b.Of.String()+b.Text) })
	return out, nil
}

// neutronsOwn reports whether Neutron deletes a port by itself: when its network
// goes, or the router that others of its ports name.
func neutronsOwn(p client.Object) bool {
	return slices.Contains([]string{"network:dhcp", "network:distributed", "network:floatingip_agent_gateway", "network:router_centralized_snat"}, str(p, "device_owner"))
}
