package openstack

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
)

// maxPairs is how many allowed address pairs a port may have.
const maxPairs = 10

func checkPairs(v any) (any, error) {
	l, isList := v.([]any)
	if v != nil && !isList {
		return nil, plainBad("Allowed address pairs must be a list.")
	}
	if len(l) > maxPairs {
		return nil, refuseAs(400, "AllowedAddressPairExhausted", "The number of allowed address pair exceeds the maximum "+text(maxPairs)+".")
	}
	seen := map[string]bool{}
	for _, x := range l {
		o, isObject := x.(doc)
		if !isObject {
			return nil, errors.New("'" + pythonText(x) + "' is not a dictionary")
		}
		if o["ip_address"] == nil {
			return nil, refuseAs(400, "AllowedAddressPairsMissingIP", "AllowedAddressPair must contain ip_address")
		}
		mac := o["mac_address"]
		if mac != nil {
			checked, err := checkMAC(mac)
			if err != nil {
				return nil, plainBad(err.Error())
			}
			mac, o["mac_address"] = checked, checked
		}
		key := pythonText(mac) + " ip_address " + pythonText(o["ip_address"])
		if seen[key] {
			return nil, refuseAs(400, "DuplicateAddressPairInRequest", "Request contains duplicate address pair: mac_address "+key+".")
		}
		seen[key] = true
		var unknown []string
		for _, k := range sortedKeys(o) {
			if k != "ip_address" && k != "mac_address" {
				unknown = append(unknown, k)
			}
		}
		if unknown != nil {
			return nil, plainBad("Unrecognized attribute(s) '" + strings.Join(unknown, "', '") + "'")
		}
		if _, err := netip.ParsePrefix(str(o, "ip_address")); err != nil {
			if _, err := checkIP(o["ip_address"]); err != nil {
				return nil, plainBad(err.Error())
			}
		}
	}
	return l, nil
}

// checkOptions wants options for DHCP: each with a name and a value, which is null to remove it.
func checkOptions(v any) (any, error) {
	l, isList := v.([]any)
	if v != nil && !isList {
		return nil, invalidInput("'" + pythonText(v) + "' is not a list")
	}
	for _, x := range l {
		o, _ := x.(doc)
		if !has(o, "opt_name") || !has(o, "opt_value") {
			return nil, invalidInput("No valid key specs matched for: " + pythonText(x))
		}
		if !has(o, "ip_version") {
			o["ip_version"] = 4
		}
	}
	return l, nil
}

// mergeOptions returns the options of a port after an update.
func mergeOptions(have, sent []any) []any {
	out := slices.Clone(have)
	for _, x := range sent {
		o := x.(doc)
		out = slices.DeleteFunc(out, func(y any) bool {
			return y.(doc)["opt_name"] == o["opt_name"] && sameJSON(y.(doc)["ip_version"], o["ip_version"])
		})
		if o["opt_value"] != nil {
			out = append(out, o)
		}
	}
	return out
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
