package openstack

import (
	"net/netip"
	"slices"
)

func subnetNoun() *noun {
	attrs := append(nameAttributes(),
		attribute{name: "network_id", post: true, required: true, check: checkUUID},
		attribute{name: "ip_version", post: true, required: true, check: checkInt(4, 6)},
		attribute{name: "cidr", post: true, lazy: true, check: checkSubnet},
		attribute{name: "gateway_ip", post: true, put: true, lazy: true, check: checkIPOrNone},
		attribute{name: "allocation_pools", post: true, put: true, lazy: true, check: checkObjects("start", "end")},
		attribute{name: "dns_nameservers", post: true, put: true, fallback: []any{}, check: checkIPs},
		attribute{name: "host_routes", post: true, put: true, fallback: []any{}, check: checkObjects("destination", "nexthop")},
		attribute{name: "enable_dhcp", post: true, put: true, fallback: true, check: checkBool},
		attribute{name: "ipv6_ra_mode", post: true},
		attribute{name: "ipv6_address_mode", post: true},
		attribute{name: "service_types", post: true, put: true, fallback: []any{}},
		attribute{name: "segment_id", post: true},
		attribute{name: "subnetpool_id", post: true},
		attribute{name: "dns_publish_fixed_ip", post: true, put: true, fallback: false, check: checkBool})
	return &noun{name: "subnet", plural: "subnets", missing: "SubnetNotFound", missingText: "Subnet %s could not be found.",
		attributes: attrs, quota: "subnet", taggable: true,
		create: (*Cloud).subnetCreate, update: (*Cloud).subnetUpdate, remove: (*Cloud).subnetRemove,
		visible: func(c *Cloud, t *thing) bool {
			net := c.thing("network", str(t.doc, "network_id"))
			return net != nil && net.doc["shared"] == true
		}}
}

func invalidInput(message string) error {
	return refuseAs(400, "InvalidInput", "Invalid input for operation: "+message+".")
}

func (c *Cloud) subnetCreate(r *request, t *thing) error {
	d := t.doc
	net := c.thing("network", str(d, "network_id"))
	if net == nil || r != nil && !c.sees(r, net) {
		return c.network.nouns["networks"].notFound(str(d, "network_id"))
	}
	if r != nil && !r.token.admin && net.project != r.token.project.id {
		return forbidden(r, "create_subnet")
	}
	if v := d["ip_version"]; v != 4 && v != 6 {
		return refuseAs(400, "HTTPBadRequest", "Invalid input for ip_version. Reason: '"+text(v)+"' is not in [4, 6].")
	}
	if str(d, "cidr") == "" {
		return refuseAs(400, "BadRequest", "Bad subnets request: a subnetpool must be specified in the absence of a cidr.")
	}
	prefix := netip.MustParsePrefix(str(d, "cidr"))
	version := 4
	if prefix.Addr().Is6() {
		version = 6
	}
	if d["ip_version"] != version {
		return invalidInput("cidr '" + prefix.String() + "' does not match the ip_version '" + text(d["ip_version"]) + "'")
	}
	if prefix.Bits() == 0 {
		return invalidInput("0 is not allowed as CIDR prefix length")
	}
	if d["enable_dhcp"] == true {
		switch {
		case version == 4 && prefix.Bits() > 30, version == 6 && prefix.Bits() > 126:
			return invalidInput("Subnet has a prefix length that is incompatible with DHCP service enabled")
		case prefix.Addr().IsMulticast():
			return invalidInput("Multicast IP subnet is not supported if enable_dhcp is True")
		case prefix.Addr().IsLoopback():
			return invalidInput("Loopback IP subnet is not supported if enable_dhcp is True")
		}
	}
	for _, s := range c.subnetsOf(net.id) {
		if netip.MustParsePrefix(str(s.doc, "cidr")).Overlaps(prefix) {
			return invalidInput("Requested subnet with cidr: " + prefix.String() + " for network: " + net.id + " overlaps with another subnet")
		}
	}
	if !has(d, "gateway_ip") {
		d["gateway_ip"] = prefix.Addr().Next().String()
	}
	if err := checkGateway(d, prefix); err != nil {
		return err
	}
	if pools := list(d, "allocation_pools"); len(pools) > 0 {
		if err := checkPools(d, prefix, pools); err != nil {
			return err
		}
	} else {
		d["allocation_pools"] = defaultPools(prefix, str(d, "gateway_ip"))
	}
	c.network.used[t.id] = map[string]string{}
	return nil
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

func checkPools(d doc, prefix netip.Prefix, pools []any) error {
	type span struct{ start, end netip.Addr }
	var seen []span
	for _, p := range pools {
		o := p.(doc)
		start, err1 := netip.ParseAddr(str(o, "start"))
		end, err2 := netip.ParseAddr(str(o, "end"))
		name := str(o, "start") + "-" + str(o, "end")
		if err1 != nil || err2 != nil || end.Less(start) {
			return refuseAs(400, "InvalidAllocationPool", "The allocation pool "+name+" is not valid.")
		}
		if !prefix.Contains(start) || !prefix.Contains(end) || prefix.Addr().Is4() && prefix.Bits() < 31 && (start == prefix.Addr() || end == lastAddr(prefix)) {
			return refuseAs(400, "OutOfBoundsAllocationPool", "The allocation pool "+name+" spans beyond the subnet cidr "+prefix.String()+".")
		}
		for _, s := range seen {
			if !end.Less(s.start) && !s.end.Less(start) {
				return refuseAs(409, "OverlappingAllocationPools", "Found overlapping allocation pools: "+s.start.String()+"-"+s.end.String()+" "+name+" for subnet "+prefix.String()+".")
			}
		}
		seen = append(seen, span{start, end})
		if gw, err := netip.ParseAddr(str(d, "gateway_ip")); err == nil && !gw.Less(start) && !end.Less(gw) {
			return refuseAs(409, "GatewayConflictWithAllocationPools", "Gateway ip "+gw.String()+" conflicts with allocation pool "+name+".")
		}
	}
	return nil
}

// defaultPools is all usable addresses but the gateway.
func defaultPools(prefix netip.Prefix, gateway string) []any {
	first, last := prefix.Addr(), lastAddr(prefix)
	if prefix.Addr().Is6() || prefix.Bits() < 31 {
		first = first.Next()
	}
	if prefix.Addr().Is4() && prefix.Bits() < 31 {
		last = last.Prev()
	}
	gw, err := netip.ParseAddr(gateway)
	if err != nil || gw.Less(first) || last.Less(gw) {
		return []any{doc{"start": first.String(), "end": last.String()}}
	}
	out := []any{}
	if first.Less(gw) {
		out = append(out, doc{"start": first.String(), "end": gw.Prev().String()})
	}
	if gw.Less(last) {
		out = append(out, doc{"start": gw.Next().String(), "end": last.String()})
	}
	return out
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 1 << (7 - bit%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// externalRange is the allocation pool of the provider's subnet.
func externalRange(cidr string, x External) (start, end string) {
	p := netip.MustParsePrefix(cidr)
	start, end = x.Start, x.End
	if start == "" {
		a := p.Addr()
		for range 10 {
			a = a.Next()
		}
		start = a.String()
	}
	if end == "" {
		end = lastAddr(p).Prev().String()
	}
	return start, end
}

func (c *Cloud) subnetUpdate(r *request, t *thing, d doc) error {
	prefix := netip.MustParsePrefix(str(t.doc, "cidr"))
	merged := doc{"ip_version": t.doc["ip_version"], "gateway_ip": t.doc["gateway_ip"], "allocation_pools": t.doc["allocation_pools"]}
	for k, v := range d {
		merged[k] = v
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
	return nil
}

// allocate takes an address for a port: the one asked for, or the first free one of the pools.
func (c *Cloud) allocate(subnet *thing, address, portID string) (string, error) {
	used := c.network.used[subnet.id]
	if address != "" {
		if used[address] != "" {
			return "", refuseAs(409, "IpAddressAlreadyAllocated", "IP address "+address+" already allocated in subnet "+subnet.id)
		}
		used[address] = portID
		return address, nil
	}
	for _, p := range list(subnet.doc, "allocation_pools") {
		a, _ := netip.ParseAddr(str(p.(doc), "start"))
		end, _ := netip.ParseAddr(str(p.(doc), "end"))
		for ; a.IsValid() && !end.Less(a); a = a.Next() {
			if used[a.String()] == "" {
				used[a.String()] = portID
				return a.String(), nil
			}
		}
	}
	return "", refuseAs(409, "IpAddressGenerationFailure", "No more IP addresses available for subnet "+subnet.id+".")
}

func (c *Cloud) release(subnetID, address string) { delete(c.network.used[subnetID], address) }

// usable tells whether a port may have the address.
func usable(subnet *thing, address string) bool {
	p, err := netip.ParsePrefix(str(subnet.doc, "cidr"))
	a, err2 := netip.ParseAddr(address)
	if err != nil || err2 != nil || !p.Contains(a) {
		return false
	}
	return a.Is6() || p.Bits() >= 31 || !slices.Contains([]netip.Addr{p.Addr(), lastAddr(p)}, a)
}
