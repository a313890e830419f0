package openstack

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A partKey is a key of a dict that describes a part of a load balancer.
type partKey struct {
	name, api string // api is "" where the API calls it alike
	kind      string // text, int, number, bool, set, list or dict
	fixed     bool   // it can't be changed
	words     []string
}

func (k partKey) key() string {
	if k.api != "" {
		return k.api
	}
	return k.name
}

var (
	listenerProtocols = []string{"TCP", "HTTP", "HTTPS", "TERMINATED_HTTPS", "UDP", "SCTP", "PROMETHEUS"}
	listenerKeys      = []partKey{
		{name: "name", kind: "text"},
		{name: "protocol", kind: "text", fixed: true, words: listenerProtocols},
		{name: "port", api: "protocol_port", kind: "int", fixed: true},
		{name: "enabled", api: "admin_state_up", kind: "bool"},
		{name: "connection_limit", kind: "int"},
		{name: "timeout_client_data", kind: "int"}, {name: "timeout_member_connect", kind: "int"},
		{name: "timeout_member_data", kind: "int"}, {name: "timeout_tcp_inspect", kind: "int"},
		{name: "allowed_cidrs", kind: "set"},
		{name: "insert_headers", kind: "dict"},
		{name: "default_tls_container_ref", kind: "text"}, {name: "sni_container_refs", kind: "set"},
		{name: "client_ca_tls_container_ref", kind: "text"}, {name: "client_crl_container_ref", kind: "text"},
		{name: "client_authentication", kind: "text", words: []string{"NONE", "OPTIONAL", "MANDATORY"}},
		{name: "tls_ciphers", kind: "text"}, {name: "tls_versions", kind: "set"}, {name: "alpn_protocols", kind: "set"},
		{name: "tags", kind: "set"},
	}
	poolKeys = []partKey{
		{name: "name", kind: "text"},
		{name: "protocol", kind: "text", fixed: true, words: []string{"TCP", "HTTP", "HTTPS", "PROXY", "PROXYV2", "UDP", "SCTP"}},
		{name: "algorithm", api: "lb_algorithm", kind: "text", words: []string{"ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"}},
		{name: "session_persistence", kind: "dict"},
		{name: "enabled", api: "admin_state_up", kind: "bool"},
		{name: "tls_enabled", kind: "bool"},
		{name: "tls_container_ref", kind: "text"}, {name: "ca_tls_container_ref", kind: "text"}, {name: "crl_container_ref", kind: "text"},
		{name: "tls_ciphers", kind: "text"}, {name: "tls_versions", kind: "set"}, {name: "alpn_protocols", kind: "set"},
		{name: "tags", kind: "set"},
	}
	memberKeys = []partKey{
		{name: "address", kind: "text", fixed: true},
		{name: "port", api: "protocol_port", kind: "int", fixed: true},
		{name: "subnet", api: "subnet_id", kind: "text", fixed: true},
		{name: "weight", kind: "int"}, {name: "backup", kind: "bool"},
		{name: "monitor_address", kind: "text"}, {name: "monitor_port", kind: "int"},
		{name: "enabled", api: "admin_state_up", kind: "bool"},
		{name: "tags", kind: "set"},
	}
	monitorKeys = []partKey{
		{name: "type", kind: "text", fixed: true, words: []string{"HTTP", "HTTPS", "PING", "TCP", "TLS-HELLO", "UDP-CONNECT", "SCTP"}},
		{name: "delay", kind: "int"}, {name: "timeout", kind: "int"},
		{name: "max_retries", kind: "int"}, {name: "max_retries_down", kind: "int"},
		{name: "http_method", kind: "text"}, {name: "url_path", kind: "text"}, {name: "expected_codes", kind: "text"},
		{name: "http_version", kind: "number"}, {name: "domain_name", kind: "text"},
		{name: "enabled", api: "admin_state_up", kind: "bool"},
		{name: "tags", kind: "set"},
	}
)

// A partWant is one part as a recipe wants it.
type partWant struct {
	keys   []partKey
	fields []field
}

func (w *partWant) get(name string) any {
	for _, f := range w.fields {
		if f.attr == name {
			return f.want
		}
	}
	return nil
}

// set gives a key a value, if the recipe gave none.
func (w *partWant) set(name string, v any) {
	if w.get(name) == nil {
		w.put(name, v)
	}
}

func (w *partWant) put(name string, v any) {
	i := slices.IndexFunc(w.keys, func(k partKey) bool { return k.name == name })
	k := w.keys[i]
	w.fields = slices.DeleteFunc(w.fields, func(f field) bool { return f.attr == name })
	if l, ok := v.([]any); ok && k.kind == "set" {
		v = distinct(l)
	}
	w.fields = append(w.fields, field{attr: name, key: k.key(), want: v, fixed: k.fixed, set: k.kind == "set"})
}

// data returns the part as plans show it.
func (w *partWant) data() map[string]any {
	out := make(map[string]any, len(w.fields))
	for _, f := range w.fields {
		out[f.attr] = f.want
	}
	return out
}

// body returns the part as a create takes it.
func (w *partWant) body(more client.Object) client.Object {
	b := client.Object{}
	for _, f := range w.fields {
		f.put(b)
	}
	for k, v := range more {
		b[k] = v
	}
	return b
}

// have reads a part that is there by the keys of w.
func (w *partWant) have(obj client.Object) map[string]any {
	out := make(map[string]any, len(w.keys))
	for _, k := range w.keys {
		v := obj[k.key()]
		switch k.kind {
		case "set":
			if v == nil {
				v = []any{}
			}
		case "dict":
			m, _ := v.(client.Object)
			kept := map[string]any{}
			for name, x := range m {
				if x != nil {
					kept[name] = x
				}
			}
			v = kept
		case "text":
			v = str(obj, k.key())
		}
		out[k.name] = v
	}
	return out
}

// parsePart reads a dict; more are the keys that the caller reads.
func parsePart(v any, keys []partKey, more ...string) (*partWant, map[string]any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, nil, fault.New(fault.Invalid, "%s is no dict", show(v))
	}
	known := slices.Clone(more)
	for _, k := range keys {
		known = append(known, k.name)
	}
	if err := onlyKeys(m, known...); err != nil {
		return nil, nil, err
	}
	w := &partWant{keys: keys}
	for _, k := range keys {
		v, given := m[k.name]
		if !given || v == nil {
			continue
		}
		if err := k.check(v); err != nil {
			return nil, nil, err
		}
		w.put(k.name, v)
	}
	return w, m, nil
}

func (k partKey) check(v any) error {
	if _, unknown := v.(effect.Unknown); unknown {
		return nil
	}
	ok := false
	switch x := v.(type) {
	case string:
		if ok = k.kind == "text"; ok && k.words != nil && !slices.Contains(k.words, x) {
			return fault.New(fault.Invalid, "%s: %q is none of %s", k.name, x, strings.Join(k.words, ", "))
		}
	case int64:
		ok = k.kind == "int" || k.kind == "number"
	case float64:
		ok = k.kind == "number"
	case bool:
		ok = k.kind == "bool"
	case []any:
		if ok = k.kind == "set"; ok && slices.Contains(x, any("")) {
			return fault.New(fault.Invalid, "%s: an item is empty", k.name)
		}
	case map[string]any:
		ok = k.kind == "dict" || k.name == "subnet"
	}
	if !ok {
		kinds := map[string]string{"set": "list", "int": "whole number", "text": "text", "number": "number", "bool": "True or False", "dict": "dict"}
		return fault.New(fault.Invalid, "%s: %s is no %s", k.name, show(v), kinds[k.kind])
	}
	return nil
}

// A listenerWant is a listener as a recipe wants it.
type listenerWant struct {
	*partWant
	pool *poolWant // nil if it isn't given
}

// A poolWant is a pool as a recipe wants it.
type poolWant struct {
	*partWant
	members []*partWant // nil if they aren't given
	monitor *partWant   // nil if it isn't given
}

// subnetRef resolves what a member says of its subnet.
type subnetRef func(v any) (any, error)

func parseListener(name string, v any, resolve subnetRef) (*listenerWant, error) {
	part, m, err := parsePart(v, listenerKeys, "pool")
	if err != nil {
		return nil, err
	}
	l := &listenerWant{partWant: part}
	protocol, port := l.get("protocol"), l.get("port")
	if protocol == nil || port == nil {
		return nil, fault.New(fault.Invalid, "it needs protocol and port")
	}
	if n, ok := port.(int64); ok && (n < 1 || n > 65535) {
		return nil, fault.New(fault.Invalid, "port: %d isn't a port between 1 and 65535", n)
	}
	if known(protocol) && known(port) {
		name = fmt.Sprintf("%s-%s-%v", name, strings.ToLower(fmt.Sprint(protocol)), port)
	}
	l.set("name", name)
	if cidrs, ok := l.get("allowed_cidrs").([]any); ok {
		for i, x := range cidrs {
			s, _ := x.(string)
			p, err := netip.ParsePrefix(s)
			if a, aerr := netip.ParseAddr(s); aerr == nil {
				p, err = netip.PrefixFrom(a, a.BitLen()), nil
			}
			if err != nil && known(x) {
				return nil, fault.New(fault.Invalid, "allowed_cidrs: %s is no address range", show(x))
			}
			if err == nil {
				cidrs[i] = p.Masked().String() // as Octavia shows it
			}
		}
	}
	if m["pool"] == nil {
		return l, nil
	}
	if l.pool, err = parsePool(l, m["pool"], resolve); err != nil {
		return nil, fmt.Errorf("pool: %w", err)
	}
	return l, nil
}

func parsePool(l *listenerWant, v any, resolve subnetRef) (*poolWant, error) {
	part, m, err := parsePart(v, poolKeys, "members", "monitor")
	if err != nil {
		return nil, err
	}
	p := &poolWant{partWant: part}
	protocol := l.get("protocol")
	if protocol == "TERMINATED_HTTPS" {
		protocol = "HTTP"
	}
	p.set("protocol", protocol)
	p.set("algorithm", "ROUND_ROBIN")
	p.set("name", l.get("name"))
	if sp, ok := p.get("session_persistence").(map[string]any); ok && len(sp) > 0 && sp["type"] == nil {
		return nil, fault.Hinted(fault.Invalid, `it looks like: {"type": "SOURCE_IP"}; {} is none`, "session_persistence needs a type")
	}
	if v := m["monitor"]; v != nil {
		if p.monitor, _, err = parsePart(v, monitorKeys); err == nil {
			for _, need := range []string{"type", "delay", "timeout", "max_retries"} {
				if p.monitor.get(need) == nil {
					err = fault.New(fault.Invalid, "it needs %s", need)
					break
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("monitor: %w", err)
		}
	}
	if m["members"] == nil {
		return p, nil
	}
	list, ok := m["members"].([]any)
	if !ok {
		return nil, fault.New(fault.Invalid, "members: %s is no list", show(m["members"]))
	}
	p.members = []*partWant{}
	for i, v := range list {
		w, err := parseMember(l, v, resolve)
		// Octavia would never be done with a pool that has a member twice.
		if err == nil && known(w.get("address")) && slices.ContainsFunc(p.members, func(o *partWant) bool { return memberName(o) == memberName(w) }) {
			err = fault.New(fault.Invalid, "%s is there twice", memberName(w))
		}
		if err != nil {
			return nil, fmt.Errorf("members[%d]: %w", i, err)
		}
		p.members = append(p.members, w)
	}
	return p, nil
}

func memberName(w *partWant) string { return fmt.Sprintf("%v:%v", w.get("address"), w.get("port")) }

func parseMember(l *listenerWant, v any, resolve subnetRef) (*partWant, error) {
	if s, ok := v.(string); ok {
		v = map[string]any{"address": s}
	}
	w, _, err := parsePart(v, memberKeys)
	if err != nil {
		return nil, err
	}
	w.set("port", l.get("port"))
	switch a := w.get("address").(type) {
	case nil:
		return nil, fault.New(fault.Invalid, "it needs an address")
	case string:
		addr, err := netip.ParseAddr(a)
		if err != nil {
			return nil, fault.New(fault.Invalid, "address: %q is no address", a)
		}
		w.put("address", addr.String())
	}
	if s := w.get("subnet"); s != nil {
		id, err := resolve(s)
		if err != nil {
			return nil, fmt.Errorf("subnet: %w", err)
		}
		w.put("subnet", id)
	}
	return w, nil
}
