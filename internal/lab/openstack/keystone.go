package openstack

import (
	"net/http"
	"strings"
	"time"
)

// identity is Keystone's data.
type identity struct {
	domains     map[string]*domain
	projects    map[string]*project
	users       map[string]*user
	groups      map[string]*group
	roles       map[string]string // id to name
	grants      map[grant]bool
	credentials map[string]*credential // application credentials
	rules       map[string]*accessRule
	blobs       map[string]*blob // what /v3/credentials keeps, EC2 credentials among them
	tokens      map[string]*token
	serviceIDs  map[string]string // service and endpoint ids by type and type/interface
}

func newIdentity() identity {
	return identity{domains: map[string]*domain{defaultDomain: {id: defaultDomain, name: "Default", description: "The default domain", enabled: true}},
		projects: map[string]*project{}, users: map[string]*user{}, groups: map[string]*group{}, roles: map[string]string{}, grants: map[grant]bool{},
		credentials: map[string]*credential{}, rules: map[string]*accessRule{}, blobs: map[string]*blob{}, tokens: map[string]*token{}, serviceIDs: map[string]string{}}
}

// roleNames are the roles that exist: Keystone's own, and those that Octavia's policy asks for.
var roleNames = []string{"admin", "member", "reader", "service", "load-balancer_admin", "load-balancer_member"}

func (c *Cloud) seedIdentity() {
	for _, name := range roleNames {
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
		account := &user{id: c.ids.hex(), name: u.Name, domain: defaultDomain, password: u.Password, enabled: true}
		c.identity.users[account.id] = account
		for i, name := range u.Projects {
			p := c.identity.projectNamed(name, defaultDomain)
			if p == nil {
				p = &project{id: c.ids.hex(), name: name, description: "", domain: defaultDomain, parent: defaultDomain, enabled: true}
				c.identity.projects[p.id] = p
			}
			if i == 0 {
				account.defaultProject = p.id
			}
			for _, role := range u.Roles {
				c.identity.grants[grant{actor: account.id, target: p.id, role: c.identity.roleID(role)}] = true
			}
		}
	}
	for _, a := range c.cfg.ApplicationCredentials {
		u, p := c.identity.userNamed(a.User, defaultDomain), c.identity.projectNamed(a.Project, defaultDomain)
		if u == nil || p == nil {
			panic("openstack: application credential " + a.Name + " names an unknown user or project")
		}
		id := a.ID
		if id == "" {
			id = c.ids.hex()
		}
		c.identity.credentials[id] = &credential{id: id, name: a.Name, secret: a.Secret, user: u, project: p.id, roles: c.identity.rolesOf(u.id, p.id)}
	}
}

// catalogServices is what the catalog offers, with the path of each endpoint.
var catalogServices = []struct{ kind, name, path string }{
	{"identity", "keystone", "/identity/v3"}, {"image", "glance", "/image"},
	{"compute", "nova", "/compute/v2.1"}, {"network", "neutron", "/network"},
	{"volumev3", "cinderv3", "/volume/v3/%(project_id)s"},
	{"load-balancer", "octavia", "/load-balancer"}, {"object-store", "swift", "/object-store/v1/AUTH_%(project_id)s"},
}

// catalog lists the services as a token for that project sees them, or for no project as they are defined.
func (c *Cloud) catalog(r *request, project string) []any {
	var out []any
	for _, s := range catalogServices {
		var endpoints []any
		path := s.path
		if project != "" {
			path = strings.ReplaceAll(path, "%(project_id)s", project)
		}
		for _, face := range []string{"public", "internal", "admin"} {
			endpoints = append(endpoints, doc{"id": c.identity.serviceIDs[s.kind+"/"+face], "interface": face,
				"region_id": c.cfg.Region, "region": c.cfg.Region, "url": r.base + path})
		}
		out = append(out, doc{"id": c.identity.serviceIDs[s.kind], "type": s.kind, "name": s.name, "endpoints": endpoints})
	}
	return out
}

func identityRoutes() []route {
	all := []route{
		{method: "GET", pattern: "/", handle: (*Cloud).identityVersions, open: true},
		{method: "GET", pattern: "/v3", handle: (*Cloud).identityVersion, open: true},
		{method: "POST", pattern: "/v3/auth/tokens", handle: (*Cloud).tokenIssue, open: true},
		{method: "GET", pattern: "/v3/auth/tokens", handle: (*Cloud).tokenShow},
		{method: "DELETE", pattern: "/v3/auth/tokens", handle: (*Cloud).tokenRevoke},
		{method: "GET", pattern: "/v3/auth/catalog", handle: (*Cloud).authCatalog},
		{method: "GET", pattern: "/v3/auth/projects", handle: (*Cloud).authProjects},
		{method: "GET", pattern: "/v3/auth/domains", handle: (*Cloud).authDomains},
		{method: "GET", pattern: "/v3/regions", handle: (*Cloud).regionList},
		{method: "GET", pattern: "/v3/services", handle: (*Cloud).serviceList},
		{method: "GET", pattern: "/v3/endpoints", handle: (*Cloud).endpointList},
	}
	for _, more := range [][]route{domainRoutes(), projectRoutes(), userRoutes(), groupRoutes(), roleRoutes(), credentialRoutes(), blobRoutes()} {
		all = append(all, more...)
	}
	return all
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

// collection wraps a list as Keystone does: it has no pages.
func (r *request) collection(name string, items []any) (answer, error) {
	if items == nil {
		items = []any{}
	}
	self := r.base + r.http.URL.Path
	if r.http.URL.RawQuery != "" {
		self += "?" + r.http.URL.RawQuery
	}
	return ok(doc{name: items, "links": doc{"next": nil, "self": self, "previous": nil}})
}

func (r *request) needAdmin(action string) error {
	if !r.token.admin {
		return forbidden(r, action)
	}
	return nil
}

// self is the links member of a resource below /v3.
func (r *request) self(path string) doc { return doc{"self": r.base + "/identity/v3/" + path} }

// picks tells whether a list shows what has these attributes: Keystone ignores filters that it doesn't know. Names
// are compared as MySQL does, without regard to case.
func (r *request) picks(attributes map[string]string) bool {
	for key, have := range attributes {
		switch want := r.query.Get(key); {
		case !r.query.Has(key):
		case key == "name" && !strings.EqualFold(want, have), key != "name" && want != have:
			return false
		}
	}
	return true
}

// picksEnabled is the filter by enabled: anything but 0 and false means true.
func (r *request) picksEnabled(enabled bool) bool {
	if !r.query.Has("enabled") {
		return true
	}
	want := strings.ToLower(r.query.Get("enabled"))
	return enabled == (want != "0" && want != "false")
}

// malformed is the end of Keystone's messages about a request that it can't make sense of.
const malformed = " The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error."

func missing(attribute, target string) error {
	return refuse(400, "Expecting to find %s in %s."+malformed, attribute, target)
}

// wellNamed checks a name as Keystone's schemas do.
func wellNamed(d doc, longest int) error {
	name, isText := d["name"].(string)
	switch {
	case !has(d, "name"):
		return refuse(400, "'name' is a required property")
	case !isText:
		return refuse(400, "Invalid input for field 'name': %v is not of type 'string'", d["name"])
	case name == "":
		return refuse(400, "Invalid input for field 'name': '' is too short")
	case len(name) > longest:
		return refuse(400, "Invalid input for field 'name': '%s' is too long", name)
	}
	return nil
}

// enabledOf reads the flag of a body; unset leaves it as it is.
func enabledOf(d doc, flag *bool) error {
	switch v := d["enabled"].(type) {
	case bool:
		*flag = v
	case nil:
	case string:
		return refuse(400, "Invalid input for field 'enabled': '%s' is not of type 'boolean'", v)
	default:
		return refuse(400, "Invalid input for field 'enabled': %v is not of type 'boolean'", v)
	}
	return nil
}

func (c *Cloud) regionList(r *request) (answer, error) {
	return r.collection("regions", []any{doc{"id": c.cfg.Region, "description": "", "parent_region_id": nil, "links": r.self("regions/" + c.cfg.Region)}})
}

func (c *Cloud) serviceList(r *request) (answer, error) {
	if err := r.needAdmin("identity:list_services"); err != nil {
		return answer{}, err
	}
	var out []any
	for _, s := range catalogServices {
		id := c.identity.serviceIDs[s.kind]
		if r.picks(map[string]string{"type": s.kind, "name": s.name}) {
			out = append(out, doc{"id": id, "type": s.kind, "name": s.name, "enabled": true, "links": r.self("services/" + id)})
		}
	}
	return r.collection("services", out)
}

func (c *Cloud) endpointList(r *request) (answer, error) {
	if err := r.needAdmin("identity:list_endpoints"); err != nil {
		return answer{}, err
	}
	var out []any
	for _, s := range c.catalog(r, "") {
		service := s.(doc)
		for _, e := range list(service, "endpoints") {
			endpoint := e.(doc)
			endpoint["service_id"], endpoint["enabled"] = service["id"], true
			endpoint["links"] = r.self("endpoints/" + str(endpoint, "id"))
			if r.picks(map[string]string{"interface": str(endpoint, "interface"), "service_id": str(endpoint, "service_id"), "region_id": c.cfg.Region}) {
				out = append(out, endpoint)
			}
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
