package debian

import (
	"net/netip"
	"slices"
	"strings"
)

// NATs reports whether the host now forwards packets that come from the
// network cidr, and gives them its own address on the way out.
func (s *System) NATs(cidr string) bool {
	from, err := netip.ParsePrefix(cidr)
	if err != nil {
		return false
	}
	s.kernel.mu.Lock()
	defer s.kernel.mu.Unlock()
	if s.kernel.params["net.ipv4.ip_forward"] != "1" {
		return false
	}
	masked, dropped := false, false
	for _, t := range s.kernel.rules.tables {
		if t.family != "ip" && t.family != "inet" {
			continue
		}
		for _, c := range t.chains {
			switch {
			case c.kind == "nat" && c.hook == "postrouting":
				masked = masked || t.hides(c, from, 0)
			case c.kind == "filter" && c.hook == "forward" && !t.lets(c, from, 0):
				dropped = true
			}
		}
	}
	return masked && !dropped
}

// hides reports whether a chain masquerades what comes from a network.
func (t *table) hides(c *chain, from netip.Prefix, depth int) bool {
	for _, rule := range c.rules {
		if !t.matches(rule, from) {
			continue
		}
		if slices.Contains(rule, "masquerade") || slices.Contains(rule, "snat") {
			return true
		}
		if next := t.jump(rule); next != nil && depth < 16 && t.hides(next, from, depth+1) {
			return true
		}
		if slices.Contains(rule, "accept") || slices.Contains(rule, "return") {
			if !narrow(rule) {
				return false
			}
		}
	}
	return false
}

// lets reports whether a new connection from a network passes a chain.
func (t *table) lets(c *chain, from netip.Prefix, depth int) bool {
	for _, rule := range c.rules {
		if !t.matches(rule, from) {
			continue
		}
		if next := t.jump(rule); next != nil && depth < 16 && t.lets(next, from, depth+1) {
			return true
		}
		switch {
		case slices.Contains(rule, "accept"):
			return true
		case (slices.Contains(rule, "drop") || slices.Contains(rule, "reject")) && !narrow(rule):
			return false
		}
	}
	return c.policy == "accept"
}

func (t *table) jump(rule []string) *chain {
	for i, w := range rule {
		if (w == "jump" || w == "goto") && i+1 < len(rule) {
			return t.chain(rule[i+1])
		}
	}
	return nil
}

// narrow reports whether a rule concerns only some of a network's packets: a
// port, a protocol, a destination.
func narrow(rule []string) bool {
	return slices.ContainsFunc(rule, func(w string) bool {
		return w == "dport" || w == "sport" || w == "daddr" || w == "protocol" || w == "l4proto" || w == "state" || w == "icmp" || w == "icmpv6" || w == "iifname" || w == "iif"
	})
}

// matches reports whether a rule may concern a new connection from a network.
func (t *table) matches(rule []string, from netip.Prefix) bool {
	for i, w := range rule {
		switch w {
		case "saddr":
			if i > 0 && rule[i-1] == "ip6" || i+1 >= len(rule) {
				return false
			}
			value := rule[i+1]
			not := value == "!="
			if not && i+2 < len(rule) {
				value = rule[i+2]
			}
			if t.covers(value, rule[i+1:], from) == not {
				return false
			}
		case "state":
			// What belongs to a connection that stands says nothing of a new one.
			if !strings.Contains(strings.Join(rule[i:], " "), "new") {
				return false
			}
		}
	}
	return true
}

// covers reports whether an address expression has all of a network in it.
func (t *table) covers(value string, rest []string, from netip.Prefix) bool {
	var all []string
	switch {
	case value == "{":
		for _, w := range rest[1:] {
			if w == "}" {
				break
			}
			all = append(all, strings.Trim(w, ","))
		}
	case strings.HasPrefix(value, "@"):
		if s := t.set(value[1:]); s != nil {
			all = s.elements
		}
	default:
		all = []string{value}
	}
	for _, one := range all {
		if p, err := netip.ParsePrefix(one); err == nil && p.Bits() <= from.Bits() && p.Contains(from.Addr()) {
			return true
		}
	}
	return false
}
