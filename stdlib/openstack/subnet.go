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
		name: "subnet", plural: "subnets", path: "/subnets", tagged: tagsByCall,
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
			{builtin.Attr{Name: "ipv6_ra_mode", Type: "str", Doc: "How IPv6 routers are announced: slaac, dhcpv6-stateful or dhcpv6-stateless; empty if Neutron doesn't."},
				func(o client.Object) any { return str(o, "ipv6_ra_mode") }},
			{builtin.Attr{Name: "ipv6_address_mode", Type: "str", Doc: "How hosts get IPv6 addresses: slaac, dhcpv6-stateful or dhcpv6-stateless; empty if not by Neutron."},
				func(o client.Object) any { return str(o, "ipv6_address_mode") }},
			{builtin.Attr{Name: "service_types", Type: "list[str]", Doc: "The owners of ports that it is for, sorted; empty for all."},
				func(o client.Object) any { return sortedList(o, "service_types") }},
			{builtin.Attr{Name: "pool", Type: "str", Doc: "Id of the subnet pool that its range is from; empty if from none."},
				func(o client.Object) any { return str(o, "subnetpool_id") }},
			{builtin.Attr{Name: "prefix_length", Type: "int", Doc: "How many bits of an address are the range's."}, prefixLength},
			tagsAttr(), markAttr(),
		},
		ports:  func(id string) url.Values { return url.Values{"fixed_ips": {"subnet_id=" + id}} },
		rivals: overlapping,
	}
}

func prefixLength(o client.Object) any {
	p, err := netip.ParsePrefix(str(o, "cidr"))
	if err != nil {
		return int64(0)
	}
	return int64(p.Bits())
}

// overlapping names the subnets of the network whose ranges overlap that of a
// new one.
func overlapping(ctx context.Context, cl *client.Client, body client.Object) ([]string, error) {
	want, err := netip.ParsePrefix(str(body, "cidr"))
	if err != nil {
		return nil, nil
	}
	all, err := subnetNoun().list(ctx, cl, url.Values{"network_id": {str(body, "network_id")}})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, o := range all {
		if p, err := netip.ParsePrefix(str(o, "cidr")); err == nil && p.Overlaps(want) {
			out = append(out, "subnet "+str(o, "name")+" ("+str(o, "id")+"), which has "+p.String())
		}
	}
	return out, nil
}

// subnetPoolNoun is what pools are found by; recipes don't manage them.
func subnetPoolNoun() *noun {
	return &noun{name: "subnet_pool", key: "subnetpool", plural: "subnetpools", path: "/subnetpools"}
}

func poolsOf(o client.Object) any {
	out := []any{}
	for _, p := range objects(o, "allocation_pools") {
		out = append(out, str(p, "start")+"-"+str(p, "end"))
	}
	return sorted(out)
}

func routesOf(o client.Object) any { return routesAt(o, "host_routes") }

// routesAt returns a field that is a list of routes: next hop by destination.
func routesAt(o client.Object, key string) any {
	out := map[string]any{}
	for _, r := range objects(o, key) {
		out[canonicalAddress(str(r, "destination"))] = canonicalAddress(str(r, "nexthop"))
	}
	return out
}

// routeList returns routes as an attribute, and as the API takes them.
func routeList(routes map[string]effect.Text) (want map[string]any, send []any) {
	want, send = map[string]any{}, []any{}
	for _, to := range slices.Sorted(maps.Keys(routes)) {
		via := revealed(routes[to])
		if text, ok := via.(string); ok {
			via = canonicalAddress(text)
		}
		to = canonicalAddress(to)
		want[to] = via
		send = append(send, client.Object{"destination": to, "nexthop": via})
	}
	return want, send
}

type subnetArgs struct {
	Name    string                 `star:"name,required" doc:"The name."`
	Network effect.Reference       `star:"network,required" of:"openstack.network" doc:"The network that it is part of; a name works too. Can't be changed."`
	CIDR    effect.Text            `star:"cidr" doc:"Address range, such as 10.20.0.0/24. Can't be changed. Default: one of pool."`
	Pool    effect.Reference       `star:"pool" doc:"The subnet pool to take the range from, by name or id. Can't be changed."`
	Length  *int                   `star:"prefix_length" doc:"How large a range of the pool: the bits that are its own. Default: the pool's. Can't be changed."`
	Gateway effect.Text            `star:"gateway_ip" doc:"Address of the gateway, or \"none\". Default: the first of the range, for IPv6 the range's own."`
	DHCP    *bool                  `star:"enable_dhcp" doc:"Whether addresses are given out by DHCP. Default: True."`
	DNS     []effect.Text          `star:"dns_nameservers" doc:"Addresses of name servers, in order."`
	Pools   []effect.Text          `star:"allocation_pools" doc:"Ranges to give out addresses from, such as 10.20.0.10-10.20.0.99. Default: the whole range."`
	Routes  map[string]effect.Text `star:"host_routes" doc:"Routes that hosts get: next hop by destination."`
	RAMode  effect.Text            `star:"ipv6_ra_mode" doc:"How IPv6 routers are announced: slaac, dhcpv6-stateful or dhcpv6-stateless. Can't be changed."`
	Address effect.Text            `star:"ipv6_address_mode" doc:"How hosts get IPv6 addresses: slaac, dhcpv6-stateful or dhcpv6-stateless. Can't be changed."`
	Types   []effect.Text          `star:"service_types" doc:"The owners of ports that it is for, such as network:floatingip; [] for all."`
	Tags    []effect.Text          `star:"tags" secret:"never" doc:"Its tags; [] removes them."`
	Adopt   effect.Data            `star:"adopt" doc:"True takes over the one of that name that lacks this recipe's mark; an id or \"tag:NAME\" the one that has it, whatever its name."`
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
		Errors: []fault.Kind{fault.Exists, fault.Invalid, fault.NotFound, fault.Quota},
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
	switch {
	case a.CIDR.Empty() && a.Pool.Empty():
		return fault.New(fault.Invalid, "give cidr, or a pool to take one from")
	case a.Length != nil && (a.Pool.Empty() || !a.CIDR.Empty()):
		return fault.New(fault.Invalid, "prefix_length is for a range of pool's choice: it goes with pool and without cidr")
	}
	if !a.CIDR.Known() || a.CIDR.Empty() {
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
	case a.Gateway.Known() && a.Gateway.Reveal() == none:
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
	fs = append(fs, textField("ipv6_ra_mode", "", a.RAMode, true)...)
	fs = append(fs, textField("ipv6_address_mode", "", a.Address, true)...)
	fs = append(fs, listField("service_types", "", a.Types, true)...)
	fs = append(fs, subnetNoun().tagsField(a.Tags)...)
	if a.Length != nil {
		fs = append(fs, field{attr: "prefix_length", key: "prefixlen", want: *a.Length, fixed: true})
	}
	version := int64(4)
	if a.CIDR.Known() && strings.Contains(a.CIDR.Reveal(), ":") {
		version = 6
	}
	if !a.Pool.Empty() {
		id, of, err := fromPool(ctx, c, cl, a.Pool)
		if err != nil {
			return nil, err
		}
		fs = append(fs, field{attr: "pool", key: "subnetpool_id", want: id, fixed: true})
		if a.CIDR.Empty() {
			version = of
		}
	}
	return append(fs, field{key: "ip_version", want: version}), nil
}

// fromPool returns the id of a subnet pool, and the version of its addresses.
func fromPool(ctx context.Context, c *Cloud, cl *client.Client, ref effect.Reference) (id any, version int64, err error) {
	if !ref.Known() {
		return ref.ID.Value(), 4, nil
	}
	t := c.target("subnet_pool", ref.ID.Reveal())
	v, err := effect.Read(ctx, effect.Query{Target: t, Scope: t.String()}, func(ctx context.Context) (client.Object, error) {
		return subnetPoolNoun().byName(ctx, cl, ref.ID.Reveal())
	})
	if err != nil {
		return nil, 0, err
	}
	pool, ok := v.(client.Object)
	if !ok {
		return v, 4, nil // unknown
	}
	version, _ = pool["ip_version"].(int64)
	return str(pool, "id"), version, nil
}
