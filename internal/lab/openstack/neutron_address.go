package openstack

import (
	"net/netip"
	"slices"
)

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
	return "", refuseAs(409, "IpAddressGenerationFailure", "No more IP addresses available on network "+str(subnet.doc, "network_id")+".")
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
