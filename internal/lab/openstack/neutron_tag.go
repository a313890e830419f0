package openstack

import (
	"net/http"
	"slices"
)

// tagged returns the resource whose tags a request is about. Who sees it may tag it.
func (c *Cloud) tagged(r *request) (*thing, error) {
	n, err := c.nounOf(r)
	if err != nil {
		return nil, err
	}
	if !n.taggable {
		return nil, refuseAs(404, "HTTPNotFound", "The resource could not be found.")
	}
	t, err := c.findThing(r, n, r.arg("id"), false)
	if err != nil {
		return nil, refuseAs(404, "TagResourceNotFound", "Resource "+n.plural+" "+r.arg("id")+" could not be found.")
	}
	return t, nil
}

// checkTag refuses what is no tag.
func checkTag(tag any) error {
	if _, err := checkName(tag); err != nil {
		return invalidInput(err.Error())
	}
	return nil
}

func (c *Cloud) tagList(r *request) (answer, error) {
	t, err := c.tagged(r)
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"tags": anyOf(t.tags)})
}

func (c *Cloud) tagReplace(r *request) (answer, error) {
	t, err := c.tagged(r)
	if err != nil {
		return answer{}, err
	}
	in, err := r.json()
	if err != nil {
		return answer{}, err
	}
	if !has(in, "tags") {
		return answer{}, invalidInput("Invalid tags body")
	}
	checked, err := checkTexts(in["tags"])
	if err != nil {
		return answer{}, invalidInput(err.Error())
	}
	t.tags, _ = texts(checked)
	slices.Sort(t.tags)
	c.touch(t)
	return ok(in)
}

func (c *Cloud) tagClear(r *request) (answer, error) {
	t, err := c.tagged(r)
	if err != nil {
		return answer{}, err
	}
	t.tags = nil
	c.touch(t)
	return noContent()
}

func (c *Cloud) tagCheck(r *request) (answer, error) {
	t, err := c.tagged(r)
	if err != nil {
		return answer{}, err
	}
	if !slices.Contains(t.tags, r.arg("tag")) {
		return answer{}, refuseAs(404, "TagNotFound", "Tag "+r.arg("tag")+" could not be found.")
	}
	return noContent()
}

func (c *Cloud) tagAdd(r *request) (answer, error) {
	t, err := c.tagged(r)
	if err != nil {
		return answer{}, err
	}
	if err := checkTag(r.arg("tag")); err != nil {
		return answer{}, err
	}
	if !slices.Contains(t.tags, r.arg("tag")) {
		t.tags = append(t.tags, r.arg("tag"))
		slices.Sort(t.tags)
		c.touch(t)
	}
	return answer{status: 201, header: http.Header{"Content-Type": {"application/json"}}}, nil
}

func (c *Cloud) tagRemove(r *request) (answer, error) {
	t, err := c.tagged(r)
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
