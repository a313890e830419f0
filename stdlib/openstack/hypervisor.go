package openstack

import (
	"context"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func hypervisorAttrs() []builtin.Attr {
	return []builtin.Attr{
		{Name: "id", Type: "str", Doc: "The id."},
		{Name: "name", Type: "str", Doc: "The host's name."},
		{Name: "up", Type: "bool", Doc: "Whether it answers, and takes servers."},
		{Name: "vcpus", Type: "int", Doc: "Processors that it has."},
		{Name: "vcpus_used", Type: "int", Doc: "Virtual processors of its servers; more than vcpus where the cloud overcommits."},
		{Name: "ram", Type: "int", Doc: "Memory in MiB."},
		{Name: "ram_used", Type: "int", Doc: "Memory of its servers and what is kept for the host, in MiB."},
		{Name: "disk", Type: "int", Doc: "Local disk in GiB."},
		{Name: "disk_used", Type: "int", Doc: "Local disk of its servers in GiB."},
		{Name: "servers", Type: "int", Doc: "How many servers are on it."},
	}
}

func hypervisorData(o client.Object) map[string]any {
	return map[string]any{"id": o["id"], "name": o["hypervisor_hostname"], "up": str(o, "state") == "up" && str(o, "status") == "enabled",
		"vcpus": number(o, "vcpus"), "vcpus_used": number(o, "vcpus_used"), "ram": number(o, "memory_mb"), "ram_used": number(o, "memory_mb_used"),
		"disk": number(o, "local_gb"), "disk_used": number(o, "local_gb_used"), "servers": number(o, "running_vms")}
}

func listHypervisors(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
	all, err := cl.List(ctx, client.Call{Service: client.Compute, Version: client.HypervisorVersion, Path: "/os-hypervisors/detail"}, "hypervisors")
	var out []map[string]any
	for _, o := range all {
		out = append(out, hypervisorData(o))
	}
	slices.SortFunc(out, func(a, b map[string]any) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
	return out, err
}

type hypervisorArgs struct{}

func hypervisorVerbs() builtin.Noun {
	return builtin.Noun{
		Name: "hypervisor", Doc: "A host that servers run on. Only administrators see them.", Identity: builtin.NaturalKey, Attrs: hypervisorAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Cloud, hypervisorArgs]{
				Name:    "list",
				Doc:     "Return the hypervisors, sorted by name.",
				Returns: "list[openstack.hypervisor]",
				Example: `down = [h.name for h in openstack.connect("admin").hypervisor.list() if not h.up]`,
				Effect:  builtin.Reads,
				Errors:  []fault.Kind{fault.Denied},
				Run: func(ctx context.Context, c *Cloud, _ hypervisorArgs) (any, error) {
					return readList(ctx, c, "hypervisor", listHypervisors)
				},
			}),
			builtin.Of(builtin.Spec[*Cloud, hypervisorArgs]{
				Name: "statistics",
				Doc: "Return what all hypervisors that are up have and use: `count` and `servers`, and for vcpus, ram (MiB) and disk (GiB) a dict of `used`, `total` and `free`, " +
					"which is negative where the cloud has given away more than it has.",
				Returns: "dict",
				Example: `free = openstack.connect("admin").hypervisor.statistics()["ram"]["free"]`,
				Effect:  builtin.Reads,
				Errors:  []fault.Kind{fault.Denied},
				Run: func(ctx context.Context, c *Cloud, _ hypervisorArgs) (any, error) {
					t := c.target("hypervisor", "")
					return effect.Read(ctx, effect.Query{Target: t, Scope: c.scope()}, func(ctx context.Context) (map[string]any, error) {
						cl, err := c.client(ctx)
						if err != nil {
							return nil, err
						}
						all, err := listHypervisors(ctx, cl)
						return capacity(all), err
					})
				},
			}),
		},
	}
}

// capacity sums up what the hypervisors that are up have and use.
func capacity(all []map[string]any) map[string]any {
	var count, servers int64
	sums := map[string][2]int64{}
	for _, h := range all {
		if h["up"] != true {
			continue
		}
		count++
		servers += h["servers"].(int64)
		for _, k := range []string{"vcpus", "ram", "disk"} {
			s := sums[k]
			sums[k] = [2]int64{s[0] + h[k+"_used"].(int64), s[1] + h[k].(int64)}
		}
	}
	out := map[string]any{"count": count, "servers": servers}
	for _, k := range []string{"vcpus", "ram", "disk"} {
		s := sums[k]
		out[k] = map[string]any{"used": s[0], "total": s[1], "free": s[1] - s[0]}
	}
	return out
}
