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
		attribute{name: "mac_address", post: true, put: true, lazy: true, adminPut: true, check: checkMAC},
		attribute{name: "fixed_ips", post: true, put: true, lazy: true, check: checkFixedIPs},
		attribute{name: "device_id", post: true, put: true, fallback: "", check: checkName},
		attribute{name: "device_owner", post: true, put: true, fallback: "", check: checkName},
		attribute{name: "security_groups", post: true, put: true, lazy: true, check: checkUUIDs},
		attribute{name: "allowed_address_pairs", post: true, put: true, fallback: []any{}, check: checkPairs},
		attribute{name: "port_security_enabled", post: true, put: true, lazy: true, unfound: true, check: checkBool},
		attribute{name: "extra_dhcp_opts", post: true, put: true, fallback: []any{}, check: checkOptions},
		attribute{name: "dns_name", post: true, put: true, fallback: "", unfound: true, check: checkHostName},
		attribute{name: "qos_policy_id", post: true, put: true, check: checkPolicy},
		attribute{name: "qos_network_policy_id"}, attribute{name: "resource_request", adminView: true},
		attribute{name: "binding:vnic_type", post: true, put: true, fallback: "normal", check: checkOneOf("normal", "direct", "macvtap", "direct-physical", "baremetal", "virtio-forwarder", "vdpa", "remote-managed", "smart-nic", "accelerator-direct", "accelerator-direct-physical")},
		attribute{name: "binding:host_id", post: true, put: true, fallback: "", admin: true, adminView: true},
		attribute{name: "binding:profile", post: true, put: true, fallback: doc{}, admin: true, adminView: true, check: checkObject},
		attribute{name: "binding:vif_type", lazy: true, adminView: true}, attribute{name: "binding:vif_details", lazy: true, adminView: true},
		attribute{name: "tags", post: true, lazy: true, unfound: true, check: checkTexts},
		attribute{name: "dns_assignment", lazy: true}, attribute{name: "status", lazy: true})
	return &noun{name: "port", plural: "ports", missing: "PortNotFound", missingText: "Port %s could not be found.",
		attributes: attrs, quota: "port", taggable: true, revision: 1,
		create: (*Cloud).portCreate, update: (*Cloud).portUpdate, remove: (*Cloud).portRemove,
		show: func(c *Cloud, _ *request, t *thing, d doc) {
			assigned := []any{}
			for _, ip := range fixedIPs(t) {
				host := "host-" + strings.NewReplacer(".", "-", ":", "-").Replace(ip.address)
				if n := str(t.doc, "dns_name"); n != "" {
					host = n
				}
				whole := host
				if !strings.HasSuffix(host, ".") {
					whole += "." + dnsDomain
				}
				assigned = append(assigned, doc{"ip_address": ip.address, "hostname": host, "fqdn": whole})
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
		wanted := map[string][]string{} // of one key any is enough, of several keys all count
		for _, w := range want {
			k, v, _ := strings.Cut(w, "=")
			wanted[k] = append(wanted[k], v)
		}
		for k, values := range wanted {
			found := slices.ContainsFunc(fixedIPs(t), func(ip fixedIP) bool {
				switch k {
				case "ip_address":
					return slices.Contains(values, ip.address)
				case "subnet_id":
					return slices.Contains(values, ip.subnet)
				case "ip_address_substr":
					return slices.ContainsFunc(values, func(v string) bool { return strings.Contains(ip.address, v) })
				}
				return false
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

func (c *Cloud) portCreate(r *request, t *thing) error {
	d := t.doc
	net := c.thing("network", str(d, "network_id"))
	if net == nil || r != nil && !c.sees(r, net) {
		return c.network.nouns["networks"].notFound(str(d, "network_id"))
	}
	if r != nil && !r.token.admin && net.project != r.token.project.id {
		if net.doc["shared"] != true {
			return refuseAs(403, "HTTPForbidden", "Tenant "+r.token.project.id+" not allowed to create port on this network")
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
		want = c.automaticIPs(net, str(d, "device_owner"))
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
	if sent, given := d["extra_dhcp_opts"].([]any); given {
		will["extra_dhcp_opts"] = mergeOptions(list(t.doc, "extra_dhcp_opts"), sent)
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
		before := t.doc["fixed_ips"]
		if err := c.setFixedIPs(t, c.thing("network", str(t.doc, "network_id")), want); err != nil {
			return err
		}
		d["changed"] = !sameJSON(before, t.doc["fixed_ips"])
		c.dropStaleFloatingIPs(t)
	}
	delete(d, "fixed_ips")
	for k := range d {
		if k != "changed" {
			d[k] = will[k]
		}
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
