package openstack

import "strings"

func networkNoun() *noun {
	attrs := append(nameAttributes(),
		attribute{name: "admin_state_up", post: true, put: true, fallback: true, check: checkBool},
		attribute{name: "shared", post: true, put: true, fallback: false, check: checkBool, admin: true},
		attribute{name: "router:external", post: true, put: true, fallback: false, check: checkBool, admin: true},
		attribute{name: "is_default", post: true, put: true, fallback: false, check: checkBool, admin: true},
		attribute{name: "mtu", post: true, put: true, fallback: 0, check: checkWhole},
		attribute{name: "port_security_enabled", post: true, put: true, fallback: true, check: checkBool},
		attribute{name: "dns_domain", post: true, put: true, fallback: "", check: checkFQDN},
		attribute{name: "availability_zone_hints", post: true, fallback: []any{}, check: checkZones},
		attribute{name: netType, post: true, put: true, lazy: true, admin: true, adminView: true, check: checkName},
		attribute{name: netPhysical, post: true, put: true, lazy: true, admin: true, adminView: true, check: checkName},
		attribute{name: netSegment, post: true, put: true, lazy: true, admin: true, adminView: true, check: checkSegment},
		attribute{name: "qos_policy_id", post: true, put: true, check: checkPolicy},
		attribute{name: "subnets", lazy: true}, attribute{name: "status", lazy: true}, attribute{name: "availability_zones", lazy: true},
		attribute{name: "ipv4_address_scope", lazy: true}, attribute{name: "ipv6_address_scope", lazy: true})
	return &noun{name: "network", plural: "networks", missing: "NetworkNotFound", missingText: "Network %s could not be found.",
		attributes: attrs, quota: "network", taggable: true, revision: 1,
		create: (*Cloud).networkCreate, update: (*Cloud).networkUpdate, remove: (*Cloud).networkRemove,
		show: func(c *Cloud, r *request, t *thing, d doc) {
			d["subnets"] = []any{}
			for _, s := range c.subnetsOf(t.id) {
				d["subnets"] = append(d["subnets"].([]any), s.id)
			}
			if t.doc["router:external"] != true && (r.http == nil || r.http.Method != "POST") {
				delete(d, "is_default")
			}
		},
		visible: func(_ *Cloud, t *thing) bool { return t.doc["shared"] == true || t.doc["router:external"] == true },
	}
}

func (c *Cloud) networkCreate(_ *request, t *thing) error {
	d := t.doc
	d["status"], d["ipv4_address_scope"], d["ipv6_address_scope"], d["availability_zones"] = "ACTIVE", nil, nil, []any{}
	if err := c.provide(d); err != nil {
		return err
	}
	return checkMTU(d, d[netType])
}

func (c *Cloud) networkUpdate(_ *request, t *thing, d doc) error {
	if has(d, netType) || has(d, netPhysical) {
		return invalidInput("Plugin does not support updating the following provider network attributes: " + netType + ", " + netPhysical)
	}
	if has(d, netSegment) && d[netSegment] != t.doc[netSegment] {
		want := doc{netType: t.doc[netType], netSegment: d[netSegment]}
		if p := t.doc[netPhysical]; p != nil {
			want[netPhysical] = p
		}
		if err := c.provide(want); err != nil {
			return err
		}
	}
	if has(d, "mtu") {
		if err := checkMTU(d, t.doc[netType]); err != nil {
			return err
		}
	}
	if d["router:external"] == false && t.doc["router:external"] == true {
		inUse := false
		c.each("port", func(p *thing) {
			inUse = inUse || str(p.doc, "network_id") == t.id && str(p.doc, "device_owner") == ownerGateway
		})
		if inUse {
			return refuseAs(409, "ExternalNetworkInUse", "External network "+t.id+" cannot be updated to be made non-external, since it has existing gateway ports.")
		}
	}
	return nil
}

// networkRemove takes the subnets along; ports keep a network alive.
func (c *Cloud) networkRemove(_ *request, t *thing) error {
	var ports []string
	c.each("port", func(p *thing) {
		if str(p.doc, "network_id") == t.id && str(p.doc, "device_owner") != ownerDHCP {
			ports = append(ports, p.id)
		}
	})
	if ports != nil {
		return refuseAs(409, "NetworkInUse", "Unable to complete operation on network "+t.id+". There are one or more ports still in use on the network, id for these ports is: "+strings.Join(ports, ",")+".")
	}
	for _, s := range c.subnetsOf(t.id) {
		delete(c.network.things["subnet"], s.id)
		delete(c.network.used, s.id)
	}
	return nil
}

// subnetsOf lists a network's subnets in the order in which they were made.
func (c *Cloud) subnetsOf(networkID string) []*thing {
	var out []*thing
	c.each("subnet", func(s *thing) {
		if str(s.doc, "network_id") == networkID {
			out = append(out, s)
		}
	})
	for i := range out { // few: insertion sort by age
		for j := i; j > 0 && out[j].created.Before(out[j-1].created); j-- {
			out[j], out[j-1] = out[j-1], out[j]
		}
	}
	return out
}

// seedNetwork makes the external network with its subnet, owned by the first project of the first user.
func (c *Cloud) seedNetwork() {
	if len(c.cfg.Users) == 0 {
		return
	}
	owner := c.identity.projectNamed(c.cfg.Users[0].Projects[0], defaultDomain).id
	defaults := func(kind string) doc {
		d := doc{}
		for _, a := range c.network.nouns[kind].attributes {
			if !a.lazy {
				d[a.name] = a.fallback
			}
		}
		return d
	}
	must := func(t *thing, err error) *thing {
		if err != nil {
			panic("openstack: making the external network: " + err.Error())
		}
		return t
	}
	d := defaults("networks")
	d["name"], d["router:external"] = c.cfg.External.Name, true
	d[netType], d[netPhysical] = "flat", physicalNet
	net := must(c.addThing(nil, c.network.nouns["networks"], owner, d))
	prefix, err := checkSubnet(c.cfg.External.CIDR)
	if err != nil {
		panic("openstack: external network: " + err.Error())
	}
	d = defaults("subnets")
	d["name"], d["network_id"], d["cidr"], d["ip_version"], d["enable_dhcp"] = c.cfg.External.Name+"-subnet", net.id, prefix, 4, false
	start, end := externalRange(prefix.(string), c.cfg.External)
	d["allocation_pools"] = []any{doc{"start": start, "end": end}}
	sub := must(c.addThing(nil, c.network.nouns["subnets"], owner, d))
	c.network.external, c.network.externalSubnet = net.id, sub.id
}
