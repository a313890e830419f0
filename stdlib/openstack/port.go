package openstack

import (
	"context"
	"net/url"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func portNoun() *noun {
	return &noun{
		name: "port", plural: "ports", path: "/ports", tagged: tagsByCall,
		attrs: []attr{
			idAttr(), nameAttr(),
			{builtin.Attr{Name: "network", Type: "str", Doc: "Id of its network."}, func(o client.Object) any { return o["network_id"] }},
			{builtin.Attr{Name: "address", Type: "str", Doc: "Its first fixed address, one that Neutron made of the hardware address only if there is no other; empty if it has none."}, func(o client.Object) any {
				first := ""
				for _, ip := range objects(o, "fixed_ips") {
					if address := str(ip, "ip_address"); !isAutomatic(address, o["mac_address"]) {
						return address
					} else if first == "" {
						first = address
					}
				}
				return first
			}},
			{builtin.Attr{Name: "fixed_ips", Type: "list[dict]", Doc: "Its addresses: {subnet, address}."}, func(o client.Object) any { return addressesOf(o, "fixed_ips") }},
			{builtin.Attr{Name: "mac", Type: "str", Doc: "Hardware address."}, func(o client.Object) any { return strings.ToLower(str(o, "mac_address")) }},
			{builtin.Attr{Name: "security_groups", Type: "list[str]", Doc: "Ids of its security groups, sorted."},
				func(o client.Object) any { return sorted(o["security_groups"]) }},
			{builtin.Attr{Name: "allowed_address_pairs", Type: "list[str]", Doc: "Further addresses or ranges that it may use, or address|mac; sorted."}, pairsOf},
			{builtin.Attr{Name: "port_security", Type: "bool", Doc: "Whether it is filtered."},
				func(o client.Object) any { return o["port_security_enabled"] }},
			adminStateAttr(),
			{builtin.Attr{Name: "vnic_type", Type: "str", Doc: "How it is plugged in: normal, direct or another."},
				func(o client.Object) any { return str(o, "binding:vnic_type") }},
			{Attr: builtin.Attr{Name: "device_id", Type: "str", Doc: "Id of the server or router that uses it; empty if none does."}},
			{Attr: builtin.Attr{Name: "device_owner", Type: "str", Doc: "What uses it, such as compute:az1; empty if nothing does."}},
			{builtin.Attr{Name: "dns_name", Type: "str", Doc: "Its name in the cloud's DNS; empty if it has none."},
				func(o client.Object) any { return str(o, "dns_name") }},
			{builtin.Attr{Name: "host", Type: "str", Doc: "The compute host that it is bound to; empty if to none, or for who isn't an administrator."},
				func(o client.Object) any { return str(o, "binding:host_id") }},
			{builtin.Attr{Name: "profile", Type: "dict", Doc: "What the host's agent is told of it; empty for who isn't an administrator."},
				func(o client.Object) any {
					if p, ok := o["binding:profile"].(client.Object); ok {
						return p
					}
					return map[string]any{}
				}},
			tagsAttr(), markAttr(),
		},
		ports: func(id string) url.Values { return url.Values{"id": {id}} },
		users: func(ctx context.Context, cl *client.Client, id string) ([]string, error) {
			p, err := portNoun().byID(ctx, cl, id)
			if err != nil || str(p, "device_id") == "" {
				return nil, err
			}
			return []string{str(p, "device_owner") + " " + str(p, "device_id")}, nil
		},
		rivals:  addressRivals,
		touches: floatingIPsLost,
	}
}

// addressRivals names the ports that have the addresses which a new one asks for.
func addressRivals(ctx context.Context, cl *client.Client, body client.Object) ([]string, error) {
	var out []string
	wanted, _ := body["fixed_ips"].([]any)
	for _, w := range wanted {
		ip := str(w.(client.Object), "ip_address")
		if ip == "" {
			continue
		}
		users, err := portUsers(ctx, cl, url.Values{"network_id": {str(body, "network_id")}, "fixed_ips": {"ip_address=" + ip}})
		if err != nil {
			return nil, err
		}
		out = append(out, users...)
	}
	return out, nil
}

// pairsOf writes allowed address pairs as text; the port's own hardware
// address, which Neutron fills in, is left out.
func pairsOf(o client.Object) any {
	out := []any{}
	for _, p := range objects(o, "allowed_address_pairs") {
		s := canonicalAddress(str(p, "ip_address"))
		if mac := strings.ToLower(str(p, "mac_address")); mac != "" && mac != strings.ToLower(str(o, "mac_address")) {
			s += "|" + mac
		}
		out = append(out, s)
	}
	return sorted(out)
}

type portArgs struct {
	Name           string             `star:"name,required" doc:"The name."`
	Network        effect.Reference   `star:"network,required" of:"openstack.network" doc:"The network that it is on; a name works too. Can't be changed."`
	FixedIPs       effect.Data        `star:"fixed_ips" doc:"Its addresses, a list of \"10.20.0.5\", of subnets, or of {\"subnet\": sub, \"address\": \"10.20.0.5\"} with one or both, where sub is a subnet or its name. Those that Neutron makes of the hardware address come by themselves. Default: one of the cloud's choice."`
	SecurityGroups []effect.Reference `star:"security_groups" of:"openstack.security_group" doc:"Its security groups, by name or id; [] for none. Default: the project's group \"default\"."`
	Pairs          effect.Data        `star:"allowed_address_pairs" doc:"Further addresses or ranges that it may use: a list of \"10.20.0.100\" or {\"address\": ..., \"mac\": ...}."`
	PortSecurity   *bool              `star:"port_security" doc:"Whether it is filtered; False needs security_groups = []."`
	AdminState     *bool              `star:"admin_state_up" doc:"Whether it carries anything. Default: True."`
	VNICType       effect.Text        `star:"vnic_type" doc:"How it is plugged in: normal, direct, macvtap or another. Default: normal. It can't be changed while a server uses the port."`
	DeviceID       effect.Text        `star:"device_id" doc:"Id of what uses it, where that isn't a server or router of this module; \"none\" for nothing."`
	DeviceOwner    effect.Text        `star:"device_owner" doc:"What uses it, for others to see; \"none\" for nothing."`
	DNSName        effect.Text        `star:"dns_name" doc:"Its name in the cloud's DNS; \"none\" for none."`
	Host           effect.Text        `star:"host" doc:"The compute host to bind it to, \"none\" for none; for administrators."`
	Profile        effect.Data        `star:"profile" doc:"What the host's agent is told of it, a dict; for administrators."`
	MAC            effect.Text        `star:"mac" doc:"Hardware address. Default: one of the cloud's choice. Can't be changed."`
	Tags           []effect.Text      `star:"tags" secret:"never" doc:"Its tags; [] removes them."`
	Adopt          effect.Data        `star:"adopt" doc:"True takes over the one of that name that lacks this recipe's mark; an id or \"tag:NAME\" the one that has it, whatever its name."`
	Replace        bool               `star:"replace" doc:"Where what can't be changed differs, delete the port and make it anew."`
}

func portVerbs() builtin.Noun {
	n := portNoun()
	return n.verbs("A connection to a network, for a server to use: it has the addresses and outlives the server.", "seed", builtin.Of(builtin.Spec[*Cloud, portArgs]{
		Name:    "ensure",
		Doc:     "Make a port be there with the given addresses, security groups and allowed address pairs. What isn't given isn't compared.",
		Returns: "openstack.port",
		Example: "net = cloud.network.ensure(\"mgmt\")\n" +
			"sub = cloud.subnet.ensure(\"mgmt\", network = net, cidr = \"10.20.0.0/24\")\n" +
			`port = cloud.port.ensure("seed", network = net, fixed_ips = [{"subnet": sub, "address": "10.20.0.10"}])`,
		Effect: builtin.Changes,
		Errors: []fault.Kind{fault.Exists, fault.Invalid, fault.NotFound, fault.Conflict, fault.Quota},
		Run: func(ctx context.Context, c *Cloud, a portArgs) (any, error) {
			op, err := newEnsure(ctx, c, n, a.Name, a.Adopt, a.Replace)
			if err != nil {
				return nil, err
			}
			if a.Network.Empty() {
				return nil, fault.New(fault.Invalid, "%s: the network's id is empty", op.Target())
			}
			op.wanted = func(ctx context.Context, cl *client.Client) ([]field, error) { return a.fields(ctx, c, cl) }
			op.absent = func(ctx context.Context, cl *client.Client) ([]client.Object, error) {
				return nil, automaticToCome(ctx, cl, op.fields)
			}
			return c.do(ctx, op)
		},
	}))
}

func (a portArgs) fields(ctx context.Context, c *Cloud, cl *client.Client) ([]field, error) {
	network, err := networkNoun().resolve(ctx, c, cl, a.Network)
	if err != nil {
		return nil, err
	}
	fs := []field{{attr: "network", key: "network_id", want: network, fixed: true}}
	named, err := withSubnets(ctx, c, cl, a.FixedIPs.V)
	if err != nil {
		return nil, err
	}
	fixed, err := fixedIPs("fixed_ips", named)
	if err != nil {
		return nil, err
	}
	fs = append(fs, fixed...)
	groups, err := securityGroupNoun().resolveAll(ctx, c, cl, a.SecurityGroups)
	if err != nil {
		return nil, err
	}
	if groups != nil {
		fs = append(fs, field{attr: "security_groups", want: groups, set: true})
	}
	pairs, err := addressPairs(a.Pairs.V)
	if err != nil {
		return nil, err
	}
	fs = append(fs, pairs...)
	fs = append(fs, boolField("port_security", "port_security_enabled", a.PortSecurity)...)
	fs = append(fs, boolField("admin_state_up", "", a.AdminState)...)
	fs = append(fs, textField("vnic_type", "binding:vnic_type", a.VNICType, false)...)
	fs = append(fs, emptiable(textField("device_id", "", a.DeviceID, false), "")...)
	fs = append(fs, emptiable(textField("device_owner", "", a.DeviceOwner, false), "")...)
	fs = append(fs, emptiable(textField("dns_name", "", a.DNSName, false), "")...)
	fs = append(fs, emptiable(textField("host", "binding:host_id", a.Host, false), "")...)
	if a.Profile.V != nil {
		if _, ok := a.Profile.V.(map[string]any); !ok && known(a.Profile.V) {
			return nil, fault.New(fault.Invalid, "profile: got %s, want a dict", show(a.Profile.V))
		}
		fs = append(fs, field{attr: "profile", key: "binding:profile", want: a.Profile.V})
	}
	fs = append(fs, portNoun().tagsField(a.Tags)...)
	mac := a.MAC
	if mac.Known() && !mac.IsSecret() && !mac.Empty() {
		mac = effect.Plain(strings.ToLower(mac.Reveal()))
	}
	return append(fs, textField("mac", "mac_address", mac, true)...), nil
}
