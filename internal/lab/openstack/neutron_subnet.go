package openstack

import (
	"net/netip"
	"slices"
	"strings"
)

func subnetNoun() *noun {
	mode := checkOneOf("dhcpv6-stateful", "dhcpv6-stateless", "slaac")
	attrs := append(nameAttributes(),
		attribute{name: "network_id", post: true, required: true, check: checkUUID},
		attribute{name: "ip_version", post: true, required: true, check: checkIPVersion},
		attribute{name: "cidr", post: true, lazy: true, check: checkSubnet},
		attribute{name: "prefixlen", post: true, lazy: true, hidden: true, check: checkWhole},
		attribute{name: "use_default_subnetpool", post: true, lazy: true, hidden: true, check: checkBool},
		attribute{name: "gateway_ip", post: true, put: true, lazy: true, check: checkIPOrNone},
		attribute{name: "allocation_pools", post: true, put: true, lazy: true, check: checkPoolList},
		attribute{name: "dns_nameservers", post: true, put: true, fallback: []any{}, check: checkNameservers},
		attribute{name: "host_routes", post: true, put: true, fallback: []any{}, check: checkRoutes},
		attribute{name: "enable_dhcp", post: true, put: true, fallback: true, check: checkBool},
		attribute{name: "ipv6_ra_mode", post: true, check: mode},
		attribute{name: "ipv6_address_mode", post: true, check: mode},
		attribute{name: "service_types", post: true, put: true, fallback: []any{}, check: checkServiceTypes},
		attribute{name: "subnetpool_id", post: true, check: checkUUIDOrNone})
	return &noun{name: "subnet", plural: "subnets", missing: "SubnetNotFound", missingText: "Subnet %s could not be found.",
		attributes: attrs, quota: "subnet", taggable: true,
		create: (*Cloud).subnetCreate, update: (*Cloud).subnetUpdate, remove: (*Cloud).subnetRemove,
		visible: func(c *Cloud, t *thing) bool {
			net := c.thing("network", str(t.doc, "network_id"))
			return net != nil && net.doc["shared"] == true
		}}
}

func (c *Cloud) subnetCreate(r *request, t *thing) error {
	d := t.doc
	net := c.thing("network", str(d, "network_id"))
	if net == nil || r != nil && !c.sees(r, net) {
		return c.network.nouns["networks"].notFound(str(d, "network_id"))
	}
	if r != nil && !r.token.admin && net.project != r.token.project.id {
		return refuseAs(403, "HTTPForbidden", "Tenant "+r.token.project.id+" not allowed to create subnet on this network")
	}
	prefix, err := c.subnetRange(r, d)
	if err != nil {
		return err
	}
	d["cidr"] = prefix.String()
	if err := checkRangeOfSubnet(d, prefix); err != nil {
		return err
	}
	for _, s := range c.subnetsOf(net.id) {
		if netip.MustParsePrefix(str(s.doc, "cidr")).Overlaps(prefix) {
			return invalidInput("Requested subnet with cidr: " + prefix.String() + " for network: " + net.id + " overlaps with another subnet")
		}
		if s.doc["ip_version"] == d["ip_version"] && str(s.doc, "subnetpool_id") != str(d, "subnetpool_id") {
			return refuseAs(400, "NetworkSubnetPoolAffinityError", "Subnets hosted on the same network must be allocated from the same subnet pool.")
		}
	}
	given := has(d, "gateway_ip")
	if !given {
		gw := prefix.Addr()
		if gw.Is4() {
			gw = gw.Next()
		}
		d["gateway_ip"] = gw.String()
	}
	if err := checkGateway(d, prefix); err != nil {
		return err
	}
	if !given && prefix.Addr().Is4() && prefix.Bits() == 31 {
		return refuseAs(409, "IpamValueInvalid", "Gateway IP "+str(d, "gateway_ip")+" cannot be allocated in CIDR "+prefix.String())
	}
	if pools := list(d, "allocation_pools"); len(pools) > 0 {
		if err := checkPools(d, prefix, pools); err != nil {
			return err
		}
	} else {
		d["allocation_pools"] = defaultPools(prefix, str(d, "gateway_ip"))
	}
	delete(d, "prefixlen")
	delete(d, "use_default_subnetpool")
	c.network.used[t.id] = map[string]string{}
	c.touch(net)
	return nil
}

// subnetRange returns the range of a new subnet: the one asked for, or one of a pool.
func (c *Cloud) subnetRange(r *request, d doc) (netip.Prefix, error) {
	cidr, version := str(d, "cidr"), d["ip_version"]
	if has(d, "cidr") && has(d, "prefixlen") {
		return netip.Prefix{}, badSubnet("cidr and prefixlen must not be supplied together")
	}
	if d["use_default_subnetpool"] == true {
		return netip.Prefix{}, badSubnet("No default subnetpool found for IPv" + text(version))
	}
	if pool := str(d, "subnetpool_id"); pool != "" {
		return c.fromPool(r, d, pool)
	}
	if cidr == "" {
		return netip.Prefix{}, badSubnet("a subnetpool must be specified in the absence of a cidr")
	}
	prefix := netip.MustParsePrefix(cidr)
	if prefix.Addr().Is4() != (version == 4) {
		return netip.Prefix{}, invalidInput("cidr '" + cidr + "' does not match the ip_version '" + text(version) + "'")
	}
	return prefix, nil
}

func badSubnet(message string) error {
	return refuseAs(400, "BadRequest", "Bad subnets request: "+message+".")
}

// checkRangeOfSubnet refuses what doesn't fit the range.
func checkRangeOfSubnet(d doc, prefix netip.Prefix) error {
	is4 := prefix.Addr().Is4()
	if d["enable_dhcp"] == true {
		switch {
		case is4 && prefix.Bits() > 30, !is4 && prefix.Bits() > 126:
			return invalidInput("Subnet has a prefix length that is incompatible with DHCP service enabled")
		case prefix.Addr().IsMulticast():
			return invalidInput("Multicast IP subnet is not supported if enable_dhcp is True")
		case prefix.Addr().IsLoopback():
			return invalidInput("Loopback IP subnet is not supported if enable_dhcp is True")
		case prefix.Addr().IsUnspecified():
			return invalidInput("First IP '" + prefix.Addr().String() + "' of network is not supported if enable_dhcp is True.")
		}
	}
	if prefix.Bits() == 0 {
		return invalidInput("0 is not allowed as CIDR prefix length")
	}
	ra, address := str(d, "ipv6_ra_mode"), str(d, "ipv6_address_mode")
	switch {
	case is4 && ra != "":
		return invalidInput("ipv6_ra_mode is not valid when ip_version is 4")
	case is4 && address != "":
		return invalidInput("ipv6_address_mode is not valid when ip_version is 4")
	case (ra != "" || address != "") && d["enable_dhcp"] != true:
		return invalidInput("ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to False")
	case ra != "" && address != "" && ra != address:
		return invalidInput("ipv6_ra_mode set to '" + ra + "' with ipv6_address_mode set to '" + address + "' is not valid. If both attributes are set, they must be the same value")
	case autoAddresses(d) && prefix.Bits() != 64:
		return invalidInput("Invalid CIDR " + prefix.String() + " for IPv6 address mode. OpenStack uses the EUI-64 address format, which requires the prefix to be /64")
	}
	return checkSubnetLists(d, d["ip_version"], "new subnet")
}

// autoAddresses reports whether a port's address on the subnet follows from its hardware address.
func autoAddresses(d doc) bool {
	for _, mode := range []string{str(d, "ipv6_address_mode"), str(d, "ipv6_ra_mode")} {
		if mode == "slaac" || mode == "dhcpv6-stateless" {
			return true
		}
	}
	return false
}

// How many name servers and routes a subnet may have.
const (
	maxNameservers = 5
	maxHostRoutes  = 20
)

func checkSubnetLists(d doc, version any, subnet string) error {
	if len(list(d, "dns_nameservers")) > maxNameservers {
		return refuseAs(400, "DNSNameServersExhausted", "Unable to complete operation for "+subnet+". The number of DNS nameservers exceeds the limit "+text(maxNameservers)+".")
	}
	routes := list(d, "host_routes")
	if len(routes) > maxHostRoutes {
		return refuseAs(400, "HostRoutesExhausted", "Unable to complete operation for "+subnet+". The number of host routes exceeds the limit "+text(maxHostRoutes)+".")
	}
	for _, x := range routes {
		for _, k := range []string{"destination", "nexthop"} {
			if v := str(x.(doc), k); ipVersion(v) != version {
				return invalidInput(k + " '" + v + "' does not match the ip_version '" + text(version) + "'")
			}
		}
	}
	return nil
}

func checkServiceTypes(v any) (any, error) {
	l, isList := v.([]any)
	if !isList {
		return nil, plainBad("Subnet service types must be a list.")
	}
	for _, x := range l {
		s, isText := x.(string)
		if !isText {
			return nil, refuseAs(400, "InvalidInputSubnetServiceType", "Subnet service type "+pythonText(x)+" is not a string.")
		}
		owner, _, found := strings.Cut(s, ":")
		if !found || !slices.Contains([]string{"network", "compute", "baremetal", "neutron", "trunk"}, owner) {
			return nil, refuseAs(400, "InvalidSubnetServiceType", "Subnet service type "+s+" does not correspond to a valid device owner.")
		}
	}
	return l, nil
}

func checkGateway(d doc, prefix netip.Prefix) error {
	gw := str(d, "gateway_ip")
	if gw == "" {
		d["gateway_ip"] = nil
		return nil
	}
	a := netip.MustParseAddr(gw)
	if a.Is4() != prefix.Addr().Is4() {
		return invalidInput("gateway_ip '" + gw + "' does not match the ip_version '" + text(d["ip_version"]) + "'")
	}
	if a.Is4() && prefix.Contains(a) && prefix.Bits() < 31 && (a == prefix.Addr() || a == lastAddr(prefix)) {
		return invalidInput("Gateway is not valid on subnet")
	}
	return nil
}

func (c *Cloud) subnetUpdate(r *request, t *thing, d doc) error {
	prefix := netip.MustParsePrefix(str(t.doc, "cidr"))
	merged := doc{"ip_version": t.doc["ip_version"], "gateway_ip": t.doc["gateway_ip"], "allocation_pools": t.doc["allocation_pools"]}
	for k, v := range d {
		merged[k] = v
	}
	if err := checkSubnetLists(d, t.doc["ip_version"], t.id); err != nil {
		return err
	}
	if has(d, "gateway_ip") && d["gateway_ip"] != t.doc["gateway_ip"] {
		if err := checkGateway(merged, prefix); err != nil {
			return err
		}
		if port := c.network.used[t.id][str(t.doc, "gateway_ip")]; port != "" && str(c.thing("port", port).doc, "device_owner") == ownerInterface {
			return refuseAs(409, "GatewayIpInUse", "Current gateway ip "+str(t.doc, "gateway_ip")+" already in use by port "+port+". Unable to update.")
		}
	}
	if has(d, "gateway_ip") || has(d, "allocation_pools") {
		if err := checkPools(merged, prefix, list(merged, "allocation_pools")); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cloud) subnetRemove(_ *request, t *thing) error {
	for _, id := range c.network.used[t.id] {
		if p := c.thing("port", id); p != nil && str(p.doc, "device_owner") != ownerDHCP {
			return refuseAs(409, "SubnetInUse", "Unable to complete operation on subnet "+t.id+": One or more ports have an IP allocation from this subnet.")
		}
	}
	delete(c.network.used, t.id)
	if net := c.thing("network", str(t.doc, "network_id")); net != nil {
		c.touch(net)
	}
	return nil
}
