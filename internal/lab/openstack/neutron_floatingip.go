package openstack

import "net/netip"

func floatingIPNoun() *noun {
	return &noun{name: "floatingip", plural: "floatingips", missing: "FloatingIPNotFound", missingText: "Floating IP %s could not be found",
		attributes: []attribute{
			{name: "description", post: true, put: true, fallback: "", check: checkName},
			{name: "floating_network_id", post: true, required: true, check: checkUUID},
			{name: "floating_ip_address", post: true, lazy: true, check: checkIPOrNone, admin: true},
			{name: "subnet_id", post: true, lazy: true, hidden: true, check: checkUUIDOrNone},
			{name: "port_id", post: true, put: true, check: checkUUIDOrNone},
			{name: "fixed_ip_address", post: true, put: true, check: checkIPOrNone},
			{name: "dns_name", post: true, fallback: "", check: checkDNS},
			{name: "dns_domain", post: true, fallback: "", check: checkFQDN},
			{name: "qos_policy_id", post: true, put: true, check: checkPolicy},
			{name: "router_id", lazy: true}, {name: "status", lazy: true}, {name: "port_details", lazy: true},
		},
		quota: "floatingip", taggable: true,
		create: (*Cloud).floatingIPCreate, update: (*Cloud).floatingIPUpdate, remove: (*Cloud).floatingIPRemove,
		show: func(c *Cloud, _ *request, t *thing, d doc) {
			d["port_details"] = nil
			if p := c.thing("port", str(t.doc, "port_id")); p != nil {
				d["port_details"] = doc{"name": p.doc["name"], "network_id": p.doc["network_id"], "mac_address": p.doc["mac_address"],
					"admin_state_up": p.doc["admin_state_up"], "status": p.doc["status"], "device_id": p.doc["device_id"], "device_owner": p.doc["device_owner"]}
			}
		}}
}

func badFloatingIP(message string) error {
	return refuseAs(400, "BadRequest", "Bad floatingip request: "+message+".")
}

func (c *Cloud) floatingIPCreate(r *request, t *thing) error {
	d := t.doc
	netID := str(d, "floating_network_id")
	net := c.thing("network", netID)
	if net == nil || !c.sees(r, net) {
		return c.network.nouns["networks"].notFound(netID)
	}
	if net.doc["router:external"] != true {
		return badFloatingIP("Network " + netID + " is not a valid external network")
	}
	if len(c.subnetsOf(netID)) == 0 {
		return badFloatingIP("Network " + netID + " does not contain any IPv4 subnet")
	}
	body := plainPort(netID, ownerFloating, t.id)
	ask := doc{}
	if s := str(d, "subnet_id"); s != "" {
		ask["subnet_id"] = s
	}
	if a := str(d, "floating_ip_address"); a != "" {
		ask["ip_address"] = a
	}
	if len(ask) > 0 {
		body["fixed_ips"] = []any{ask}
	}
	port, err := c.addThing(nil, c.network.nouns["ports"], "", body)
	if err != nil {
		return err
	}
	port.doc["status"] = "N/A"
	ips := fixedIPs(port)
	if len(ips) == 0 {
		c.dropPort(port)
		return refuseAs(400, "ExternalIpAddressExhausted", "Unable to find any IP address on external network "+netID+".")
	}
	want, fixed := d["port_id"], d["fixed_ip_address"]
	// Without a DNS service outside Neutron nothing is kept of these.
	d["dns_name"], d["dns_domain"] = "", ""
	d["floating_ip_address"], d["port_id"], d["fixed_ip_address"], d["router_id"], d["status"] = ips[0].address, nil, nil, nil, "DOWN"
	if err := c.associate(r, t, want, fixed); err != nil {
		c.dropPort(port)
		return err
	}
	return nil
}

func (c *Cloud) floatingIPUpdate(r *request, t *thing, d doc) error {
	want, given := d["port_id"]
	if len(d) == 0 {
		c.dissociate(t) // as Neutron takes an update of nothing
		return nil
	}
	if !given {
		if d["fixed_ip_address"] != nil {
			return badFloatingIP("fixed_ip_address cannot be specified without a port_id")
		}
		delete(d, "fixed_ip_address")
		return nil
	}
	fixed := d["fixed_ip_address"]
	delete(d, "port_id")
	delete(d, "fixed_ip_address")
	return c.associate(r, t, want, fixed)
}

func (c *Cloud) floatingIPRemove(_ *request, t *thing) error {
	c.dissociate(t)
	c.each("port", func(p *thing) {
		if str(p.doc, "device_owner") == ownerFloating && str(p.doc, "device_id") == t.id {
			c.dropPort(p)
		}
	})
	return nil
}

// associate leads the floating IP to a port's fixed address, or nowhere for a nil port.
func (c *Cloud) associate(r *request, f *thing, portID, fixed any) error {
	if portID == nil {
		if fixed != nil {
			return badFloatingIP("fixed_ip_address cannot be specified without a port_id")
		}
		c.dissociate(f)
		return nil
	}
	port, err := c.findThing(r, c.network.nouns["ports"], portID.(string), false)
	if err != nil {
		return err
	}
	if port.project != f.project && !r.token.admin {
		return badFloatingIP("Port " + port.id + " is associated with a different tenant than Floating IP " + f.id + " and therefore cannot be bound")
	}
	var candidates []fixedIP
	for _, ip := range fixedIPs(port) {
		if a, err := netip.ParseAddr(ip.address); err == nil && a.Is4() && (fixed == nil || fixed == ip.address) {
			candidates = append(candidates, ip)
		}
	}
	switch {
	case len(candidates) == 0 && fixed != nil:
		return badFloatingIP("Port " + port.id + " does not have fixed ip " + fixed.(string))
	case len(candidates) == 0:
		return badFloatingIP("Cannot add floating IP to port " + port.id + " that has no fixed IPv4 addresses")
	case len(candidates) > 1:
		return badFloatingIP("Port " + port.id + " has multiple fixed IPv4 addresses.  Must provide a specific IPv4 address when assigning a floating IP")
	}
	ip := candidates[0]
	router := c.routerTo(ip.subnet, str(f.doc, "floating_network_id"))
	if router == "" {
		return refuseAs(404, "ExternalGatewayForFloatingIPNotFound", "External network "+str(f.doc, "floating_network_id")+" is not reachable from subnet "+ip.subnet+".  Therefore, cannot associate Port "+port.id+" with a Floating IP.")
	}
	if f.doc["port_id"] == port.id && f.doc["fixed_ip_address"] == ip.address {
		return nil
	}
	taken := false
	c.each("floatingip", func(o *thing) {
		taken = taken || o != f && o.doc["port_id"] == port.id && o.doc["fixed_ip_address"] == ip.address && o.doc["floating_network_id"] == f.doc["floating_network_id"]
	})
	if taken && f.doc["port_id"] == port.id {
		// Neutron finds it out in its database only, and fails.
		return refuseAs(500, "HTTPInternalServerError", "Request Failed: internal server error while processing your request.")
	}
	if taken {
		return refuseAs(409, "FloatingIPPortAlreadyAssociated", "Cannot associate floating IP "+str(f.doc, "floating_ip_address")+" ("+f.id+") with port "+port.id+" using fixed IP "+ip.address+", as that fixed IP already has a floating IP on external network "+str(f.doc, "floating_network_id")+".")
	}
	c.dissociate(f)
	f.doc["port_id"], f.doc["fixed_ip_address"], f.doc["router_id"], f.doc["status"] = port.id, ip.address, router, "ACTIVE"
	c.tellFloatingIP(FloatingIPAssociated, c.floatingInfo(f))
	return nil
}

func (c *Cloud) dissociate(f *thing) {
	if f.doc["port_id"] == nil {
		return
	}
	info := c.floatingInfo(f)
	f.doc["port_id"], f.doc["fixed_ip_address"], f.doc["router_id"], f.doc["status"] = nil, nil, nil, "DOWN"
	c.touch(f)
	c.tellFloatingIP(FloatingIPDisassociated, info)
}

// dropStaleFloatingIPs frees floating IPs whose fixed address a port no longer has.
func (c *Cloud) dropStaleFloatingIPs(port *thing) {
	c.each("floatingip", func(f *thing) {
		if f.doc["port_id"] != port.id {
			return
		}
		for _, ip := range fixedIPs(port) {
			if ip.address == f.doc["fixed_ip_address"] {
				return
			}
		}
		c.dissociate(f)
	})
}

func (c *Cloud) floatingInfo(f *thing) FloatingIPInfo {
	info := FloatingIPInfo{ID: f.id, Address: str(f.doc, "floating_ip_address"), Fixed: str(f.doc, "fixed_ip_address"), PortID: str(f.doc, "port_id")}
	if p := c.thing("port", info.PortID); p != nil && c.compute.servers[str(p.doc, "device_id")] != nil {
		info.ServerID = str(p.doc, "device_id")
	}
	return info
}

// routerTo finds the router that joins a subnet with an external network, "" if there is none.
func (c *Cloud) routerTo(subnetID, externalID string) string {
	found := ""
	c.each("port", func(p *thing) {
		if found != "" || str(p.doc, "device_owner") != ownerInterface {
			return
		}
		for _, ip := range fixedIPs(p) {
			router := c.thing("router", str(p.doc, "device_id"))
			if ip.subnet == subnetID && router != nil && str(object(router.doc, "external_gateway_info"), "network_id") == externalID {
				found = router.id
			}
		}
	})
	return found
}
