package openstack

// addresses lists a server's fixed addresses in the order of its ports.
func (c *Cloud) addresses(s *server) []Address {
	var out []Address
	for _, n := range s.nics {
		p := c.thing("port", n.port)
		if p == nil {
			continue
		}
		net := c.thing("network", str(p.doc, "network_id"))
		for _, ip := range fixedIPs(p) {
			a := Address{NetworkID: net.id, Network: str(net.doc, "name"), SubnetID: ip.subnet, PortID: p.id, MAC: str(p.doc, "mac_address"), Fixed: ip.address}
			if sub := c.thing("subnet", ip.subnet); sub != nil {
				a.Gateway = str(sub.doc, "gateway_ip")
				a.PrefixBits = prefixBits(str(sub.doc, "cidr"))
			}
			c.each("floatingip", func(f *thing) {
				if f.doc["port_id"] == p.id && f.doc["fixed_ip_address"] == ip.address {
					a.Floating = str(f.doc, "floating_ip_address")
				}
			})
			out = append(out, a)
		}
	}
	return out
}

func (c *Cloud) addressesDoc(s *server) doc {
	d := doc{}
	for _, a := range c.addresses(s) {
		l, _ := d[a.Network].([]any)
		l = append(l, doc{"addr": a.Fixed, "version": ipVersion(a.Fixed), "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": a.MAC})
		if a.Floating != "" {
			l = append(l, doc{"addr": a.Floating, "version": 4, "OS-EXT-IPS:type": "floating", "OS-EXT-IPS-MAC:mac_addr": a.MAC})
		}
		d[a.Network] = l
	}
	return d
}

func (c *Cloud) serverIPs(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"addresses": plainAddresses(c.addressesDoc(s))})
}

// plainAddresses leaves out what only a server's own page has.
func plainAddresses(all doc) doc {
	for _, l := range all {
		for _, a := range l.([]any) {
			delete(a.(doc), "OS-EXT-IPS:type")
			delete(a.(doc), "OS-EXT-IPS-MAC:mac_addr")
		}
	}
	return all
}

func (c *Cloud) serverIPsOf(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	all := plainAddresses(c.addressesDoc(s))
	if !has(all, r.arg("network")) {
		return answer{}, refuse(404, "Instance is not a member of specified network")
	}
	return ok(doc{r.arg("network"): all[r.arg("network")]})
}
