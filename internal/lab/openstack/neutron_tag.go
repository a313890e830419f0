package openstack

import "slices"

func (c *Cloud) tagged(r *request, write bool) (*thing, error) {
	n, err := c.nounOf(r)
	if err != nil {
		return nil, err
	}
	if !n.taggable {
		return nil, refuseAs(404, "HTTPNotFound", "The resource could not be found.")
	}
	return c.findThing(r, n, r.arg("id"), write)
}

func (c *Cloud) tagList(r *request) (answer, error) {
	t, err := c.tagged(r, false)
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"tags": anyOf(t.tags)})
}

func (c *Cloud) tagReplace(r *request) (answer, error) {
	t, err := c.tagged(r, true)
	if err != nil {
		return answer{}, err
	}
	in, err := r.json()
	if err != nil {
		return answer{}, err
	}
	tags, valid := texts(in["tags"])
	if !valid || !has(in, "tags") || len(in) != 1 {
		return answer{}, refuseAs(400, "HTTPBadRequest", "Invalid tags body")
	}
	for _, tag := range tags {
		if tag == "" || len(tag) > 255 {
			return answer{}, refuseAs(400, "HTTPBadRequest", "Invalid input for operation: '"+tag+"' is no valid tag.")
		}
	}
	slices.Sort(tags)
	t.tags = slices.Compact(tags)
	c.touch(t)
	return ok(doc{"tags": anyOf(t.tags)})
}

func (c *Cloud) tagClear(r *request) (answer, error) {
	t, err := c.tagged(r, true)
	if err != nil {
		return answer{}, err
	}
	t.tags = nil
	c.touch(t)
	return noContent()
}

func (c *Cloud) tagCheck(r *request) (answer, error) {
	t, err := c.tagged(r, false)
	if err != nil {
		return answer{}, err
	}
	if !slices.Contains(t.tags, r.arg("tag")) {
		return answer{}, refuseAs(404, "TagNotFound", "Tag "+r.arg("tag")+" could not be found.")
	}
	return noContent()
}

func (c *Cloud) tagAdd(r *request) (answer, error) {
	t, err := c.tagged(r, true)
	if err != nil {
		return answer{}, err
	}
	if !slices.Contains(t.tags, r.arg("tag")) {
		t.tags = append(t.tags, r.arg("tag"))
		slices.Sort(t.tags)
		c.touch(t)
	}
	return answer{status: 201}, nil
}

func (c *Cloud) tagRemove(r *request) (answer, error) {
	t, err := c.tagged(r, true)
	if err != nil {
		return answer{}, err
	}
	i := slices.Index(t.tags, r.arg("tag"))
	if i < 0 {
		return answer{}, refuseAs(404, "TagNotFound", "Tag "+r.arg("tag")+" could not be found.")
	}
	t.tags = slices.Delete(t.tags, i, i+1)
	c.touch(t)
	return noContent()
}
