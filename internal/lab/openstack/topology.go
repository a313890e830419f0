package openstack

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Topology is how the simulated networks hang together, for whoever simulates reachability.
type Topology struct {
	Subnets []Subnet `json:"subnets"`
	Routers []Router `json:"routers"`
}

// Subnet is one subnet and what reaches it.
type Subnet struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	NetworkID string   `json:"network_id"`
	Network   string   `json:"network"`
	CIDR      string   `json:"cidr"`
	Gateway   string   `json:"gateway"`  // "" without one
	External  bool     `json:"external"` // it is the provider's
	RouterIDs []string `json:"router_ids"`
}

// Router joins subnets, and an external network if ExternalNetworkID isn't empty.
type Router struct {
	ID                string   `json:"id"`
	Name              string   `json:"name"`
	SubnetIDs         []string `json:"subnet_ids"`
	ExternalNetworkID string   `json:"external_network_id"`
	ExternalAddresses []string `json:"external_addresses"`
	SNAT              bool     `json:"snat"` // hosts without a floating IP reach out
}

// Topology describes all subnets and routers of all projects, sorted by id.
func (c *Cloud) Topology() Topology {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := Topology{Subnets: []Subnet{}, Routers: []Router{}}
	through := map[string][]string{}
	c.each("router", func(x *thing) {
		r := Router{ID: x.id, Name: str(x.doc, "name"), SubnetIDs: []string{}, ExternalAddresses: []string{}}
		for _, p := range c.routerPorts(x.id, ownerInterface) {
			for _, ip := range fixedIPs(p) {
				r.SubnetIDs = append(r.SubnetIDs, ip.subnet)
				through[ip.subnet] = append(through[ip.subnet], x.id)
			}
		}
		slices.Sort(r.SubnetIDs)
		info := object(x.doc, "external_gateway_info")
		if r.ExternalNetworkID = str(info, "network_id"); r.ExternalNetworkID != "" {
			r.SNAT = info["enable_snat"] == true
			for _, p := range c.routerPorts(x.id, ownerGateway) {
				for _, ip := range fixedIPs(p) {
					r.ExternalAddresses = append(r.ExternalAddresses, ip.address)
				}
			}
		}
		t.Routers = append(t.Routers, r)
	})
	c.each("subnet", func(x *thing) {
		net := c.thing("network", str(x.doc, "network_id"))
		s := Subnet{ID: x.id, Name: str(x.doc, "name"), NetworkID: net.id, Network: str(net.doc, "name"), CIDR: str(x.doc, "cidr"), Gateway: str(x.doc, "gateway_ip"),
			External: net.doc["router:external"] == true, RouterIDs: append([]string{}, through[x.id]...)}
		t.Subnets = append(t.Subnets, s)
	})
	return t
}

// ReachesExternal tells whether packets of the server get out: a subnet of it is external, or a router joins
// one of its subnets with an external network and translates addresses or the server has a floating IP there.
func (c *Cloud) ReachesExternal(serverID string) bool {
	c.mu.Lock()
	s := c.compute.servers[serverID]
	var addresses []Address
	if s != nil {
		addresses = c.addresses(s)
	}
	c.mu.Unlock()
	t := c.Topology()
	for _, a := range addresses {
		for _, sub := range t.Subnets {
			if sub.ID != a.SubnetID {
				continue
			}
			if sub.External {
				return true
			}
			for _, r := range t.Routers {
				if slices.Contains(sub.RouterIDs, r.ID) && r.ExternalNetworkID != "" && (r.SNAT || a.Floating != "") {
					return true
				}
			}
		}
	}
	return false
}

// Joined tells whether two fixed subnets can talk: they are the same, of one network, or joined by a router.
func (c *Cloud) Joined(subnetA, subnetB string) bool {
	t := c.Topology()
	byID := map[string]Subnet{}
	for _, s := range t.Subnets {
		byID[s.ID] = s
	}
	a, b := byID[subnetA], byID[subnetB]
	if a.ID == "" || b.ID == "" {
		return false
	}
	return a.NetworkID == b.NetworkID || slices.ContainsFunc(a.RouterIDs, func(id string) bool { return slices.Contains(b.RouterIDs, id) })
}

// Permits tells whether the security groups of the server's port with the fixed address let a connection in.
// protocol is tcp, udp or icmp. Without port security everything is let in; an unknown address gets nothing.
func (c *Cloud) Permits(serverID, fixed string, source netip.Addr, protocol string, port int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.compute.servers[serverID]
	if s == nil {
		return false
	}
	for _, n := range s.nics {
		p := c.thing("port", n.port)
		if p == nil || !slices.ContainsFunc(fixedIPs(p), func(ip fixedIP) bool { return ip.address == fixed }) {
			continue
		}
		if p.doc["port_security_enabled"] != true {
			return true
		}
		for _, g := range list(p.doc, "security_groups") {
			for _, rule := range c.rulesOf(g.(string)) {
				if c.ruleAdmits(rule.doc, source, protocol, port) {
					return true
				}
			}
		}
	}
	return false
}

func (c *Cloud) ruleAdmits(d doc, source netip.Addr, protocol string, port int) bool {
	if d["direction"] != "ingress" || source.Is4() != (d["ethertype"] == "IPv4") {
		return false
	}
	if want := str(d, "protocol"); want != "" && want != protocol && want != map[string]string{"tcp": "6", "udp": "17", "icmp": "1"}[protocol] {
		return false
	}
	if low, set := d["port_range_min"].(int); set && protocol != "icmp" {
		high, _ := d["port_range_max"].(int)
		if port < low || port > high {
			return false
		}
	}
	if prefix, err := netip.ParsePrefix(str(d, "remote_ip_prefix")); err == nil && !prefix.Contains(source) {
		return false
	}
	if group := str(d, "remote_group_id"); group != "" {
		member := false
		c.each("port", func(p *thing) {
			member = member || slices.Contains(list(p.doc, "security_groups"), any(group)) &&
				slices.ContainsFunc(fixedIPs(p), func(ip fixedIP) bool { return ip.address == source.String() })
		})
		return member
	}
	return true
}

func prefixBits(cidr string) int {
	_, bits, _ := strings.Cut(cidr, "/")
	n, err := strconv.Atoi(bits)
	if err != nil {
		return 0
	}
	return n
}

func ipVersion(address string) int {
	if strings.Contains(address, ":") {
		return 6
	}
	return 4
}
