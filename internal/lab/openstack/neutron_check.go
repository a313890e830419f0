package openstack

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// keySet writes keys as Python does a set.
func keySet(keys []string) string { return "{'" + strings.Join(keys, "', '") + "'}" }

// invalidInput is what Neutron answers where it converts a value, or looks at several.
func invalidInput(message string) error {
	return refuseAs(400, "InvalidInput", "Invalid input for operation: "+message+".")
}

// plainBad is a bad request whose message doesn't name the attribute.
func plainBad(message string) error { return refuseAs(400, "HTTPBadRequest", message) }

func sameJSON(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func checkName(v any) (any, error) {
	s, isText := v.(string)
	if !isText {
		return nil, says("'%s' is not a valid string", pythonText(v))
	}
	if len(s) > 255 {
		return nil, says("'%s' exceeds maximum length of 255", s)
	}
	return s, nil
}

func checkBool(v any) (any, error) {
	b, valid := parseBool(v)
	if !valid {
		return nil, invalidInput("'" + pythonText(v) + "' cannot be converted to boolean")
	}
	return b, nil
}

// checkWhole wants an integer that isn't negative.
func checkWhole(v any) (any, error) {
	n, valid := integer(v)
	if !valid {
		return nil, invalidInput("'" + pythonText(v) + "' is not an integer")
	}
	if n < 0 {
		return nil, says("'%d' should be non-negative", n)
	}
	return n, nil
}

func checkIPVersion(v any) (any, error) {
	n, valid := integer(v)
	if !valid {
		return nil, invalidInput("'" + pythonText(v) + "' is not an integer")
	}
	if n != 4 && n != 6 {
		return nil, says("%d is not in valid_values", n)
	}
	return n, nil
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$`)

func checkUUID(v any) (any, error) {
	if s, isText := v.(string); isText && uuidForm.MatchString(s) {
		return s, nil
	}
	return nil, says("'%s' is not a valid UUID", pythonText(v))
}

func checkUUIDOrNone(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	return checkUUID(v)
}

// checkPolicy wants the id of a QoS policy, of which there are none here.
func checkPolicy(v any) (any, error) {
	id, err := checkUUIDOrNone(v)
	if err != nil || id == nil {
		return nil, err
	}
	return nil, refuseAs(404, "QosPolicyNotFound", "QoS policy "+id.(string)+" could not be found.")
}

func checkIP(v any) (any, error) {
	s, _ := v.(string)
	a, err := netip.ParseAddr(s)
	if err != nil {
		return nil, says("'%s' is not a valid IP address", pythonText(v))
	}
	return a.String(), nil
}

func checkIPOrNone(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	return checkIP(v)
}

// checkSubnet wants a range, and takes the host's bits off it; an address is a range of one.
func checkSubnet(v any) (any, error) {
	s, _ := v.(string)
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()).String(), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return nil, invalidInput(pythonText(v) + " is not in a CIDR format")
	}
	return p.Masked().String(), nil
}

// checkRange wants the destination of a route.
func checkRange(v any) error {
	s, _ := v.(string)
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return says("'%s' is not a valid CIDR", pythonText(v))
	}
	if p.Masked() != p {
		return says("'%s' is not a recognized CIDR, '%s' is recommended", s, p.Masked())
	}
	return nil
}

func checkNameservers(v any) (any, error) {
	items, isList := v.([]any)
	if s, isText := v.(string); isText {
		for _, r := range s {
			items = append(items, string(r))
		}
	} else if v != nil && !isList {
		return nil, says("Invalid data format for nameserver: '%s'", pythonText(v))
	}
	out := []any{}
	for _, x := range items {
		if _, err := checkIP(x); err != nil {
			return nil, says("'%s' is not a valid nameserver. %v", pythonText(x), err)
		}
		if slices.Contains(out, x) {
			return nil, says("Duplicate nameserver '%s'", x)
		}
		out = append(out, x)
	}
	return out, nil
}

func checkUUIDs(v any) (any, error) {
	l, isList := v.([]any)
	if v != nil && !isList {
		return nil, says("'%s' is not a list", pythonText(v))
	}
	out := []any{}
	for _, x := range l {
		id, err := checkUUID(x)
		if err != nil {
			return nil, err
		}
		if slices.Contains(out, id) {
			return nil, says("Duplicate items in the list: '%s'", id)
		}
		out = append(out, id)
	}
	return out, nil
}

// checkRoutes wants a list of routes.
func checkRoutes(v any) (any, error) {
	l, isList := v.([]any)
	if v != nil && !isList {
		return nil, says("Invalid data format for hostroute: '%s'", pythonText(v))
	}
	out := []any{}
	for _, x := range l {
		o, isObject := x.(doc)
		if err := checkKeys(x, o, isObject, "destination", "nexthop"); err != nil {
			return nil, err
		}
		if err := checkRange(o["destination"]); err != nil {
			return nil, err
		}
		if _, err := checkIP(o["nexthop"]); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(y any) bool { return sameJSON(x, y) }) {
			return nil, says("Duplicate hostroute '%s'", pythonRepr(x))
		}
		out = append(out, o)
	}
	return out, nil
}

// checkKeys wants an object with exactly these keys.
func checkKeys(x any, o doc, isObject bool, keys ...string) error {
	if !isObject {
		return says("Invalid input. '%s' must be a dictionary with keys: %s", pythonText(x), pythonRepr(anyOf(keys)))
	}
	got := sortedKeys(o)
	if want := slices.Sorted(slices.Values(keys)); !slices.Equal(got, want) {
		return says("Validation of dictionary's keys failed. Expected keys: %s Provided keys: %s", keySet(keys), keySet(got))
	}
	return nil
}

// checkPoolList wants a list of ranges of addresses.
func checkPoolList(v any) (any, error) {
	l, isList := v.([]any)
	if !isList {
		return nil, says("Invalid data format for IP pool: '%s'", pythonText(v))
	}
	for _, x := range l {
		o, isObject := x.(doc)
		if err := checkKeys(x, o, isObject, "start", "end"); err != nil {
			return nil, err
		}
		for _, k := range []string{"start", "end"} {
			if _, err := checkIP(o[k]); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

// checkFixedIPs wants a list of subnets and addresses.
func checkFixedIPs(v any) (any, error) {
	l, isList := v.([]any)
	if !isList {
		return nil, says("Invalid data format for fixed IP: '%s'", pythonText(v))
	}
	seen := map[string]bool{}
	for _, x := range l {
		o, isObject := x.(doc)
		if !isObject {
			return nil, says("Invalid data format for fixed IP: '%s'", pythonText(x))
		}
		if a := o["ip_address"]; a != nil {
			checked, err := checkIP(a)
			if err != nil {
				return nil, err
			}
			if seen[checked.(string)] {
				return nil, says("Duplicate IP address '%s'", a)
			}
			seen[checked.(string)] = true
			o["ip_address"] = checked
		}
		if id := o["subnet_id"]; id != nil {
			if _, err := checkUUID(id); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

func checkObject(v any) (any, error) {
	if v == nil {
		return doc{}, nil
	}
	if o, isObject := v.(doc); isObject {
		return o, nil
	}
	return nil, says("'%s' is not a dictionary", pythonText(v))
}

// checkTexts wants a list of different texts.
func checkTexts(v any) (any, error) {
	l, isList := v.([]any)
	if !isList {
		return nil, says("'%s' is not a list", pythonText(v))
	}
	out := []any{}
	for _, x := range l {
		if _, err := checkName(x); err != nil {
			return nil, err
		}
		if slices.Contains(out, x) {
			return nil, says("Duplicate items in the list: '%s'", x)
		}
		out = append(out, x)
	}
	return out, nil
}

// noMAC is the hardware address of nobody.
const noMAC = "00:00:00:00:00:00"

func checkMAC(v any) (any, error) {
	s, _ := v.(string)
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 || mac.String() == noMAC {
		return nil, says("'%s' is not a valid MAC address", pythonText(v))
	}
	return s, nil
}

func checkOneOf(values ...string) func(any) (any, error) {
	return func(v any) (any, error) {
		for _, w := range values {
			if v == w {
				return v, nil
			}
		}
		return nil, says("%s is not in valid_values", pythonText(v))
	}
}

// checkZones wants names of availability zones.
func checkZones(v any) (any, error) {
	l, err := checkTexts(v)
	if err != nil {
		return nil, err
	}
	for _, x := range l.([]any) {
		if x != networkZone {
			return nil, refuseAs(404, "AvailabilityZoneNotFound", "AvailabilityZone "+x.(string)+" could not be found.")
		}
	}
	return l, nil
}

// networkZone is Neutron's only availability zone.
const networkZone = "nova"
