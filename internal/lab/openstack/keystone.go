package openstack

import (
	"net/http"
	"time"
)

// identity is Keystone's data: one domain, "default".
type identity struct {
	projects    map[string]*project
	users       map[string]*user
	roles       map[string]string // id to name
	grants      map[grant]bool
	credentials map[string]*credential
	tokens      map[string]*token
	serviceIDs  map[string]string // service and endpoint ids by type and type/interface
}

type project struct {
	id, name, description string
	enabled               bool
	tags                  []string
}

type user struct {
	id, name, password, description, email, defaultProject string
	enabled                                                bool
}

type grant struct{ user, project, role string }

func newIdentity() identity {
	return identity{projects: map[string]*project{}, users: map[string]*user{}, roles: map[string]string{}, grants: map[grant]bool{},
		credentials: map[string]*credential{}, tokens: map[string]*token{}, serviceIDs: map[string]string{}}
}

func (c *Cloud) seedIdentity() {
	for _, name := range []string{"admin", "member", "reader", "service"} {
		c.identity.roles[c.ids.hex()] = name
	}
	for _, s := range catalogServices {
		c.identity.serviceIDs[s.kind] = c.ids.hex()
		for _, face := range []string{"public", "internal", "admin"} {
			c.identity.serviceIDs[s.kind+"/"+face] = c.ids.hex()
		}
	}
	for _, u := range c.cfg.Users {
		if len(u.Projects) == 0 {
			panic("openstack: user " + u.Name + " has no project")
		}
		account := &user{id: c.ids.hex(), name: u.Name, password: u.Password, enabled: true}
		c.identity.users[account.id] = account
		for i, name := range u.Projects {
			p := c.identity.projectNamed(name)
			if p == nil {
				p = &project{id: c.ids.hex(), name: name, enabled: true}
				c.identity.projects[p.id] = p
			}
			if i == 0 {
				account.defaultProject = p.id
			}
			for _, role := range u.Roles {
				c.identity.grants[grant{account.id, p.id, c.identity.roleID(role)}] = true
			}
		}
	}
	for _, a := range c.cfg.ApplicationCredentials {
		u, p := c.identity.userNamed(a.User), c.identity.projectNamed(a.Project)
		if u == nil || p == nil {
			panic("openstack: application credential " + a.Name + " names an unknown user or project")
		}
		id := a.ID
		if id == "" {
			id = c.ids.hex()
		}
		c.identity.credentials[id] = &credential{id: id, name: a.Name, secret: a.Secret, user: u, project: p, roles: c.identity.rolesOf(u.id, p.id)}
	}
}

func (i *identity) projectNamed(name string) *project {
	for _, p := range i.projects {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (i *identity) userNamed(name string) *user {
	for _, u := range i.users {
		if u.name == name {
			return u
		}
	}
	return nil
}

func (i *identity) roleID(name string) string {
	for id, n := range i.roles {
		if n == name {
			return id
		}
	}
	return ""
}

// rolesOf lists role ids, sorted by name so that answers are stable.
func (i *identity) rolesOf(userID, projectID string) []string {
	byName := map[string]string{}
	for g := range i.grants {
		if g.user == userID && g.project == projectID {
			byName[i.roles[g.role]] = g.role
		}
	}
	var ids []string
	for _, name := range sortedKeys(byName) {
		ids = append(ids, byName[name])
	}
	return ids
}

// catalogServices is what the catalog offers, with the path of each endpoint.
var catalogServices = []struct{ kind, name, path string }{
	{"identity", "keystone", "/identity/v3"}, {"image", "glance", "/image"},
	{"compute", "nova", "/compute/v2.1"}, {"network", "neutron", "/network"},
}

func (c *Cloud) catalog(r *request) []any {
	var out []any
	for _, s := range catalogServices {
		var endpoints []any
		for _, face := range []string{"public", "internal", "admin"} {
			endpoints = append(endpoints, doc{"id": c.identity.serviceIDs[s.kind+"/"+face], "interface": face,
				"region_id": c.cfg.Region, "region": c.cfg.Region, "url": r.base + s.path})
		}
		out = append(out, doc{"id": c.identity.serviceIDs[s.kind], "type": s.kind, "name": s.name, "endpoints": endpoints})
	}
	return out
}

func identityRoutes() []route {
	return []route{
		{method: "GET", pattern: "/", handle: (*Cloud).identityVersions, open: true},
		{method: "GET", pattern: "/v3", handle: (*Cloud).identityVersion, open: true},
		{method: "POST", pattern: "/v3/auth/tokens", handle: (*Cloud).tokenIssue, open: true},
		{method: "GET", pattern: "/v3/auth/tokens", handle: (*Cloud).tokenShow},
		{method: "DELETE", pattern: "/v3/auth/tokens", handle: (*Cloud).tokenRevoke},
		{method: "GET", pattern: "/v3/auth/catalog", handle: (*Cloud).authCatalog},
		{method: "GET", pattern: "/v3/auth/projects", handle: (*Cloud).authProjects},
		{method: "GET", pattern: "/v3/domains", handle: (*Cloud).domainList},
		{method: "GET", pattern: "/v3/domains/{id}", handle: (*Cloud).domainShow},
		{method: "GET", pattern: "/v3/regions", handle: (*Cloud).regionList},
		{method: "GET", pattern: "/v3/services", handle: (*Cloud).serviceList},
		{method: "GET", pattern: "/v3/endpoints", handle: (*Cloud).endpointList},
		{method: "GET", pattern: "/v3/projects", handle: (*Cloud).projectList},
		{method: "POST", pattern: "/v3/projects", handle: (*Cloud).projectCreate},
		{method: "GET", pattern: "/v3/projects/{id}", handle: (*Cloud).projectShow},
		{method: "PATCH", pattern: "/v3/projects/{id}", handle: (*Cloud).projectUpdate},
		{method: "DELETE", pattern: "/v3/projects/{id}", handle: (*Cloud).projectDelete},
		{method: "GET", pattern: "/v3/users", handle: (*Cloud).userList},
		{method: "POST", pattern: "/v3/users", handle: (*Cloud).userCreate},
		{method: "GET", pattern: "/v3/users/{id}", handle: (*Cloud).userShow},
		{method: "PATCH", pattern: "/v3/users/{id}", handle: (*Cloud).userUpdate},
		{method: "DELETE", pattern: "/v3/users/{id}", handle: (*Cloud).userDelete},
		{method: "GET", pattern: "/v3/users/{id}/projects", handle: (*Cloud).userProjects},
		{method: "GET", pattern: "/v3/roles", handle: (*Cloud).roleList},
		{method: "GET", pattern: "/v3/role_assignments", handle: (*Cloud).roleAssignments},
		{method: "GET", pattern: "/v3/projects/{project}/users/{user}/roles", handle: (*Cloud).grantList},
		{method: "GET", pattern: "/v3/projects/{project}/users/{user}/roles/{role}", handle: (*Cloud).grantCheck},
		{method: "PUT", pattern: "/v3/projects/{project}/users/{user}/roles/{role}", handle: (*Cloud).grantAdd},
		{method: "DELETE", pattern: "/v3/projects/{project}/users/{user}/roles/{role}", handle: (*Cloud).grantRemove},
		{method: "GET", pattern: "/v3/users/{user}/application_credentials", handle: (*Cloud).credentialList},
		{method: "POST", pattern: "/v3/users/{user}/application_credentials", handle: (*Cloud).credentialCreate},
		{method: "GET", pattern: "/v3/users/{user}/application_credentials/{id}", handle: (*Cloud).credentialShow},
		{method: "DELETE", pattern: "/v3/users/{user}/application_credentials/{id}", handle: (*Cloud).credentialDelete},
	}
}

func (r *request) identityVersionDoc() doc {
	return doc{"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       []any{doc{"rel": "self", "href": r.base + "/identity/v3/"}},
		"media-types": []any{doc{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}}}
}

func (c *Cloud) identityVersions(r *request) (answer, error) {
	return answer{status: http.StatusMultipleChoices, body: doc{"versions": doc{"values": []any{r.identityVersionDoc()}}}}, nil
}

func (c *Cloud) identityVersion(r *request) (answer, error) {
	return ok(doc{"version": r.identityVersionDoc()})
}

// collection wraps a list as Keystone does.
func (r *request) collection(name string, items []any) (answer, error) {
	if items == nil {
		items = []any{}
	}
	return ok(doc{name: items, "links": doc{"next": nil, "self": r.base + r.http.URL.Path, "previous": nil}})
}

func (r *request) needAdmin(action string) error {
	if !r.token.admin {
		return forbidden(r, action)
	}
	return nil
}

func (c *Cloud) domainDoc(r *request) doc {
	return doc{"id": "default", "name": "Default", "description": "The default domain", "enabled": true, "tags": []any{}, "options": doc{},
		"links": doc{"self": r.base + "/identity/v3/domains/default"}}
}

func (c *Cloud) domainList(r *request) (answer, error) {
	if name := r.query.Get("name"); name != "" && name != "Default" {
		return r.collection("domains", nil)
	}
	return r.collection("domains", []any{c.domainDoc(r)})
}

func (c *Cloud) domainShow(r *request) (answer, error) {
	if r.arg("id") != "default" {
		return answer{}, refuse(404, "Could not find domain: %s.", r.arg("id"))
	}
	return ok(doc{"domain": c.domainDoc(r)})
}

func (c *Cloud) regionList(r *request) (answer, error) {
	return r.collection("regions", []any{doc{"id": c.cfg.Region, "description": "", "parent_region_id": nil,
		"links": doc{"self": r.base + "/identity/v3/regions/" + c.cfg.Region}}})
}

func (c *Cloud) serviceList(r *request) (answer, error) {
	if err := r.needAdmin("identity:list_services"); err != nil {
		return answer{}, err
	}
	var out []any
	for _, s := range catalogServices {
		id := c.identity.serviceIDs[s.kind]
		out = append(out, doc{"id": id, "type": s.kind, "name": s.name, "enabled": true, "links": doc{"self": r.base + "/identity/v3/services/" + id}})
	}
	return r.collection("services", out)
}

func (c *Cloud) endpointList(r *request) (answer, error) {
	if err := r.needAdmin("identity:list_endpoints"); err != nil {
		return answer{}, err
	}
	var out []any
	for _, s := range c.catalog(r) {
		service := s.(doc)
		for _, e := range list(service, "endpoints") {
			endpoint := e.(doc)
			endpoint["service_id"], endpoint["enabled"] = service["id"], true
			endpoint["links"] = doc{"self": r.base + "/identity/v3/endpoints/" + str(endpoint, "id")}
			out = append(out, endpoint)
		}
	}
	return r.collection("endpoints", out)
}

// stampK is a time as Keystone writes it, nil for none.
func stampK(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(stampMicro)
}
