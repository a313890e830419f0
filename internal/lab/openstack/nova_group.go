package openstack

import "sort"

type serverGroup struct {
	id, name, policy, project, user string
	perHost                         int // rule max_server_per_host, 0 without
	number                          int // in the order of making
}

func (c *Cloud) groupMembers(g *serverGroup) []any {
	var ids []string
	for id, s := range c.compute.servers {
		if s.serverGroup == g.id {
			ids = append(ids, id)
		}
	}
	sort.Strings(ids)
	return anyOf(ids)
}

func (c *Cloud) groupDoc(r *request, g *serverGroup) doc {
	d := doc{"id": g.id, "name": g.name, "members": c.groupMembers(g)}
	if r.version >= 64 {
		d["policy"], d["rules"] = g.policy, doc{}
		if g.perHost > 0 {
			d["rules"] = doc{"max_server_per_host": g.perHost}
		}
	} else {
		d["policies"], d["metadata"] = []any{g.policy}, doc{}
	}
	if r.version >= 13 {
		d["project_id"], d["user_id"] = g.project, g.user
	}
	return d
}

// groupAllows tells whether a server may run on a host beside the others of its group. Soft policies never
// refuse.
func (c *Cloud) groupAllows(s *server, h *host) bool {
	g := c.compute.groups[s.serverGroup]
	if g == nil {
		return true
	}
	here, elsewhere := 0, 0
	for _, o := range c.compute.servers {
		if o == s || o.serverGroup != g.id || o.host == nil {
			continue
		}
		if o.host == h {
			here++
		} else {
			elsewhere++
		}
	}
	switch g.policy {
	case "anti-affinity":
		return here < max(g.perHost, 1)
	case "affinity":
		return elsewhere == 0
	}
	return true
}

func (c *Cloud) groupList(r *request) (answer, error) {
	var found []*serverGroup
	for _, g := range c.compute.groups {
		if c.shown(g.id) && (g.project == r.token.project.id || r.token.admin && r.query.Has("all_projects")) {
			found = append(found, g)
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].number < found[j].number })
	offset, _ := integer(r.query.Get("offset"))
	found = found[min(max(offset, 0), len(found)):]
	if n, given := integer(r.query.Get("limit")); given && n >= 0 {
		found = found[:min(n, len(found))]
	}
	out := []any{}
	for _, g := range found {
		out = append(out, c.groupDoc(r, g))
	}
	return ok(doc{"server_groups": out})
}

func (c *Cloud) groupCreate(r *request) (answer, error) {
	whole, err := r.bodyAs(groupSchema(r.version))
	if err != nil {
		return answer{}, err
	}
	in := object(whole, "server_group")
	g := &serverGroup{id: c.ids.uuid(), name: str(in, "name"), project: r.token.project.id, user: r.token.user.id}
	if r.version >= 64 {
		g.policy = str(in, "policy")
		if n, given := integer(object(in, "rules")["max_server_per_host"]); given {
			if g.policy != "anti-affinity" {
				return answer{}, refuse(400, "Only anti-affinity policy supports rules.")
			}
			g.perHost = n
		}
	} else if p, valid := texts(in["policies"]); valid && len(p) == 1 {
		g.policy = p[0]
	}
	mine := 0
	for _, o := range c.compute.groups {
		if o.project == g.project {
			mine++
		}
	}
	if limit := c.computeLimit(g.project, "server_groups"); limit >= 0 && mine >= limit {
		return answer{}, refuse(403, "Quota exceeded, too many server groups.")
	}
	for _, o := range c.compute.groups {
		g.number = max(g.number, o.number)
	}
	g.number++
	c.compute.groups[g.id] = g
	c.conceal(r, "server_group", g.id)
	return ok(doc{"server_group": c.groupDoc(r, g)})
}

func (c *Cloud) findGroup(r *request) (*serverGroup, error) {
	g := c.compute.groups[r.arg("id")]
	if g == nil || g.project != r.token.project.id && !r.token.admin {
		return nil, refuse(404, "Instance group %s could not be found.", r.arg("id"))
	}
	return g, nil
}

func (c *Cloud) groupShow(r *request) (answer, error) {
	g, err := c.findGroup(r)
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"server_group": c.groupDoc(r, g)})
}

func (c *Cloud) groupDelete(r *request) (answer, error) {
	g, err := c.findGroup(r)
	if err != nil {
		return answer{}, err
	}
	delete(c.compute.groups, g.id)
	return noContent()
}
