package openstack

import "sort"

func (c *Cloud) networkVersions(r *request) (answer, error) {
	return ok(doc{"versions": []any{doc{"id": "v2.0", "status": "CURRENT", "links": []any{doc{"rel": "self", "href": r.base + "/network/v2.0/"}}}}})
}

func (c *Cloud) networkVersion(r *request) (answer, error) {
	var out []any
	for _, n := range c.network.nouns {
		plural := n.plural
		if plural != "networks" && plural != "ports" && plural != "subnets" && plural != "subnetpools" {
			continue // an extension's
		}
		out = append(out, doc{"name": n.name, "collection": plural, "links": []any{doc{"rel": "self", "href": r.base + "/network/v2.0/" + plural}}})
	}
	sort.Slice(out, func(i, j int) bool { return str(out[i].(doc), "name") < str(out[j].(doc), "name") })
	return ok(doc{"resources": out})
}

var networkExtensions = []string{"allowed-address-pairs", "availability_zone", "binding", "bulk", "dns-integration", "external-net",
	"extra_dhcp_opt", "extraroute", "ext-gw-mode", "net-mtu", "net-mtu-writable", "network_availability_zone", "pagination",
	"port-security", "project-id", "provider", "quota_details", "quotas", "revision-if-match", "router", "router_availability_zone", "security-group",
	"security-groups-normalized-cidr", "sorting", "standard-attr-description", "standard-attr-revisions", "standard-attr-tag", "standard-attr-timestamp", "stateful-security-group", "subnet-service-types", "subnet_allocation"}

func extensionDoc(alias string) doc {
	return doc{"alias": alias, "name": alias, "description": "", "links": []any{}, "updated": "2016-01-01T00:00:00-00:00"}
}

func (c *Cloud) extensionList(*request) (answer, error) {
	var out []any
	for _, alias := range networkExtensions {
		out = append(out, extensionDoc(alias))
	}
	return ok(doc{"extensions": out})
}

func (c *Cloud) extensionShow(r *request) (answer, error) {
	for _, alias := range networkExtensions {
		if alias == r.arg("alias") {
			return ok(doc{"extension": extensionDoc(alias)})
		}
	}
	return answer{}, refuseAs(404, "HTTPNotFound", "Extension with alias "+r.arg("alias")+" does not exist")
}

func (c *Cloud) networkZones(*request) (answer, error) {
	out := []any{}
	for _, kind := range []string{"network", "router"} {
		out = append(out, doc{"name": networkZone, "resource": kind, "state": "available"})
	}
	return ok(doc{"availability_zones": out})
}
