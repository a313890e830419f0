package openstack

import "net/netip"

func checkPools(d doc, prefix netip.Prefix, pools []any) error {
	type span struct{ start, end netip.Addr }
	var seen []span
	for _, p := range pools {
		o := p.(doc)
		start, err1 := netip.ParseAddr(str(o, "start"))
		end, err2 := netip.ParseAddr(str(o, "end"))
		name := str(o, "start") + "-" + str(o, "end")
		switch {
		case err1 != nil || err2 != nil || start.Is4() != prefix.Addr().Is4() || end.Is4() != prefix.Addr().Is4():
			return refuseAs(400, "InvalidAllocationPool", "The allocation pool "+name+" is not valid.")
		case end.Less(start):
			return refuseAs(400, "InvalidAllocationPool", "The allocation pool {'start': '"+str(o, "start")+"', 'end': '"+str(o, "end")+"'} is not valid.")
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
	if prefix.Addr().Is6() && prefix.Bits() < 127 || prefix.Addr().Is4() && prefix.Bits() < 31 {
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
