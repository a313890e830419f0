package openstack

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func securityGroupNoun() *noun {
	return &noun{name: "security_group", plural: "security_groups", missing: "SecurityGroupNotFound", missingText: "Security group %s does not exist",
		attributes: append(nameAttributes(),
			attribute{name: "stateful", post: true, put: true, fallback: true, check: checkBool},
			attribute{name: "shared", lazy: true}, attribute{name: "security_group_rules", lazy: true}),
		quota: "security_group", taggable: true,
		create: func(c *Cloud, r *request, t *thing) error {
			if r != nil && str(t.doc, "name") == "default" {
				return refuseAs(409, "SecurityGroupDefaultAlreadyExists", "Default security group already exists.")
			}
			t.doc["shared"] = false
			c.addDefaultRules(t)
			return nil
		},
		update: func(_ *Cloud, _ *request, t *thing, d doc) error {
			if str(t.doc, "name") == "default" && has(d, "name") && d["name"] != "default" {
				return refuseAs(409, "SecurityGroupCannotUpdateDefault", "Updating default security group not allowed.")
			}
			return nil
		},
		remove: (*Cloud).securityGroupRemove,
		show: func(c *Cloud, r *request, t *thing, d doc) {
			rules := []any{}
			for _, x := range c.rulesOf(t.id) {
				rules = append(rules, c.thingDoc(r, x))
			}
			d["security_group_rules"] = rules
		}}
}

func (c *Cloud) rulesOf(groupID string) []*thing {
	var out []*thing
	c.each("security_group_rule", func(x *thing) {
		if str(x.doc, "security_group_id") == groupID {
			out = append(out, x)
		}
	})
	return out
}

func (c *Cloud) securityGroupRemove(r *request, t *thing) error {
	if r != nil && str(t.doc, "name") == "default" && !r.token.admin {
		return refuseAs(409, "SecurityGroupCannotRemoveDefault", "Insufficient rights for removing default security group.")
	}
	inUse := false
	c.each("port", func(p *thing) { inUse = inUse || slices.Contains(list(p.doc, "security_groups"), any(t.id)) })
	if inUse {
		return refuseAs(409, "SecurityGroupInUse", "Security Group "+t.id+" in use.")
	}
	c.each("security_group_rule", func(x *thing) {
		if x.doc["security_group_id"] == t.id || x.doc["remote_group_id"] == t.id {
			delete(c.network.things["security_group_rule"], x.id)
		}
	})
	return nil
}

// addDefaultRules lets everything out, as Neutron does for each new group.
func (c *Cloud) addDefaultRules(t *thing) {
	for _, family := range []string{"IPv4", "IPv6"} {
		c.addRule(t, doc{"direction": "egress", "ethertype": family})
	}
}

func (c *Cloud) addRule(group *thing, d doc) {
	whole := doc{"security_group_id": group.id, "protocol": nil, "port_range_min": nil, "port_range_max": nil, "remote_ip_prefix": nil,
		"remote_group_id": nil, "remote_address_group_id": nil, "description": ""}
	for k, v := range d {
		whole[k] = v
	}
	n := c.network.nouns["security_group_rules"]
	x := &thing{noun: n, id: c.ids.uuid(), project: group.project, doc: whole, created: c.now(), updated: c.now()}
	c.network.things[n.name][x.id] = x
}

// ensureDefaultGroup makes the caller's default group, as the first use of security groups does.
func (c *Cloud) ensureDefaultGroup(r *request) {
	if r.token != nil && r.token.project != nil {
		c.defaultGroup(r.token.project.id)
	}
}

func (c *Cloud) defaultGroup(project string) *thing {
	var found *thing
	c.each("security_group", func(t *thing) {
		if t.project == project && str(t.doc, "name") == "default" {
			found = t
		}
	})
	if found != nil {
		return found
	}
	t, err := c.addThing(nil, c.network.nouns["security_groups"], project, doc{"name": "default", "description": "Default security group", "stateful": true})
	if err != nil {
		panic("openstack: making a default security group: " + err.Error()) // create only refuses requests
	}
	for _, family := range []string{"IPv4", "IPv6"} {
		c.addRule(t, doc{"direction": "ingress", "ethertype": family, "remote_group_id": t.id})
	}
	return t
}

func securityGroupRuleNoun() *noun {
	return &noun{name: "security_group_rule", plural: "security_group_rules", missing: "SecurityGroupRuleNotFound", missingText: "Security group rule %s does not exist",
		attributes: []attribute{
			{name: "security_group_id", post: true, required: true, check: checkUUID},
			{name: "direction", post: true, required: true, check: checkOneOf("ingress", "egress")},
			{name: "ethertype", post: true, fallback: "IPv4"},
			{name: "protocol", post: true},
			{name: "port_range_min", post: true},
			{name: "port_range_max", post: true},
			{name: "remote_ip_prefix", post: true},
			{name: "remote_group_id", post: true, check: checkUUIDOrNone},
			{name: "remote_address_group_id", post: true, check: checkUUIDOrNone},
			{name: "description", post: true, fallback: "", check: checkName},
		},
		quota: "security_group_rule",
		create: func(c *Cloud, r *request, t *thing) error {
			if err := c.checkRule(r, t.doc); err != nil {
				return err
			}
			t.project = c.thing("security_group", str(t.doc, "security_group_id")).project
			return nil
		}}
}

var portProtocols = []string{"dccp", "sctp", "tcp", "udp", "udplite"}

var otherProtocols = []string{"ah", "any", "dccp", "egp", "esp", "gre", "hopopt", "icmp", "icmpv6", "igmp", "ip", "ipip", "ipv6-encap", "ipv6-frag",
	"ipv6-icmp", "ipv6-nonxt", "ipv6-opts", "ipv6-route", "ospf", "pgm", "rsvp", "sctp", "tcp", "udp", "udplite", "vrrp"}

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
		return refuseAs(400, "SecurityGroupRuleInvalidEtherType", "Security group rule for ethertype '"+family+"' not supported. Allowed values are ['IPv4', 'IPv6'].")
	}
	d["ethertype"] = family
	if err := checkRuleProtocol(d); err != nil {
		return err
	}
	if id := str(d, "remote_group_id"); id != "" {
		if d["remote_ip_prefix"] != nil {
			return refuseAs(400, "SecurityGroupMultipleRemoteEntites", "Only one of remote_ip_prefix or remote_group_id or remote_address_group_id may be provided.")
		}
		if remote := c.thing("security_group", id); remote == nil {
			return c.network.nouns["security_groups"].notFound(id)
		}
	}
	if s, given := d["remote_ip_prefix"].(string); given && s != "" {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a, err := netip.ParseAddr(s)
			if err != nil {
				return refuseAs(400, "HTTPBadRequest", "Invalid input for remote_ip_prefix. Reason: '"+s+"' is not a valid IP subnet.")
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p.Addr().Is4() != (family == "IPv4") {
			return refuseAs(400, "SecurityGroupRuleParameterConflict", "Conflicting value ethertype "+family+" for CIDR "+s)
		}
		d["remote_ip_prefix"] = p.String()
	} else {
		d["remote_ip_prefix"] = nil
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
	return fmt.Sprint(d["direction"], d["ethertype"], d["protocol"], d["port_range_min"], d["port_range_max"], prefix, d["remote_group_id"], d["remote_address_group_id"])
}

func checkRuleProtocol(d doc) error {
	protocol := strings.ToLower(text(d["protocol"]))
	if protocol == "" || protocol == "any" || protocol == "0" {
		d["protocol"] = nil
		protocol = ""
	} else {
		d["protocol"] = protocol
		if n, err := strconv.Atoi(protocol); err == nil && (n < 0 || n > 255) || err != nil && !slices.Contains(otherProtocols, protocol) {
			return refuseAs(400, "SecurityGroupRuleInvalidProtocol", "Security group rule protocol "+protocol+" not supported. Only protocol values "+text(otherProtocols)+" and integer representations [0 to 255] are supported.")
		}
	}
	var ports [2]int
	var set [2]bool
	for i, k := range []string{"port_range_min", "port_range_max"} {
		if d[k] == nil || d[k] == "" {
			d[k] = nil
			continue
		}
		n, valid := integer(d[k])
		if !valid || n < -1 || n > 65535 {
			return refuseAs(400, "SecurityGroupInvalidPortValue", "Invalid value for port "+text(d[k]))
		}
		ports[i], set[i], d[k] = n, true, n
	}
	if !set[0] && !set[1] {
		return nil
	}
	switch {
	case protocol == "":
		return refuseAs(400, "SecurityGroupProtocolRequiredWithPorts", "Must also specify protocol if port range is given.")
	case strings.Contains(protocol, "icmp") || protocol == "1" || protocol == "58":
		for i, field := range []string{"port_range_min", "port_range_max"} {
			if set[i] && ports[i] > 255 {
				return refuseAs(400, "SecurityGroupInvalidIcmpValue", "Invalid value for ICMP "+[]string{"type", "code"}[i]+" ("+field+") "+text(ports[i])+". It must be 0 to 255.")
			}
		}
		if !set[0] {
			return refuseAs(400, "SecurityGroupMissingIcmpType", "ICMP code (port-range-max) "+text(ports[1])+" is provided but ICMP type (port-range-min) is missing.")
		}
	case slices.Contains(portProtocols, protocol) || slices.Contains([]string{"6", "17", "33", "132", "136"}, protocol):
		if !set[0] || !set[1] || ports[0] > ports[1] {
			return refuseAs(400, "SecurityGroupInvalidPortRange", "For TCP/UDP protocols, port_range_min must be <= port_range_max")
		}
	default:
		return refuseAs(400, "SecurityGroupInvalidProtocolForPort", "Ports cannot be specified for protocol "+protocol+". Ports are only supported for "+text(portProtocols)+".")
	}
	return nil
}
