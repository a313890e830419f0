package openstack

func (c *Cloud) userDoc(r *request, u *user) doc {
	d := doc{"id": u.id, "name": u.name, "enabled": u.enabled, "domain_id": "default", "password_expires_at": nil, "options": doc{},
		"links": doc{"self": r.base + "/identity/v3/users/" + u.id}}
	for k, v := range map[string]string{"default_project_id": u.defaultProject, "description": u.description, "email": u.email} {
		if v != "" {
			d[k] = v
		}
	}
	return d
}

func (c *Cloud) userList(r *request) (answer, error) {
	if err := r.needAdmin("identity:list_users"); err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range sortedKeys(c.identity.users) {
		u := c.identity.users[id]
		if name := r.query.Get("name"); (name == "" || name == u.name) && c.shown(id) {
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
	if str(d, "name") == "" {
		return answer{}, refuse(400, "Invalid input for field 'name': '' should not be empty")
	}
	if c.identity.userNamed(str(d, "name")) != nil {
		return answer{}, refuse(409, "Conflict occurred attempting to store user - Duplicate entry found with name %s at domain ID default.", str(d, "name"))
	}
	u := &user{id: c.ids.hex(), name: str(d, "name"), enabled: true}
	c.identity.users[u.id] = u
	c.setUser(u, d)
	c.conceal(r, "user", u.id)
	return created(doc{"user": c.userDoc(r, u)})
}

func (c *Cloud) setUser(u *user, d doc) {
	for key, field := range map[string]*string{"description": &u.description, "email": &u.email, "default_project_id": &u.defaultProject} {
		if has(d, key) {
			*field = str(d, key)
		}
	}
	if v, given := d["enabled"].(bool); given {
		u.enabled = v
	}
	if has(d, "password") {
		u.password = str(d, "password")
		for id, t := range c.identity.tokens {
			if t.user == u && t.credential == nil {
				delete(c.identity.tokens, id)
			}
		}
	}
}

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
	if name := str(d, "name"); name != "" && name != u.name {
		if c.identity.userNamed(name) != nil {
			return answer{}, refuse(409, "Conflict occurred attempting to store user - Duplicate entry found with name %s at domain ID default.", name)
		}
		u.name = name
	}
	c.setUser(u, d)
	return ok(doc{"user": c.userDoc(r, u)})
}

func (c *Cloud) userDelete(r *request) (answer, error) {
	u, err := c.foundUser(r, "identity:delete_user")
	if err != nil {
		return answer{}, err
	}
	delete(c.identity.users, u.id)
	for g := range c.identity.grants {
		if g.user == u.id {
			delete(c.identity.grants, g)
		}
	}
	for id, a := range c.identity.credentials {
		if a.user == u {
			delete(c.identity.credentials, id)
		}
	}
	return noContent()
}

func (c *Cloud) userProjects(r *request) (answer, error) {
	u, err := c.foundUser(r, "identity:list_user_projects")
	if err != nil {
		return answer{}, err
	}
	return r.collection("projects", c.projectsOf(r, u.id))
}

func (c *Cloud) roleList(r *request) (answer, error) {
	if err := r.needAdmin("identity:list_roles"); err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range sortedKeys(c.identity.roles) {
		if name := r.query.Get("name"); name == "" || name == c.identity.roles[id] {
			out = append(out, doc{"id": id, "name": c.identity.roles[id], "domain_id": nil, "description": nil, "options": doc{},
				"links": doc{"self": r.base + "/identity/v3/roles/" + id}})
		}
	}
	return r.collection("roles", out)
}

func (c *Cloud) roleAssignments(r *request) (answer, error) {
	if err := r.needAdmin("identity:list_role_assignments"); err != nil {
		return answer{}, err
	}
	byKey := map[string]doc{}
	for g := range c.identity.grants {
		if q := r.query; q.Get("user.id") != "" && q.Get("user.id") != g.user || q.Get("role.id") != "" && q.Get("role.id") != g.role ||
			q.Get("scope.project.id") != "" && q.Get("scope.project.id") != g.project {
			continue
		}
		byKey[g.project+g.user+g.role] = doc{"role": doc{"id": g.role}, "user": doc{"id": g.user}, "scope": doc{"project": doc{"id": g.project}},
			"links": doc{"assignment": r.base + "/identity/v3/projects/" + g.project + "/users/" + g.user + "/roles/" + g.role}}
	}
	var out []any
	for _, k := range sortedKeys(byKey) {
		out = append(out, byKey[k])
	}
	return r.collection("role_assignments", out)
}

// grantOf is the assignment named in the path; all of it must exist.
func (c *Cloud) grantOf(r *request, action string) (grant, error) {
	if err := r.needAdmin(action); err != nil {
		return grant{}, err
	}
	g := grant{r.arg("user"), r.arg("project"), r.arg("role")}
	switch {
	case c.identity.projects[g.project] == nil:
		return g, refuse(404, "Could not find project: %s.", g.project)
	case c.identity.users[g.user] == nil:
		return g, refuse(404, "Could not find user: %s.", g.user)
	case g.role != "" && c.identity.roles[g.role] == "":
		return g, refuse(404, "Could not find role: %s.", g.role)
	}
	return g, nil
}

func (c *Cloud) grantList(r *request) (answer, error) {
	g, err := c.grantOf(r, "identity:list_grants")
	if err != nil {
		return answer{}, err
	}
	return r.collection("roles", c.roleDocs(c.identity.rolesOf(g.user, g.project)))
}

func (c *Cloud) grantCheck(r *request) (answer, error) {
	g, err := c.grantOf(r, "identity:check_grant")
	if err == nil && !c.identity.grants[g] {
		err = refuse(404, "Could not find role assignment with role: %s, user or group: %s, project, domain, or system: %s.", g.role, g.user, g.project)
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
	if err == nil && !c.identity.grants[g] {
		err = refuse(404, "Could not find role assignment with role: %s, user or group: %s, project, domain, or system: %s.", g.role, g.user, g.project)
	}
	if err != nil {
		return answer{}, err
	}
	delete(c.identity.grants, g)
	for id, t := range c.identity.tokens {
		if t.user.id == g.user && t.project != nil && t.project.id == g.project {
			delete(c.identity.tokens, id)
		}
	}
	return noContent()
}
