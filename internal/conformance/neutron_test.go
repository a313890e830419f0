package conformance

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
)

// An exchange is a request to Neutron and what it answers: fields of the
// resource as "name=value", or "status: message". $NAME stands for the id that
// an exchange before was given that name for.
type exchange struct {
	call  string // method and path, with "admin" before it for the administrator
	body  client.Object
	want  string
	saved string
}

type obj = client.Object

func network(o obj) obj { return obj{"network": o} }
func subnet(o obj) obj {
	if o["network_id"] == nil {
		o["network_id"] = "$n"
	}
	if o["ip_version"] == nil {
		o["ip_version"] = 4
	}
	return obj{"subnet": o}
}
func port(o obj) obj {
	o["network_id"] = "$n"
	return obj{"port": o}
}
func rule(o obj) obj {
	o["security_group_id"], o["direction"] = "$g", "ingress"
	return obj{"security_group_rule": o}
}
func router(o obj) obj     { return obj{"router": o} }
func floatingIP(o obj) obj { return obj{"floatingip": o} }
func route(to, via string) []any {
	return []any{obj{"destination": to, "nexthop": via}}
}
func pools(from, to string) []any { return []any{obj{"start": from, "end": to}} }

const nobody = "11111111-1111-1111-1111-111111111111"

// neutronAnswers are what Neutron says to good and bad bodies.
var neutronAnswers = []exchange{
	{"POST /networks", network(obj{"name": "n"}), "mtu=1450 port_security_enabled=true router:external=false", "n"},
	{"PUT /networks/$n", network(obj{"mtu": 1500}), "400: Invalid input for operation: Requested MTU is too big, maximum is 1450.", ""},
	{"PUT /networks/$n", network(obj{"mtu": "much"}), "400: Invalid input for operation: 'much' is not an integer.", ""},
	{"PUT /networks/$n", network(obj{"mtu": -1}), "400: Invalid input for mtu. Reason: '-1' should be non-negative.", ""},
	{"PUT /networks/$n", network(obj{"mtu": 0}), "mtu=1450", ""},
	{"PUT /networks/$n", network(obj{"admin_state_up": "perhaps"}), "400: Invalid input for operation: 'perhaps' cannot be converted to boolean.", ""},
	{"PUT /networks/$n", network(obj{"dns_domain": "bad"}), "400: Invalid input for dns_domain. Reason: 'bad' is not a FQDN.", ""},
	{"PUT /networks/$n", network(obj{"description": nil}), "400: Invalid input for description. Reason: 'None' is not a valid string.", ""},
	{"PUT /networks/$n", network(obj{"status": "x"}), "400: Cannot update read-only attribute status", ""},
	{"PUT /networks/$n", network(obj{"colour": "red"}), "400: Unrecognized attribute(s) 'colour'", ""},
	{"PUT /networks/$n", network(obj{"shared": true}), "403: (rule:update_network and rule:update_network:shared) is disallowed by policy", ""},
	{"PUT /networks/$n", network(obj{"qos_policy_id": nobody}), "404: QoS policy " + nobody + " could not be found.", ""},
	{"PUT /networks/$n", obj{"nope": obj{}}, "400: Unable to find 'network' in request body", ""},
	{"PUT /networks/$n", obj{"network": "x"}, "400: Object 'network' contains invalid data", ""},
	{"POST /networks", network(obj{"tags": []any{"x"}}), "400: Attribute 'tags' not allowed in POST", ""},
	{"POST /networks", network(obj{"availability_zone_hints": []any{"nowhere"}}), "404: AvailabilityZone nowhere could not be found.", ""},
	{"admin POST /networks", network(obj{"provider:network_type": "vlan", "provider:physical_network": "nonet", "provider:segmentation_id": 151}),
		"400: Invalid input for operation: physical_network 'nonet' unknown for VLAN provider network.", ""},
	{"admin POST /networks", network(obj{"provider:network_type": "vlan", "provider:segmentation_id": 151}),
		"400: Invalid input for operation: segmentation_id requires physical_network for VLAN provider network.", ""},
	{"admin POST /networks", network(obj{"provider:network_type": "flat", "provider:physical_network": "physnet1"}),
		"409: Unable to create the flat network. Physical network physnet1 is in use.", ""},
	{"admin POST /networks", network(obj{"provider:network_type": "stp"}), "400: Invalid input for operation: network_type value 'stp' not supported.", ""},
	{"admin POST /networks", network(obj{"provider:segmentation_id": 5}), "400: Invalid input for operation: network_type required.", ""},
	{"admin PUT /networks/$n", network(obj{"provider:network_type": "vlan"}),
		"400: Invalid input for operation: Plugin does not support updating the following provider network attributes: ...", ""},
	{"GET /networks?name=n&colour=red", nil, "1 of networks", ""},
	{"GET /networks?name=N", nil, "1 of networks", ""},
	{"GET /networks?sort_key=name", nil, "400: The number of sort_keys and sort_dirs must be same", ""},
	{"GET /networks?shared=perhaps", nil, "400: Invalid input for operation: 'perhaps' cannot be converted to boolean.", ""},
	{"PUT /networks/$n/tags", obj{"tags": []any{"a", "a"}}, "400: Invalid input for operation: Duplicate items in the list: 'a'.", ""},
	{"PUT /networks/" + nobody + "/tags", obj{"tags": []any{"a"}}, "404: Resource networks " + nobody + " could not be found.", ""},

	{"POST /subnets", subnet(obj{"name": "s", "cidr": "10.9.0.5/24"}), "cidr=10.9.0.0/24 gateway_ip=10.9.0.1 enable_dhcp=true", "s"},
	{"POST /subnets", subnet(obj{"cidr": "10.9.0.0/25"}), "400: Invalid input for operation: Requested subnet with cidr: 10.9.0.0/25 for network: $n overlaps with another subnet.", ""},
	{"POST /subnets", subnet(obj{"cidr": "junk"}), "400: Invalid input for operation: junk is not in a CIDR format.", ""},
	{"POST /subnets", subnet(obj{}), "400: Bad subnets request: a subnetpool must be specified in the absence of a cidr.", ""},
	{"POST /subnets", subnet(obj{"cidr": "10.9.2.0/24", "ip_version": 6}), "400: Invalid input for operation: cidr '10.9.2.0/24' does not match the ip_version '6'.", ""},
	{"POST /subnets", subnet(obj{"cidr": "10.9.2.0/31"}), "400: Invalid input for operation: Subnet has a prefix length that is incompatible with DHCP service enabled.", ""},
	{"POST /subnets", subnet(obj{"cidr": "10.9.7.0/24", "allocation_pools": pools("10.9.7.20", "10.9.7.10")}),
		"400: The allocation pool {...", ""},
	{"POST /subnets", subnet(obj{"cidr": "10.9.7.0/24", "allocation_pools": pools("10.9.7.1", "10.9.7.10")}),
		"409: Gateway ip 10.9.7.1 conflicts with allocation pool 10.9.7.1-10.9.7.10.", ""},
	{"POST /subnets", subnet(obj{"cidr": "10.9.7.0/24", "host_routes": route("10.0.0.1/8", "10.9.7.5")}),
		"400: Invalid input for host_routes. Reason: '10.0.0.1/8' is not a recognized CIDR, '10.0.0.0/8' is recommended.", ""},
	{"POST /subnets", subnet(obj{"cidr": "10.9.7.0/24", "host_routes": route("fd00::/8", "10.9.7.5")}),
		"400: Invalid input for operation: destination 'fd00::/8' does not match the ip_version '4'.", ""},
	{"POST /subnets", subnet(obj{"cidr": "10.9.7.0/24", "service_types": []any{"bad"}}), "400: Subnet service type bad does not correspond to a valid device owner.", ""},
	{"POST /subnets", subnet(obj{"cidr": "10.9.7.0/24", "ipv6_ra_mode": "slaac"}), "400: Invalid input for operation: ipv6_ra_mode is not valid when ip_version is 4.", ""},
	{"POST /subnets", subnet(obj{"network_id": "$public", "cidr": "10.9.7.0/24"}), "403: Tenant $project not allowed to create subnet on this network", ""},
	{"PUT /subnets/$s", obj{"subnet": obj{"cidr": "10.9.0.0/25"}}, "400: Cannot update read-only attribute cidr", ""},

	{"POST /subnetpools", obj{"subnetpool": obj{"name": "p", "prefixes": []any{"10.200.0.0/16"}, "default_prefixlen": 24, "min_prefixlen": 20, "max_prefixlen": 28}}, "ip_version=4 default_prefixlen=24", "p"},
	{"POST /networks", network(obj{"name": "pooled"}), "name=pooled", "m"},
	{"POST /subnets", subnet(obj{"network_id": "$m", "subnetpool_id": "$p"}), "cidr=10.200.0.0/24", ""},
	{"POST /subnets", subnet(obj{"network_id": "$m", "subnetpool_id": "$p", "prefixlen": 26}), "cidr=10.200.1.0/26", ""},
	{"POST /subnets", subnet(obj{"network_id": "$m", "subnetpool_id": "$p", "prefixlen": 30}), "400: Unable to allocate subnet with prefix length 30, maximum allowed prefix is 28.", ""},
	{"POST /subnets", subnet(obj{"network_id": "$m", "cidr": "10.45.0.0/24"}), "400: Subnets hosted on the same network must be allocated from the same subnet pool.", ""},
	{"DELETE /subnetpools/$p", nil, "400: Unable to delete subnet pool: Subnet pool has existing allocations.", ""},
	{"DELETE /networks/$m", nil, "", ""},
	{"DELETE /subnetpools/$p", nil, "", ""},

	{"POST /security-groups", obj{"security_group": obj{"name": "g"}}, "stateful=true name=g", "g"},
	{"POST /security-groups", obj{"security_group": obj{"name": "default"}}, "409: Default security group already exists.", ""},
	{"POST /security-group-rules", rule(obj{"protocol": "tcp", "port_range_min": 22, "port_range_max": 22}), "protocol=tcp", "r"},
	{"POST /security-group-rules", rule(obj{"protocol": "6", "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": "0.0.0.0/0"}),
		"409: Security group rule already exists. Rule id is $r.", ""},
	{"POST /security-group-rules", rule(obj{"protocol": "udp", "port_range_min": 0, "port_range_max": 53}), "400: Invalid value for port 0", ""},
	{"POST /security-group-rules", rule(obj{"protocol": "udp", "port_range_min": 1, "port_range_max": 65535}), "port_range_min=null", ""},
	{"POST /security-group-rules", rule(obj{"protocol": "esp", "port_range_min": 1, "port_range_max": 1}),
		"400: Ports cannot be specified for protocol 50. Ports are only supported for DCCP, SCTP, TCP, UDP, UDPLITE.", ""},
	{"POST /security-group-rules", rule(obj{"protocol": "ipv6-icmp"}), "400: Invalid ethertype IPv4 for protocol ipv6-icmp.", ""},
	{"POST /security-group-rules", rule(obj{"protocol": "icmp", "ethertype": "IPv6"}), "protocol=ipv6-icmp", ""},
	{"POST /security-group-rules", rule(obj{"remote_ip_prefix": "10.0.0.5/24"}), "remote_ip_prefix=10.0.0.5/24 normalized_cidr=10.0.0.0/24", ""},
	{"POST /security-group-rules", rule(obj{"remote_ip_prefix": "junk"}), "400: Invalid CIDR junk given as IP prefix.", ""},
	{"POST /security-group-rules", rule(obj{"remote_group_id": "nope"}), "404: Security group nope does not exist", ""},

	{"POST /ports", port(obj{"fixed_ips": []any{obj{"ip_address": "10.9.0.20"}}, "security_groups": []any{"$g"}}), "status=DOWN", "q"},
	{"POST /ports", port(obj{"fixed_ips": []any{obj{"ip_address": "10.9.0.20"}}}), "409: IP address 10.9.0.20 already allocated in subnet $s", ""},
	{"POST /ports", port(obj{"fixed_ips": []any{obj{"ip_address": "10.9.0.30"}, obj{"ip_address": "10.9.0.30"}}}), "400: Invalid input for fixed_ips. Reason: Duplicate IP address '10.9.0.30'.", ""},
	{"POST /ports", port(obj{"mac_address": "junk"}), "400: Invalid input for mac_address. Reason: 'junk' is not a valid MAC address.", ""},
	{"POST /ports", port(obj{"security_groups": []any{"$g", "$g"}}), "400: Invalid input for security_groups. Reason: Duplicate items in the list: '$g'.", ""},
	{"POST /ports", port(obj{"allowed_address_pairs": []any{obj{}}}), "400: AllowedAddressPair must contain ip_address", ""},
	{"POST /ports", port(obj{"allowed_address_pairs": []any{obj{"ip_address": "10.9.0.1"}, obj{"ip_address": "10.9.0.1"}}}),
		"400: Request contains duplicate address pair: mac_address None ip_address 10.9.0.1.", ""},
	{"POST /ports", port(obj{"binding:vnic_type": "nope"}), "400: Invalid input for binding:vnic_type. Reason: nope is not in valid_values.", ""},
	{"POST /ports", port(obj{"dns_name": "bad_name"}),
		"400: Invalid input for dns_name. Reason: 'bad_name' not a valid PQDN or FQDN. Reason: Name 'bad_name' must be 1-63 characters long, each of which can only be alphanumeric or a hyphen.", ""},
	{"PUT /ports/$q", obj{"port": obj{"mac_address": "fa:16:3e:00:00:77"}}, "403: (rule:update_port and rule:update_port:mac_address) is disallowed by policy", ""},
	{"DELETE /security-groups/$g", nil, "409: Security Group $g in use.", ""},
	{"PUT /security-groups/$g", obj{"security_group": obj{"stateful": false}}, "409: Security Group $g in use.", ""},
	{"DELETE /networks/$n", nil, "409: Unable to complete operation on network $n. There are one or more ports still in use on the network, id for these ports is: $q.", ""},

	{"POST /routers", router(obj{"name": "r"}), "status=ACTIVE", "t"},
	{"POST /routers", router(obj{"external_gateway_info": obj{"network_id": "$n"}}), "400: Bad router request: Network $n is not an external network.", ""},
	{"POST /routers", router(obj{"external_gateway_info": obj{"network_id": "$public", "nope": 1}}), "400: Invalid input for external_gateway_info. Reason: Unexpected keys supplied: nope.", ""},
	{"POST /routers", router(obj{"routes": []any{}}), "400: Attribute 'routes' not allowed in POST", ""},
	{"PUT /routers/$t/add_router_interface", obj{"subnet_id": "nope"}, "400: Bad router request: 'nope' is not a valid UUID.", ""},
	{"PUT /routers/$t/add_router_interface", obj{}, "400: Bad router request: Either subnet_id or port_id must be specified.", ""},
	{"PUT /routers/$t/add_router_interface", obj{"subnet_id": "$s"}, "", ""},
	{"PUT /routers/$t/add_router_interface", obj{"subnet_id": "$s"}, "400: Bad router request: Router already has a port on subnet $s.", ""},
	{"PUT /routers/$t", router(obj{"routes": route("10.50.0.0/16", "10.66.0.9")}),
		"400: Invalid format for routes: [{'destination': '10.50.0.0/16', 'nexthop': '10.66.0.9'}], the nexthop is not connected with router", ""},
	{"PUT /routers/$t", router(obj{"routes": route("10.50.0.0/16", "10.9.0.1")}),
		"400: Invalid format for routes: [{'destination': '10.50.0.0/16', 'nexthop': '10.9.0.1'}], the nexthop is used by router", ""},
	{"PUT /routers/$t", router(obj{"external_gateway_info": obj{"network_id": "$public", "enable_snat": true}}),
		"403: (rule:update_router and (rule:update_router:external_gateway_info and (rule:update_router:external_gateway_info:network_id and rule:update_router:external_gateway_info:enable_snat))) is disallowed by policy", ""},

	{"POST /floatingips", floatingIP(obj{"floating_network_id": "$public"}), "status=DOWN", "f"},
	{"PUT /floatingips/$f", floatingIP(obj{"port_id": "$q"}),
		"404: External network $public is not reachable from subnet $s. Therefore, cannot associate Port $q with a Floating IP.", ""},
	{"PUT /floatingips/$f", floatingIP(obj{"port_id": ""}), "400: Invalid input for port_id. Reason: '' is not a valid UUID.", ""},
	{"PUT /floatingips/$f", floatingIP(obj{"fixed_ip_address": "10.9.0.20"}), "400: Bad floatingip request: fixed_ip_address cannot be specified without a port_id.", ""},
	{"POST /floatingips", floatingIP(obj{"floating_network_id": "$n"}), "400: Bad floatingip request: Network $n is not a valid external network.", ""},
	{"POST /floatingips", floatingIP(obj{"floating_network_id": "$public", "floating_ip_address": "203.0.113.200"}),
		"403: (rule:create_floatingip and rule:create_floatingip:floating_ip_address) is disallowed by policy", ""},

	{"admin PUT /quotas/$project", obj{"quota": obj{"network": 1}}, "network=1", ""},
	{"POST /networks", network(obj{}), "409: Quota exceeded for resources: ['network'].", ""},
	{"PUT /quotas/$project", obj{"quota": obj{"network": 5}}, "403: rule:update_quota is disallowed by policy", ""},
	{"admin PUT /quotas/$project", obj{"quota": obj{"network": -2}}, "400: Invalid input for network. Reason: '-2' is too small - must be at least '-1'.", ""},
	{"admin DELETE /quotas/$project", nil, "", ""},
}

// TestNeutronAnswers sends Neutron good and bad bodies.
func TestNeutronAnswers(t *testing.T) {
	for _, target := range targets() {
		t.Run(target.name, func(t *testing.T) {
			target.need(t)
			t.Parallel()
			s := newScenario(t, target)
			cls := map[bool]*client.Client{false: s.client("lab"), true: s.client("admin")}
			external, err := cls[false].List(t.Context(), client.Call{Service: client.Network, Path: "/networks", Query: url.Values{"router:external": {"true"}}}, "networks")
			if err != nil || len(external) == 0 {
				t.Fatalf("external networks: %v, %v", external, err)
			}
			ids := map[string]string{"project": cls[false].Project(), "public": external[0]["id"].(string)}
			var made []string
			for _, x := range neutronAnswers {
				call, admin := strings.CutPrefix(x.call, "admin ")
				got, id := ask(t, cls[admin], named(ids, call).(string), named(ids, x.body))
				if want := named(ids, x.want).(string); !answered(got, want) {
					t.Errorf("%s %v:\ngot  %s\nwant %s", x.call, x.body, got, want)
				}
				method, path, _ := strings.Cut(call, " ")
				if id != "" && method == http.MethodPost {
					made = append(made, path+"/"+id)
				}
				if x.saved != "" {
					ids[x.saved] = id
				}
			}
			for _, path := range [][]string{{"PUT", "/routers/" + ids["t"] + "/remove_router_interface"}} {
				ask(t, cls[false], path[0]+" "+path[1], obj{"subnet_id": ids["s"]})
			}
			for i := len(made) - 1; i >= 0; i-- {
				if got, _ := ask(t, cls[true], "DELETE "+made[i], nil); got != "" && !strings.HasPrefix(got, "404") {
					t.Errorf("deleting %s: %s", made[i], got)
				}
			}
		})
	}
}

// named puts the ids in the place of their names.
func named(ids map[string]string, x any) any {
	switch x := x.(type) {
	case string:
		return variable.ReplaceAllStringFunc(x, func(v string) string { return ids[v[1:]] })
	case obj:
		if x == nil {
			return nil
		}
		out := obj{}
		for k, v := range x {
			out[k] = named(ids, v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = named(ids, v)
		}
		return out
	}
	return x
}

var variable = regexp.MustCompile(`\$[a-z]+`)

// refused finds the status and the message in an error of the client.
var refused = regexp.MustCompile(`answered (\d+): (.*) \([A-Z]+ /[^()]*\)$`)

// ask sends a request and returns the fields of the resource, or the refusal.
func ask(t *testing.T, cl *client.Client, call string, body any) (got, id string) {
	t.Helper()
	method, path, _ := strings.Cut(call, " ")
	c := client.Call{Service: client.Network, Method: method}
	path, query, _ := strings.Cut(path, "?")
	c.Path = path
	c.Query, _ = url.ParseQuery(query)
	if body != nil {
		c.Body = body
	}
	answer, err := cl.Do(t.Context(), c)
	if err != nil {
		if m := refused.FindStringSubmatch(err.Error()); m != nil {
			return m[1] + ": " + m[2], ""
		}
		return err.Error(), ""
	}
	for kind, v := range answer {
		switch v := v.(type) {
		case obj:
			id, _ := v["id"].(string)
			var out []string
			for k, f := range v {
				if f == nil {
					f = "null"
				}
				out = append(out, fmt.Sprint(k, "=", f))
			}
			return " " + strings.Join(out, " ") + " ", id
		case []any:
			return fmt.Sprintf("%d of %s", len(v), kind), ""
		}
	}
	return "", ""
}

// answered reports whether an answer is as wanted: a refusal word by word, a
// resource with each of the fields.
func answered(got, want string) bool {
	if start, cut := strings.CutSuffix(want, "..."); cut { // what follows is a set or a dict of Python's, in any order
		return strings.HasPrefix(got, start)
	}
	if want == "" || !strings.Contains(want, "=") || strings.Contains(want, ": ") {
		return got == want || want == "" && !noAnswer.MatchString(got)
	}
	for _, field := range strings.Fields(want) {
		if !strings.Contains(got, " "+field+" ") {
			return false
		}
	}
	return true
}

var noAnswer = regexp.MustCompile(`^\d{3}: |answered`)
