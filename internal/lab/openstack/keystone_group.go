package openstack

import "strings"

type group struct {
	id, name, domain, description string
	members                       map[string]bool // ids of users
}

func groupRoutes() []route {
	return []route{
		{method: "GET", pattern: "/v3/groups", handle: (*Cloud).usersGroupList},
		{method: "POST", pattern: "/v3/groups", handle: (*Cloud).usersGroupCreate},
		{method: "GET", pattern: "/v3/groups/{id}", handle: (*Cloud).usersGroupShow},
		{method: "DELETE", pattern: "/v3/groups/{id}", handle: (*Cloud).usersGroupDelete},
		{method: "GET", pattern: "/v3/groups/{id}/users", handle: (*Cloud).memberList},
		{method: "GET", pattern: "/v3/groups/{id}/users/{user}", handle: (*Cloud).memberCheck},
		{method: "PUT", pattern: "/v3/groups/{id}/users/{user}", handle: (*Cloud).memberAdd},
		{method: "DELETE", pattern: "/v3/groups/{id}/users/{user}", handle: (*Cloud).memberRemove},
	}
}

func (c *Cloud) usersGroupDoc(r *request, g *group) doc {
	return doc{"id": g.id, "name": g.name, "domain_id": g.domain, "description": g.description, "links": r.self("groups/" + g.id)}
}

func (c *Cloud) usersGroupList(r *request) (answer, error) {
	if err := r.needAdmin("identity:list_groups"); err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range sortedKeys(c.identity.groups) {
		g := c.identity.groups[id]
		if r.picks(map[string]string{"name": g.name, "domain_id": g.domain}) && c.shown(id) {
			out = append(out, c.usersGroupDoc(r, g))
		}
	}
	return r.collection("groups", out)
}

func (c *Cloud) usersGroupCreate(r *request) (answer, error) {
	if err := r.needAdmin("identity:create_group"); err != nil {
		return answer{}, err
	}
	d, err := r.object("group")
	if err != nil {
		return answer{}, err
	}
	if err := wellNamed(d, 64); err != nil {
		return answer{}, err
	}
	g := &group{id: c.ids.hex(), name: str(d, "name"), description: str(d, "description"), members: map[string]bool{}}
	if g.domain, err = c.newIn(r, d); err != nil {
		return answer{}, err
	}
	for _, other := range c.identity.groups {
		if other.domain == g.domain && strings.EqualFold(other.name, g.name) {
			return answer{}, refuse(409, "Conflict occurred attempting to store group - Duplicate entry found with name %s at domain ID %s.", g.name, g.domain)
		}
	}
	c.identity.groups[g.id] = g
	c.conceal(r, "group", g.id)
	return created(doc{"group": c.usersGroupDoc(r, g)})
}

// foundGroup is the group named in the path, for administrators only.
func (c *Cloud) foundGroup(r *request, action string) (*group, error) {
	if err := r.needAdmin(action); err != nil {
		return nil, err
	}
	g := c.identity.groups[r.arg("id")]
	if g == nil {
		return nil, refuse(404, "Could not find group: %s.", r.arg("id"))
	}
	if id := r.arg("user"); id != "" && c.identity.users[id] == nil {
		return nil, refuse(404, "Could not find user: %s.", id)
	}
	return g, nil
}

func (c *Cloud) usersGroupShow(r *request) (answer, error) {
	g, err := c.foundGroup(r, "identity:get_group")
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"group": c.usersGroupDoc(r, g)})
}

func (c *Cloud) usersGroupDelete(r *request) (answer, error) {
	g, err := c.foundGroup(r, "identity:delete_group")
	if err != nil {
		return answer{}, err
	}
	c.identity.dropGroup(g)
	return noContent()
}

// dropGroup deletes a group. Its members have to log in again.
func (i *identity) dropGroup(g *group) {
	delete(i.groups, g.id)
	i.dropGrants(func(x grant) bool { return x.group && x.actor == g.id })
	i.dropTokens(func(t *token) bool { return g.members[t.user.id] })
}

func (c *Cloud) memberList(r *request) (answer, error) {
	g, err := c.foundGroup(r, "identity:list_users_in_group")
	if err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range sortedKeys(g.members) {
		out = append(out, c.userDoc(r, c.identity.users[id]))
	}
	return r.collection("users", out)
}

func (c *Cloud) memberCheck(r *request) (answer, error) {
	g, err := c.foundGroup(r, "identity:check_user_in_group")
	if err == nil {
		err = g.has(r.arg("user"))
	}
	if err != nil {
		return answer{}, err
	}
	return noContent()
}

func (g *group) has(user string) error {
	if !g.members[user] {
		return refuse(404, "User '%s' not found in group '%s'.", user, g.id)
	}
	return nil
}

func (c *Cloud) memberAdd(r *request) (answer, error) {
	g, err := c.foundGroup(r, "identity:add_user_to_group")
	if err != nil {
		return answer{}, err
	}
	g.members[r.arg("user")] = true
	return noContent()
}

func (c *Cloud) memberRemove(r *request) (answer, error) {
	g, err := c.foundGroup(r, "identity:remove_user_from_group")
	if err == nil {
		err = g.has(r.arg("user"))
	}
	if err != nil {
		return answer{}, err
	}
	delete(g.members, r.arg("user"))
	c.identity.dropTokens(func(t *token) bool { return t.user.id == r.arg("user") })
	return noContent()
}
