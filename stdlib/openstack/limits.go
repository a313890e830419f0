package openstack

import (
	"context"
	"net/http"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func limitsMethod() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, noArgs]{
		Name: "limits",
		Doc: "Return what the project may have and what it has: by name a dict of `used` and `max`; -1 is no limit, and `used` is None where the cloud doesn't say. " +
			"Of Nova: instances, cores, ram (MiB). Of Neutron: network, subnet, port, router, floatingip, security_group, security_group_rule. " +
			"Of Cinder, where the cloud has it: volumes, gigabytes, snapshots, backups, backup_gigabytes. " +
			"Of Octavia, where the cloud has it and the login may ask it: load_balancer, listener, pool, member, health_monitor.",
		Returns: "dict[str, dict]",
		Example: `free = cloud.limits()["cores"]["max"] - cloud.limits()["cores"]["used"]`,
		Effect:  builtin.Reads,
		Run: func(ctx context.Context, c *Cloud, _ noArgs) (any, error) {
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

// absoluteLimits are the fields that Nova and Cinder tell limits by: what is
// used, and the limit.
var absoluteLimits = map[client.Service]map[string][2]string{
	client.Compute: {
		"instances": {"totalInstancesUsed", "maxTotalInstances"},
		"cores":     {"totalCoresUsed", "maxTotalCores"},
		"ram":       {"totalRAMUsed", "maxTotalRAMSize"},
	},
	client.BlockStorage: {
		"volumes":          {"totalVolumesUsed", "maxTotalVolumes"},
		"gigabytes":        {"totalGigabytesUsed", "maxTotalVolumeGigabytes"},
		"snapshots":        {"totalSnapshotsUsed", "maxTotalSnapshots"},
		"backups":          {"totalBackupsUsed", "maxTotalBackups"},
		"backup_gigabytes": {"totalBackupGigabytesUsed", "maxTotalBackupGigabytes"},
	},
}

func readLimits(ctx context.Context, cl *client.Client) (map[string]any, error) {
	out := make(map[string]any)
	for service, names := range absoluteLimits {
		if service != client.Compute && !cl.Offers(service) {
			continue
		}
		l, err := cl.One(ctx, client.Call{Service: service, Method: http.MethodGet, Path: "/limits"}, "limits")
		if err != nil {
			return nil, err
		}
		abs, _ := l["absolute"].(client.Object)
		for name, keys := range names {
			out[name] = map[string]any{"used": abs[keys[0]], "max": abs[keys[1]]}
		}
	}
	for _, p := range quotaParts() {
		balancers := p.service == client.LoadBalancer
		if p.service != client.Network && !(balancers && cl.Offers(p.service)) {
			continue
		}
		q, err := p.read(ctx, cl, cl.Project())
		if balancers && fault.KindOf(err) == fault.Denied {
			continue // it takes a role of Octavia's own, which who has no use for it lacks
		}
		if err != nil {
			return nil, err
		}
		for name, v := range q {
			out[name] = v
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
