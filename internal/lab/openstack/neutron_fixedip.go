package openstack

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

type fixedIP struct{ subnet, address string }

func fixedIPs(t *thing) []fixedIP {
	var out []fixedIP
	for _, x := range list(t.doc, "fixed_ips") {
		o := x.(doc)
		out = append(out, fixedIP{str(o, "subnet_id"), str(o, "ip_address")})
	}
	return out
}

// automaticIPs asks for an address of the first IPv4 subnet with room and one of the
// first IPv6 subnet; where addresses follow from the hardware address, setFixedIPs adds them.
func (c *Cloud) automaticIPs(network *thing, owner string) []any {
	var out []any
	done := map[any]bool{}
	subnets := slices.DeleteFunc(c.subnetsOf(network.id), func(s *thing) bool {
		types := list(s.doc, "service_types")
		return autoAddresses(s.doc) || len(types) > 0 && !slices.Contains(types, any(owner))
	})
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
func (c *Cloud) setFixedIPs(t, network *thing, want []any) error {
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
	subnets := c.subnetsOf(network.id)
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
				return fail(invalidInput("Failed to create port on network " + network.id + ", because fixed_ips included invalid subnet " + subnetID))
			}
			if address == "" && autoAddresses(subnet.doc) {
				continue // comes of itself
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
		if own := automatic(t, subnet); own != "" && address != own && str(t.doc, "device_owner") != ownerInterface {
			return fail(refuseAs(400, "AllocationOnAutoAddressSubnet", "IPv6 address "+address+" cannot be directly assigned to a port on subnet "+subnet.id+
				" as the subnet is configured for automatic addresses"))
		}
		got, err := c.allocate(subnet, address, t.id)
		if err != nil {
			return fail(err)
		}
		now = append(now, fixedIP{subnet.id, got})
	}
	if owner := str(t.doc, "device_owner"); !strings.HasPrefix(owner, "network:router") && owner != ownerFloating {
		for _, s := range subnets {
			own := automatic(t, s)
			if own == "" || slices.ContainsFunc(now, func(ip fixedIP) bool { return ip.subnet == s.id }) {
				continue
			}
			got, err := c.allocate(s, own, t.id)
			if err != nil {
				return fail(err)
			}
			now = append([]fixedIP{{s.id, got}}, now...)
		}
	}
	out := []any{}
	for _, ip := range now {
		out = append(out, doc{"subnet_id": ip.subnet, "ip_address": ip.address})
	}
	t.doc["fixed_ips"] = out
	return nil
}

// automatic returns the address that follows from a port's hardware address, "" where the subnet has no such.
func automatic(t, subnet *thing) string {
	mac, err := net.ParseMAC(str(t.doc, "mac_address"))
	if err != nil || !autoAddresses(subnet.doc) {
		return ""
	}
	b := netip.MustParsePrefix(str(subnet.doc, "cidr")).Addr().As16()
	copy(b[8:], []byte{mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]})
	return netip.AddrFrom16(b).String()
}
