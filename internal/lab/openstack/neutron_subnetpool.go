package openstack

import (
	"fmt"
	"net/netip"
	"slices"
)

func subnetPoolNoun() *noun {
	return &noun{name: "subnetpool", plural: "subnetpools", missing: "SubnetPoolNotFound", missingText: "Subnet pool %s could not be found.",
		attributes: []attribute{
			{name: "name", post: true, put: true, required: true, check: checkName},
			{name: "description", post: true, put: true, fallback: "", check: checkName},
			{name: "prefixes", post: true, put: true, required: true, check: checkPrefixes},
			{name: "default_prefixlen", post: true, put: true, lazy: true, check: checkWhole},
			{name: "min_prefixlen", post: true, put: true, lazy: true, check: checkWhole},
			{name: "max_prefixlen", post: true, put: true, lazy: true, check: checkWhole},
			{name: "default_quota", post: true, put: true},
			{name: "shared", post: true, fallback: false, admin: true, check: checkBool},
			{name: "is_default", post: true, put: true, fallback: false, admin: true, check: checkBool},
			{name: "address_scope_id", post: true, put: true, check: checkUUIDOrNone},
			{name: "ip_version", lazy: true},
		},
		quota: "subnetpool", taggable: true,
		create: (*Cloud).subnetPoolCreate, update: (*Cloud).subnetPoolUpdate,
		remove: func(c *Cloud, _ *request, t *thing) error {
			if len(c.poolRanges(t.id)) > 0 {
				return refuseAs(400, "SubnetPoolDeleteError", "Unable to delete subnet pool: Subnet pool has existing allocations.")
			}
			return nil
		},
		show: func(_ *Cloud, r *request, _ *thing, d doc) {
			if r.http != nil && r.http.Method == "PUT" {
				return
			}
			for _, k := range []string{"default_prefixlen", "min_prefixlen", "max_prefixlen"} {
				d[k] = text(d[k]) // as Neutron writes them but after an update
			}
		},
		visible: func(_ *Cloud, t *thing) bool { return t.doc["shared"] == true }}
}

func checkPrefixes(v any) (any, error) {
	l, isList := v.([]any)
	if !isList {
		return nil, fmt.Errorf("'%s' is not a list", pythonText(v))
	}
	for _, x := range l {
		s, _ := x.(string)
		if _, err := netip.ParsePrefix(s); err != nil {
			return nil, fmt.Errorf("'%s' is not a valid IP subnet", pythonText(x))
		}
	}
	return l, nil
}

func (c *Cloud) subnetPoolCreate(_ *request, t *thing) error {
	d := t.doc
	merged, version, err := mergePrefixes(list(d, "prefixes"))
	if err != nil {
		return err
	}
	d["prefixes"], d["ip_version"] = merged, version
	low, high := 8, 32
	if version == 6 {
		low, high = 64, 128
	}
	for _, b := range []struct {
		name string
		is   int
	}{{"min_prefixlen", low}, {"max_prefixlen", high}} {
		if !has(d, b.name) {
			d[b.name] = b.is
		}
	}
	if !has(d, "default_prefixlen") {
		d["default_prefixlen"] = d["min_prefixlen"]
	}
	return checkBounds(d)
}

func checkBounds(d doc) error {
	low, high, usual := d["min_prefixlen"].(int), d["max_prefixlen"].(int), d["default_prefixlen"].(int)
	bad := func(a string, x int, b string, y int) error {
		return refuseAs(400, "IllegalSubnetPoolPrefixBounds", fmt.Sprintf("Illegal prefix bounds: %s=%d, %s=%d.", a, x, b, y))
	}
	switch {
	case low > high:
		return bad("min_prefixlen", low, "max_prefixlen", high)
	case usual < low:
		return bad("default_prefixlen", usual, "min_prefixlen", low)
	case usual > high:
		return bad("default_prefixlen", usual, "max_prefixlen", high)
	}
	return nil
}

// mergePrefixes joins ranges that lie beside or within each other.
func mergePrefixes(l []any) (merged []any, version int, err error) {
	if len(l) == 0 {
		return nil, 0, refuseAs(400, "EmptySubnetPoolPrefixList", "Empty subnet pool prefix list.")
	}
	var all []netip.Prefix
	for _, x := range l {
		p := netip.MustParsePrefix(x.(string)).Masked()
		if len(all) > 0 && p.Addr().Is4() != all[0].Addr().Is4() {
			return nil, 0, refuseAs(400, "PrefixVersionMismatch", "Cannot mix IPv4 and IPv6 prefixes in a subnet pool.")
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		if n := a.Addr().Compare(b.Addr()); n != 0 {
			return n
		}
		return a.Bits() - b.Bits()
	})
	var out []netip.Prefix
	for _, p := range all {
		if n := len(out); n > 0 && out[n-1].Contains(p.Addr()) {
			continue
		}
		out = append(out, p)
		for n := len(out); n > 1; n = len(out) {
			a, b := out[n-2], out[n-1]
			whole := netip.PrefixFrom(a.Addr(), a.Bits()-1)
			if a.Bits() != b.Bits() || a.Bits() == 0 || whole.Masked() != whole || !whole.Contains(b.Addr()) {
				break
			}
			out = append(out[:n-2], whole)
		}
	}
	for _, p := range out {
		merged = append(merged, p.String())
	}
	return merged, ipVersion(out[0].String()), nil
}

func (c *Cloud) subnetPoolUpdate(_ *request, t *thing, d doc) error {
	if l, given := d["prefixes"].([]any); given {
		merged, version, err := mergePrefixes(l)
		if err != nil {
			return err
		}
		if version != t.doc["ip_version"] {
			return refuseAs(400, "PrefixVersionMismatch", "Cannot mix IPv4 and IPv6 prefixes in a subnet pool.")
		}
		for _, old := range list(t.doc, "prefixes") {
			kept := slices.ContainsFunc(merged, func(x any) bool { return within(x.(string), netip.MustParsePrefix(old.(string))) })
			if !kept {
				return refuseAs(400, "IllegalSubnetPoolPrefixUpdate", "Illegal update to prefixes: Existing prefixes must be a subset of the new prefixes.")
			}
		}
		d["prefixes"] = merged
	}
	will := doc{}
	for _, k := range []string{"default_prefixlen", "min_prefixlen", "max_prefixlen"} {
		will[k] = t.doc[k]
		if has(d, k) {
			will[k] = d[k]
		}
	}
	return checkBounds(will)
}

func within(outer string, p netip.Prefix) bool {
	o := netip.MustParsePrefix(outer)
	return o.Bits() <= p.Bits() && o.Contains(p.Addr())
}

// poolRanges returns what subnets have of a pool.
func (c *Cloud) poolRanges(pool string) []netip.Prefix {
	var out []netip.Prefix
	c.each("subnet", func(s *thing) {
		if s.doc["subnetpool_id"] == pool {
			out = append(out, netip.MustParsePrefix(str(s.doc, "cidr")))
		}
	})
	return out
}

// fromPool returns a free range of a pool for a new subnet.
func (c *Cloud) fromPool(r *request, d doc, id string) (netip.Prefix, error) {
	pool, err := c.findThing(r, c.network.nouns["subnetpools"], id, false)
	if err != nil {
		return netip.Prefix{}, err
	}
	if pool.doc["ip_version"] != d["ip_version"] {
		return netip.Prefix{}, badSubnet(fmt.Sprintf("Cannot allocate IPv%v subnet from IPv%v subnet pool", d["ip_version"], pool.doc["ip_version"]))
	}
	bits, asked := pool.doc["default_prefixlen"].(int), netip.Prefix{}
	if n, given := d["prefixlen"].(int); given {
		bits = n
	}
	if cidr := str(d, "cidr"); cidr != "" {
		asked = netip.MustParsePrefix(cidr)
		bits = asked.Bits()
	}
	if high := pool.doc["max_prefixlen"].(int); bits > high {
		return netip.Prefix{}, refuseAs(400, "MaxPrefixSubnetAllocationError", fmt.Sprintf("Unable to allocate subnet with prefix length %d, maximum allowed prefix is %d.", bits, high))
	}
	if low := pool.doc["min_prefixlen"].(int); bits < low {
		return netip.Prefix{}, refuseAs(400, "MinPrefixSubnetAllocationError", fmt.Sprintf("Unable to allocate subnet with prefix length %d, minimum allowed prefix is %d.", bits, low))
	}
	taken := c.poolRanges(id)
	free := func(p netip.Prefix) bool {
		return !slices.ContainsFunc(taken, func(t netip.Prefix) bool { return t.Overlaps(p) })
	}
	for _, x := range list(pool.doc, "prefixes") {
		whole := netip.MustParsePrefix(x.(string))
		if asked.IsValid() {
			if within(x.(string), asked) && free(asked) {
				return asked, nil
			}
			continue
		}
		if whole.Bits() > bits {
			continue
		}
		for p := netip.PrefixFrom(whole.Addr(), bits); whole.Contains(p.Addr()); p = netip.PrefixFrom(lastAddr(p).Next(), bits) {
			if free(p) {
				return p, nil
			}
		}
	}
	if asked.IsValid() {
		return netip.Prefix{}, refuseAs(500, "SubnetAllocationError", "Failed to allocate subnet: Cannot allocate requested subnet from the available set of prefixes.")
	}
	return netip.Prefix{}, refuseAs(500, "SubnetAllocationError", "Failed to allocate subnet: Insufficient prefix space to allocate subnet size /"+text(bits)+".")
}
