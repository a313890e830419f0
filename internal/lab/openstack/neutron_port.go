package openstack

import (
	"slices"
	"strings"
)

// Device owners that the API treats specially.
const (
	ownerDHCP      = "network:dhcp"
	ownerInterface = "network:router_interface"
	ownerGateway   = "network:router_gateway"
	ownerFloating  = "network:floatingip"
)

func portNoun() *noun {
	attrs := append(nameAttributes(),
		attribute{name: "network_id", post: true, required: true, check: checkUUID},
		attribute{name: "admin_state_up", post: true, put: true, fallback: true, check: checkBool},
		attribute{name: "mac_address", post: true, put: true, lazy: true, check: checkName},
		attribute{name: "fixed_ips", post: true, put: true, lazy: true, check: checkObjects()},
		attribute{name: "device_id", post: true, put: true, fallback: "", check: checkName},
		attribute{name: "device_owner", post: true, put: true, fallback: "", check: checkName},
		attribute{name: "security_groups", post: true, put: true, lazy: true, check: checkUUIDs},
		attribute{name: "allowed_address_pairs", post: true, put: true, fallback: []any{}, check: checkObjects("ip_address")},
		attribute{name: "port_security_enabled", post: true, put: true, lazy: true, check: checkBool},
		attribute{name: "extra_dhcp_opts", post: true, put: true, fallback: []any{}, check: checkObjects("opt_name")},
		attribute{name: "dns_name", post: true, put: true, fallback: "", check: checkName},
		attribute{name: "qos_policy_id", post: true, put: true, check: checkUUIDOrNone},
		attribute{name: "binding:vnic_type", post: true, put: true, fallback: "normal", check: checkOneOf("normal", "direct", "macvtap", "direct-physical", "baremetal", "virtio-forwarder")},
		attribute{name: "binding:host_id", post: true, put: true, fallback: "", admin: true, adminView: true},
		attribute{name: "binding:profile", post: true, put: true, fallback: doc{}, admin: true, adminView: true},
		attribute{name: "binding:vif_type", lazy: true, adminView: true}, attribute{name: "binding:vif_details", lazy: true, adminView: true},
		attribute{name: "dns_assignment", lazy: true}, attribute{name: "status", lazy: true})
	return &noun{name: "port", plural: "ports", missing: "PortNotFound", missingText: "Port %s could not be found.",
		attributes: attrs, quota: "port", taggable: true,
		create: (*Cloud).portCreate, update: (*Cloud).portUpdate, remove: (*Cloud).portRemove,
		show: func(c *Cloud, _ *request, t *thing, d doc) {
			assigned := []any{}
			for _, ip := range fixedIPs(t) {
				host := "host-" + strings.NewReplacer(".", "-", ":", "-").Replace(ip.address)
				if n := str(t.doc, "dns_name"); n != "" {
					host = n
				}
				assigned = append(assigned, doc{"ip_address": ip.address, "hostname": host, "fqdn": host + ".lab.example."})
			}
			d["dns_assignment"] = assigned
		},
		match: portMatch}
}

func portMatch(_ *Cloud, t *thing, key string, want []string) (bool, bool) {
	switch key {
	case "fixed_ips":
		if t == nil {
			return false, true
		}
		for _, w := range want {
			k, v, _ := strings.Cut(w, "=")
			found := slices.ContainsFunc(fixedIPs(t), func(ip fixedIP) bool {
				return k == "ip_address" && ip.address == v || k == "subnet_id" && ip.subnet == v || k == "ip_address_substr" && strings.Contains(ip.address, v)
			})
			if !found {
				return false, true
			}
		}
		return true, true
	case "security_groups":
		if t == nil {
			return false, true
		}
		return slices.ContainsFunc(want, func(w string) bool { return slices.Contains(list(t.doc, "security_groups"), any(w)) }), true
	}
	return false, false
}

type fixedIP struct{ subnet, address string }

func fixedIPs(t *thing) []fixedIP {
	var out []fixedIP
	for _, x := range list(t.doc, "fixed_ips") {
		o := x.(doc)
		out = append(out, fixedIP{str(o, "subnet_id"), str(o, "ip_address")})
	}
	return out
}

func (c *Cloud) portCreate(r *request, t *thing) error {
	d := t.doc
	net := c.thing("network", str(d, "network_id"))
	if net == nil || r != nil && !c.sees(r, net) {
		return c.network.nouns["networks"].notFound(str(d, "network_id"))
	}
	if r != nil && !r.token.admin && net.project != r.token.project.id {
		if net.doc["shared"] != true {
			return forbidden(r, "create_port")
		}
		if has(d, "mac_address") || strings.HasPrefix(str(d, "device_owner"), "network:") {
			return forbidden(r, "create_port")
		}
	}
	d["status"], d["binding:vif_type"], d["binding:vif_details"] = "DOWN", "unbound", doc{}
	if !has(d, "port_security_enabled") {
		d["port_security_enabled"] = net.doc["port_security_enabled"] == true && !strings.HasPrefix(str(d, "device_owner"), "network:")
	}
	if err := c.checkPortSecurity(r, t, d, t.project); err != nil {
		return err
	}
	if mac := str(d, "mac_address"); mac == "" {
		d["mac_address"] = c.ids.mac()
	} else if c.macTaken(net.id, mac) {
		return refuseAs(409, "MacAddressInUse", "Unable to complete operation for network "+net.id+". The mac address "+mac+" is in use.")
	}
	want, given := d["fixed_ips"].([]any)
	d["fixed_ips"] = []any{}
	if !given {
		want = c.automaticIPs(net)
	}
	if err := c.setFixedIPs(t, net, want); err != nil {
		return err
	}
	if str(d, "binding:host_id") != "" && str(d, "device_owner") != "" {
		bindPort(t, str(d, "binding:host_id"))
	}
	return nil
}

func (c *Cloud) macTaken(networkID, mac string) bool {
	taken := false
	c.each("port", func(p *thing) {
		taken = taken || str(p.doc, "network_id") == networkID && strings.EqualFold(str(p.doc, "mac_address"), mac)
	})
	return taken
}

// automaticIPs asks for an address of the first IPv4 subnet with room and one of the first IPv6 subnet.
func (c *Cloud) automaticIPs(net *thing) []any {
	var out []any
	done := map[any]bool{}
	subnets := c.subnetsOf(net.id)
	for i, s := range subnets {
		v := s.doc["ip_version"]
		if done[v] {
			continue
		}
		last := !slices.ContainsFunc(subnets[i+1:], func(o *thing) bool { return o.doc["ip_version"] == v })
		if !last {
			address, err := c.allocate(s, "", "probe")
			if err != nil {
				continue
			}
			c.release(s.id, address)
		}
		done[v] = true
		out = append(out, doc{"subnet_id": s.id})
	}
	return out
}

// setFixedIPs changes a port's addresses to those wanted; on an error nothing has changed.
func (c *Cloud) setFixedIPs(t, net *thing, want []any) error {
	old := fixedIPs(t)
	kept := map[string]bool{}
	for _, w := range want {
		if a := str(w.(doc), "ip_address"); a != "" {
			kept[a] = true
		}
	}
	for _, ip := range old {
		c.release(ip.subnet, ip.address)
	}
	var now []fixedIP
	fail := func(err error) error {
		for _, ip := range now {
			c.release(ip.subnet, ip.address)
		}
		for _, ip := range old {
			c.network.used[ip.subnet][ip.address] = t.id
		}
		return err
	}
	subnets := c.subnetsOf(net.id)
	for _, w := range want {
		subnetID, address := str(w.(doc), "subnet_id"), str(w.(doc), "ip_address")
		var subnet *thing
		switch {
		case len(subnets) == 0:
			return fail(invalidInput("IP allocation requires subnets for network"))
		case subnetID != "":
			for _, s := range subnets {
				if s.id == subnetID {
					subnet = s
				}
			}
			if subnet == nil && c.thing("subnet", subnetID) == nil {
				return fail(c.network.nouns["subnets"].notFound(subnetID))
			}
			if subnet == nil {
				return fail(invalidInput("Failed to create port on network " + net.id + ", because fixed_ips included invalid subnet " + subnetID))
			}
			if address != "" && !usable(subnet, address) {
				return fail(refuseAs(400, "InvalidIpForSubnet", "IP address "+address+" is not a valid IP for the specified subnet."))
			}
			for _, ip := range old { // a subnet without address keeps what the port has there
				if address == "" && ip.subnet == subnetID && !kept[ip.address] {
					address = ip.address
					kept[address] = true
				}
			}
		case address != "":
			for _, s := range subnets {
				if subnet == nil && usable(s, address) {
					subnet = s
				}
			}
			if subnet == nil {
				return fail(refuseAs(400, "InvalidIpForNetwork", "IP address "+address+" is not a valid IP for any of the subnets on the specified network."))
			}
		default:
			return fail(invalidInput("IP allocation requires subnet_id or ip_address"))
		}
		got, err := c.allocate(subnet, address, t.id)
		if err != nil {
			return fail(err)
		}
		now = append(now, fixedIP{subnet.id, got})
	}
	out := []any{}
	for _, ip := range now {
		out = append(out, doc{"subnet_id": ip.subnet, "ip_address": ip.address})
	}
	t.doc["fixed_ips"] = out
	return nil
}

// checkPortSecurity resolves security groups and address pairs against port security. d has the attributes
// as they will be; security_groups is set to the default group where none is given.
func (c *Cloud) checkPortSecurity(r *request, t *thing, d doc, project string) error {
	secure := d["port_security_enabled"] == true
	groups, given := d["security_groups"].([]any)
	switch {
	case !given && secure:
		d["security_groups"] = []any{c.defaultGroup(project).id}
	case !given:
		d["security_groups"] = []any{}
	case !secure && len(groups) > 0:
		return refuseAs(400, "PortSecurityAndIPRequiredForSecurityGroups", "Port security must be enabled and port must have an IP address in order to use security groups.")
	}
	for _, g := range groups {
		sg := c.thing("security_group", g.(string))
		if sg == nil || r != nil && !c.sees(r, sg) {
			return c.network.nouns["security_groups"].notFound(g.(string))
		}
	}
	pairs := list(d, "allowed_address_pairs")
	if len(pairs) > 0 && !secure {
		return refuseAs(409, "AddressPairAndPortSecurityRequired", "Port Security must be enabled in order to have allowed address pairs on a port.")
	}
	complete := []any{}
	for _, p := range pairs {
		o := p.(doc)
		pair := doc{"ip_address": str(o, "ip_address"), "mac_address": str(o, "mac_address")}
		if _, err := checkIP(o["ip_address"]); err != nil {
			if _, err := checkSubnet(o["ip_address"]); err != nil {
				return refuseAs(400, "HTTPBadRequest", "Invalid input for allowed_address_pairs. Reason: "+err.Error()+".")
			}
		}
		if pair["mac_address"] == "" {
			pair["mac_address"] = d["mac_address"]
			if !has(d, "mac_address") {
				d["mac_address"] = c.ids.mac()
				pair["mac_address"] = d["mac_address"]
			}
		}
		complete = append(complete, pair)
	}
	d["allowed_address_pairs"] = complete
	return nil
}

func (c *Cloud) portUpdate(r *request, t *thing, d doc) error {
	will := doc{}
	for k, v := range t.doc {
		will[k] = v
	}
	for k, v := range d {
		will[k] = v
	}
	if has(d, "port_security_enabled") && d["port_security_enabled"] == false && !has(d, "security_groups") && len(list(t.doc, "security_groups")) > 0 {
		return refuseAs(409, "PortSecurityPortHasSecurityGroup", "Port has security group associated. Cannot disable port security or IP address until security group is removed.")
	}
	if err := c.checkPortSecurity(r, t, will, t.project); err != nil {
		return err
	}
	if mac := str(d, "mac_address"); mac != "" && mac != t.doc["mac_address"] {
		if str(t.doc, "binding:host_id") != "" {
			return refuseAs(409, "PortBound", "Unable to complete operation on port "+t.id+", port is already bound, port type: ovs, old_mac "+str(t.doc, "mac_address")+", new_mac "+mac+".")
		}
		if c.macTaken(str(t.doc, "network_id"), mac) {
			return refuseAs(409, "MacAddressInUse", "Unable to complete operation for network "+str(t.doc, "network_id")+". The mac address "+mac+" is in use.")
		}
	}
	if want, given := d["fixed_ips"].([]any); given {
		if err := c.setFixedIPs(t, c.thing("network", str(t.doc, "network_id")), want); err != nil {
			return err
		}
		c.dropStaleFloatingIPs(t)
	}
	delete(d, "fixed_ips")
	for k := range d {
		d[k] = will[k]
	}
	if host, given := d["binding:host_id"].(string); given {
		if host != "" {
			bindPort(t, host)
		} else {
			unbindPort(t)
		}
	}
	return nil
}

// bindPort does what a compute host's agent reports once it has plugged the port in.
func bindPort(t *thing, host string) {
	t.doc["binding:host_id"], t.doc["binding:vif_type"], t.doc["binding:vif_details"] = host, "ovs", doc{"port_filter": true}
	t.doc["status"] = "ACTIVE"
}

func unbindPort(t *thing) {
	t.doc["binding:host_id"], t.doc["binding:vif_type"], t.doc["binding:vif_details"] = "", "unbound", doc{}
	t.doc["status"] = "DOWN"
}

func (c *Cloud) portRemove(r *request, t *thing) error {
	if owner := str(t.doc, "device_owner"); r != nil && r.service == "network" && (owner == ownerInterface || owner == ownerGateway || owner == ownerFloating) {
		if c.thing("router", str(t.doc, "device_id")) != nil || c.thing("floatingip", str(t.doc, "device_id")) != nil {
			return refuseAs(409, "ServicePortInUse", "Port "+t.id+" cannot be deleted directly via the port API: has device owner "+owner+".")
		}
	}
	c.portGone(t)
	return nil
}

// portGone frees what a port holds.
func (c *Cloud) portGone(t *thing) {
	c.each("floatingip", func(f *thing) {
		if f.doc["port_id"] == t.id {
			c.dissociate(f)
		}
	})
	for _, ip := range fixedIPs(t) {
		c.release(ip.subnet, ip.address)
	}
}

// dropPort deletes a port without asking, as Nova and the routers do with theirs.
func (c *Cloud) dropPort(t *thing) {
	c.portGone(t)
	delete(c.network.things["port"], t.id)
}
