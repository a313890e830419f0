package openstack

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func securityGroupRuleNoun() *noun {
	return &noun{name: "security_group_rule", plural: "security_group_rules", missing: "SecurityGroupRuleNotFound", missingText: "Security group rule %s does not exist",
		attributes: []attribute{
			{name: "security_group_id", post: true, required: true},
			{name: "direction", post: true, required: true, check: checkOneOf("ingress", "egress")},
			{name: "ethertype", post: true, fallback: "IPv4"},
			{name: "protocol", post: true},
			{name: "port_range_min", post: true},
			{name: "port_range_max", post: true},
			{name: "remote_ip_prefix", post: true},
			{name: "remote_group_id", post: true},
			{name: "remote_address_group_id", post: true, check: checkAddressGroup},
			{name: "description", post: true, fallback: "", check: checkName},
		},
		quota: "security_group_rule",
		create: func(c *Cloud, r *request, t *thing) error {
			if err := c.checkRule(r, t.doc); err != nil {
				return err
			}
			c.touch(c.thing("security_group", str(t.doc, "security_group_id")))
			return nil
		},
		remove: func(c *Cloud, _ *request, t *thing) error {
			c.touch(c.thing("security_group", str(t.doc, "security_group_id")))
			return nil
		},
		show: func(_ *Cloud, _ *request, t *thing, d doc) {
			d["normalized_cidr"] = nil
			if p, err := netip.ParsePrefix(str(t.doc, "remote_ip_prefix")); err == nil {
				d["normalized_cidr"] = p.Masked().String()
			}
		}}
}

func checkAddressGroup(v any) (any, error) {
	id, err := checkUUIDOrNone(v)
	if err != nil || id == nil {
		return nil, err
	}
	return nil, refuseAs(404, "AddressGroupNotFound", "Address group "+id.(string)+" could not be found.")
}

// protocolNumbers are IANA's, by Neutron's names.
var protocolNumbers = map[string]int{"ah": 51, "dccp": 33, "egp": 8, "esp": 50, "gre": 47, "hopopt": 0, "icmp": 1, "igmp": 2, "ip": 4, "ipip": 4,
	"ipv6-encap": 41, "ipv6-frag": 44, "ipv6-icmp": 58, "icmpv6": 58, "ipv6-nonxt": 59, "ipv6-opts": 60, "ipv6-route": 43, "ospf": 89, "pgm": 113,
	"rsvp": 46, "sctp": 132, "tcp": 6, "udp": 17, "udplite": 136, "vrrp": 112}

// protocolOrder is the order in which Neutron's message lists the names.
var protocolOrder = []any{nil, "ah", "dccp", "egp", "esp", "gre", "hopopt", "icmp", "igmp", "ip", "ipip", "ipv6-encap", "ipv6-frag", "ipv6-icmp", "icmpv6",
	"ipv6-nonxt", "ipv6-opts", "ipv6-route", "ospf", "pgm", "rsvp", "sctp", "tcp", "udp", "udplite", "vrrp"}

// protocolNumber returns the number of a protocol as a rule has it; ICMP's is another for IPv6.
func protocolNumber(protocol, family string) int {
	n, err := strconv.Atoi(protocol)
	if err != nil {
		n = protocolNumbers[protocol]
	}
	if n == 1 && family == "IPv6" {
		return 58
	}
	return n
}

// checkRule refuses what makes no sense and what is there already; it brings the fields to their stored form.
func (c *Cloud) checkRule(r *request, d doc) error {
	group, err := c.findThing(r, c.network.nouns["security_groups"], str(d, "security_group_id"), false)
	if err != nil {
		return err
	}
	if !r.token.admin && group.project != r.token.project.id {
		return c.network.nouns["security_groups"].notFound(group.id)
	}
	family := str(d, "ethertype")
	for _, known := range []string{"IPv4", "IPv6"} {
		if strings.EqualFold(family, known) {
			family = known
		}
	}
	if family != "IPv4" && family != "IPv6" {
		return refuseAs(400, "SecurityGroupRuleInvalidEtherType", "Security group rule for ethertype '"+pythonText(d["ethertype"])+"' not supported. Allowed values are ['IPv4', 'IPv6'].")
	}
	d["ethertype"] = family
	if err := checkRuleProtocol(d); err != nil {
		return err
	}
	if d["remote_ip_prefix"] == "" {
		d["remote_ip_prefix"] = nil
	}
	if v := d["remote_ip_prefix"]; v != nil {
		s, _ := v.(string)
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a, err := netip.ParseAddr(s)
			if err != nil {
				return refuseAs(400, "InvalidCIDR", "Invalid CIDR "+pythonText(v)+" given as IP prefix.")
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p.Addr().Is4() != (family == "IPv4") {
			return refuseAs(400, "SecurityGroupRuleParameterConflict", "Conflicting value ethertype "+family+" for CIDR "+s)
		}
		d["remote_ip_prefix"] = p.String()
	}
	if n := protocolNumber(str(d, "protocol"), ""); d["protocol"] != nil && family == "IPv4" && (n == 58 || n == 41 || n == 44 || n == 59 || n == 60 || n == 43) {
		return refuseAs(400, "SecurityGroupEthertypeConflictWithProtocol", "Invalid ethertype IPv4 for protocol "+str(d, "protocol")+".")
	}
	if v := d["remote_group_id"]; v != nil {
		id, _ := v.(string)
		if d["remote_ip_prefix"] != nil {
			return refuseAs(400, "SecurityGroupMultipleRemoteEntites", "Only one of remote_ip_prefix or remote_group_id or remote_address_group_id may be provided.")
		}
		if id == "" {
			return refuseAs(500, "HTTPInternalServerError", "Request Failed: internal server error while processing your request.")
		}
		if remote := c.thing("security_group", id); remote == nil {
			return c.network.nouns["security_groups"].notFound(id)
		}
	}
	for _, x := range c.rulesOf(group.id) {
		if ruleKey(x.doc) == ruleKey(d) {
			return refuseAs(409, "SecurityGroupRuleExists", "Security group rule already exists. Rule id is "+x.id+".")
		}
	}
	return nil
}

// ruleKey is equal for rules that do the same.
func ruleKey(d doc) string {
	prefix := text(d["remote_ip_prefix"])
	if prefix == "0.0.0.0/0" || prefix == "::/0" {
		prefix = ""
	}
	var protocol any
	if s, given := d["protocol"].(string); given {
		protocol = protocolNumber(s, str(d, "ethertype"))
	}
	return fmt.Sprint(d["direction"], d["ethertype"], protocol, d["port_range_min"], d["port_range_max"], prefix, d["remote_group_id"], d["remote_address_group_id"])
}

func checkRuleProtocol(d doc) error {
	protocol := strings.ToLower(text(d["protocol"]))
	number := -1
	if protocol == "" {
		d["protocol"] = nil
	} else {
		_, named := protocolNumbers[protocol]
		n, err := strconv.Atoi(protocol)
		if err == nil && (n < 0 || n > 255) || err != nil && !named {
			return refuseAs(400, "SecurityGroupRuleInvalidProtocol", "Security group rule protocol "+protocol+" not supported. Only protocol values "+pythonRepr(protocolOrder)+" and integer representations [0 to 255] are supported.")
		}
		if strings.Contains(protocol, "icmp") && d["ethertype"] == "IPv6" || protocol == "icmpv6" {
			protocol = "ipv6-icmp"
		}
		number = protocolNumber(protocol, str(d, "ethertype"))
		d["protocol"] = protocol
	}
	var ports [2]int
	var set [2]bool
	for i, k := range []string{"port_range_min", "port_range_max"} {
		if d[k] == nil || d[k] == "" {
			d[k] = nil
			continue
		}
		n, valid := integer(d[k])
		if !valid || n < 0 || n > 65535 {
			return refuseAs(400, "SecurityGroupInvalidPortValue", "Invalid value for port "+text(d[k]))
		}
		ports[i], set[i], d[k] = n, true, n
	}
	if set[0] && set[1] && ports[0] == 1 && ports[1] == 65535 {
		d["port_range_min"], d["port_range_max"] = nil, nil // all ports are no range
		return nil
	}
	if !set[0] && !set[1] {
		return nil
	}
	switch {
	case protocol == "":
		return refuseAs(400, "SecurityGroupProtocolRequiredWithPorts", "Must also specify protocol if port range is given.")
	case number == 1 || number == 58:
		for i, field := range []string{"port_range_min", "port_range_max"} {
			if set[i] && ports[i] > 255 {
				return refuseAs(400, "SecurityGroupInvalidIcmpValue", "Invalid value for ICMP "+[]string{"type", "code"}[i]+" ("+field+") "+text(ports[i])+". It must be 0 to 255.")
			}
		}
		if !set[0] {
			return refuseAs(400, "SecurityGroupMissingIcmpType", "ICMP code (port-range-max) "+text(ports[1])+" is provided but ICMP type (port-range-min) is missing.")
		}
	case slices.Contains([]int{6, 17, 33, 132, 136}, number):
		for i := range ports {
			if set[i] && ports[i] == 0 {
				return refuseAs(400, "SecurityGroupInvalidPortValue", "Invalid value for port 0")
			}
		}
		if !set[0] || !set[1] || ports[0] > ports[1] {
			return refuseAs(400, "SecurityGroupInvalidPortRange", "For TCP/UDP protocols, port_range_min must be <= port_range_max")
		}
	default:
		return refuseAs(400, "SecurityGroupInvalidProtocolForPort", fmt.Sprintf("Ports cannot be specified for protocol %d. Ports are only supported for DCCP, SCTP, TCP, UDP, UDPLITE.", number))
	}
	return nil
}
