package openstack

import (
	"context"
	"net/http"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func balancerStatus(n *noun) builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, getArgs]{
		Name: "status",
		Doc: "Return how a load balancer and each part of it is, as Octavia says it: {\"provisioning_status\": ..., \"operating_status\": ..., \"listeners\": [{..., \"pools\": [{..., \"members\": [...]}]}], " +
			"\"stats\": {\"bytes_in\": ..., \"active_connections\": ...}}. None if there is none of that name or id.",
		Returns: "dict or None",
		Example: `tree = cloud.load_balancer.status("api")`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, c *Cloud, a getArgs) (any, error) {
			t := c.target(n.name, a.Name)
			scope := t.String()
			if isID(a.Name) {
				scope = c.target(n.name, "").String()
			}
			v, err := effect.Read(ctx, effect.Query{Target: t, Scope: scope}, func(ctx context.Context) (any, error) {
				cl, err := c.client(ctx)
				if err != nil {
					return nil, err
				}
				tree, err := n.status(ctx, cl, a.Name)
				if fault.KindOf(err) == fault.NotFound {
					return nil, nil
				}
				return tree, err
			})
			return v, err
		},
	})
}

// status returns the status tree of a load balancer, with its statistics.
func (n *noun) status(ctx context.Context, cl *client.Client, name string) (any, error) {
	obj, err := n.byName(ctx, cl, name)
	if err != nil {
		return nil, err
	}
	id := str(obj, "id")
	whole, err := cl.One(ctx, n.call(http.MethodGet, id+"/status", nil), "statuses")
	if err != nil {
		return nil, err
	}
	stats, err := cl.One(ctx, n.call(http.MethodGet, id+"/stats", nil), "stats")
	if err != nil {
		return nil, err
	}
	tree, ok := whole["loadbalancer"].(client.Object)
	if !ok {
		return nil, fault.New(fault.Unavailable, "Octavia's status of %s (%s) has no load balancer", name, id)
	}
	tree["stats"] = stats
	return tree, nil
}

type balancerWaitArgs struct {
	Name      string        `star:"name,required" doc:"The name, or the id."`
	Operating string        `star:"operating_status" doc:"The operating status to wait for too, such as \"ONLINE\". Some clouds never say another than OFFLINE."`
	Timeout   time.Duration `star:"timeout" doc:"How long to wait."`
}

func balancerWait(n *noun) builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, balancerWaitArgs]{
		Name:    "wait",
		Doc:     "Wait until a load balancer is ACTIVE, and has the operating status asked for. One that ended in ERROR is an error.",
		Returns: "None",
		Example: "net = cloud.network.ensure(\"mgmt\")\n" +
			"sub = cloud.subnet.ensure(\"mgmt\", network = net, cidr = \"10.20.0.0/24\")\n" +
			"cloud.load_balancer.ensure(\"api\", subnet = sub)\n" +
			`cloud.load_balancer.wait("api", timeout = "5m")`,
		Effect:   builtin.Waits,
		Errors:   []fault.Kind{fault.Failed, fault.Invalid, fault.Timeout},
		Defaults: balancerWaitArgs{Timeout: 10 * time.Minute},
		Run: func(ctx context.Context, c *Cloud, a balancerWaitArgs) (any, error) {
			t := c.target(n.name, a.Name)
			what := t.String() + " being ACTIVE"
			if a.Operating != "" {
				if err := knownStatus(a.Operating, []string{"ONLINE", "OFFLINE", "DEGRADED", "DRAINING", "ERROR", "NO_MONITOR"}); err != nil {
					return nil, fault.Wrap("", t.String(), err)
				}
				what += " and " + a.Operating
			}
			w := effect.Wait{Query: effect.Query{Target: t, Scope: t.String()}, For: what, Timeout: a.Timeout, Interval: c.config.Interval}
			return effect.Await(ctx, w, func(ctx context.Context) (effect.Poll, error) {
				cl, err := c.client(ctx)
				if err != nil {
					return effect.Poll{}, err
				}
				obj, err := n.byName(ctx, cl, a.Name)
				if fault.KindOf(err) == fault.NotFound {
					return effect.Poll{Seen: "there is none"}, nil
				}
				if err != nil {
					return effect.Poll{}, err
				}
				p, operating := n.phaseOf(obj), str(obj, "operating_status")
				if p.failed {
					return effect.Poll{}, fault.New(fault.Failed, "%s (%s) is in %s", t, str(obj, "id"), p.state)
				}
				return effect.Poll{Done: p.ready && (a.Operating == "" || a.Operating == operating), Seen: "it is " + p.state + " and " + operating}, nil
			})
		},
	})
}
