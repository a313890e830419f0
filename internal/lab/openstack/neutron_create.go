package openstack

import (
	"slices"
)

func (c *Cloud) neutronCreate(r *request) (answer, error) {
	n, err := c.nounOf(r)
	if err != nil {
		return answer{}, err
	}
	c.ensureDefaultGroup(r)
	whole, err := r.neutronBody()
	if err != nil {
		return answer{}, err
	}
	if bulk, isBulk := whole[n.plural].([]any); isBulk {
		if len(bulk) == 0 {
			return answer{}, plainBad("Resources required")
		}
		return c.bulkCreate(r, n, bulk)
	}
	in, err := n.inner(whole)
	if err != nil {
		return answer{}, err
	}
	t, err := c.makeThing(r, n, in)
	if err != nil {
		return answer{}, err
	}
	t.tags = nil // Neutron takes those of a port, and keeps them where it makes several
	return created(doc{n.name: c.thingDoc(r, t)})
}

// bulkCreate makes all or none.
func (c *Cloud) bulkCreate(r *request, n *noun, bulk []any) (answer, error) {
	var made []*thing
	groups := map[any]bool{}
	for _, item := range bulk {
		in, _ := item.(doc)
		groups[in["security_group_id"]] = true
	}
	if n.name == "security_group_rule" && len(groups) > 1 {
		return answer{}, refuseAs(400, "SecurityGroupNotSingleGroupRules", "Only allowed to update rules for one security profile at a time")
	}
	for _, item := range bulk {
		in, _ := item.(doc)
		if inner := object(in, n.name); inner != nil {
			in = inner
		}
		t, err := c.makeThing(r, n, in)
		if err != nil {
			for i := len(made) - 1; i >= 0; i-- {
				if n.remove != nil {
					n.remove(c, r, made[i])
				}
				delete(c.network.things[n.name], made[i].id)
			}
			return answer{}, err
		}
		made = append(made, t)
	}
	out := []any{}
	for _, t := range made {
		out = append(out, c.thingDoc(r, t))
	}
	return created(doc{n.plural: out})
}

func (c *Cloud) makeThing(r *request, n *noun, in doc) (*thing, error) {
	owner, err := ownerOf(r, in)
	if err != nil {
		return nil, err
	}
	d, err := n.accept(r, in)
	if err != nil {
		return nil, err
	}
	if err := c.checkQuota(owner, n.quota, 1); err != nil {
		return nil, err
	}
	return c.addThing(r, n, owner, d)
}

// addThing stores a new resource; r may be nil when the Cloud makes it by itself.
func (c *Cloud) addThing(r *request, n *noun, owner string, d doc) (*thing, error) {
	t := &thing{noun: n, id: c.ids.uuid(), project: owner, doc: d, created: c.now(), updated: c.now(), revision: n.revision}
	if tags, given := d["tags"].([]any); given {
		t.tags, _ = texts(tags)
		slices.Sort(t.tags)
		delete(d, "tags")
	}
	if n.create != nil {
		if err := n.create(c, r, t); err != nil {
			return nil, err
		}
	}
	c.network.things[n.name][t.id] = t
	c.conceal(r, n.name, t.id)
	return t, nil
}

func ownerOf(r *request, in doc) (string, error) {
	owner := str(in, "project_id")
	if t := str(in, "tenant_id"); t != "" {
		if owner != "" && owner != t {
			return "", refuseAs(400, "HTTPBadRequest", "'project_id' and 'tenant_id' do not match")
		}
		owner = t
	}
	if owner == "" {
		owner = r.token.project.id
	}
	if owner != r.token.project.id && !r.token.admin {
		return "", refuseAs(400, "HTTPBadRequest", "Specifying 'project_id' or 'tenant_id' other than the authenticated project in request requires admin or advsvc privileges")
	}
	return owner, nil
}
