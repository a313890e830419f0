package openstack_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// ids are what the calls of these tests speak of.
type ids struct{ demo, project, admin, member, reader string }

func (l *lab) ids() ids {
	l.t.Helper()
	var out ids
	r := tokens.Get(l.ctx, l.identity, l.demo.Token())
	out.demo = must[*tokens.User](l.t, "user")(r.ExtractUser()).ID
	out.project = must[*tokens.Project](l.t, "project")(r.ExtractProject()).ID
	for _, role := range l.list("/identity/v3/roles", "roles") {
		switch role["name"] {
		case "admin":
			out.admin = role["id"].(string)
		case "member":
			out.member = role["id"].(string)
		case "reader":
			out.reader = role["id"].(string)
		}
	}
	return out
}

// list returns the members of a list that the administrator sees.
func (l *lab) list(path, key string) []map[string]any {
	l.t.Helper()
	resp := l.send(l.admin, "GET", path, "")
	defer resp.Body.Close()
	var whole map[string]json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&whole); err != nil {
		l.t.Fatal(err)
	}
	var items []map[string]any
	if err := json.Unmarshal(whole[key], &items); err != nil {
		l.t.Fatal(err)
	}
	return items
}

// send makes one call as it is.
func (l *lab) send(p *gophercloud.ProviderClient, method, path, body string) *http.Response {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.ctx, method, l.url+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", p.Token())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	return resp
}

func TestProjectCalls(t *testing.T) {
	l := newLab(t, nil)
	i := l.ids()
	d, a, id := l.demo, l.admin, "/identity/v3"
	one := id + "/projects/" + i.project
	l.run([]call{
		{a, "POST " + id + "/projects", `{"project":{"name":""}}`, 400, "Invalid input for field 'name': '' is too short"},
		{a, "POST " + id + "/projects", `{"project":{"name":"x","tags":["a/b"]}}`, 400, "'a/b' does not match '^[^,/]*$'"},
		{a, "POST " + id + "/projects", `{"project":{"name":"x","tags":["a","a"]}}`, 400, "has non-unique elements"},
		{a, "POST " + id + "/projects", `{"project":{"name":"x","enabled":"yes"}}`, 400, "'yes' is not of type 'boolean'"},
		{a, "POST " + id + "/projects", `{"project":{"name":"x","domain_id":"nosuch"}}`, 400, "Could not find domain: nosuch."},
		{a, "POST " + id + "/projects", `{"project":{"name":"DEMO"}}`, 409, "name is DEMO, project id"},
		{d, "GET " + id + "/projects/nosuch", "", 403, "identity:get_project"},
		{a, "PATCH " + one, `{"project":{"description":null,"tags":["b","a"]}}`, 200, `"description":null | "tags":["a","b"] | "extra":{}`},
		{a, "PATCH " + one, `{"project":{"domain_id":"other"}}`, 400, "Cannot change Domain ID"},
		{a, "GET " + id + "/projects?tags=a,b", "", 200, `"name":"demo"`},
		{a, "GET " + id + "/projects?tags=a,c", "", 200, `"projects":[]`},
		{a, "GET " + id + "/projects?tags-any=a,c", "", 200, `"name":"demo"`},
		{a, "GET " + id + "/projects?not-tags-any=a&name=demo", "", 200, `"projects":[]`},
		{a, "GET " + id + "/projects?name=Demo&enabled=true&domain_id=default", "", 200, `"name":"demo" | ?name=Demo&enabled=true`},
		{a, "GET " + id + "/projects?domain_id=nosuch", "", 200, `"projects":[]`},
		{a, "PUT " + one + "/tags/x", "", 201, ""},
		{a, "GET " + one + "/tags", "", 200, `"tags":["a","b","x"]`},
		{a, "DELETE " + one + "/tags/x", "", 204, ""},
		{a, "DELETE " + one + "/tags/x", "", 404, "Could not find project tag: x."},
		{d, "PUT " + one + "/tags/x", "", 403, "identity:create_project_tag"},
		{a, "PUT " + one + "/tags", `{"tags":["z"]}`, 200, `"tags":["z"]`},
		{a, "DELETE " + one + "/tags", "", 204, ""},
		{a, "POST " + id + "/projects", `{"project":{"name":"below","parent_id":"` + i.project + `"}}`, 201, `"parent_id":"` + i.project + `"`},
		{a, "DELETE " + one, "", 403, "since it is not a leaf in the hierarchy"},
	})
}

func TestUserGroupAndGrantCalls(t *testing.T) {
	l := newLab(t, nil)
	i := l.ids()
	d, a, id := l.demo, l.admin, "/identity/v3"
	me := id + "/users/" + i.demo
	l.run([]call{
		{a, "POST " + id + "/users", `{"user":{"name":"u","foo":"bar","email":"a@b","default_project_id":"nosuch"}}`, 201, `"foo":"bar" | "email":"a@b" | "default_project_id":"nosuch"`},
		{a, "POST " + id + "/users", `{"user":{"name":"u"}}`, 409, "Duplicate entry found with name u at domain ID default."},
		{a, "POST " + id + "/users", `{"user":{"password":"x"}}`, 400, "'name' is a required property"},
		{a, "PATCH " + me, `{"user":{"description":"d"}}`, 200, `"extra":{"description":"d"}`},
		{a, "PATCH " + me, `{"user":{"domain_id":"x"}}`, 400, "Cannot change Domain ID"},
		{d, "PATCH " + me, `{"user":{"description":"d"}}`, 403, "identity:update_user"},
		{a, "GET " + id + "/users?enabled=false", "", 200, `"users":[]`},
		{a, "POST " + id + "/domains", `{"domain":{"name":"other"}}`, 201, `"enabled":true`},
		{a, "POST " + id + "/domains", `{"domain":{"name":"default"}}`, 409, "two projects acting as domains"},
		{a, "DELETE " + id + "/domains/default", "", 403, "please disable it first"},
		{a, "PUT " + id + "/domains/default/users/" + i.demo + "/roles/" + i.reader, "", 204, ""},
		{a, "GET " + id + "/role_assignments?user.id=" + i.demo + "&scope.domain.id=default&include_names", "", 200, `"domain":{"id":"default","name":"Default"} | "name":"reader"`},
		{d, "GET " + id + "/auth/domains", "", 200, `"name":"Default"`},
		{a, "GET " + id + "/role_assignments?user.id=x&group.id=y", "", 400, "Specify a user or group, not both"},
		{a, "GET " + id + "/role_assignments?user.id=nosuch", "", 200, `"role_assignments":[]`},
		{a, "POST " + id + "/groups", `{"group":{"name":"g"}}`, 201, `"domain_id":"default"`},
		{a, "POST " + id + "/groups", `{"group":{"name":"g"}}`, 409, "Duplicate entry found with name g"},
		{d, "GET " + id + "/groups", "", 403, "identity:list_groups"},
	})
	group := l.list(id+"/groups?name=g", "groups")[0]["id"].(string)
	var other string
	for _, p := range l.list(id+"/projects", "projects") {
		if p["name"] == "other" {
			other = p["id"].(string)
		}
	}
	login := gophercloud.AuthOptions{Username: "demo", Password: demoPassword, DomainName: "Default", TenantName: "other"}
	wantStatus(t, l.tryLogin(login), 401, "")
	l.run([]call{
		{a, "PUT " + id + "/projects/" + other + "/groups/" + group + "/roles/" + i.member, "", 204, ""},
		{a, "GET " + id + "/groups/" + group + "/users/" + i.demo, "", 404, "not found in group"},
		{a, "PUT " + id + "/groups/" + group + "/users/" + i.demo, "", 204, ""},
		{a, "GET " + id + "/users/" + i.demo + "/groups", "", 200, `"name":"g"`},
		{a, "GET " + id + "/role_assignments?group.id=" + group + "&include_names", "", 200, `"group":{"domain":{"id":"default","name":"Default"},"id":"` + group + `","name":"g"}`},
		{a, "GET " + id + "/role_assignments?user.id=" + i.demo + "&effective&scope.project.id=" + other, "", 200, "prior_role | membership | " + i.reader},
	})
	client := l.login(login) // by the group
	l.run([]call{
		{client, "GET " + id + "/auth/projects", "", 200, `"name":"other"`},
		{a, "DELETE " + id + "/projects/" + other + "/groups/" + group + "/roles/" + i.member, "", 204, ""},
		{client, "GET " + id + "/auth/projects", "", 401, ""},
		{a, "DELETE " + id + "/groups/" + group, "", 204, ""},
	})
}

func TestApplicationCredentialCalls(t *testing.T) {
	l := newLab(t, nil)
	i := l.ids()
	d, a, id := l.demo, l.admin, "/identity/v3"
	mine := id + "/users/" + i.demo
	all := mine + "/application_credentials"
	expires := l.clock.Now().Add(5 * 60e9).UTC().Format("2006-01-02T15:04:05")
	l.run([]call{
		{d, "POST " + all, `{"application_credential":{"name":"a","roles":[{"name":"nosuch"}]}}`, 404, "Role nosuch is not defined"},
		{d, "POST " + all, `{"application_credential":{"name":"a","expires_at":"tomorrow"}}`, 400, "Timestamp not in expected format."},
		{d, "POST " + all, `{"application_credential":{"name":"a","access_rules":[{"path":"x","method":"GET","service":"compute"}]}}`, 400, "field 'access_rules/0/path': 'x' does not match"},
		{d, "POST " + all, `{"application_credential":{"name":"a","access_rules":[{"path":"/x","method":"FETCH","service":"compute"}]}}`, 400, "field 'access_rules/0/method'"},
		{a, "POST " + all, `{"application_credential":{"name":"a"}}`, 403, "identity:create_application_credential"},
		{a, "GET " + all, "", 200, `"name":"lab"`},
		{d, "POST " + all, `{"application_credential":{"name":"ruled","secret":"ruled-secret-canary","access_rules":[{"path":"/v2.0/net*","method":"GET","service":"network"},{"path":"/v2.1/{all}/**","method":"GET","service":"compute"}]}}`, 201,
			`"unrestricted":null | "secret":"ruled-secret-canary" | "path":"/v2.0/net*"`},
		{d, "POST " + all, `{"application_credential":{"name":"bare","access_rules":[],"expires_at":"` + expires + `","secret":"bare-secret-canary"}}`, 201, `.000000"`},
		{d, "POST " + all, `{"application_credential":{"name":"free","unrestricted":true,"secret":"free-secret-canary"}}`, 201, `"unrestricted":true`},
	})
	by := func(name string) *gophercloud.ProviderClient {
		return l.login(gophercloud.AuthOptions{Username: "demo", DomainName: "Default", ApplicationCredentialName: name, ApplicationCredentialSecret: name + "-secret-canary"})
	}
	ruled, bare, free := by("ruled"), by("bare"), by("free")
	found := map[string]string{}
	for _, c := range l.list(all, "application_credentials") {
		found[c["name"].(string)] = c["id"].(string)
	}
	rules := l.list(mine+"/access_rules", "access_rules")
	if len(rules) != 2 {
		t.Fatalf("%d access rules", len(rules))
	}
	rule := mine + "/access_rules/" + rules[0]["id"].(string)
	l.run([]call{
		{ruled, "GET /network/v2.0/networks", "", 200, ""},
		{ruled, "GET /network/v2.0/ports", "", 401, "requires authentication"},
		{ruled, "POST /network/v2.0/networks", `{"network":{}}`, 401, ""},
		{ruled, "GET /compute/v2.1/servers/detail", "", 200, ""},
		{ruled, "GET /compute/v2.1/servers", "", 401, ""},
		{ruled, "GET " + id + "/auth/projects", "", 200, ""}, // Keystone itself doesn't ask for rules
		{bare, "GET /network/v2.0/ports", "", 200, ""},
		{bare, "POST " + all, `{"application_credential":{"name":"more"}}`, 403, "is not allowed for managing additional application credentials.."},
		{bare, "DELETE " + all + "/" + found["ruled"], "", 403, "is not allowed for managing additional application credentials.."},
		{free, "POST " + all, `{"application_credential":{"name":"more"}}`, 201, ""},
		{d, "DELETE " + rule, "", 403, "May not delete access rule in use"},
		{d, "DELETE " + mine + "/access_rules/nosuch", "", 404, "Could not find Access Rule: nosuch."},
		{free, "DELETE " + all + "/" + found["ruled"], "", 204, ""},
		{ruled, "GET /network/v2.0/networks", "", 401, ""},
		{d, "GET " + rule, "", 200, ""},
		{d, "DELETE " + rule, "", 204, ""},
		{nil, "POST " + id + "/auth/tokens", `{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":"` + found["bare"] + `","secret":"bare-secret-canary"}}}}`, 201, `"expires_at":"` + expires + `"`},
		{nil, "POST " + id + "/auth/tokens", `{"auth":{"identity":{"methods":["application_credential"],"application_credential":{"id":"nosuch","secret":"x"}}}}`, 404, "Could not find Application Credential: nosuch."},
		// A credential gives no more than its user has.
		{a, "DELETE " + id + "/projects/" + i.project + "/users/" + i.demo + "/roles/" + i.member, "", 204, ""},
		{free, "GET /network/v2.0/ports", "", 200, ""},
		{a, "DELETE " + id + "/projects/" + i.project + "/users/" + i.demo + "/roles/" + i.reader, "", 204, ""},
		{free, "GET /network/v2.0/ports", "", 401, ""},
		{a, "GET " + all, "", 200, `"name":"free"`},
	})
}

func TestEC2CredentialCalls(t *testing.T) {
	l := newLab(t, nil)
	i := l.ids()
	d, a, id := l.demo, l.admin, "/identity/v3"
	mine := id + "/users/" + i.demo + "/credentials/OS-EC2"
	body := `{"credential":{"type":"ec2","user_id":"` + i.demo + `","project_id":"` + i.project + `","blob":"{\"access\":\"abc\",\"secret\":\"def\",\"more\":\"kept\"}"}}`
	key := id + "/credentials/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	l.run([]call{
		{d, "POST " + mine, `{"tenant_id":"nosuch"}`, 404, "Could not find project: nosuch."},
		{d, "POST " + mine, `{"tenant_id":"` + i.project + `"}`, 201, `"tenant_id":"` + i.project + `"`},
		{d, "POST " + id + "/credentials", body, 201, `"id":"ba7816bf | \"more\":\"kept\"`},
		{d, "POST " + id + "/credentials", body, 409, "Duplicate entry found with ID ba7816bf"},
		{d, "POST " + id + "/credentials", strings.Replace(body, i.demo, "nosuch", 1), 403, "identity:create_credential"},
		{d, "POST " + id + "/credentials", `{"credential":{"type":"ec2","user_id":"` + i.demo + `","project_id":"p","blob":"x"}}`, 400, "Invalid blob in credential"},
		{d, "POST " + id + "/credentials", `{"credential":{"type":"ec2","user_id":"` + i.demo + `","project_id":"p","blob":"{}"}}`, 400, "Expecting to find blob in credential."},
		{d, "POST " + id + "/credentials", `{"credential":{"type":"ec2","user_id":"` + i.demo + `","blob":"{}"}}`, 400, "is not valid under any of the given schemas"},
		{d, "GET " + id + "/credentials?type=ec2&user_id=" + i.demo, "", 200, `\"access\":\"abc\"`},
		{d, "GET " + mine, "", 200, `"access":"abc"`},
		{d, "GET " + mine + "/abc", "", 200, `"secret":"def"`},
		{d, "GET " + mine + "/nosuch", "", 404, "Could not find credential: "},
		{d, "GET " + id + "/credentials/nosuch", "", 403, "identity:get_credential"},
		{a, "GET " + key, "", 200, ""},
		{d, "PATCH " + key, `{"credential":{"blob":"{\"access\":\"abc\",\"secret\":\"new\"}"}}`, 200, "new"},
		{d, "PATCH " + key, `{"credential":{"blob":"{\"access\":\"abc\",\"app_cred_id\":\"x\"}"}}`, 400, "app_cred_id can not be updated"},
		{d, "DELETE " + mine + "/abc", "", 204, ""},
		{d, "DELETE " + key, "", 403, "identity:delete_credential"},
		{a, "DELETE " + id + "/users/" + i.demo, "", 204, ""},
		{a, "GET " + id + "/credentials", "", 200, `"credentials":[]`},
	})
}
