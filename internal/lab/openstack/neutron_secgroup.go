package openstack

import "slices"

func securityGroupNoun() *noun {
	return &noun{name: "security_group", plural: "security_groups", missing: "SecurityGroupNotFound", missingText: "Security group %s does not exist",
		attributes: append(nameAttributes(),
			attribute{name: "stateful", post: true, put: true, fallback: true, check: checkBool},
			attribute{name: "shared", lazy: true}, attribute{name: "security_group_rules", lazy: true}),
		quota: "security_group", taggable: true, revision: 1,
		create: func(c *Cloud, r *request, t *thing) error {
			if r != nil && str(t.doc, "name") == "default" {
				return refuseAs(409, "SecurityGroupDefaultAlreadyExists", "Default security group already exists.")
			}
			t.doc["shared"] = false
			c.addDefaultRules(t)
			return nil
		},
		update: func(c *Cloud, _ *request, t *thing, d doc) error {
			if has(d, "stateful") && d["stateful"] != t.doc["stateful"] && c.groupInUse(t.id) {
				return refuseAs(409, "SecurityGroupInUse", "Security Group "+t.id+" in use.")
			}
			if d["name"] == "default" && str(t.doc, "name") != "default" {
				return refuseAs(409, "SecurityGroupDefaultAlreadyExists", "Default security group already exists.")
			}
			if str(t.doc, "name") == "default" && has(d, "name") && d["name"] != "default" {
				return refuseAs(409, "SecurityGroupCannotUpdateDefault", "Updating default security group not allowed.")
			}
			return nil
		},
		remove: (*Cloud).securityGroupRemove,
		show: func(c *Cloud, r *request, t *thing, d doc) {
			rules := []any{}
			for _, x := range c.rulesOf(t.id) {
				rule := c.thingDoc(r, x)
				rule["tags"] = []any{} // only here
				rules = append(rules, rule)
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

// groupInUse reports whether a port has the group.
func (c *Cloud) groupInUse(id string) bool {
	inUse := false
	c.each("port", func(p *thing) { inUse = inUse || slices.Contains(list(p.doc, "security_groups"), any(id)) })
	return inUse
}

func (c *Cloud) securityGroupRemove(r *request, t *thing) error {
	if r != nil && str(t.doc, "name") == "default" && !r.token.admin {
		return refuseAs(409, "SecurityGroupCannotRemoveDefault", "Insufficient rights for removing default security group.")
	}
	if c.groupInUse(t.id) {
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
		"remote_group_id": nil, "remote_address_group_id": nil, "description": nil}
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
