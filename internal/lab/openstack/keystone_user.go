package openstack

import (
	"maps"
	"strings"
)

type user struct {
	id, name, domain, password, defaultProject string
	enabled                                    bool
	extra                                      doc // what Keystone keeps without knowing it: description, email and more
}

func userRoutes() []route {
	return []route{
		{method: "GET", pattern: "/v3/users", handle: (*Cloud).userList},
		{method: "POST", pattern: "/v3/users", handle: (*Cloud).userCreate},
		{method: "GET", pattern: "/v3/users/{id}", handle: (*Cloud).userShow},
		{method: "PATCH", pattern: "/v3/users/{id}", handle: (*Cloud).userUpdate},
		{method: "DELETE", pattern: "/v3/users/{id}", handle: (*Cloud).userDelete},
		{method: "GET", pattern: "/v3/users/{id}/projects", handle: (*Cloud).userProjects},
		{method: "GET", pattern: "/v3/users/{id}/groups", handle: (*Cloud).userGroups},
	}
}

func (i *identity) userNamed(name, domain string) *user {
	for _, u := range i.users {
		if u.domain == domain && strings.EqualFold(u.name, name) {
			return u
		}
	}
	return nil
}

// findUser finds the user that an object of a body names by id, or by name and domain.
func (i *identity) findUser(d doc) *user {
	if id := str(d, "id"); id != "" {
		return i.users[id]
	}
	if m := i.domainOf(object(d, "domain")); m != nil {
		return i.userNamed(str(d, "name"), m.id)
	}
	return nil
}

func (c *Cloud) userDoc(r *request, u *user) doc {
	d := maps.Clone(u.extra)
	if d == nil {
		d = doc{}
	}
	if u.defaultProject != "" {
		d["default_project_id"] = u.defaultProject
	}
	maps.Copy(d, doc{"id": u.id, "name": u.name, "enabled": u.enabled, "domain_id": u.domain, "password_expires_at": nil, "options": doc{}, "links": r.self("users/" + u.id)})
	return d
}

func (c *Cloud) userList(r *request) (answer, error) {
	if err := r.needAdmin("identity:list_users"); err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range sortedKeys(c.identity.users) {
		u := c.identity.users[id]
		if r.picks(map[string]string{"name": u.name, "domain_id": u.domain}) && r.picksEnabled(u.enabled) && c.shown(id) {
			out = append(out, c.userDoc(r, u))
		}
	}
	return r.collection("users", out)
}

func (c *Cloud) userCreate(r *request) (answer, error) {
	if err := r.needAdmin("identity:create_user"); err != nil {
		return answer{}, err
	}
	d, err := r.object("user")
	if err != nil {
		return answer{}, err
	}
	if err := wellNamed(d, 255); err != nil {
		return answer{}, err
	}
	u := &user{id: c.ids.hex(), name: str(d, "name"), enabled: true}
	if u.domain, err = c.newIn(r, d); err != nil {
		return answer{}, err
	}
	if c.identity.userNamed(u.name, u.domain) != nil {
		return answer{}, userTaken(u.name, u.domain)
	}
	if err := c.setUser(u, d); err != nil {
		return answer{}, err
	}
	c.identity.users[u.id] = u
	c.conceal(r, "user", u.id)
	return created(doc{"user": c.userDoc(r, u)})
}

func userTaken(name, domain string) error {
	return refuse(409, "Conflict occurred attempting to store user - Duplicate entry found with name %s at domain ID %s.", name, domain)
}

// setUser takes over what a body says. Whose password changes has to log in again.
func (c *Cloud) setUser(u *user, d doc) error {
	if err := enabledOf(d, &u.enabled); err != nil {
		return err
	}
	extra := maps.Clone(u.extra)
	if extra == nil {
		extra = doc{}
	}
	for key, v := range d {
		switch key {
		case "id", "name", "domain_id", "enabled", "options", "links", "password_expires_at":
		case "default_project_id":
			u.defaultProject = text(v)
		case "password":
			u.password = text(v)
			c.identity.dropTokens(func(t *token) bool { return t.user == u && t.credential == nil })
		default:
			extra[key] = v
		}
	}
	u.extra = extra
	return nil
}

// foundUser is the user named in the path, if the caller may do this: everybody may look at themselves.
func (c *Cloud) foundUser(r *request, action string) (*user, error) {
	u := c.identity.users[r.arg("id")]
	if !r.token.admin && (u != r.token.user || action == "identity:update_user" || action == "identity:delete_user") {
		return nil, forbidden(r, action)
	}
	if u == nil {
		return nil, refuse(404, "Could not find user: %s.", r.arg("id"))
	}
	return u, nil
}

func (c *Cloud) userShow(r *request) (answer, error) {
	u, err := c.foundUser(r, "identity:get_user")
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"user": c.userDoc(r, u)})
}

func (c *Cloud) userUpdate(r *request) (answer, error) {
	u, err := c.foundUser(r, "identity:update_user")
	if err != nil {
		return answer{}, err
	}
	d, err := r.object("user")
	if err != nil {
		return answer{}, err
	}
	if domain := str(d, "domain_id"); domain != "" && domain != u.domain {
		return answer{}, refuse(400, "Cannot change Domain ID")
	}
	if has(d, "name") {
		if err := wellNamed(d, 255); err != nil {
			return answer{}, err
		}
		if other := c.identity.userNamed(str(d, "name"), u.domain); other != nil && other != u {
			return answer{}, userTaken(str(d, "name"), u.domain)
		}
	}
	if err := c.setUser(u, d); err != nil {
		return answer{}, err
	}
	if has(d, "name") {
		u.name = str(d, "name")
	}
	out := c.userDoc(r, u)
	out["extra"] = u.extra
	return ok(doc{"user": out})
}

func (c *Cloud) userDelete(r *request) (answer, error) {
	u, err := c.foundUser(r, "identity:delete_user")
	if err != nil {
		return answer{}, err
	}
	c.identity.dropUser(u)
	return noContent()
}

// dropUser deletes a user with all that lets others act for them.
func (i *identity) dropUser(u *user) {
	delete(i.users, u.id)
	i.dropGrants(func(g grant) bool { return !g.group && g.actor == u.id })
	for id, a := range i.credentials {
		if a.user == u {
			delete(i.credentials, id)
		}
	}
	for id, rule := range i.rules {
		if rule.user == u.id {
			delete(i.rules, id)
		}
	}
	for id, b := range i.blobs {
		if b.user == u.id {
			delete(i.blobs, id)
		}
	}
	for _, g := range i.groups {
		delete(g.members, u.id)
	}
}

func (c *Cloud) userProjects(r *request) (answer, error) {
	u, err := c.foundUser(r, "identity:list_user_projects")
	if err != nil {
		return answer{}, err
	}
	return r.collection("projects", c.projectsOf(r, u.id))
}

func (c *Cloud) userGroups(r *request) (answer, error) {
	u, err := c.foundUser(r, "identity:list_groups_for_user")
	if err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range sortedKeys(c.identity.groups) {
		if g := c.identity.groups[id]; g.members[u.id] {
			out = append(out, c.usersGroupDoc(r, g))
		}
	}
	return r.collection("groups", out)
}
