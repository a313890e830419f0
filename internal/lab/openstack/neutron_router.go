package openstack

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
)

func routerNoun() *noun {
	attrs := append(nameAttributes(),
		attribute{name: "admin_state_up", post: true, put: true, fallback: true, check: checkBool},
		attribute{name: "external_gateway_info", post: true, put: true, unfound: true, check: checkGatewayInfo},
		attribute{name: "routes", put: true, fallback: []any{}, unfound: true, check: checkRoutes},
		attribute{name: "distributed", post: true, put: true, fallback: false, check: checkBool, admin: true, strict: true, adminView: true, unfound: true},
		attribute{name: "ha", post: true, put: true, fallback: false, check: checkBool, admin: true, strict: true, adminView: true, unfound: true},
		attribute{name: "flavor_id", post: true, check: checkFlavor},
		attribute{name: "availability_zone_hints", post: true, fallback: []any{}, check: checkZones},
		attribute{name: "availability_zones", lazy: true}, attribute{name: "status", lazy: true})
	return &noun{name: "router", plural: "routers", missing: "RouterNotFound", missingText: "Router %s could not be found",
		attributes: attrs, quota: "router", taggable: true, revision: 1,
		create: (*Cloud).routerCreate, update: (*Cloud).routerUpdate, remove: (*Cloud).routerRemove}
}

// checkGatewayInfo wants the description of a gateway.
func checkGatewayInfo(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	o, isObject := v.(doc)
	if !isObject {
		return nil, errors.New("'" + pythonText(v) + "' is not a dictionary")
	}
	var unknown []string
	for _, k := range sortedKeys(o) {
		if !slices.Contains([]string{"network_id", "enable_snat", "external_fixed_ips", "qos_policy_id"}, k) {
			unknown = append(unknown, k)
		}
	}
	if unknown != nil {
		return nil, errors.New("Unexpected keys supplied: " + strings.Join(unknown, ", "))
	}
	if id, given := o["network_id"]; given && id != nil {
		if _, err := checkUUID(id); err != nil {
			return nil, err
		}
	}
	if v, given := o["enable_snat"]; given {
		b, err := checkBool(v)
		if err != nil {
			return nil, err
		}
		o["enable_snat"] = b
	}
	if ips, given := o["external_fixed_ips"]; given {
		if _, err := checkFixedIPs(ips); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func checkFlavor(v any) (any, error) {
	id, err := checkUUIDOrNone(v)
	if err != nil || id == nil {
		return nil, err
	}
	return nil, refuseAs(404, "FlavorNotFound", "Flavor "+id.(string)+" could not be found.")
}

func badRouter(message string) error {
	return refuseAs(400, "BadRequest", "Bad router request: "+message+".")
}

// mayGateway refuses what of a gateway only administrators may set.
func mayGateway(r *request, action string, info any) error {
	o, _ := info.(doc)
	if r.token.admin {
		return nil
	}
	for _, k := range []string{"enable_snat", "external_fixed_ips"} {
		if has(o, k) {
			rule := "rule:" + action + ":external_gateway_info"
			return refuseAs(403, "PolicyNotAuthorized", "(rule:"+action+" and ("+rule+" and ("+rule+":network_id and "+rule+":"+k+"))) is disallowed by policy")
		}
	}
	return nil
}

func (c *Cloud) routerCreate(r *request, t *thing) error {
	t.doc["status"], t.doc["availability_zones"] = "ACTIVE", []any{networkZone}
	info := t.doc["external_gateway_info"]
	if err := mayGateway(r, "create_router", info); err != nil {
		return err
	}
	t.doc["external_gateway_info"] = nil
	if err := c.setGateway(r, t, info); err != nil {
		return err
	}
	if t.doc["external_gateway_info"] != nil {
		t.revision += 2
	}
	return nil
}

func (c *Cloud) routerUpdate(r *request, t *thing, d doc) error {
	if d["distributed"] == true && t.doc["distributed"] != true && t.doc["admin_state_up"] == true && d["admin_state_up"] != false {
		return badRouter("Cannot change the 'distributed' attribute of active routers. Please set router admin_state_up to False prior to upgrade")
	}
	if routes := list(d, "routes"); routes != nil {
		if err := c.checkRouterRoutes(t, routes); err != nil {
			return err
		}
	}
	if info, given := d["external_gateway_info"]; given {
		if err := mayGateway(r, "update_router", info); err != nil {
			return err
		}
		before := t.doc["external_gateway_info"]
		if err := c.setGateway(r, t, info); err != nil {
			return err
		}
		delete(d, "external_gateway_info")
		d["changed"] = !sameJSON(before, t.doc["external_gateway_info"])
	}
	return nil
}

// maxRoutes is how many routes a router may have.
const maxRoutes = 30

func (c *Cloud) checkRouterRoutes(t *thing, routes []any) error {
	if len(routes) > maxRoutes {
		return refuseAs(400, "RoutesExhausted", "Unable to complete operation for "+t.id+". The number of routes exceeds the maximum "+text(maxRoutes)+".")
	}
	for _, x := range routes {
		hop, err := netip.ParseAddr(str(x.(doc), "nexthop"))
		if err != nil {
			return err
		}
		connected := false
		for _, p := range c.routerPorts(t.id, "") {
			for _, ip := range fixedIPs(p) {
				if ip.address == hop.String() {
					return refuseAs(400, "InvalidRoutes", "Invalid format for routes: "+pythonRepr(routes)+", the nexthop is used by router")
				}
				connected = connected || netip.MustParsePrefix(str(c.thing("subnet", ip.subnet).doc, "cidr")).Contains(hop)
			}
		}
		if !connected {
			return refuseAs(400, "InvalidRoutes", "Invalid format for routes: "+pythonRepr(routes)+", the nexthop is not connected with router")
		}
	}
	return nil
}

func (c *Cloud) routesAdd(r *request) (answer, error) {
	return c.routesChange(r, func(have []any, x any) []any { return append(have, x) })
}

func (c *Cloud) routesRemove(r *request) (answer, error) {
	return c.routesChange(r, func(have []any, _ any) []any { return have })
}

// routesChange takes the routes of a body out of a router's, and puts them in again by put.
func (c *Cloud) routesChange(r *request, put func(have []any, x any) []any) (answer, error) {
	n := c.network.nouns["routers"]
	router, err := c.findThing(r, n, r.arg("id"), true)
	if err != nil {
		return answer{}, err
	}
	whole, err := r.neutronBody()
	if err != nil {
		return answer{}, err
	}
	in, err := n.inner(whole)
	if err != nil {
		return answer{}, err
	}
	sent, err := n.attribute("routes").accept(in["routes"])
	if err != nil {
		return answer{}, err
	}
	routes := slices.Clone(list(router.doc, "routes"))
	for _, x := range sent.([]any) {
		routes = slices.DeleteFunc(routes, func(y any) bool { return sameJSON(x, y) })
		routes = put(routes, x)
	}
	if err := c.checkRouterRoutes(router, routes); err != nil {
		return answer{}, err
	}
	router.doc["routes"] = routes
	c.touch(router)
	return ok(doc{n.name: c.thingDoc(r, router)})
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
	want, _ := info.(doc)
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
	before := c.routerPorts(t.id, ownerGateway)
	if str(old, "network_id") == netID && len(before) == 1 {
		if err := c.setFixedIPs(before[0], net, asked); err != nil {
			return err
		}
		t.doc["external_gateway_info"] = doc{"network_id": netID, "enable_snat": snat, "external_fixed_ips": before[0].doc["fixed_ips"]}
		return nil
	}
	d := plainPort(netID, ownerGateway, t.id)
	if len(asked) > 0 {
		d["fixed_ips"] = asked
	}
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
		"allowed_address_pairs": []any{}, "extra_dhcp_opts": []any{}, "dns_name": "", "qos_policy_id": nil, "qos_network_policy_id": nil, "resource_request": nil,
		"binding:vnic_type": "normal", "binding:host_id": "", "binding:profile": doc{}, "port_security_enabled": false}
}

func (c *Cloud) routerServesFloating(routerID string) bool {
	serves := false
	c.each("floatingip", func(f *thing) { serves = serves || f.doc["router_id"] == routerID })
	return serves
}

func (c *Cloud) routerRemove(_ *request, t *thing) error {
	var attached []string
	for _, p := range c.routerPorts(t.id, ownerInterface) {
		attached = append(attached, p.id)
	}
	if attached != nil {
		return refuseAs(409, "RouterInUse", "Router "+t.id+" has ports still attached: "+strings.Join(attached, ", "))
	}
	if c.routerServesFloating(t.id) {
		return refuseAs(409, "RouterInUse", "Router "+t.id+" still has floating IPs")
	}
	for _, p := range c.routerPorts(t.id, ownerGateway) {
		c.dropPort(p)
	}
	return nil
}
