package openstack

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// addressesOf returns a field that is a list of addresses with their subnets.
func addressesOf(o client.Object, key string) any {
	out := []any{}
	for _, ip := range objects(o, key) {
		out = append(out, map[string]any{"subnet": str(ip, "subnet_id"), "address": str(ip, "ip_address")})
	}
	return out
}

// withSubnets returns an argument that fixedIPs reads with the names of subnets
// looked up.
func withSubnets(ctx context.Context, c *Cloud, cl *client.Client, v any) (any, error) {
	items, ok := v.([]any)
	if !ok {
		return v, nil
	}
	out := slices.Clone(items)
	for i, it := range items {
		m, _ := it.(map[string]any)
		name, ok := m["subnet"].(string)
		if !ok {
			continue
		}
		id, err := subnetNoun().resolve(ctx, c, cl, effect.Reference{ID: effect.Plain(name)})
		if err != nil {
			return nil, err
		}
		m = maps.Clone(m)
		m["subnet"] = id
		out[i] = m
	}
	return out, nil
}

// fixedIPs reads an argument that is a list of addresses and subnets.
func fixedIPs(name string, v any) ([]field, error) {
	if v == nil {
		return nil, nil
	}
	if u, ok := v.(effect.Unknown); ok {
		return []field{{attr: name, want: u, after: map[string]any{"address": u}}}, nil
	}
	items, ok := v.([]any)
	if !ok {
		return nil, fault.New(fault.Invalid, "%s: got %s, want a list", name, show(v))
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
			if _, whole := it["id"]; !whole {
				if err := onlyKeys(it, "subnet", "address"); err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
			}
			subnet, address := it["subnet"], it["address"]
			if m, ok := subnet.(map[string]any); ok {
				subnet = m["id"]
			}
			if id, ok := it["id"]; ok && subnet == nil {
				subnet, address = id, nil // a subnet itself
			}
			if subnet == nil && address == nil {
				return nil, fault.New(fault.Invalid, "%s: %s has neither subnet nor address", name, show(it))
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
			return nil, fault.New(fault.Invalid, "%s: %s is no address, subnet or dict", name, show(it))
		}
		want, send = append(want, w), append(send, s)
	}
	all, after := want, addressesToCome(name, want)
	over := func(have map[string]any) any {
		if all = withAutomatic(want, have[name], have["mac"]); len(all) > len(want) {
			after[name] = effect.Unknown{} // Neutron chooses the order
		}
		return all
	}
	return []field{{attr: name, want: want, send: send, after: after, over: over, equal: func(have any) bool { return sameIPs(all, have) }}}, nil
}

// withAutomatic returns the wanted addresses with those that Neutron adds by
// itself, and keeps whatever a port is asked for: on a subnet with
// ipv6_address_mode slaac or dhcpv6-stateless the one that follows from the
// port's hardware address. One that the recipe names in some way isn't added.
func withAutomatic(want []any, have, mac any) []any {
	rest, _ := have.([]any)
	for _, h := range rest {
		h := h.(map[string]any)
		named := slices.ContainsFunc(want, func(w any) bool {
			m := w.(map[string]any)
			return m["address"] == h["address"] || m["subnet"] == h["subnet"]
		})
		if !named && isAutomatic(h["address"], mac) {
			want = append(slices.Clone(want), h)
		}
	}
	return want
}

// isAutomatic reports whether an address follows from a hardware address, as
// RFC 4291 has it in appendix A.
func isAutomatic(address, mac any) bool {
	a, _ := address.(string)
	m, _ := mac.(string)
	ip, err := netip.ParseAddr(a)
	hw, merr := net.ParseMAC(m)
	if err != nil || merr != nil || !ip.Is6() || len(hw) != 6 {
		return false
	}
	b := ip.As16()
	return bytes.Equal(b[8:], []byte{hw[0] ^ 2, hw[1], hw[2], 0xff, 0xfe, hw[3], hw[4], hw[5]})
}

// automaticToCome notes that Neutron may add addresses to those of a new port
// on that network.
func automaticToCome(ctx context.Context, cl *client.Client, fields []field) error {
	var network any
	for _, f := range fields {
		if f.attr == "network" {
			network = f.want
		}
		id, known := network.(string)
		if _, claimed := f.after["fixed_ips"].([]any); f.attr != "fixed_ips" || !claimed || !known {
			continue
		}
		subnets, err := subnetNoun().list(ctx, cl, url.Values{"network_id": {id}})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(subnets, func(s client.Object) bool {
			mode := str(s, "ipv6_address_mode")
			return mode == "slaac" || mode == "dhcpv6-stateless"
		}) {
			f.after["fixed_ips"] = effect.Unknown{}
		}
	}
	return nil
}

// addressesToCome returns what is known of addresses before Neutron
// has completed them.
func addressesToCome(name string, want []any) map[string]any {
	out := map[string]any{name: want, "address": ""}
	for i, w := range want {
		w := w.(map[string]any)
		if i == 0 {
			out["address"] = w["address"]
		}
		if w["address"] == nil || w["subnet"] == nil {
			out[name] = effect.Unknown{}
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
			if err := onlyKeys(it, "address", "mac"); err != nil {
				return nil, fmt.Errorf("allowed_address_pairs: %w", err)
			}
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
