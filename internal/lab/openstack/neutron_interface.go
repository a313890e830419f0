package openstack

import (
	"net/netip"
	"slices"
)

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
	for _, k := range []string{"subnet_id", "port_id"} {
		if v, given := in[k]; given {
			if _, err := checkUUID(v); err != nil {
				return nil, "", "", badRouter(err.Error())
			}
		}
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
	d := doc{"id": router.id, "tenant_id": router.project, "port_id": port.id, "network_id": port.doc["network_id"], "subnet_ids": ids}
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
	if subnetID != "" {
		if _, err := c.findThing(r, c.network.nouns["subnets"], subnetID, false); err != nil {
			return answer{}, err
		}
	}
	var port *thing
	for _, p := range c.routerPorts(router.id, ownerInterface) {
		if p.id == portID && subnetID != "" && !slices.ContainsFunc(fixedIPs(p), func(ip fixedIP) bool { return ip.subnet == subnetID }) {
			return answer{}, refuseAs(400, "SubnetMismatchForPort", "Subnet on port "+portID+" does not match the requested subnet "+subnetID+".")
		}
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
