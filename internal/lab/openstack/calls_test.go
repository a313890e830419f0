package openstack_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// call is a plain request and what the answer must be: its status and pieces of its body.
type call struct {
	by      *gophercloud.ProviderClient // nil: without token
	request string                      // method, path, and from 2.x on a microversion: "GET /compute/v2.1/servers 2.26"
	body    string
	status  int
	pieces  string // separated by " | "
}

func (l *lab) run(calls []call) {
	l.t.Helper()
	for _, c := range calls {
		word := strings.Fields(c.request)
		req, err := http.NewRequestWithContext(l.ctx, word[0], l.url+word[1], strings.NewReader(c.body))
		if err != nil {
			l.t.Fatal(err)
		}
		if c.by != nil {
			req.Header.Set("X-Auth-Token", c.by.Token())
		}
		if len(word) > 2 {
			req.Header.Set("OpenStack-API-Version", strings.Split(word[1], "/")[1]+" "+word[2])
		}
		if strings.HasPrefix(c.body, "[") {
			req.Header.Set("Content-Type", "application/openstack-images-v2.1-json-patch")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			l.t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			l.t.Fatal(err)
		}
		if resp.StatusCode != c.status {
			l.t.Errorf("%s: %d %s, want %d", c.request, resp.StatusCode, body, c.status)
			continue
		}
		for _, piece := range strings.Split(c.pieces, " | ") {
			if !strings.Contains(string(body), piece) {
				l.t.Errorf("%s: %s lacks %q", c.request, body, piece)
			}
		}
	}
}

func TestIdentityCalls(t *testing.T) {
	l := newLab(t, nil)
	demo := must[*tokens.User](t, "user")(tokens.Get(l.ctx, l.identity, l.demo.Token()).ExtractUser()).ID
	project := must[*tokens.Project](t, "project")(tokens.Get(l.ctx, l.identity, l.demo.Token()).ExtractProject()).ID
	state := l.cloud.State(false)
	var other string
	for _, p := range state["project"] {
		if p["name"] == "other" {
			other = p["id"].(string)
		}
	}
	var member string
	roleDoc := must[[]tokens.Role](t, "roles")(tokens.Get(l.ctx, l.identity, l.demo.Token()).ExtractRoles())
	for _, r := range roleDoc {
		if r.Name == "member" {
			member = r.ID
		}
	}
	d, a := l.demo, l.admin
	id := "/identity/v3"
	grant := id + "/projects/" + other + "/users/" + demo + "/roles"
	l.run([]call{
		{nil, "POST " + id + "/auth/tokens", "{", 400, `"title":"Bad Request"`},
		{nil, "POST " + id + "/auth/tokens", "{}", 400, "Expecting to find auth in request body."},
		{nil, "POST " + id + "/auth/tokens", `{"auth":{"identity":{"methods":["password"]}}}`, 400, "Expecting to find password in identity."},
		{nil, "POST " + id + "/auth/tokens", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"` + demo + `","password":"` + demoPassword + `"}}},"scope":"unscoped"}}`, 201, `"methods":["password"]`},
		{nil, "POST " + id + "/auth/tokens", `{"auth":{"identity":{"methods":["password"],"password":{"user":{"id":"` + demo + `","password":"` + demoPassword + `"}}},"scope":{"system":{"all":true}}}}`, 401, ""},
		{nil, "POST " + id + "/auth/tokens", `{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":"0123456789abcdef0123456789abcdef","secret":"app-secret-canary"}},"scope":{"project":{"id":"` + project + `"}}}}`, 401, "Application credentials cannot request a scope."},
		{d, "GET " + id + "/auth/catalog", "", 200, `"type":"network"`},
		{d, "GET " + id + "/auth/projects", "", 200, `"name":"demo"`},
		{d, "GET " + id + "/domains", "", 403, "identity:list_domains"},
		{a, "GET " + id + "/domains", "", 200, `"id":"default"`},
		{a, "GET " + id + "/domains?name=Other", "", 200, `"domains":[]`},
		{d, "GET " + id + "/domains/default", "", 200, `"name":"Default"`},
		{a, "GET " + id + "/domains/x", "", 404, "Could not find domain: x."},
		{d, "GET " + id + "/regions", "", 200, `"id":"RegionOne"`},
		{d, "GET " + id + "/services", "", 403, "identity:list_services"},
		{a, "GET " + id + "/services", "", 200, `"name":"nova"`},
		{a, "GET " + id + "/endpoints", "", 200, `"interface":"public" | "service_id"`},
		{a, "GET " + id + "/projects?name=demo", "", 200, `"id":"` + project + `"`},
		{d, "GET " + id + "/projects", "", 403, ""},
		{d, "GET " + id + "/projects/" + project, "", 200, `"name":"demo"`},
		{a, "PATCH " + id + "/projects/" + project, `{"project":{"description":"d","tags":["t"]}}`, 200, `"description":"d" | "tags":["t"]`},
		{a, "PATCH " + id + "/projects/" + project, `{"project":{"name":"other"}}`, 409, "two projects with either the same name"},
		{a, "GET " + id + "/users?name=demo", "", 200, `"id":"` + demo + `"`},
		{d, "GET " + id + "/users/" + demo, "", 200, `"name":"demo"`},
		{d, "GET " + id + "/users/" + demo + "/projects", "", 200, `"name":"demo"`},
		{a, "PATCH " + id + "/users/" + demo, `{"user":{"email":"a@b.example"}}`, 200, `"email":"a@b.example"`},
		{a, "GET " + id + "/users/none", "", 404, "Could not find user: none."},
		{a, "GET " + id + "/role_assignments?user.id=" + demo, "", 200, `"scope":{"project":{"id":"` + project + `"}}`},
		{a, "GET " + grant, "", 200, `"roles":[]`},
		{a, "GET " + grant + "/" + member, "", 404, "Could not find role assignment"},
		{a, "PUT " + grant + "/" + member, "", 204, ""},
		{a, "GET " + grant + "/" + member, "", 204, ""},
		{a, "DELETE " + grant + "/" + member, "", 204, ""},
		{a, "DELETE " + grant + "/" + member, "", 404, "Could not find role assignment"},
		{a, "PUT " + grant + "/none", "", 404, "Could not find role: none."},
		{d, "GET " + id + "/users/" + demo + "/application_credentials?name=lab", "", 200, `"id":"0123456789abcdef0123456789abcdef"`},
		{d, "POST " + id + "/users/" + demo + "/application_credentials", `{"application_credential":{}}`, 400, ""},
		{d, "PUT " + id + "/users", "", 405, `"code":405`},
		// A new password ends the tokens of the old one.
		{a, "PATCH " + id + "/users/" + demo, `{"user":{"password":"new"}}`, 200, ""},
		{d, "GET " + id + "/auth/projects", "", 401, ""},
	})
}

func TestNetworkCalls(t *testing.T) {
	l := newLab(t, nil)
	n, s := l.newNetwork("n", "10.77.0.0/24")
	r := l.newRouter("r", true, s.ID)
	p := l.newPort(ports.CreateOpts{NetworkID: n.ID, FixedIPs: []ports.IP{{IPAddress: "10.77.0.9"}}})
	d, a := l.demo, l.admin
	v2 := "/network/v2.0"
	net, sub, port, router := v2+"/networks/"+n.ID, v2+"/subnets/"+s.ID, v2+"/ports/"+p.ID, v2+"/routers/"+r.ID
	project := n.ProjectID
	l.run([]call{
		{d, "GET " + v2 + "/extensions", "", 200, `"alias":"security-group"`},
		{d, "GET " + v2 + "/extensions/router", "", 200, `"alias":"router"`},
		{d, "GET " + v2 + "/extensions/none", "", 404, ""},
		{d, "GET " + v2 + "/availability_zones", "", 200, `"resource":"router"`},
		{d, "GET " + v2 + "/nonsense", "", 404, `"type":"HTTPNotFound"`},
		{d, "POST " + v2 + "/networks", `{}`, 400, "Unable to find 'network' in request body"},
		{d, "POST " + v2 + "/networks", `{"network":{"name":"x","colour":"red"}}`, 400, "Unrecognized attribute(s) 'colour'"},
		{d, "POST " + v2 + "/networks", `{"network":{"name":"x","shared":true}}`, 403, "create_network:shared"},
		{d, "POST " + v2 + "/networks", `{"network":{"name":"x","project_id":"other"}}`, 400, "requires admin or advsvc privileges"},
		{d, "POST " + v2 + "/subnets", `{"subnet":{"network_id":"` + n.ID + `"}}`, 400, "Required attribute 'ip_version' not specified"},
		{d, "POST " + v2 + "/subnets", `{"subnet":{"network_id":"` + n.ID + `","ip_version":6,"cidr":"fd00:1::/64"}}`, 201, `"gateway_ip":"fd00:1::" | "ip_version":6`},
		{d, "POST " + v2 + "/ports", `{"port":{"network_id":"` + n.ID + `","name":"dual"}}`, 201, `"ip_address":"fd00:1::1" | "ip_address":"10.77.0.2"`},
		{d, "POST " + v2 + "/ports", `{"ports":[{"network_id":"` + n.ID + `","name":"b1"},{"network_id":"` + n.ID + `","fixed_ips":[{"ip_address":"10.77.0.9"}]}]}`, 409, "already allocated"},
		{d, "GET " + v2 + "/ports?name=b1", "", 200, `"ports":[]`},
		{d, "GET " + net, "", 200, `"revision_number":3 | "router:external":false | "mtu":1450`},
		{d, "PUT " + net, `{"network":{"description":"mark","mtu":1400}}`, 200, `"description":"mark" | "mtu":1400 | "revision_number":4`},
		{d, "PUT " + net, `{"network":{"mtu":1451}}`, 400, "Requested MTU is too big, maximum is 1450."},
		{d, "PUT " + net, `{"network":{"status":"DOWN"}}`, 400, "Cannot update read-only attribute status"},
		{a, "GET " + net, "", 200, `"provider:network_type":"vxlan"`},
		{a, "PUT " + v2 + "/networks/" + l.external(), `{"network":{"router:external":false}}`, 409, "ExternalNetworkInUse"},
		{d, "PUT " + sub, `{"subnet":{"cidr":"10.1.0.0/24"}}`, 400, "Cannot update read-only attribute cidr"},
		{d, "PUT " + sub, `{"subnet":{"gateway_ip":"10.77.0.250"}}`, 409, "GatewayIpInUse"},
		{d, "PUT " + sub, `{"subnet":{"allocation_pools":[{"start":"10.77.0.20","end":"10.77.0.30"}]}}`, 200, `"start":"10.77.0.20"`},
		{d, "GET " + v2 + "/ports?fixed_ips=ip_address=10.77.0.9", "", 200, p.ID},
		{d, "GET " + v2 + "/ports?fixed_ips=subnet_id=none", "", 200, `"ports":[]`},
		{d, "GET " + v2 + "/ports?security_groups=" + p.SecurityGroups[0] + "&fields=id", "", 200, p.ID},
		{d, "GET " + v2 + "/ports?device_owner=network:router_interface", "", 200, `"ip_address":"10.77.0.1"`},
		{d, "GET " + v2 + "/ports?device_owner=network:router_gateway", "", 200, `"ports":[]`},
		{a, "GET " + v2 + "/ports?device_owner=network:router_gateway", "", 200, r.ID},
		{d, "GET " + v2 + "/ports?sort_key=colour&sort_dir=asc", "", 400, "is invalid attribute for sort_keys"},
		{d, "POST " + v2 + "/floatingips", `{"floatingip":{"floating_network_id":"` + l.external() + `","port_id":"` + p.ID + `"}}`, 201, `"status":"ACTIVE" | "fixed_ip_address":"10.77.0.9"`},
		{d, "PUT " + port, `{"port":{"fixed_ips":[{"ip_address":"10.77.0.8"}]}}`, 200, `"ip_address":"10.77.0.8"`},
		{d, "GET " + v2 + "/floatingips", "", 200, `"status":"DOWN" | "fixed_ip_address":null`},
		{d, "PUT " + router, `{"router":{"routes":[{"destination":"10.9.0.0/24","nexthop":"10.88.0.1"}]}}`, 400, "the nexthop is not connected with router"},
		{d, "PUT " + router, `{"router":{"routes":[{"destination":"10.9.0.0/24","nexthop":"10.77.0.8"}]}}`, 200, `"nexthop":"10.77.0.8"`},
		{d, "PUT " + router + "/remove_router_interface", `{"subnet_id":"` + s.ID + `"}`, 409, "RouterInterfaceInUseByRoute"},
		{d, "PUT " + router + "/add_router_interface", `{}`, 400, "Either subnet_id or port_id must be specified"},
		{d, "PUT " + router + "/add_router_interface", `{"subnet_id":"` + n.ID + `","port_id":"` + n.ID + `"}`, 400, "Cannot specify both subnet-id and port-id"},
		{d, "PUT " + router, `{"router":{"external_gateway_info":{"network_id":"` + l.external() + `","enable_snat":false}}}`, 403, "external_gateway_info:enable_snat"},
		{a, "PUT " + router, `{"router":{"external_gateway_info":{"network_id":"` + l.external() + `","enable_snat":false}}}`, 200, `"enable_snat":false`},
		{d, "PUT " + net + "/tags/t1", "", 201, ""},
		{d, "GET " + net + "/tags/t1", "", 204, ""},
		{d, "GET " + net + "/tags", "", 200, `{"tags":["t1"]}`},
		{d, "DELETE " + net + "/tags/t1", "", 204, ""},
		{d, "GET " + net + "/tags/t1", "", 404, "TagNotFound"},
		{d, "DELETE " + net + "/tags/t1", "", 404, "TagNotFound"},
		{d, "PUT " + net + "/tags", `{"tags":["b","a","b"]}`, 400, "Duplicate items in the list: 'b'"},
		{d, "PUT " + net + "/tags", `{"tags":["b","a"]}`, 200, `{"tags":["b","a"]}`},
		{d, "DELETE " + net + "/tags", "", 204, ""},
		{d, "GET " + v2 + "/quotas/" + project, "", 200, `"network":100`},
		{d, "GET " + v2 + "/quotas/" + project + "/default", "", 200, `"router":10`},
		{d, "GET " + v2 + "/quotas/" + project + "/details.json", "", 200, `"network":{"limit":100,"reserved":0,"used":1}`},
		{d, "GET " + v2 + "/quotas/other", "", 403, "rule:get_quota is disallowed by policy"},
		{a, "PUT " + v2 + "/quotas/" + project, `{"quota":{"colour":1}}`, 400, "Unrecognized attribute(s) 'colour'"},
		{a, "DELETE " + v2 + "/quotas/none", "", 404, ""},
		{a, "POST " + v2 + "/networks", `{"network":{"name":"common","shared":true}}`, 201, `"shared":true`},
		{d, "GET " + v2 + "/networks?shared=true", "", 200, `"name":"common"`},
	})
}

func TestComputeCalls(t *testing.T) {
	l := newLab(t, nil)
	n, _ := l.newNetwork("n", "10.77.0.0/24")
	vm := l.boot(servers.CreateOpts{Name: "vm", Networks: []servers.Network{{UUID: n.ID}}, Metadata: map[string]string{"a": "1"}}, nil)
	p := l.newPort(ports.CreateOpts{NetworkID: n.ID})
	d, a := l.demo, l.admin
	v := "/compute/v2.1"
	srv, flavor := v+"/servers/"+vm.ID, v+"/flavors/"+l.flavor("m1.nano")
	image, project := l.imageID("lab-tiny"), vm.TenantID
	bdm := func(volume string) string {
		return `{"server":{"name":"b","flavorRef":"` + l.flavor("m1.nano") + `","networks":"none","block_device_mapping_v2":[{"boot_index":0,"uuid":"` + image + `","source_type":"image","destination_type":"volume"` + volume + `}]}}`
	}
	action := func(body string, status int, pieces string) call {
		return call{d, "POST " + srv + "/action", body, status, pieces}
	}
	l.run([]call{
		{d, "GET " + srv + "/metadata", "", 200, `{"metadata":{"a":"1"}}`},
		{d, "PUT " + srv + "/metadata/b", `{"meta":{"b":"2"}}`, 200, `{"meta":{"b":"2"}}`},
		{d, "PUT " + srv + "/metadata/b", `{"meta":{"c":"2"}}`, 400, "Request body and URI mismatch"},
		{d, "GET " + srv + "/metadata/b", "", 200, `{"meta":{"b":"2"}}`},
		{d, "DELETE " + srv + "/metadata/b", "", 204, ""},
		{d, "GET " + srv + "/metadata/b", "", 404, "Metadata item was not found"},
		{d, "PUT " + srv + "/metadata", `{"metadata":{"z":"26"}}`, 200, `{"metadata":{"z":"26"}}`},
		{d, "POST " + srv + "/metadata", `{"metadata":{"n":1}}`, 400, "badRequest"},
		{d, "GET " + srv + "/tags", "", 404, ""},
		{d, "PUT " + srv + "/tags/t 2.26", "", 201, ""},
		{d, "PUT " + srv + "/tags/t 2.26", "", 204, ""},
		{d, "GET " + srv + "/tags 2.26", "", 200, `{"tags":["t"]}`},
		{d, "DELETE " + srv + "/tags/t 2.26", "", 204, ""},
		{d, "DELETE " + srv + "/tags/t 2.26", "", 404, "has no tag 't'"},
		{d, "PUT " + srv + "/tags 2.26", `{"tags":["b","a"]}`, 200, `{"tags":["a","b"]}`},
		{d, "DELETE " + srv + "/tags 2.26", "", 204, ""},
		{d, "GET " + srv + "/ips", "", 200, `"addr":"10.77.0.2"`},
		{d, "GET " + srv + "/os-security-groups", "", 200, `"name":"default"`},
		{d, "GET " + srv + "/os-volume_attachments", "", 200, `"volumeAttachments":[]`},
		{d, "POST " + srv + "/os-volume_attachments", `{"volumeAttachment":{"volumeId":"` + image + `"}}`, 404, "Volume " + image + " could not be found."},
		{d, "POST " + srv + "/os-interface", `{"interfaceAttachment":{"port_id":"` + p.ID + `"}}`, 200, `"port_state":"ACTIVE"`},
		{d, "POST " + srv + "/os-interface", `{"interfaceAttachment":{"port_id":"` + p.ID + `"}}`, 409, "is still in use"},
		{d, "POST " + srv + "/os-interface", `{"interfaceAttachment":{"port_id":"11111111-1111-1111-1111-111111111111"}}`, 404, "Port id 11111111-1111-1111-1111-111111111111 could not be found."},
		{d, "DELETE " + srv + "/os-interface/" + p.ID, "", 202, ""},
		{d, "DELETE " + srv + "/os-interface/" + p.ID, "", 202, ""},
		{d, "GET " + srv + "/os-interface", "", 200, `"ip_address":"10.77.0.2"`},
		action(`{"addSecurityGroup":{"name":"none"}}`, 404, "Security group none is not found"),
		action(`{"removeSecurityGroup":{"name":"default"}}`, 202, ""),
		action(`{"removeSecurityGroup":{"name":"default"}}`, 404, "not associated with the instance"),
		action(`{"addSecurityGroup":{"name":"default"}}`, 202, ""),
		action(`{"dance":null}`, 400, "There is no such action: dance"),
		action(`{"os-start":null,"os-stop":null}`, 400, ""),
		action(`{"reboot":{"type":"WARM"}}`, 400, ""),
		action(`{"lock":null}`, 202, ""),
		{d, "GET " + srv + " 2.9", "", 200, `"locked":true`},
		action(`{"unlock":null}`, 202, ""),
		action(`{"resize":{"flavorRef":"`+l.flavor("m1.nano")+`"}}`, 400, "instances must change flavor!"),
		action(`{"resize":{"flavorRef":"none"}}`, 400, "Flavor none could not be found."),
		action(`{"resize":{"flavorRef":"`+l.flavor("m1.huge")+`"}}`, 403, "Quota exceeded for cores, ram"),
		action(`{"rebuild":{"imageRef":"11111111-1111-1111-1111-111111111111"}}`, 400, "Cannot find image for rebuild"),
		action(`{"os-resetState":{"state":"error"}}`, 403, ""),
		action(`{"pause":null}`, 202, ""),
	})
	l.clock.Advance(time.Second)
	l.run([]call{
		{d, "GET " + srv, "", 200, `"status":"PAUSED"`},
		action(`{"pause":null}`, 409, "Cannot 'pause' instance"),
		action(`{"unpause":null}`, 202, ""),
	})
	l.clock.Advance(time.Second)
	l.run([]call{
		{d, "GET " + srv, "", 200, `"status":"ACTIVE"`},
		{d, "POST " + v + "/servers 2.37", bdm(""), 400, "non-zero size"},
		{d, "POST " + v + "/servers 2.37", bdm(`,"volume_size":5`), 202, `"adminPass"`},
		{d, "POST " + v + "/servers 2.37", `{"server":{"name":"m","min_count":2,"return_reservation_id":true,"flavorRef":"` + l.flavor("m1.nano") + `","imageRef":"` + image + `","networks":"auto"}}`, 202, `"reservation_id":"r-`},
		{d, "POST " + v + "/servers 2.37", `{"server":{"name":"q","min_count":7,"max_count":9,"flavorRef":"` + l.flavor("m1.nano") + `","imageRef":"` + image + `","networks":"none"}}`, 403, "Requested 7, but already used 4 of 10 instances"},
		{d, "GET " + v + "/servers?name=^m-", "", 200, `"name":"m-1" | "name":"m-2"`},
		{d, "GET " + v + "/servers?sort_key=display_name&sort_dir=asc&limit=1", "", 200, `"name":"b" | "servers_links"`},
		{d, "GET " + v + "/servers/detail?name=b$", "", 200, `"image":"" | "os-extended-volumes:volumes_attached":[]`},
		{d, "GET " + v + "/servers?name=(", "", 400, "is not a 'regex'"},
		{d, "GET " + v + "/servers?changes-since=2026-01-02T03:04:00Z&status=active", "", 200, `"name":"vm"`},
		{d, "GET " + v + "/servers?limit=-1", "", 400, ""},
		{d, "GET " + v + "/flavors", "", 200, `"name":"m1.nano"`},
		{d, "GET " + v + "/flavors?minRam=x", "", 400, "Invalid minRam filter [x]"},
		{d, "GET " + flavor + " 2.61", "", 200, `"extra_specs":{}`},
		{d, "PUT " + flavor + " 2.55", `{"flavor":{"description":"d"}}`, 403, ""},
		{a, "PUT " + flavor + " 2.55", `{"flavor":{"description":"d"}}`, 200, `"description":"d"`},
		{a, "PUT " + flavor + "/os-extra_specs/k", `{"k":"v"}`, 200, `{"k":"v"}`},
		{d, "GET " + flavor + "/os-extra_specs/k", "", 200, `{"k":"v"}`},
		{a, "DELETE " + flavor + "/os-extra_specs/k", "", 200, ""},
		{d, "GET " + flavor + "/os-extra_specs/k", "", 404, "has no extra specs with key k."},
		{d, "GET " + v + "/os-server-groups", "", 200, `"server_groups":[]`},
		{d, "POST " + v + "/os-server-groups", `{"server_group":{"name":"g","policies":["soft-affinity"]}}`, 400, ""},
		{d, "POST " + v + "/os-server-groups 2.15", `{"server_group":{"name":"g","policies":["soft-affinity"]}}`, 200, `"policies":["soft-affinity"]`},
		{d, "POST " + v + "/os-server-groups 2.64", `{"server_group":{"name":"g","policy":"affinity","rules":{"max_server_per_host":2}}}`, 400, "Only anti-affinity policy supports rules."},
		{d, "GET " + v + "/os-quota-sets/" + project, "", 200, `"instances":10 | "injected_files":5 | "floating_ips":-1`},
		{d, "GET " + v + "/os-quota-sets/" + project + " 2.57", "", 200, `"server_groups":10`},
		{d, "GET " + v + "/os-quota-sets/" + project + "/defaults", "", 200, `"cores":20`},
		{d, "GET " + v + "/os-quota-sets/" + project + "/detail", "", 200, `"instances":{"in_use":4,"limit":10,"reserved":0}`},
		{d, "GET " + v + "/os-quota-sets/other", "", 403, ""},
		{d, "PUT " + v + "/os-quota-sets/" + project, `{"quota_set":{"cores":1}}`, 403, ""},
		{a, "PUT " + v + "/os-quota-sets/" + project, `{"quota_set":{"colour":1}}`, 400, "'colour' was unexpected"},
		{a, "GET " + v + "/os-availability-zone/detail", "", 200, `"nova-compute"`},
		{a, "GET " + v + "/os-hypervisors/1", "", 200, `"hypervisor_hostname":"fake1"`},
		{a, "GET " + v + "/os-hypervisors/9", "", 404, ""},
		{a, "GET " + v + "/os-hypervisors/statistics 2.88", "", 404, ""},
		{d, "GET " + v + "/limits 2.57", "", 200, `"totalInstancesUsed":4`},
		{d, "GET " + v + "/limits?tenant_id=other", "", 403, ""},
		{d, "GET " + v + "/os-keypairs?user_id=other 2.10", "", 403, ""},
		{d, "GET " + v + "/flavors nonsense", "", 400, "is of invalid format"},
		{d, "GET " + v + "/flavors 2.94", "", 406, "computeFault"},
		{d, "GET " + v + "/flavors latest", "", 200, ""},
	})
}

func TestImageCalls(t *testing.T) {
	l := newLab(t, nil)
	im := l.newImage("im").ID
	public := l.imageID("lab-tiny")
	d, a := l.demo, l.admin
	v := "/image/v2/images"
	l.run([]call{
		{d, "PUT " + v + "/" + im + "/tags/t", "", 204, ""},
		{d, "GET " + v + "/" + im, "", 200, `"tags":["lab","t"] | "size":null | "self":"/v2/images/` + im},
		{d, "DELETE " + v + "/" + im + "/tags/t", "", 204, ""},
		{d, "DELETE " + v + "/" + im + "/tags/t", "", 404, "The resource could not be found."},
		{d, "GET " + v + "/" + im + "/file", "", 204, ""},
		{d, "PUT " + v + "/" + im + "/file", "x", 415, "is not supported by this server."},
		{d, "PUT " + v + "/none/file", "x", 415, ""},
		{d, "PATCH " + v + "/" + im, `{}`, 415, ""},
		{d, "PATCH " + v + "/" + im, `[{"op":"move","path":"/x"}]`, 400, "Invalid operation: `move`."},
		{d, "PATCH " + v + "/" + im, `[{"op":"add","path":"/a~1b","value":"1"},{"op":"remove","path":"/nothing"}]`, 409, "Property nothing does not exist."},
		{d, "GET " + v + "/" + im, "", 200, `"os_distro":"debian"`},
		{d, "PATCH " + v + "/" + im, `[{"op":"replace","path":"/disk_format","value":"qcow2"},{"op":"add","path":"/a~1b","value":"1"}]`, 200, `"disk_format":"qcow2" | "a/b":"1"`},
		{d, "PATCH " + v + "/" + im, `[{"op":"remove","path":"/name"}]`, 403, "may not be removed"},
		{d, "POST " + v, `{"id":"` + im + `"}`, 409, "already exists!"},
		{d, "POST " + v, `{"id":"x"}`, 400, ""},
		{d, "POST " + v, `{"owner":"x"}`, 403, ""},
		{d, "POST " + v, `{"status":"active"}`, 403, "Attribute 'status' is read-only."},
		{d, "PATCH " + v + "/" + public, `[{"op":"add","path":"/k","value":"1"}]`, 403, ""},
		{d, "DELETE " + v + "/" + public, "", 403, ""},
		{d, "POST " + v + "/" + public + "/actions/deactivate", "", 403, ""},
		{a, "POST " + v + "/" + public + "/actions/deactivate", "", 204, ""},
		{d, "GET " + v + "/" + public + "/file", "", 403, "has been deactivated"},
		{a, "POST " + v + "/" + public + "/actions/reactivate", "", 204, ""},
		{d, "GET " + v + "/" + public + "/file", "", 200, "a tiny image of the lab"},
		{a, "POST " + v + "/" + im + "/actions/deactivate", "", 403, ""},
		{d, "GET " + v + "?limit=x", "", 400, "limit param must be an integer"},
		{d, "GET " + v + "?marker=x", "", 400, "No image found with ID x"},
		{d, "GET " + v + "?os_distro=debian", "", 200, `"name":"im"`},
		{d, "GET " + v + "?sort=name:asc&size_min=1", "", 200, `"name":"lab-tiny"`},
		{d, "DELETE " + v + "/none", "", 404, "Failed to find image none to delete"},
		{d, "GET /image/v2/info/import", "", 200, "import-methods"},
	})
}

func TestBaseURL(t *testing.T) {
	cloud := openstack.New(openstack.Config{BaseURL: "http://cloud.example:8774"})
	defer cloud.Close()
	w := httptest.NewRecorder()
	cloud.ServeHTTP(w, httptest.NewRequest("POST", "/identity/v3/auth/tokens",
		strings.NewReader(`{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"demo","domain":{"id":"default"},"password":"secret"}}}}}`)))
	if w.Code != 201 || !strings.Contains(w.Body.String(), `"url":"http://cloud.example:8774/compute/v2.1"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
