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
		name: "port", plural: "ports", path: "/ports",
		attrs: []attr{
			idAttr(), nameAttr(),
			{builtin.Attr{Name: "network", Type: "str", Doc: "Id of its network."}, func(o client.Object) any { return o["network_id"] }},
			{builtin.Attr{Name: "address", Type: "str", Doc: "Its first fixed address; empty if it has none."}, func(o client.Object) any {
				for _, ip := range objects(o, "fixed_ips") {
					return str(ip, "ip_address")
				}
				return ""
			}},
			{builtin.Attr{Name: "fixed_ips", Type: "list[dict]", Doc: "Its addresses: {subnet, address}."}, func(o client.Object) any {
				out := []any{}
				for _, ip := range objects(o, "fixed_ips") {
					out = append(out, map[string]any{"subnet": str(ip, "subnet_id"), "address": str(ip, "ip_address")})
				}
				return out
			}},
			{builtin.Attr{Name: "mac", Type: "str", Doc: "Hardware address."}, func(o client.Object) any { return o["mac_address"] }},
			{builtin.Attr{Name: "security_groups", Type: "list[str]", Doc: "Ids of its security groups, sorted."},
				func(o client.Object) any { return sorted(o["security_groups"]) }},
			{builtin.Attr{Name: "allowed_address_pairs", Type: "list[str]", Doc: "Further addresses or ranges that it may use, or address|mac; sorted."}, pairsOf},
			{builtin.Attr{Name: "port_security", Type: "bool", Doc: "Whether it is filtered."},
				func(o client.Object) any { return o["port_security_enabled"] }},
			markAttr(),
		},
		users: func(ctx context.Context, cl *client.Client, id string) ([]string, error) {
			p, err := portNoun().byID(ctx, cl, id)
			if err != nil || str(p, "device_id") == "" {
				return nil, err
			}
			return []string{str(p, "device_owner") + " " + str(p, "device_id")}, nil
		},
		rivals: addressRivals,
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
	Network        effect.Reference   `star:"network,required" doc:"The network that it is on; a name works too. Can't be changed."`
	FixedIPs       effect.Data        `star:"fixed_ips" doc:"Its addresses, a list of \"10.20.0.5\", of subnets, or of {\"subnet\": sub, \"address\": \"10.20.0.5\"} with one or both. Default: one of the cloud's choice."`
	SecurityGroups []effect.Reference `star:"security_groups" doc:"Its security groups, by name or id; [] for none. Default: the project's group \"default\"."`
	Pairs          effect.Data        `star:"allowed_address_pairs" doc:"Further addresses or ranges that it may use: a list of \"10.20.0.100\" or {\"address\": ..., \"mac\": ...}."`
	PortSecurity   *bool              `star:"port_security" doc:"Whether it is filtered; False needs security_groups = []."`
	MAC            effect.Text        `star:"mac" doc:"Hardware address. Default: one of the cloud's choice. Can't be changed."`
	Adopt          bool               `star:"adopt" doc:"Take over a port of that name that lacks this recipe's mark."`
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
		Errors: []fault.Kind{fault.Exists, fault.Invalid, fault.Conflict, fault.Quota},
		Run: func(ctx context.Context, c *Cloud, a portArgs) (any, error) {
			op, err := newEnsure(ctx, c, n, a.Name, a.Adopt, a.Replace)
			if err != nil {
				return nil, err
			}
			if a.Network.Empty() {
				return nil, fault.New(fault.Invalid, "%s: the network's id is empty", op.Target())
			}
			op.wanted = func(ctx context.Context, cl *client.Client) ([]field, error) { return a.fields(ctx, c, cl) }
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
	fixed, err := fixedIPs(a.FixedIPs.V)
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
	mac := a.MAC
	if mac.Known() && !mac.IsSecret() && !mac.Empty() {
		mac = effect.Plain(strings.ToLower(mac.Reveal()))
	}
	return append(fs, textField("mac", "mac_address", mac, true)...), nil
}

// fixedIPs reads the argument fixed_ips.
func fixedIPs(v any) ([]field, error) {
	if v == nil {
		return nil, nil
	}
	if u, ok := v.(effect.Unknown); ok {
		return []field{{attr: "fixed_ips", want: u, after: map[string]any{"address": u}}}, nil
	}
	items, ok := v.([]any)
	if !ok {
		return nil, fault.New(fault.Invalid, "fixed_ips: got %s, want a list", show(v))
	}
	want, send := []any{}, []any{}
	for _, it := range items {
		w, s := map[string]any{}, client.Object{}
		switch it := it.(type) {
		case string:
			w["address"], s["ip_address"] = canonicalAddress(it), it
		case effect.Unknown:
			w["address"], s["ip_address"] = it, it
		case map[string]any:
			subnet, address := it["subnet"], it["address"]
			if m, ok := subnet.(map[string]any); ok {
				subnet = m["id"]
			}
			if id, ok := it["id"]; ok && subnet == nil {
				subnet, address = id, nil // a subnet itself
			}
			if subnet == nil && address == nil {
				return nil, fault.New(fault.Invalid, "fixed_ips: %s has neither subnet nor address", show(it))
			}
			if subnet != nil {
				w["subnet"], s["subnet_id"] = subnet, subnet
			}
			if text, ok := address.(string); ok {
				address = canonicalAddress(text)
			}
			if address != nil {
				w["address"], s["ip_address"] = address, address
			}
		default:
			return nil, fault.New(fault.Invalid, "fixed_ips: %s is no address, subnet or dict", show(it))
		}
		want, send = append(want, w), append(send, s)
	}
	return []field{{attr: "fixed_ips", want: want, send: send, after: addressesToCome(want), equal: func(have any) bool { return sameIPs(want, have) }}}, nil
}

// addressesToCome returns what is known of a port's addresses before Neutron
// has completed them.
func addressesToCome(want []any) map[string]any {
	out := map[string]any{"fixed_ips": want, "address": ""}
	for i, w := range want {
		w := w.(map[string]any)
		if i == 0 {
			out["address"] = w["address"]
		}
		if w["address"] == nil || w["subnet"] == nil {
			out["fixed_ips"] = effect.Unknown{}
		}
	}
	if out["address"] == nil || len(want) > 1 {
		out["address"] = effect.Unknown{} // of several, Neutron chooses the order
	}
	return out
}

// sameIPs reports whether each wanted address is had, and none besides. One
// that is wanted only by its subnet is satisfied by any address of it.
func sameIPs(want []any, have any) bool {
	rest, _ := have.([]any)
	if len(rest) != len(want) {
		return false
	}
	used := make([]bool, len(rest))
	// What is wanted exactly chooses before what takes anything of a subnet.
	for _, exact := range []bool{true, false} {
		for _, w := range want {
			w := w.(map[string]any)
			if (w["address"] != nil) != exact {
				continue
			}
			found := false
			for i, h := range rest {
				h, _ := h.(map[string]any)
				if !used[i] && (w["address"] == nil || w["address"] == h["address"]) && (w["subnet"] == nil || w["subnet"] == h["subnet"]) {
					used[i], found = true, true
					break
				}
			}
			if !found {
				return false
			}
		}
	}
	return true
}

// addressPairs reads the argument allowed_address_pairs.
func addressPairs(v any) ([]field, error) {
	if v == nil {
		return nil, nil
	}
	if u, ok := v.(effect.Unknown); ok {
		return []field{{attr: "allowed_address_pairs", want: u}}, nil
	}
	items, ok := v.([]any)
	if !ok {
		return nil, fault.New(fault.Invalid, "allowed_address_pairs: got %s, want a list", show(v))
	}
	want, send := []any{}, []any{}
	for _, it := range items {
		switch it := it.(type) {
		case string:
			want, send = append(want, canonicalAddress(it)), append(send, client.Object{"ip_address": it})
		case effect.Unknown:
			want, send = append(want, it), append(send, client.Object{"ip_address": it})
		case map[string]any:
			address, mac := it["address"], it["mac"]
			if address == nil {
				return nil, fault.New(fault.Invalid, "allowed_address_pairs: %s has no address", show(it))
			}
			s := client.Object{"ip_address": address}
			w := address
			if m, ok := mac.(string); ok {
				s["mac_address"] = m
				if text, ok := address.(string); ok {
					w = canonicalAddress(text) + "|" + strings.ToLower(m)
				}
			}
			want, send = append(want, w), append(send, s)
		default:
			return nil, fault.New(fault.Invalid, "allowed_address_pairs: %s is no address or dict", show(it))
		}
	}
	return []field{{attr: "allowed_address_pairs", want: want, send: send, set: true}}, nil
}
