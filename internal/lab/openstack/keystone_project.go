package openstack

func (c *Cloud) projectDoc(r *request, p *project) doc {
	return doc{"id": p.id, "name": p.name, "description": p.description, "enabled": p.enabled, "domain_id": "default", "parent_id": "default",
		"is_domain": false, "tags": anyOf(p.tags), "options": doc{}, "links": doc{"self": r.base + "/identity/v3/projects/" + p.id}}
}

func (c *Cloud) projectsOf(r *request, userID string) []any {
	var out []any
	for _, id := range sortedKeys(c.identity.projects) {
		if len(c.identity.rolesOf(userID, id)) > 0 {
			out = append(out, c.projectDoc(r, c.identity.projects[id]))
		}
	}
	return out
}

func (c *Cloud) projectList(r *request) (answer, error) {
	if err := r.needAdmin("identity:list_projects"); err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range sortedKeys(c.identity.projects) {
		p := c.identity.projects[id]
		if name := r.query.Get("name"); (name == "" || name == p.name) && c.shown(id) {
			out = append(out, c.projectDoc(r, p))
		}
	}
	return r.collection("projects", out)
}

func (c *Cloud) projectCreate(r *request) (answer, error) {
	if err := r.needAdmin("identity:create_project"); err != nil {
		return answer{}, err
	}
	d, err := r.object("project")
	if err != nil {
		return answer{}, err
	}
	if str(d, "name") == "" {
		return answer{}, refuse(400, "Invalid input for field 'name': '' should not be empty")
	}
	if c.identity.projectNamed(str(d, "name")) != nil {
		return answer{}, refuse(409, "Conflict occurred attempting to store project - it is not permitted to have two projects with the same name in the same domain : %s.", str(d, "name"))
	}
	p := &project{id: c.ids.hex(), name: str(d, "name"), description: str(d, "description"), enabled: true}
	p.tags, _ = texts(d["tags"])
	if v, given := d["enabled"].(bool); given {
		p.enabled = v
	}
	c.identity.projects[p.id] = p
	c.conceal(r, "project", p.id)
	return created(doc{"project": c.projectDoc(r, p)})
}

// foundProject is the project named in the path, if the caller may see it.
func (c *Cloud) foundProject(r *request, action string) (*project, error) {
	p := c.identity.projects[r.arg("id")]
	if !r.token.admin && (p == nil || action != "identity:get_project" || len(c.identity.rolesOf(r.token.user.id, p.id)) == 0) {
		return nil, forbidden(r, action)
	}
	if p == nil {
		return nil, refuse(404, "Could not find project: %s.", r.arg("id"))
	}
	return p, nil
}

func (c *Cloud) projectShow(r *request) (answer, error) {
	p, err := c.foundProject(r, "identity:get_project")
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"project": c.projectDoc(r, p)})
}

func (c *Cloud) projectUpdate(r *request) (answer, error) {
	p, err := c.foundProject(r, "identity:update_project")
	if err != nil {
		return answer{}, err
	}
	d, err := r.object("project")
	if err != nil {
		return answer{}, err
	}
	if name := str(d, "name"); name != "" && name != p.name {
		if c.identity.projectNamed(name) != nil {
			return answer{}, refuse(409, "Conflict occurred attempting to store project - it is not permitted to have two projects with the same name in the same domain : %s.", name)
		}
		p.name = name
	}
	if has(d, "description") {
		p.description = str(d, "description")
	}
	if v, given := d["enabled"].(bool); given {
		p.enabled = v
	}
	if has(d, "tags") {
		p.tags, _ = texts(d["tags"])
	}
	return ok(doc{"project": c.projectDoc(r, p)})
}

func (c *Cloud) projectDelete(r *request) (answer, error) {
	p, err := c.foundProject(r, "identity:delete_project")
	if err != nil {
		return answer{}, err
	}
	delete(c.identity.projects, p.id)
	for g := range c.identity.grants {
		if g.project == p.id {
			delete(c.identity.grants, g)
		}
	}
	for id, a := range c.identity.credentials {
		if a.project == p {
			delete(c.identity.credentials, id)
		}
	}
	return noContent()
}
