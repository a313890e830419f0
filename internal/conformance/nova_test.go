package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A caller calls one cloud's services as a user of a tenant.
type caller struct {
	t     *testing.T
	url   string
	token string
}

// login returns a caller of the tenant's user, or of the administrator in the
// tenant's project.
func (n tenant) login(t *testing.T, url string, admin bool) *caller {
	t.Helper()
	user, password, project := n.user, n.password, n.project
	if admin {
		user, password, project = "admin", n.admin, "admin"
	}
	body := fmt.Sprintf(`{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":%q,"password":%q,"domain":{"name":"Default"}}}},"scope":{"project":{"name":%q,"domain":{"name":"Default"}}}}}`, user, password, project)
	resp, err := http.Post(url+"/identity/v3/auth/tokens", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("logging in: %s", resp.Status)
	}
	return &caller{t, url, resp.Header.Get("X-Subject-Token")}
}

// call sends "METHOD PATH [MICROVERSION]", and returns the status, the body and
// the message of an error of Nova's.
func (c *caller) call(what, body string) (status int, answer map[string]any, message string) {
	c.t.Helper()
	parts := strings.Fields(what)
	req, err := http.NewRequest(parts[0], c.url+parts[1], strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", c.token)
	req.Header.Set("Content-Type", "application/json")
	if len(parts) > 2 {
		req.Header.Set("OpenStack-API-Version", "compute "+parts[2])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(raw) > 0 && json.Unmarshal(raw, &answer) != nil {
		c.t.Fatalf("%s: %s is no JSON", what, raw)
	}
	for _, v := range answer {
		if fault, ok := v.(map[string]any); ok && len(answer) == 1 {
			if m, ok := fault["message"].(string); ok {
				message = m
			}
		}
	}
	return resp.StatusCode, answer, message
}

// made returns the id of what a call makes.
func (c *caller) made(what, key, body string) string {
	c.t.Helper()
	status, answer, message := c.call(what, body)
	obj, _ := answer[key].(map[string]any)
	id, _ := obj["id"].(string)
	if status/100 != 2 || id == "" {
		c.t.Fatalf("%s: %d %s", what, status, message)
	}
	return id
}

// until calls until the answer has the text.
func (c *caller) until(what, text string) {
	c.t.Helper()
	var last string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_, answer, message := c.call(what, "")
		raw, err := json.Marshal(answer)
		if err != nil {
			c.t.Fatal(err)
		}
		if last = string(raw) + message; strings.Contains(last, text) {
			return
		}
	}
	c.t.Fatalf("%s never answers %s: %s", what, text, last)
}

// TestNovaAnswers sends the same to each target and compares what it answers
// with what a real Nova does.
func TestNovaAnswers(t *testing.T) {
	for _, target := range targets() {
		t.Run(target.name, func(t *testing.T) {
			target.need(t)
			cloud, tenant := target.open(t)
			server := httptest.NewServer(cloud)
			t.Cleanup(server.Close)
			novaAnswers(t, tenant.login(t, server.URL, false), tenant.login(t, server.URL, true))
		})
	}
}

func novaAnswers(t *testing.T, user, admin *caller) {
	const nova, none = "/compute/v2.1", "11111111-1111-1111-1111-111111111111"
	image, nano, small := idNamed(user, "/image/v2/images", "images", "lab-tiny"), idNamed(user, nova+"/flavors", "flavors", "m1.nano"), idNamed(user, nova+"/flavors", "flavors", "m1.small")
	network := user.made("POST /network/v2.0/networks", "network", `{"network":{"name":"n"}}`)
	user.made("POST /network/v2.0/subnets", "subnet", `{"subnet":{"network_id":"`+network+`","ip_version":4,"cidr":"10.41.0.0/24"}}`)
	body := func(more string) string {
		return `{"server":{"name":"s","flavorRef":"` + nano + `","imageRef":"` + image + `","networks":[{"uuid":"` + network + `"}]` + more + `}}`
	}
	id := user.made("POST "+nova+"/servers", "server", body(""))
	user.until("GET "+nova+"/servers/"+id, `"status":"ACTIVE"`)
	srv := nova + "/servers/" + id
	t.Cleanup(func() {
		user.call("DELETE "+srv, "")
		user.until("GET "+srv, "could not be found")
		user.call("DELETE /network/v2.0/networks/"+network, "")
	})
	create := "POST " + nova + "/servers"
	for _, c := range []struct {
		who     *caller
		what    string
		body    string
		status  int
		message string
	}{
		{user, create, `{}`, 400, "'server' is a required property"},
		{user, create, `{"server":[]}`, 400, "[] is not of type 'object'"},
		{user, create, `{"server"`, 400, "Malformed request body"},
		{user, create, `{"server":{"name":"x"}}`, 400, "'flavorRef' is a required property"},
		{user, create, body(`,"foo":1`), 400, "Additional properties are not allowed ('foo' was unexpected)"},
		{user, create, body(`,"description":"x"`), 400, "('description' was unexpected)"},
		{user, create + " 2.19", body(`,"description":4`), 400, "4 is not of type 'string', 'null'"},
		{user, create + " 2.19", body(`,"description":"` + strings.Repeat("x", 256) + `"`), 400, "is too long"},
		{user, create + " 2.52", body(`,"tags":["a,b"]`), 400, "'a,b' does not match '^[^,/]*$'"},
		{user, create, body(`,"metadata":{"a":1}`), 400, "Invalid input for field/attribute a. Value: 1. 1 is not of type 'string'"},
		{user, create, body(`,"metadata":{"a/b":"x"}`), 400, "'a/b' does not match any of the regexes: '^[a-zA-Z0-9-_:. ]{1,255}$'"},
		{user, create, body(`,"key_name":"none"`), 400, "Invalid key_name provided."},
		{user, create, body(`,"availability_zone":"none"`), 400, "The requested availability zone is not available"},
		{user, create, body(`,"security_groups":[{"name":"none"}]`), 400, "Unable to find security_group with name or id 'none'"},
		{user, create, body(`,"config_drive":"maybe"`), 400, "'maybe' is not one of [True, 'True'"},
		{user, create, body(`,"min_count":0`), 400, "0 is less than the minimum of 1"},
		{user, create, body(`,"min_count":3,"max_count":2`), 400, "min_count must be <= max_count"},
		{user, create, body(`,"min_count":11,"max_count":11`), 403, "Quota exceeded for instances: Requested 11, but already used 1 of 10 instances"},
		{user, create + " 2.74", body(`,"host":"fake1"`), 403, "compute:servers:create:requested_destination"},
		{user, create + " 2.96", body(""), 406, "Version 2.96 is not supported by the API. Minimum is 2.1 and maximum is 2.93."},
		{user, "GET " + nova + "/servers/none", "", 404, "Instance none could not be found."},
		{user, "GET " + nova + "/servers?limit=x", "", 400, "Invalid input for query parameters limit. Value: x. 'x' does not match '^[0-9]*$'"},
		{user, "GET " + nova + "/servers?sort_key=none", "", 400, "'none' is not one of ['access_ip_v4'"},
		{user, "GET " + nova + "/servers?marker=" + none, "", 400, "marker [" + none + "] not found"},
		{user, "GET " + nova + "/servers?all_tenants=1", "", 403, "os_compute_api:servers:index:get_all_tenants"},

		{user, "POST " + srv + "/action", `{}`, 400, "Malformed request body"},
		{user, "POST " + srv + "/action", `{"none":null}`, 400, "There is no such action: none"},
		{user, "POST " + srv + "/action", `{"os-start":null}`, 409, "Cannot 'start' instance " + id + " while it is in vm_state active"},
		{user, "POST " + srv + "/action", `{"confirmResize":null}`, 409, "Cannot 'confirmResize' instance"},
		{user, "POST " + srv + "/action", `{"resize":{}}`, 400, "'flavorRef' is a required property"},
		{user, "POST " + srv + "/action", `{"resize":{"flavorRef":"none"}}`, 400, "Flavor none could not be found."},
		{user, "POST " + srv + "/action", `{"resize":{"flavorRef":"` + nano + `"}}`, 400, "When resizing, instances must change flavor!"},
		{user, "POST " + srv + "/action", `{"rebuild":{"imageRef":"x"}}`, 400, "'x' is not a 'uuid'"},
		{user, "POST " + srv + "/action", `{"rebuild":{"imageRef":"` + none + `"}}`, 400, "Cannot find image for rebuild"},
		{user, "POST " + srv + "/action 2.54", `{"rebuild":{"imageRef":"` + image + `","key_name":"none"}}`, 400, "Invalid key_name provided."},
		{user, "POST " + srv + "/action", `{"reboot":{"type":"x"}}`, 400, "'x' is not one of ['HARD', 'Hard', 'hard', 'SOFT', 'Soft', 'soft']"},
		{user, "POST " + srv + "/action", `{"os-getConsoleOutput":{"length":-2}}`, 400, "-2 is less than the minimum of -1"},
		{user, "POST " + srv + "/action", `{"addSecurityGroup":{"name":"none"}}`, 404, "Security group none is not found for project"},
		{user, "POST " + srv + "/action", `{"addSecurityGroup":{"name":"default"}}`, 400, "Duplicate items in the list"},
		{user, "POST " + srv + "/action", `{"os-resetState":{"state":"error"}}`, 403, "os_compute_api:os-admin-actions:reset_state"},

		{user, "PUT " + srv, `{"server":{"name":5}}`, 400, "5 is not of type 'string'"},
		{user, "PUT " + srv, `{"server":{"accessIPv4":"x"}}`, 400, "'x' is not a 'ipv4'"},
		{user, "PUT " + srv, `{"server":{"name":"s"}}`, 200, ""},
		{user, "POST " + srv + "/metadata", `{"metadata":null}`, 400, "None is not of type 'object'"},
		{user, "POST " + srv + "/metadata", `{"metadata":{"a":"b"}}`, 200, ""},
		{user, "PUT " + srv + "/metadata/q", `{"meta":{"z":"1"}}`, 400, "Request body and URI mismatch"},
		{user, "PUT " + srv + "/metadata/q", `{"meta":{}}`, 400, "does not have enough properties"},
		{user, "DELETE " + srv + "/metadata/none", "", 404, "Metadata item was not found"},
		{user, "GET " + srv + "/tags", "", 404, "could not be found"},
		{user, "PUT " + srv + "/tags 2.26", `{"tags":["b","a"]}`, 200, ""},
		{user, "DELETE " + srv + "/tags/none 2.26", "", 404, "Instance " + id + " has no tag 'none'"},
		{user, "GET " + srv + "/ips/none", "", 404, "Instance is not a member of specified network"},
		{user, "POST " + srv + "/os-interface", `{"interfaceAttachment":{"net_id":"x"}}`, 400, "'x' is not a 'uuid'"},
		{user, "POST " + srv + "/os-interface", `{"interfaceAttachment":{"port_id":"` + none + `"}}`, 404, "Port id " + none + " could not be found."},
		{user, "POST " + srv + "/os-interface", `{"interfaceAttachment":{"fixed_ips":[{"ip_address":"10.41.0.9"}]}}`, 400, "Must input network_id when request IP address"},
		{user, "GET " + srv + "/os-interface/" + none, "", 404, "Port id " + none + " could not be found."},

		{user, "POST " + nova + "/flavors", `{"flavor":{"name":"x","ram":64,"vcpus":1,"disk":1}}`, 403, "os_compute_api:os-flavor-manage:create"},
		{admin, "POST " + nova + "/flavors", `{"flavor":{"name":"m1.nano","ram":64,"vcpus":1,"disk":1}}`, 409, "Flavor with name m1.nano already exists."},
		{admin, "POST " + nova + "/flavors", `{"flavor":{"name":"x","ram":0,"vcpus":1,"disk":1}}`, 400, "0 is less than the minimum of 1"},
		{admin, "POST " + nova + "/flavors", `{"flavor":{"name":"x","ram":64,"vcpus":1,"disk":1,"description":"x"}}`, 400, "('description' was unexpected)"},
		{admin, "PUT " + nova + "/flavors/" + small, `{"flavor":{"description":"x"}}`, 404, "could not be found"},
		{admin, "GET " + nova + "/flavors/" + small + "/os-flavor-access", "", 404, "Access list not available for public flavors."},
		{admin, "POST " + nova + "/flavors/" + small + "/action", `{"addTenantAccess":{}}`, 400, "'tenant' is a required property"},
		{admin, "POST " + nova + "/flavors/" + small + "/os-extra_specs", `{"extra_specs":{"a/b":"x"}}`, 400, "does not match any of the regexes"},

		{user, "POST " + nova + "/os-server-groups", `{"server_group":{"name":"g","policies":["x"]}}`, 400, "'x' is not one of ['anti-affinity', 'affinity']"},
		{user, "POST " + nova + "/os-server-groups 2.64", `{"server_group":{"name":"g","policy":"affinity","rules":{"max_server_per_host":2}}}`, 400, "Only anti-affinity policy supports rules."},
		{user, "GET " + nova + "/os-server-groups/" + none, "", 404, "Instance group " + none + " could not be found."},
		{user, "POST " + nova + "/os-keypairs", `{"keypair":{"name":"a.b","public_key":"x"}}`, 400, "Only expected characters"},
		{user, "POST " + nova + "/os-keypairs", `{"keypair":{"name":"k","public_key":"x"}}`, 400, "Keypair data is invalid: failed to generate fingerprint"},
		{user, "POST " + nova + "/os-keypairs 2.92", `{"keypair":{"name":"k"}}`, 400, "'public_key' is a required property"},
		{user, "GET " + nova + "/os-hypervisors/detail", "", 403, "os_compute_api:os-hypervisors:list-detail"},
		{user, "GET " + nova + "/os-availability-zone/detail", "", 403, "os_compute_api:os-availability-zone:detail"},
		{admin, "GET " + nova + "/os-hypervisors/statistics 2.88", "", 404, ""},
	} {
		status, _, message := c.who.call(c.what, c.body)
		if status != c.status || !strings.Contains(message, c.message) {
			t.Errorf("%s %s: %d %q, want %d %q", c.what, c.body, status, message, c.status, c.message)
		}
	}
}

// idNamed returns the id of what a list has under that name.
func idNamed(c *caller, path, key, name string) string {
	c.t.Helper()
	_, answer, message := c.call("GET "+path, "")
	all, _ := answer[key].([]any)
	for _, x := range all {
		if o, _ := x.(map[string]any); o["name"] == name {
			id, _ := o["id"].(string)
			return id
		}
	}
	c.t.Fatalf("%s has no %s: %s", path, name, message)
	return ""
}
