package openstack

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func subnetNoun() *noun {
	return &noun{
		name: "subnet", plural: "subnets", path: "/subnets",
		attrs: []attr{
			idAttr(), nameAttr(),
			{builtin.Attr{Name: "network", Type: "str", Doc: "Id of its network."}, func(o client.Object) any { return o["network_id"] }},
			{Attr: builtin.Attr{Name: "cidr", Type: "str", Doc: "Address range."}},
			{builtin.Attr{Name: "gateway_ip", Type: "str", Doc: "Address of the gateway; empty if it has none."},
				func(o client.Object) any { return str(o, "gateway_ip") }},
			{Attr: builtin.Attr{Name: "enable_dhcp", Type: "bool", Doc: "Whether addresses are given out by DHCP."}},
			{Attr: builtin.Attr{Name: "dns_nameservers", Type: "list[str]", Doc: "Addresses of name servers, in order."}},
			{builtin.Attr{Name: "allocation_pools", Type: "list[str]", Doc: "Ranges that addresses are given out from, as first-last, sorted."}, poolsOf},
			{builtin.Attr{Name: "host_routes", Type: "dict[str, str]", Doc: "Routes that hosts get: next hop by destination."}, routesOf},
			markAttr(),
		},
		users: func(ctx context.Context, cl *client.Client, id string) ([]string, error) {
			return portUsers(ctx, cl, url.Values{"fixed_ips": {"subnet_id=" + id}})
		},
	}
}

func poolsOf(o client.Object) any {
	out := []any{}
	for _, p := range objects(o, "allocation_pools") {
		out = append(out, str(p, "start")+"-"+str(p, "end"))
	}
	return sorted(out)
}

func routesOf(o client.Object) any {
	out := map[string]any{}
	for _, r := range objects(o, "host_routes") {
		out[str(r, "destination")] = str(r, "nexthop")
	}
	return out
}

// routeList returns routes as an attribute, and as the API takes them.
func routeList(routes map[string]effect.Text) (want map[string]any, send []any) {
	want, send = map[string]any{}, []any{}
	for _, to := range slices.Sorted(maps.Keys(routes)) {
		via := revealed(routes[to])
		want[to] = via
		send = append(send, client.Object{"destination": to, "nexthop": via})
	}
	return want, send
}

type subnetArgs struct {
	Name    string                 `star:"name,required" doc:"The name."`
	Network effect.Reference       `star:"network,required" doc:"The network that it is part of; a name works too. Can't be changed."`
	CIDR    effect.Text            `star:"cidr,required" doc:"Address range, such as 10.20.0.0/24. Can't be changed."`
	Gateway effect.Text            `star:"gateway_ip" doc:"Address of the gateway, or \"none\". Default: the first of the range."`
	DHCP    *bool                  `star:"enable_dhcp" doc:"Whether addresses are given out by DHCP. Default: True."`
	DNS     []effect.Text          `star:"dns_nameservers" doc:"Addresses of name servers, in order."`
	Pools   []effect.Text          `star:"allocation_pools" doc:"Ranges to give out addresses from, such as 10.20.0.10-10.20.0.99. Default: the whole range."`
	Routes  map[string]effect.Text `star:"host_routes" doc:"Routes that hosts get: next hop by destination."`
	Adopt   bool                   `star:"adopt" doc:"Take over a subnet of that name that lacks this recipe's mark."`
	Replace bool                   `star:"replace" doc:"Where what can't be changed differs, delete the subnet and make it anew."`
}

func subnetVerbs() builtin.Noun {
	n := subnetNoun()
	return n.verbs("An address range of a network.", "mgmt", builtin.Of(builtin.Spec[*Cloud, subnetArgs]{
		Name:    "ensure",
		Doc:     "Make a subnet be there with the given settings. What isn't given isn't compared.",
		Returns: "openstack.subnet",
		Example: "net = cloud.network.ensure(\"mgmt\")\n" +
			`sub = cloud.subnet.ensure("mgmt", network = net, cidr = "10.20.0.0/24", dns_nameservers = ["10.20.0.2"])`,
		Effect: builtin.Changes,
		Errors: []fault.Kind{fault.Exists, fault.Invalid, fault.Quota},
		Run: func(ctx context.Context, c *Cloud, a subnetArgs) (any, error) {
			op, err := newEnsure(ctx, c, n, a.Name, a.Adopt, a.Replace)
			if err != nil {
				return nil, err
			}
			if err := a.check(); err != nil {
				return nil, fault.Wrap("", c.target(n.name, a.Name).String(), err)
			}
			op.wanted = func(ctx context.Context, cl *client.Client) ([]field, error) { return a.fields(ctx, c, cl) }
			return c.do(ctx, op)
		},
	}))
}

// check refuses what can be known to be wrong without asking.
func (a subnetArgs) check() error {
	if a.Network.Empty() {
		return fault.New(fault.Invalid, "the network's id is empty")
	}
	if !a.CIDR.Known() {
		return nil
	}
	p, err := netip.ParsePrefix(a.CIDR.Reveal())
	if err != nil {
		return fault.New(fault.Invalid, "cidr: %q is no address range such as 10.20.0.0/24", a.CIDR)
	}
	if p.Masked() != p {
		return fault.Hinted(fault.Invalid, fmt.Sprintf("write %s", p.Masked()), "cidr: %s has bits set beyond its prefix", p)
	}
	return nil
}

func (a subnetArgs) fields(ctx context.Context, c *Cloud, cl *client.Client) ([]field, error) {
	network, err := networkNoun().resolve(ctx, c, cl, a.Network)
	if err != nil {
		return nil, err
	}
	fs := []field{{attr: "network", key: "network_id", want: network, fixed: true}}
	fs = append(fs, addressField("cidr", "", a.CIDR, true)...)
	switch {
	case a.Gateway.Empty():
	case a.Gateway.Known() && a.Gateway.Reveal() == "none":
		fs = append(fs, field{attr: "gateway_ip", want: "", send: null{}})
	default:
		fs = append(fs, addressField("gateway_ip", "", a.Gateway, false)...)
	}
	fs = append(fs, boolField("enable_dhcp", "", a.DHCP)...)
	dns := listField("dns_nameservers", "", a.DNS, false)
	for _, f := range dns {
		canonicalAddresses(f.want.([]any))
	}
	fs = append(fs, dns...)
	if pools := listField("allocation_pools", "", a.Pools, true); pools != nil {
		var send []any
		for i, x := range pools[0].want.([]any) {
			s, _ := x.(string)
			first, last, ok := strings.Cut(s, "-")
			if !ok && known(x) {
				return nil, fault.New(fault.Invalid, "allocation_pools: %q is no range such as 10.20.0.10-10.20.0.99", s)
			}
			if ok {
				first, last = canonicalAddress(strings.TrimSpace(first)), canonicalAddress(strings.TrimSpace(last))
				pools[0].want.([]any)[i] = first + "-" + last
			}
			send = append(send, client.Object{"start": first, "end": last})
		}
		pools[0].send = send
		fs = append(fs, pools...)
	}
	if a.Routes != nil {
		want, send := routeList(a.Routes)
		fs = append(fs, field{attr: "host_routes", want: want, send: send})
	}
	version := 4
	if a.CIDR.Known() && strings.Contains(a.CIDR.Reveal(), ":") {
		version = 6
	}
	return append(fs, field{key: "ip_version", want: version}), nil
}
