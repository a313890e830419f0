package openstack

import (
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
	return []field{{attr: name, want: want, send: send, after: addressesToCome(name, want), equal: func(have any) bool { return sameIPs(want, have) }}}, nil
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
