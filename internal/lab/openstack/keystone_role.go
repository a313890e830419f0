package openstack

import (
	"maps"
	"slices"
	"strings"
)

// A grant gives a role to a user or group, in a project or domain.
type grant struct {
	actor  string
	group  bool
	target string
	domain bool
	role   string
}

// implied maps a role to the one that Keystone adds to it.
var implied = map[string]string{"admin": "member", "member": "reader"}

func roleRoutes() []route {
	all := []route{
		{method: "GET", pattern: "/v3/roles", handle: (*Cloud).roleList},
		{method: "GET", pattern: "/v3/roles/{id}", handle: (*Cloud).roleShow},
		{method: "GET", pattern: "/v3/role_assignments", handle: (*Cloud).roleAssignments},
	}
	for _, on := range []string{"projects", "domains"} {
		for _, of := range []string{"users", "groups"} {
			base := "/v3/" + on + "/{" + on + "}/" + of + "/{" + of + "}/roles"
			all = append(all,
				route{method: "GET", pattern: base, handle: (*Cloud).grantList},
				route{method: "GET", pattern: base + "/{role}", handle: (*Cloud).grantCheck},
				route{method: "PUT", pattern: base + "/{role}", handle: (*Cloud).grantAdd},
				route{method: "DELETE", pattern: base + "/{role}", handle: (*Cloud).grantRemove})
		}
	}
	return all
}

func (i *identity) roleID(name string) string {
	for id, n := range i.roles {
		if strings.EqualFold(n, name) {
			return id
		}
	}
	return ""
}

// rolesOf lists the ids of the roles that a user has in a project: directly, by a group, or implied by another
// role. They are sorted by name so that answers are stable.
func (i *identity) rolesOf(userID, projectID string) []string {
	return i.effective(userID, projectID, false)
}

// rolesIn is rolesOf for a domain.
func (i *identity) rolesIn(userID, domainID string) []string {
	return i.effective(userID, domainID, true)
}

func (i *identity) effective(userID, target string, domain bool) []string {
	byName := map[string]string{}
	for g := range i.grants {
		if g.target != target || g.domain != domain || !i.concerns(g, userID) {
			continue
		}
		for name := i.roles[g.role]; name != ""; name = implied[name] {
			byName[name] = i.roleID(name)
		}
	}
	var ids []string
	for _, name := range sortedKeys(byName) {
		ids = append(ids, byName[name])
	}
	return ids
}

// concerns tells whether a user has a role by the grant.
func (i *identity) concerns(g grant, userID string) bool {
	if !g.group {
		return g.actor == userID
	}
	return i.groups[g.actor] != nil && i.groups[g.actor].members[userID]
}

func (i *identity) dropGrants(gone func(grant) bool) {
	maps.DeleteFunc(i.grants, func(g grant, _ bool) bool { return gone(g) })
}

func (i *identity) dropTokens(gone func(*token) bool) {
	maps.DeleteFunc(i.tokens, func(_ string, t *token) bool { return gone(t) })
}

// roleDocs names roles as tokens do.
func (c *Cloud) roleDocs(ids []string) []any {
	out := []any{}
	for _, id := range ids {
		out = append(out, doc{"id": id, "name": c.identity.roles[id]})
	}
	return out
}

// roleDoc is a role as lists show it; application credentials show the same without links.
func (c *Cloud) roleDoc(id string) doc {
	options := doc{}
	if name := c.identity.roles[id]; name == "admin" || name == "member" || name == "reader" {
		options["immutable"] = true
	}
	return doc{"id": id, "name": c.identity.roles[id], "domain_id": nil, "description": nil, "options": options}
}

func (c *Cloud) linkedRole(r *request, id string) doc {
	d := c.roleDoc(id)
	d["links"] = r.self("roles/" + id)
	return d
}

func (c *Cloud) roleList(r *request) (answer, error) {
	if err := r.needAdmin("identity:list_roles"); err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range sortedKeys(c.identity.roles) {
		if r.picks(map[string]string{"name": c.identity.roles[id]}) {
			out = append(out, c.linkedRole(r, id))
		}
	}
	return r.collection("roles", out)
}

func (c *Cloud) roleShow(r *request) (answer, error) {
	if c.identity.roles[r.arg("id")] == "" {
		return answer{}, refuse(404, "Could not find role: %s.", r.arg("id"))
	}
	if err := r.needAdmin("identity:get_role"); err != nil {
		return answer{}, err
	}
	return ok(doc{"role": c.linkedRole(r, r.arg("id"))})
}

// on and of are the parts of paths that a grant's target and actor stand in.
func (g grant) on() string {
	if g.domain {
		return "domains"
	}
	return "projects"
}

func (g grant) of() string {
	if g.group {
		return "groups"
	}
	return "users"
}

func (c *Cloud) roleAssignments(r *request) (answer, error) {
	q := r.query
	if q.Has("user.id") && q.Has("group.id") {
		return answer{}, refuse(400, "Specify a user or group, not both")
	}
	if err := r.needAdmin("identity:list_role_assignments"); err != nil {
		return answer{}, err
	}
	effective := asked(q.Has("effective"), q.Get("effective"))
	names := asked(q.Has("include_names"), q.Get("include_names"))
	byKey := map[string]doc{}
	add := func(g grant, user, role, prior string) {
		switch {
		case q.Has("user.id") && (g.group || g.actor != q.Get("user.id")) && user != q.Get("user.id"),
			q.Has("group.id") && (!g.group || g.actor != q.Get("group.id")),
			q.Has("role.id") && role != q.Get("role.id"),
			q.Has("scope.project.id") && (g.domain || g.target != q.Get("scope.project.id")),
			q.Has("scope.domain.id") && (!g.domain || g.target != q.Get("scope.domain.id")),
			q.Has("scope.system"):
			return
		}
		links := doc{"assignment": r.base + "/identity/v3/" + g.on() + "/" + g.target + "/" + g.of() + "/" + g.actor + "/roles/" + g.role}
		if prior != "" {
			links["prior_role"] = r.base + "/identity/v3/prior_role/" + role + "/implies/" + prior
		}
		d := doc{"links": links, "role": c.named("role", role, names)}
		kind := "user"
		actor := g.actor
		if g.group && user == "" {
			kind = "group"
		} else if g.group {
			actor, links["membership"] = user, r.base+"/identity/v3/groups/"+g.actor+"/users/"+user
		}
		d[kind] = c.named(kind, actor, names)
		target := "project"
		if g.domain {
			target = "domain"
		}
		d["scope"] = doc{target: c.named(target, g.target, names)}
		byKey[g.target+actor+role+g.actor] = d
	}
	for g := range c.identity.grants {
		if !effective {
			add(g, "", g.role, "")
			continue
		}
		members := []string{""}
		if g.group {
			members = sortedKeys(c.identity.groups[g.actor].members)
		}
		for _, user := range members {
			add(g, user, g.role, "")
			for name := implied[c.identity.roles[g.role]]; name != ""; name = implied[name] {
				add(g, user, c.identity.roleID(name), g.role)
			}
		}
	}
	var out []any
	for _, k := range sortedKeys(byKey) {
		out = append(out, byKey[k])
	}
	return r.collection("role_assignments", out)
}

// asked is a flag of a query, which may stand there without a value.
func asked(given bool, value string) bool { return given && value != "0" }

// named is something in a role assignment, with its name and domain if names are asked for.
func (c *Cloud) named(kind, id string, names bool) doc {
	d := doc{"id": id}
	if !names {
		return d
	}
	in := ""
	switch kind {
	case "role":
		d["name"] = c.identity.roles[id]
	case "domain":
		d["name"] = c.identity.domains[id].name
	case "project":
		d["name"], in = c.identity.projects[id].name, c.identity.projects[id].domain
	case "user":
		d["name"], in = c.identity.users[id].name, c.identity.users[id].domain
	case "group":
		d["name"], in = c.identity.groups[id].name, c.identity.groups[id].domain
	}
	if in != "" {
		d["domain"] = doc{"id": in, "name": c.identity.domains[in].name}
	}
	return d
}

// grantOf is the assignment named in the path; all of it must exist.
func (c *Cloud) grantOf(r *request, action string) (grant, error) {
	if err := r.needAdmin(action); err != nil {
		return grant{}, err
	}
	g := grant{actor: r.arg("users"), target: r.arg("projects"), role: r.arg("role")}
	if g.actor == "" {
		g.actor, g.group = r.arg("groups"), true
	}
	if g.target == "" {
		g.target, g.domain = r.arg("domains"), true
	}
	switch i := &c.identity; {
	case g.role != "" && i.roles[g.role] == "":
		return g, refuse(404, "Could not find role: %s.", g.role)
	case !g.domain && i.projects[g.target] == nil:
		return g, refuse(404, "Could not find project: %s.", g.target)
	case g.domain && i.domains[g.target] == nil:
		return g, refuse(404, "Could not find domain: %s.", g.target)
	case !g.group && i.users[g.actor] == nil:
		return g, refuse(404, "Could not find user: %s.", g.actor)
	case g.group && i.groups[g.actor] == nil:
		return g, refuse(404, "Could not find group: %s.", g.actor)
	}
	return g, nil
}

func (c *Cloud) ungranted(g grant) error {
	if c.identity.grants[g] {
		return nil
	}
	return refuse(404, "Could not find role assignment with role: %s, user or group: %s, project, domain, or system: %s.", g.role, g.actor, g.target)
}

func (c *Cloud) grantList(r *request) (answer, error) {
	g, err := c.grantOf(r, "identity:list_grants")
	if err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range slices.Sorted(maps.Keys(c.identity.roles)) {
		if g.role = id; c.identity.grants[g] {
			out = append(out, c.linkedRole(r, id))
		}
	}
	return r.collection("roles", out)
}

func (c *Cloud) grantCheck(r *request) (answer, error) {
	g, err := c.grantOf(r, "identity:check_grant")
	if err == nil {
		err = c.ungranted(g)
	}
	if err != nil {
		return answer{}, err
	}
	return noContent()
}

func (c *Cloud) grantAdd(r *request) (answer, error) {
	g, err := c.grantOf(r, "identity:create_grant")
	if err != nil {
		return answer{}, err
	}
	c.identity.grants[g] = true
	return noContent()
}

func (c *Cloud) grantRemove(r *request) (answer, error) {
	g, err := c.grantOf(r, "identity:revoke_grant")
	if err == nil {
		err = c.ungranted(g)
	}
	if err != nil {
		return answer{}, err
	}
	delete(c.identity.grants, g)
	return noContent()
}
