package openstack

import "strings"

// defaultDomain is the id of the domain that exists from the start.
const defaultDomain = "default"

type domain struct {
	id, name, description string
	enabled               bool
}

func domainRoutes() []route {
	return []route{
		{method: "GET", pattern: "/v3/domains", handle: (*Cloud).domainList},
		{method: "POST", pattern: "/v3/domains", handle: (*Cloud).domainCreate},
		{method: "GET", pattern: "/v3/domains/{id}", handle: (*Cloud).domainShow},
		{method: "PATCH", pattern: "/v3/domains/{id}", handle: (*Cloud).domainUpdate},
		{method: "DELETE", pattern: "/v3/domains/{id}", handle: (*Cloud).domainDelete},
	}
}

// domainOf finds the domain that an object of a body names by id or name.
func (i *identity) domainOf(d doc) *domain {
	if id := str(d, "id"); id != "" {
		return i.domains[id]
	}
	for _, m := range i.domains {
		if strings.EqualFold(m.name, str(d, "name")) {
			return m
		}
	}
	return nil
}

// newIn is the id of the domain that something new goes into: the one that the body names, else that of the caller's scope.
func (c *Cloud) newIn(r *request, d doc) (string, error) {
	id := str(d, "domain_id")
	if id == "" {
		if id = defaultDomain; r.token.project != nil {
			id = r.token.project.domain
		} else if r.token.domain != nil {
			id = r.token.domain.id
		}
	}
	if c.identity.domains[id] == nil {
		return "", refuse(400, "Could not find domain: %s.", id)
	}
	return id, nil
}

func (c *Cloud) domainDoc(r *request, m *domain) doc {
	return doc{"id": m.id, "name": m.name, "description": m.description, "enabled": m.enabled, "tags": []any{}, "options": doc{}, "links": r.self("domains/" + m.id)}
}

func (c *Cloud) domainList(r *request) (answer, error) {
	if err := r.needAdmin("identity:list_domains"); err != nil {
		return answer{}, err
	}
	var out []any
	for _, id := range sortedKeys(c.identity.domains) {
		m := c.identity.domains[id]
		if r.picks(map[string]string{"name": m.name}) && r.picksEnabled(m.enabled) {
			out = append(out, c.domainDoc(r, m))
		}
	}
	return r.collection("domains", out)
}

// foundDomain is the domain named in the path. Everybody may see the one that the token's project is in.
func (c *Cloud) foundDomain(r *request, action string) (*domain, error) {
	m := c.identity.domains[r.arg("id")]
	own := m != nil && r.token.project != nil && r.token.project.domain == m.id && action == "identity:get_domain"
	if !r.token.admin && !own {
		return nil, forbidden(r, action)
	}
	if m == nil {
		return nil, refuse(404, "Could not find domain: %s.", r.arg("id"))
	}
	return m, nil
}

func (c *Cloud) domainShow(r *request) (answer, error) {
	m, err := c.foundDomain(r, "identity:get_domain")
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"domain": c.domainDoc(r, m)})
}

func (c *Cloud) domainCreate(r *request) (answer, error) {
	if err := r.needAdmin("identity:create_domain"); err != nil {
		return answer{}, err
	}
	d, err := r.object("domain")
	if err != nil {
		return answer{}, err
	}
	if err := wellNamed(d, 64); err != nil {
		return answer{}, err
	}
	if c.identity.domainOf(doc{"name": d["name"]}) != nil {
		return answer{}, refuse(409, "Conflict occurred attempting to store project - it is not permitted to have two projects acting as domains with the same name: %s.", str(d, "name"))
	}
	m := &domain{id: c.ids.hex(), name: str(d, "name"), description: str(d, "description"), enabled: true}
	if err := enabledOf(d, &m.enabled); err != nil {
		return answer{}, err
	}
	c.identity.domains[m.id] = m
	return created(doc{"domain": c.domainDoc(r, m)})
}

func (c *Cloud) domainUpdate(r *request) (answer, error) {
	m, err := c.foundDomain(r, "identity:update_domain")
	if err != nil {
		return answer{}, err
	}
	d, err := r.object("domain")
	if err == nil {
		err = enabledOf(d, &m.enabled)
	}
	if err != nil {
		return answer{}, err
	}
	if has(d, "description") {
		m.description = str(d, "description")
	}
	if name := str(d, "name"); name != "" {
		m.name = name
	}
	return ok(doc{"domain": c.domainDoc(r, m)})
}

func (c *Cloud) domainDelete(r *request) (answer, error) {
	m, err := c.foundDomain(r, "identity:delete_domain")
	if err != nil {
		return answer{}, err
	}
	if m.enabled {
		return answer{}, refuse(403, "Cannot delete a domain that is enabled, please disable it first.")
	}
	for _, p := range c.identity.projects {
		if p.domain == m.id {
			c.identity.dropProject(p)
		}
	}
	for _, u := range c.identity.users {
		if u.domain == m.id {
			c.identity.dropUser(u)
		}
	}
	for _, g := range c.identity.groups {
		if g.domain == m.id {
			c.identity.dropGroup(g)
		}
	}
	c.identity.dropGrants(func(g grant) bool { return g.domain && g.target == m.id })
	delete(c.identity.domains, m.id)
	return noContent()
}

// authDomains lists the domains that the caller has a role in.
func (c *Cloud) authDomains(r *request) (answer, error) {
	var out []any
	for _, id := range sortedKeys(c.identity.domains) {
		if len(c.identity.rolesIn(r.token.user.id, id)) > 0 {
			out = append(out, c.domainDoc(r, c.identity.domains[id]))
		}
	}
	return r.collection("domains", out)
}
