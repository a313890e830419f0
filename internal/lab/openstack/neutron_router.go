package openstack

import "net/netip"

func routerNoun() *noun {
	attrs := append(nameAttributes(),
		attribute{name: "admin_state_up", post: true, put: true, fallback: true, check: checkBool},
		attribute{name: "external_gateway_info", post: true, put: true},
		attribute{name: "routes", put: true, fallback: []any{}, check: checkObjects("destination", "nexthop")},
		attribute{name: "distributed", post: true, put: true, fallback: false, check: checkBool, admin: true, adminView: true},
		attribute{name: "ha", post: true, put: true, fallback: false, check: checkBool, admin: true, adminView: true},
		attribute{name: "flavor_id", post: true},
		attribute{name: "availability_zone_hints", post: true, fallback: []any{}},
		attribute{name: "availability_zones", lazy: true}, attribute{name: "status", lazy: true})
	return &noun{name: "router", plural: "routers", missing: "RouterNotFound", missingText: "Router %s could not be found",
		attributes: attrs, quota: "router", taggable: true,
		create: (*Cloud).routerCreate, update: (*Cloud).routerUpdate, remove: (*Cloud).routerRemove}
}

func badRouter(message string) error {
	return refuseAs(400, "BadRequest", "Bad router request: "+message+".")
}

func (c *Cloud) routerCreate(r *request, t *thing) error {
	t.doc["status"], t.doc["availability_zones"] = "ACTIVE", []any{"nova"}
	info := t.doc["external_gateway_info"]
	t.doc["external_gateway_info"] = nil
	return c.setGateway(r, t, info)
}

func (c *Cloud) routerUpdate(r *request, t *thing, d doc) error {
	if routes := list(d, "routes"); routes != nil {
		if err := c.checkRoutes(t, routes); err != nil {
			return err
		}
	}
	if info, given := d["external_gateway_info"]; given {
		if err := c.setGateway(r, t, info); err != nil {
			return err
		}
		delete(d, "external_gateway_info")
	}
	return nil
}

func (c *Cloud) checkRoutes(t *thing, routes []any) error {
	for _, x := range routes {
		hop, err := netip.ParseAddr(str(x.(doc), "nexthop"))
		if err != nil {
			return refuseAs(400, "HTTPBadRequest", "Invalid input for routes. Reason: '"+str(x.(doc), "nexthop")+"' is not a valid IP address.")
		}
		if _, err := netip.ParsePrefix(str(x.(doc), "destination")); err != nil {
			return refuseAs(400, "HTTPBadRequest", "Invalid input for routes. Reason: '"+str(x.(doc), "destination")+"' is not a valid IP subnet.")
		}
		connected := false
		for _, p := range c.routerPorts(t.id, "") {
			for _, ip := range fixedIPs(p) {
				connected = connected || netip.MustParsePrefix(str(c.thing("subnet", ip.subnet).doc, "cidr")).Contains(hop)
			}
		}
		if !connected {
			return refuseAs(400, "InvalidRoutes", "Invalid format for routes: "+text(routes)+", the nexthop is not connected with router")
		}
	}
	return nil
}

// routerPorts lists a router's ports with that owner, or all for an empty one.
func (c *Cloud) routerPorts(routerID, owner string) []*thing {
	var out []*thing
	c.each("port", func(p *thing) {
		if o := str(p.doc, "device_owner"); str(p.doc, "device_id") == routerID && (o == owner || owner == "" && (o == ownerInterface || o == ownerGateway)) {
			out = append(out, p)
		}
	})
	return out
}

// setGateway changes a router's external gateway to what info, nil for none, says.
func (c *Cloud) setGateway(r *request, t *thing, info any) error {
	old := object(t.doc, "external_gateway_info")
	want, isObject := info.(doc)
	if info != nil && !isObject {
		return refuseAs(400, "HTTPBadRequest", "Invalid input for external_gateway_info. Reason: '"+text(info)+"' is not a dictionary.")
	}
	netID := str(want, "network_id")
	if oldNet := str(old, "network_id"); oldNet != "" && netID != oldNet && c.routerServesFloating(t.id) {
		return refuseAs(409, "RouterExternalGatewayInUseByFloatingIp", "Gateway cannot be updated for router "+t.id+", since a gateway to external network "+oldNet+" is required by one or more floating IPs.")
	}
	if netID == "" {
		for _, p := range c.routerPorts(t.id, ownerGateway) {
			c.dropPort(p)
		}
		t.doc["external_gateway_info"] = nil
		return nil
	}
	net := c.thing("network", netID)
	if net == nil || r != nil && !c.sees(r, net) {
		return c.network.nouns["networks"].notFound(netID)
	}
	if net.doc["router:external"] != true {
		return badRouter("Network " + netID + " is not an external network")
	}
	snat := any(true)
	if v, given := want["enable_snat"].(bool); given {
		snat = v
	}
	asked, _ := want["external_fixed_ips"].([]any)
	if str(old, "network_id") == netID && len(asked) == 0 {
		t.doc["external_gateway_info"] = doc{"network_id": netID, "enable_snat": snat, "external_fixed_ips": old["external_fixed_ips"]}
		return nil
	}
	d := plainPort(netID, ownerGateway, t.id)
	if len(asked) > 0 {
		d["fixed_ips"] = asked
	}
	before := c.routerPorts(t.id, ownerGateway)
	port, err := c.addThing(nil, c.network.nouns["ports"], "", d)
	if err != nil {
		return err
	}
	if len(fixedIPs(port)) == 0 {
		c.dropPort(port)
		return badRouter("No IPs available for external network " + netID)
	}
	for _, p := range before {
		c.dropPort(p)
	}
	port.doc["status"] = "ACTIVE"
	t.doc["external_gateway_info"] = doc{"network_id": netID, "enable_snat": snat, "external_fixed_ips": port.doc["fixed_ips"]}
	return nil
}

// plainPort is the body of a port that Neutron makes for itself.
func plainPort(networkID, owner, device string) doc {
	return doc{"name": "", "description": "", "network_id": networkID, "admin_state_up": true, "device_id": device, "device_owner": owner,
		"allowed_address_pairs": []any{}, "extra_dhcp_opts": []any{}, "dns_name": "", "qos_policy_id": nil,
		"binding:vnic_type": "normal", "binding:host_id": "", "binding:profile": doc{}, "port_security_enabled": false}
}

func (c *Cloud) routerServesFloating(routerID string) bool {
	serves := false
	c.each("floatingip", func(f *thing) { serves = serves || f.doc["router_id"] == routerID })
	return serves
}

func (c *Cloud) routerRemove(_ *request, t *thing) error {
	if len(c.routerPorts(t.id, ownerInterface)) > 0 {
		return refuseAs(409, "RouterInUse", "Router "+t.id+" still has ports")
	}
	if c.routerServesFloating(t.id) {
		return refuseAs(409, "RouterInUse", "Router "+t.id+" still has floating IPs")
	}
	for _, p := range c.routerPorts(t.id, ownerGateway) {
		c.dropPort(p)
	}
	return nil
}

// interfaceOf reads the body of the two interface calls.
func (c *Cloud) interfaceOf(r *request) (router *thing, subnetID, portID string, err error) {
	router, err = c.findThing(r, c.network.nouns["routers"], r.arg("id"), true)
	if err != nil {
		return nil, "", "", err
	}
	in, err := r.json()
	if err != nil {
		return nil, "", "", err
	}
	return router, str(in, "subnet_id"), str(in, "port_id"), nil
}

func (c *Cloud) routerAttach(r *request) (answer, error) {
	router, subnetID, portID, err := c.interfaceOf(r)
	if err != nil {
		return answer{}, err
	}
	var port *thing
	switch {
	case subnetID != "" && portID != "":
		return answer{}, badRouter("Cannot specify both subnet-id and port-id")
	case portID != "":
		port, err = c.attachPort(r, router, portID)
	case subnetID != "":
		port, err = c.attachSubnet(r, router, subnetID)
	default:
		return answer{}, badRouter("Either subnet_id or port_id must be specified")
	}
	if err != nil {
		return answer{}, err
	}
	c.touch(router)
	return ok(interfaceDoc(router, port))
}

func interfaceDoc(router, port *thing) doc {
	ids := []any{}
	for _, ip := range fixedIPs(port) {
		ids = append(ids, ip.subnet)
	}
	d := doc{"id": router.id, "tenant_id": router.project, "project_id": router.project, "port_id": port.id, "network_id": port.doc["network_id"],
		"subnet_ids": ids, "tags": []any{}}
	if len(ids) > 0 {
		d["subnet_id"] = ids[0]
	}
	return d
}

func (c *Cloud) attachSubnet(r *request, router *thing, subnetID string) (*thing, error) {
	subnet, err := c.findThing(r, c.network.nouns["subnets"], subnetID, false)
	if err != nil {
		return nil, err
	}
	gw := str(subnet.doc, "gateway_ip")
	if gw == "" {
		return nil, badRouter("Subnet for router interface must have a gateway IP")
	}
	if err := c.checkNeighbours(router, subnet); err != nil {
		return nil, err
	}
	d := plainPort(str(subnet.doc, "network_id"), ownerInterface, router.id)
	d["fixed_ips"] = []any{doc{"subnet_id": subnet.id, "ip_address": gw}}
	if err := c.checkQuota(router.project, "port", 1); err != nil {
		return nil, err
	}
	port, err := c.addThing(nil, c.network.nouns["ports"], router.project, d)
	if err != nil {
		return nil, err
	}
	port.doc["status"] = "ACTIVE"
	return port, nil
}

func (c *Cloud) attachPort(r *request, router *thing, portID string) (*thing, error) {
	port, err := c.findThing(r, c.network.nouns["ports"], portID, true)
	if err != nil {
		return nil, err
	}
	if device := str(port.doc, "device_id"); device != "" {
		return nil, refuseAs(409, "PortInUse", "Unable to complete operation on port "+portID+" for network "+str(port.doc, "network_id")+". Port already has an attached device "+device+".")
	}
	ips := fixedIPs(port)
	if len(ips) == 0 {
		return nil, badRouter("Router port must have at least one fixed IP")
	}
	for _, ip := range ips {
		if err := c.checkNeighbours(router, c.thing("subnet", ip.subnet)); err != nil {
			return nil, err
		}
	}
	port.doc["device_id"], port.doc["device_owner"], port.doc["status"] = router.id, ownerInterface, "ACTIVE"
	c.touch(port)
	return port, nil
}

// checkNeighbours refuses a subnet that the router has already, or that overlaps with one.
func (c *Cloud) checkNeighbours(router, subnet *thing) error {
	cidr := netip.MustParsePrefix(str(subnet.doc, "cidr"))
	for _, p := range c.routerPorts(router.id, "") {
		for _, ip := range fixedIPs(p) {
			if ip.subnet == subnet.id {
				return badRouter("Router already has a port on subnet " + subnet.id)
			}
			other := c.thing("subnet", ip.subnet)
			if netip.MustParsePrefix(str(other.doc, "cidr")).Overlaps(cidr) {
				return badRouter("Cidr " + cidr.String() + " of subnet " + subnet.id + " overlaps with cidr " + str(other.doc, "cidr") + " of subnet " + other.id)
			}
		}
	}
	return nil
}

func (c *Cloud) routerDetach(r *request) (answer, error) {
	router, subnetID, portID, err := c.interfaceOf(r)
	if err != nil {
		return answer{}, err
	}
	if subnetID == "" && portID == "" {
		return answer{}, badRouter("Either subnet_id or port_id must be specified")
	}
	var port *thing
	for _, p := range c.routerPorts(router.id, ownerInterface) {
		onSubnet := false
		for _, ip := range fixedIPs(p) {
			onSubnet = onSubnet || ip.subnet == subnetID
		}
		if (portID == "" || p.id == portID) && (subnetID == "" || onSubnet) {
			port = p
		}
	}
	if port == nil {
		if portID != "" {
			return answer{}, refuseAs(404, "RouterInterfaceNotFound", "Router "+router.id+" does not have an interface with id "+portID)
		}
		return answer{}, refuseAs(404, "RouterInterfaceNotFoundForSubnet", "Router "+router.id+" has no interface on subnet "+subnetID)
	}
	for _, ip := range fixedIPs(port) {
		if c.subnetNeedsRouter(ip.subnet, router.id) {
			return answer{}, refuseAs(409, "RouterInterfaceInUseByFloatingIP", "Router interface for subnet "+ip.subnet+" on router "+router.id+" cannot be deleted, as it is required by one or more floating IPs.")
		}
		for _, x := range list(router.doc, "routes") {
			hop, err := netip.ParseAddr(str(x.(doc), "nexthop"))
			if err == nil && netip.MustParsePrefix(str(c.thing("subnet", ip.subnet).doc, "cidr")).Contains(hop) {
				return answer{}, refuseAs(409, "RouterInterfaceInUseByRoute", "Router interface for subnet "+ip.subnet+" on router "+router.id+" cannot be deleted, as it is required by one or more routes.")
			}
		}
	}
	gone := interfaceDoc(router, port)
	c.dropPort(port)
	c.touch(router)
	return ok(gone)
}

// subnetNeedsRouter tells whether a floating IP leads through the router to an address of the subnet.
func (c *Cloud) subnetNeedsRouter(subnetID, routerID string) bool {
	needs := false
	c.each("floatingip", func(f *thing) {
		port := c.thing("port", str(f.doc, "port_id"))
		if f.doc["router_id"] != routerID || port == nil {
			return
		}
		for _, ip := range fixedIPs(port) {
			needs = needs || ip.subnet == subnetID && ip.address == str(f.doc, "fixed_ip_address")
		}
	})
	return needs
}
