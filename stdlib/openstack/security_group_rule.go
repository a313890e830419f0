package openstack

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A rule lets something through. Two rules that let the same through are
// equal: what Neutron takes in several spellings has one here.
type rule struct {
	direction, ethertype string
	protocol             string // "" for any
	from, to             int64  // -1 for any; type and code of ICMP
	remote               any    // nil for any; an address range, a group's id, "self" or an Unknown
	group                bool   // remote is a group
}

// data returns the rule as recipes see it.
func (r rule) data() map[string]any {
	var protocol, ports any
	if r.protocol != "" {
		protocol = r.protocol
	}
	switch {
	case r.from < 0:
	case r.from == r.to || r.to < 0:
		ports = strconv.FormatInt(r.from, 10)
	default:
		ports = fmt.Sprintf("%d-%d", r.from, r.to)
	}
	return map[string]any{"direction": r.direction, "ethertype": r.ethertype, "protocol": protocol, "ports": ports, "remote": r.remote}
}

// body returns the rule as Neutron takes it.
func (r rule) body(group, mark string) client.Object {
	b := client.Object{"security_group_id": group, "direction": r.direction, "ethertype": r.ethertype, "description": mark}
	if r.protocol != "" {
		b["protocol"] = r.protocol
	}
	if r.from >= 0 {
		b["port_range_min"] = r.from
	}
	if r.to >= 0 {
		b["port_range_max"] = r.to
	}
	switch {
	case r.remote == nil:
	case r.group && r.remote == self:
		b["remote_group_id"] = group
	case r.group:
		b["remote_group_id"] = r.remote
	default:
		b["remote_ip_prefix"] = r.remote
	}
	return b
}

// self stands for the group that the rule is part of.
const self = "self"

// protocolNames are the names of the protocols that Neutron knows by one, by
// IANA's numbers.
var protocolNames = map[int]string{0: "hopopt", 1: "icmp", 2: "igmp", 4: "ipip", 6: "tcp", 8: "egp", 17: "udp", 33: "dccp", 41: "ipv6-encap", 43: "ipv6-route",
	44: "ipv6-frag", 46: "rsvp", 47: "gre", 50: "esp", 51: "ah", 58: "ipv6-icmp", 59: "ipv6-nonxt", 60: "ipv6-opts", 89: "ospf", 112: "vrrp", 113: "pgm",
	132: "sctp", 136: "udplite"}

// protocolName returns the one name of a protocol that Neutron knows by
// several.
func protocolName(s string) string {
	switch s = strings.ToLower(s); s {
	case "any":
		return ""
	case "icmpv6":
		return "ipv6-icmp"
	case "ip":
		return "ipip"
	}
	if n, err := strconv.Atoi(s); err == nil && protocolNames[n] != "" {
		return protocolNames[n]
	}
	return s
}

// anywhere reports whether p is the whole address space.
func anywhere(p netip.Prefix) bool { return p.Bits() == 0 }

// readRule reads a rule of Neutron's.
func readRule(o client.Object) rule {
	number := func(key string) int64 {
		if n, ok := o[key].(int64); ok {
			return n
		}
		return -1
	}
	r := rule{direction: str(o, "direction"), ethertype: str(o, "ethertype"), protocol: protocolName(str(o, "protocol")),
		from: number("port_range_min"), to: number("port_range_max")}
	r.protocol = icmpOf(r.protocol, r.ethertype)
	if id := str(o, "remote_group_id"); id != "" {
		r.remote, r.group = id, true
		if id == str(o, "security_group_id") {
			r.remote = self
		}
	} else if id := str(o, "remote_address_group_id"); id != "" {
		r.remote = "address group " + id // not made here; it equals no rule of a recipe
	} else if s := str(o, "remote_ip_prefix"); s != "" {
		r.remote = s
		if p, err := netip.ParsePrefix(s); err == nil && anywhere(p) {
			r.remote = nil
		} else if err == nil {
			r.remote = p.Masked().String()
		}
	}
	return r
}

// parseRule reads one rule of the argument rules.
func parseRule(v any) (rule, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return rule{}, fault.New(fault.Invalid, "%s is no dict", show(v))
	}
	r := rule{direction: "ingress", from: -1, to: -1}
	if err := onlyKeys(m, "direction", "protocol", "port", "ports", "type", "code", "remote", "ethertype"); err != nil {
		return rule{}, err
	}
	if d, ok := m["direction"].(string); ok {
		r.direction = d
	}
	if r.direction != "ingress" && r.direction != "egress" {
		return rule{}, fault.New(fault.Invalid, "direction is ingress or egress, not %s", show(m["direction"]))
	}
	switch p := m["protocol"].(type) {
	case nil:
	case string:
		r.protocol = protocolName(p)
	case int64:
		r.protocol = protocolName(strconv.FormatInt(p, 10))
	default:
		return rule{}, fault.New(fault.Invalid, "protocol %s is no name or number", show(p))
	}
	if err := r.parsePorts(m); err != nil {
		return rule{}, err
	}
	if err := r.parseRemote(m["remote"]); err != nil {
		return rule{}, err
	}
	switch t := m["ethertype"].(type) {
	case nil:
		if r.protocol == "ipv6-icmp" && r.ethertype == "" {
			r.ethertype = "IPv6"
		}
		if r.ethertype == "" {
			r.ethertype = "IPv4"
		}
	case string:
		if t != "IPv4" && t != "IPv6" || r.ethertype != "" && r.ethertype != t {
			return rule{}, fault.New(fault.Invalid, "ethertype %s isn't IPv4 or IPv6, or doesn't fit remote", show(t))
		}
		r.ethertype = t
	default:
		return rule{}, fault.New(fault.Invalid, "ethertype %s isn't IPv4 or IPv6", show(t))
	}
	r.protocol = icmpOf(r.protocol, r.ethertype)
	return r, nil
}

// icmpOf returns the protocol with ICMP as it is called for the ethertype:
// Neutron takes icmp for IPv6 too.
func icmpOf(protocol, ethertype string) string {
	if protocol == "icmp" && ethertype == "IPv6" {
		return "ipv6-icmp"
	}
	return protocol
}

func (r *rule) parsePorts(m map[string]any) error {
	if m["type"] != nil || m["code"] != nil {
		return r.parseICMP(m)
	}
	v := m["port"]
	if v == nil {
		v = m["ports"]
	} else if m["ports"] != nil {
		return fault.New(fault.Invalid, "port and ports are the same: give one")
	}
	switch v := v.(type) {
	case nil:
		return nil
	case int64:
		r.from, r.to = v, v
	case string:
		first, last, ranged := strings.Cut(v, "-")
		var err error
		if r.from, err = strconv.ParseInt(strings.TrimSpace(first), 10, 32); err == nil {
			r.to = r.from
			if ranged {
				r.to, err = strconv.ParseInt(strings.TrimSpace(last), 10, 32)
			}
		}
		if err != nil {
			return fault.New(fault.Invalid, "ports: %q is no port or range such as 80-90", v)
		}
		if !ranged && strings.Contains(r.protocol, "icmp") {
			r.to = -1 // a type with any code
		}
	default:
		return fault.New(fault.Invalid, "ports: %s is no port or range such as 80-90", show(v))
	}
	icmp := strings.Contains(r.protocol, "icmp")
	switch {
	case r.protocol == "":
		return fault.New(fault.Invalid, "ports need a protocol that has them, such as tcp")
	case icmp && (r.from < 0 || r.from > 255 || r.to > 255):
		return fault.New(fault.Invalid, "ports: types and codes of ICMP lie between 0 and 255")
	case !icmp && (r.from < 1 || r.to > 65535 || r.from > r.to):
		return fault.New(fault.Invalid, "ports: %d-%d isn't a range between 1 and 65535", r.from, r.to)
	}
	if !icmp && r.from == 1 && r.to == 65535 {
		r.from, r.to = -1, -1 // Neutron keeps all ports as none
	}
	return nil
}

// parseICMP reads a type of ICMP, and a code of it.
func (r *rule) parseICMP(m map[string]any) error {
	kind, ok := m["type"].(int64)
	code, given := m["code"].(int64)
	switch {
	case !strings.Contains(r.protocol, "icmp"):
		return fault.New(fault.Invalid, "type and code are ICMP's: give protocol = \"icmp\"")
	case m["port"] != nil || m["ports"] != nil:
		return fault.New(fault.Invalid, "ports, and type and code, are the same for ICMP: give one")
	case !ok || kind < 0 || kind > 255 || m["code"] != nil && (!given || code < 0 || code > 255):
		return fault.New(fault.Invalid, "types and codes of ICMP lie between 0 and 255, and a code goes with a type")
	}
	r.from = kind
	if given {
		r.to = code
	}
	return nil
}

// parseRemote reads where to or from: an address, a range, a group, "self".
func (r *rule) parseRemote(v any) error {
	switch v := v.(type) {
	case nil:
	case effect.Unknown:
		r.remote = v
		r.group = true
	case map[string]any:
		if v["id"] == nil {
			return fault.New(fault.Invalid, "remote: %s has no id", show(v))
		}
		r.remote, r.group = v["id"], true
	case string:
		if v == "" {
			return fault.Hinted(fault.Invalid, "leave it out to mean everything", "remote is empty")
		}
		if a, err := netip.ParseAddr(v); err == nil {
			v = netip.PrefixFrom(a, a.BitLen()).String()
		}
		p, err := netip.ParsePrefix(v)
		if err != nil {
			if strings.Contains(v, "/") {
				return fault.New(fault.Invalid, "remote: %q is no address range", v)
			}
			r.remote, r.group = v, true
			return nil
		}
		if p = p.Masked(); !anywhere(p) {
			r.remote = p.String()
		}
		r.ethertype = "IPv4"
		if p.Addr().Is6() {
			r.ethertype = "IPv6"
		}
	default:
		return fault.New(fault.Invalid, "remote: %s is no address range or security group", show(v))
	}
	return nil
}
