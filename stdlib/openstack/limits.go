package openstack

import (
	"context"
	"net/http"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type limitsArgs struct{}

func limitsMethod() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, limitsArgs]{
		Name: "limits",
		Doc: "Return what the project may have and what it has: by name (instances, cores, ram in MiB, and network, subnet, port, router, floatingip, security_group, security_group_rule) " +
			"a dict of `used` and `max`; -1 is no limit. Where a cloud doesn't say what is used, `used` is None.",
		Returns: "dict[str, dict]",
		Example: `free = cloud.limits()["cores"]["max"] - cloud.limits()["cores"]["used"]`,
		Effect:  builtin.Reads,
		Run: func(ctx context.Context, c *Cloud, _ limitsArgs) (any, error) {
			return effect.Read(ctx, effect.Query{Target: c.target("limits", ""), Scope: c.scope()}, func(ctx context.Context) (map[string]any, error) {
				cl, err := c.client(ctx)
				if err != nil {
					return nil, err
				}
				return readLimits(ctx, cl)
			})
		},
	})
}

func readLimits(ctx context.Context, cl *client.Client) (map[string]any, error) {
	out := make(map[string]any)
	l, err := cl.One(ctx, client.Call{Service: client.Compute, Method: http.MethodGet, Path: "/limits"}, "limits")
	if err != nil {
		return nil, err
	}
	abs, _ := l["absolute"].(client.Object)
	for name, keys := range map[string][2]string{
		"instances": {"totalInstancesUsed", "maxTotalInstances"},
		"cores":     {"totalCoresUsed", "maxTotalCores"},
		"ram":       {"totalRAMUsed", "maxTotalRAMSize"},
	} {
		out[name] = map[string]any{"used": abs[keys[0]], "max": abs[keys[1]]}
	}
	path := "/quotas/" + cl.Project()
	q, err := cl.One(ctx, client.Call{Service: client.Network, Method: http.MethodGet, Path: path + "/details.json"}, "quota")
	if fault.KindOf(err) == fault.NotFound {
		// A cloud without the extension quota_details doesn't say what is used.
		q, err = cl.One(ctx, client.Call{Service: client.Network, Method: http.MethodGet, Path: path}, "quota")
	}
	if err != nil {
		return nil, err
	}
	for name, v := range q {
		switch v := v.(type) {
		case client.Object:
			out[name] = map[string]any{"used": v["used"], "max": v["limit"]}
		case int64:
			out[name] = map[string]any{"used": nil, "max": v}
		}
	}
	return out, nil
}

type externalNetworkArgs struct {
	Name string `star:"name,positional" doc:"Its name. Default: the only one that there is."`
}

func externalNetworkMethod() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, externalNetworkArgs]{
		Name:    "external_network",
		Doc:     "Return the network that routers have their gateway on and floating IPs come from.",
		Returns: "openstack.network",
		Example: `public = cloud.external_network()`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.NotFound, fault.Invalid},
		Run: func(ctx context.Context, c *Cloud, a externalNetworkArgs) (any, error) {
			t := c.target("network", a.Name)
			v, err := effect.Read(ctx, effect.Query{Target: t, Scope: t.String()}, func(ctx context.Context) (any, error) {
				cl, err := c.client(ctx)
				if err != nil {
					return nil, err
				}
				net, err := externalNetwork(ctx, cl, a.Name)
				if err != nil {
					return nil, err
				}
				return effect.NewObject("openstack.network", networkNoun().data(net)), nil
			})
			return v, err
		},
	})
}
