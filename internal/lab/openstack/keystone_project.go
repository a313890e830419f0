package openstack

import (
	"slices"
	"strings"
)

type project struct {
	id, name, domain, parent string
	description              any // text or null
	enabled                  bool
	tags                     []string
}

func projectRoutes() []route {
	return []route{
		{method: "GET", pattern: "/v3/projects", handle: (*Cloud).projectList},
		{method: "POST", pattern: "/v3/projects", handle: (*Cloud).projectCreate},
		{method: "GET", pattern: "/v3/projects/{id}", handle: (*Cloud).projectShow},
		{method: "PATCH", pattern: "/v3/projects/{id}", handle: (*Cloud).projectUpdate},
		{method: "DELETE", pattern: "/v3/projects/{id}", handle: (*Cloud).projectDelete},
		{method: "GET", pattern: "/v3/projects/{id}/tags", handle: (*Cloud).projectTags},
		{method: "PUT", pattern: "/v3/projects/{id}/tags", handle: (*Cloud).projectTagsSet},
		{method: "DELETE", pattern: "/v3/projects/{id}/tags", handle: (*Cloud).projectTagsClear},
		{method: "GET", pattern: "/v3/projects/{id}/tags/{tag}", handle: (*Cloud).projectTagCheck},
		{method: "PUT", pattern: "/v3/projects/{id}/tags/{tag}", handle: (*Cloud).projectTagAdd},
		{method: "DELETE", pattern: "/v3/projects/{id}/tags/{tag}", handle: (*Cloud).projectTagRemove},
	}
}

func (i *identity) projectNamed(name, domain string) *project {
	for _, p := range i.projects {
		if p.domain == domain && strings.EqualFold(p.name, name) {
			return p
		}
	}
	return nil
}

func (c *Cloud) projectDoc(r *request, p *project) doc {
	return doc{"id": p.id, "name": p.name, "description": p.description, "enabled": p.enabled, "domain_id": p.domain, "parent_id": p.parent,
		"is_domain": false, "tags": anyOf(p.tags), "options": doc{}, "links": r.self("projects/" + p.id)}
}

// projectsOf lists the projects that a user has a role in.
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
		if r.picks(map[string]string{"name": p.name, "domain_id": p.domain, "parent_id": p.parent}) && r.picksEnabled(p.enabled) && r.picksTags(p.tags) && c.shown(id) {
			out = append(out, c.projectDoc(r, p))
		}
	}
	return r.collection("projects", out)
}

// picksTags is the filter by tags: all of tags, any of tags-any, and neither of the two that begin with not.
func (r *request) picksTags(have []string) bool {
	count := func(key string) (asked, found int) {
		for tag := range strings.SplitSeq(r.query.Get(key), ",") {
			if asked++; slices.Contains(have, tag) {
				found++
			}
		}
		return asked, found
	}
	for _, key := range []string{"tags", "tags-any", "not-tags", "not-tags-any"} {
		if !r.query.Has(key) {
			continue
		}
		asked, found := count(key)
		all, some := found == asked, found > 0
		switch key {
		case "tags":
			if !all {
				return false
			}
		case "tags-any":
			if !some {
				return false
			}
		case "not-tags":
			if all {
				return false
			}
		case "not-tags-any":
			if some {
				return false
			}
		}
	}
	return true
}

func projectTaken(name, id string) error {
	return refuse(409, "Conflict occurred attempting to store project - it is not permitted to have two projects with either the same name or same id in the same domain: name is %s, project id %s.", name, id)
}

// tagsOf reads the tags of a body.
func tagsOf(v any) ([]string, error) {
	tags, isList := texts(v)
	if !isList {
		return nil, refuse(400, "Invalid input for field 'tags': %v is not of type 'array'", v)
	}
	for n, tag := range tags {
		switch {
		case tag == "":
			return nil, refuse(400, "Invalid input for field 'tags/%d': '' is too short", n)
		case strings.ContainsAny(tag, ",/"):
			return nil, refuse(400, "Invalid input for field 'tags/%d': '%s' does not match '^[^,/]*$'", n, tag)
		case slices.Contains(tags[:n], tag):
			return nil, refuse(400, "Invalid input for field 'tags': ['%s'] has non-unique elements", strings.Join(tags, "', '"))
		}
	}
	if len(tags) > 80 {
		return nil, refuse(400, "Invalid input for field 'tags': ['%s'] is too long", strings.Join(tags, "', '"))
	}
	slices.Sort(tags)
	return tags, nil
}

func (c *Cloud) projectCreate(r *request) (answer, error) {
	if err := r.needAdmin("identity:create_project"); err != nil {
		return answer{}, err
	}
	d, err := r.object("project")
	if err != nil {
		return answer{}, err
	}
	if err := wellNamed(d, 64); err != nil {
		return answer{}, err
	}
	p := &project{id: c.ids.hex(), name: str(d, "name"), description: d["description"], enabled: true, parent: str(d, "parent_id")}
	if !has(d, "description") {
		p.description = ""
	}
	if p.domain, err = c.newIn(r, d); err != nil {
		return answer{}, err
	}
	if p.parent == "" {
		p.parent = p.domain
	}
	if above := c.identity.projects[p.parent]; above != nil {
		p.domain = above.domain
	} else if c.identity.domains[p.parent] == nil {
		return answer{}, refuse(404, "Could not find project: %s.", p.parent)
	}
	if err := enabledOf(d, &p.enabled); err != nil {
		return answer{}, err
	}
	if p.tags, err = tagsOf(d["tags"]); err != nil {
		return answer{}, err
	}
	if c.identity.projectNamed(p.name, p.domain) != nil {
		return answer{}, projectTaken(p.name, p.id)
	}
	c.identity.projects[p.id] = p
	c.conceal(r, "project", p.id)
	return created(doc{"project": c.projectDoc(r, p)})
}

// foundProject is the project named in the path, if the caller may do this: to look is allowed within it.
func (c *Cloud) foundProject(r *request, action string) (*project, error) {
	p := c.identity.projects[r.arg("id")]
	looks := action == "identity:get_project" || action == "identity:list_project_tags" || action == "identity:get_project_tag"
	if !r.token.admin && (p == nil || !looks || r.token.project != p) {
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
	changed := *p
	if domain := str(d, "domain_id"); domain != "" && domain != p.domain {
		return answer{}, refuse(400, "Cannot change Domain ID")
	}
	if has(d, "name") {
		if err := wellNamed(d, 64); err != nil {
			return answer{}, err
		}
		changed.name = str(d, "name")
		if other := c.identity.projectNamed(changed.name, p.domain); other != nil && other != p {
			return answer{}, projectTaken(changed.name, p.id)
		}
	}
	if has(d, "description") {
		changed.description = d["description"]
	}
	if err := enabledOf(d, &changed.enabled); err != nil {
		return answer{}, err
	}
	if has(d, "tags") {
		if changed.tags, err = tagsOf(d["tags"]); err != nil {
			return answer{}, err
		}
	}
	*p = changed
	out := c.projectDoc(r, p)
	out["extra"] = doc{}
	return ok(doc{"project": out})
}

func (c *Cloud) projectDelete(r *request) (answer, error) {
	p, err := c.foundProject(r, "identity:delete_project")
	if err != nil {
		return answer{}, err
	}
	for _, below := range c.identity.projects {
		if below.parent == p.id {
			return answer{}, refuse(403, "Cannot delete the project %s since it is not a leaf in the hierarchy. Use the cascade option if you want to delete a whole subtree.", p.id)
		}
	}
	c.identity.dropProject(p)
	return noContent()
}

// dropProject deletes a project. Application credentials of it stay, and let nobody in.
func (i *identity) dropProject(p *project) {
	delete(i.projects, p.id)
	i.dropGrants(func(g grant) bool { return g.target == p.id })
	for id, b := range i.blobs {
		if b.project == p.id {
			delete(i.blobs, id)
		}
	}
	for _, u := range i.users {
		if u.defaultProject == p.id {
			u.defaultProject = ""
		}
	}
}

func (r *request) tagsAnswer(p *project) (answer, error) {
	return ok(doc{"tags": anyOf(p.tags), "links": doc{"self": r.base + "/identity/v3"}})
}

func (c *Cloud) projectTags(r *request) (answer, error) {
	p, err := c.foundProject(r, "identity:list_project_tags")
	if err != nil {
		return answer{}, err
	}
	return r.tagsAnswer(p)
}

func (c *Cloud) projectTagsSet(r *request) (answer, error) {
	p, err := c.foundProject(r, "identity:update_project_tags")
	if err != nil {
		return answer{}, err
	}
	whole, err := r.json()
	if err != nil {
		return answer{}, err
	}
	if p.tags, err = tagsOf(whole["tags"]); err != nil {
		return answer{}, err
	}
	return r.tagsAnswer(p)
}

func (c *Cloud) projectTagsClear(r *request) (answer, error) {
	p, err := c.foundProject(r, "identity:delete_project_tags")
	if err != nil {
		return answer{}, err
	}
	p.tags = nil
	return noContent()
}

func (c *Cloud) projectTagCheck(r *request) (answer, error) {
	p, err := c.foundProject(r, "identity:get_project_tag")
	if err == nil && !slices.Contains(p.tags, r.arg("tag")) {
		err = refuse(404, "Could not find project tag: %s.", r.arg("tag"))
	}
	if err != nil {
		return answer{}, err
	}
	return noContent()
}

func (c *Cloud) projectTagAdd(r *request) (answer, error) {
	p, err := c.foundProject(r, "identity:create_project_tag")
	if err != nil {
		return answer{}, err
	}
	if !slices.Contains(p.tags, r.arg("tag")) {
		if p.tags, err = tagsOf(append(anyOf(p.tags), r.arg("tag"))); err != nil {
			return answer{}, err
		}
	}
	return created(nil)
}

func (c *Cloud) projectTagRemove(r *request) (answer, error) {
	p, err := c.foundProject(r, "identity:delete_project_tag")
	if err == nil && !slices.Contains(p.tags, r.arg("tag")) {
		err = refuse(404, "Could not find project tag: %s.", r.arg("tag"))
	}
	if err != nil {
		return answer{}, err
	}
	p.tags = slices.DeleteFunc(p.tags, func(t string) bool { return t == r.arg("tag") })
	return noContent()
}
