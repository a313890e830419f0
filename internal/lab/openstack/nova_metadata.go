package openstack

import (
	"net/http"
	"slices"
)

func (c *Cloud) metadataShow(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"metadata": s.metadata})
}

// changeMetadata checks the merged metadata and sets it.
func (c *Cloud) changeMetadata(r *request, s *server, m map[string]string) error {
	if err := metadataState(r, s, "update metadata"); err != nil {
		return err
	}
	if limit := c.computeLimit(s.project, "metadata_items"); limit >= 0 && len(m) > limit {
		return refuse(403, "Maximum number of metadata items exceeds %d", limit)
	}
	s.metadata, s.updated = m, c.now()
	return nil
}

// metadataState refuses a change of metadata that the server's state doesn't
// allow.
func metadataState(r *request, s *server, what string) error {
	if s.locked && !r.token.admin {
		return refuse(409, "Instance %s is locked", s.id)
	}
	return needState(s, what, true, "active", "paused", "suspended", "stopped")
}

func (c *Cloud) metadataBody(r *request, merge bool) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	in, err := r.bodyAs(wrapped("metadata", novaMetadata))
	if err != nil {
		return answer{}, err
	}
	sent, _ := stringMap(in["metadata"])
	m := map[string]string{}
	if merge {
		for k, v := range s.metadata {
			m[k] = v
		}
	}
	for k, v := range sent {
		m[k] = v
	}
	if err := c.changeMetadata(r, s, m); err != nil {
		return answer{}, err
	}
	return ok(doc{"metadata": s.metadata})
}

func (c *Cloud) metadataUpdate(r *request) (answer, error)  { return c.metadataBody(r, true) }
func (c *Cloud) metadataReplace(r *request) (answer, error) { return c.metadataBody(r, false) }

func (c *Cloud) metadatumShow(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	v, found := s.metadata[r.arg("key")]
	if !found {
		return answer{}, refuse(404, "Metadata item was not found")
	}
	return ok(doc{"meta": doc{r.arg("key"): v}})
}

func (c *Cloud) metadatumSet(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	in, err := r.bodyAs(wrapped("meta", novaMetadata))
	if err != nil {
		return answer{}, err
	}
	sent, _ := stringMap(in["meta"])
	if len(sent) != 1 {
		why := "has too many properties"
		if len(sent) == 0 {
			why = "does not have enough properties"
		}
		return answer{}, refuse(400, "Invalid input for field/attribute meta. Value: %[1]s. %[1]s %[2]s", pythonRepr(in["meta"]), why)
	}
	if _, named := sent[r.arg("key")]; !named {
		return answer{}, refuse(400, "Request body and URI mismatch")
	}
	m := map[string]string{r.arg("key"): sent[r.arg("key")]}
	for k, v := range s.metadata {
		if k != r.arg("key") {
			m[k] = v
		}
	}
	if err := c.changeMetadata(r, s, m); err != nil {
		return answer{}, err
	}
	return ok(doc{"meta": sent})
}

func (c *Cloud) metadatumDelete(r *request) (answer, error) {
	s, err := c.findServer(r, r.arg("id"))
	if err != nil {
		return answer{}, err
	}
	if _, found := s.metadata[r.arg("key")]; !found {
		return answer{}, refuse(404, "Metadata item was not found")
	}
	if err := metadataState(r, s, "delete metadata"); err != nil {
		return answer{}, err
	}
	delete(s.metadata, r.arg("key"))
	s.updated = c.now()
	return noContent()
}

func (c *Cloud) taggedServer(r *request) (*server, error) {
	if r.version < 26 {
		return nil, tooOld()
	}
	return c.findServer(r, r.arg("id"))
}

func (c *Cloud) serverTags(r *request) (answer, error) {
	s, err := c.taggedServer(r)
	if err != nil {
		return answer{}, err
	}
	return ok(doc{"tags": anyOf(s.tags)})
}

func (c *Cloud) serverTagsReplace(r *request) (answer, error) {
	s, err := c.taggedServer(r)
	if err != nil {
		return answer{}, err
	}
	in, err := r.bodyAs(wrapped("tags", novaTags))
	if err != nil {
		return answer{}, err
	}
	tags, _ := texts(in["tags"])
	slices.Sort(tags)
	s.tags = slices.Compact(tags)
	return ok(doc{"tags": anyOf(s.tags)})
}

func (c *Cloud) serverTagsClear(r *request) (answer, error) {
	s, err := c.taggedServer(r)
	if err != nil {
		return answer{}, err
	}
	s.tags = nil
	return noContent()
}

// tagWithin refuses a tag in a path that can't be one.
func tagWithin(r *request) error {
	tag := r.arg("tag")
	why := novaTag.textFault(tag)
	if why == "" {
		return nil
	}
	return refuse(400, "Tag '%s' is invalid. It must be a non empty string without characters '/' and ','. Validation error message: %s", tag, why)
}

func (c *Cloud) serverTagShow(r *request) (answer, error) {
	s, err := c.taggedServer(r)
	if err != nil {
		return answer{}, err
	}
	if !slices.Contains(s.tags, r.arg("tag")) {
		return answer{}, refuse(404, "Server %s has no tag '%s'", s.id, r.arg("tag"))
	}
	return noContent()
}

func (c *Cloud) serverTagAdd(r *request) (answer, error) {
	s, err := c.taggedServer(r)
	if err != nil {
		return answer{}, err
	}
	if err := tagWithin(r); err != nil {
		return answer{}, err
	}
	if slices.Contains(s.tags, r.arg("tag")) {
		return noContent()
	}
	if len(s.tags) >= 50 {
		return answer{}, refuse(400, "The number of tags exceeded the per-server limit 50")
	}
	s.tags = append(slices.Clone(s.tags), r.arg("tag"))
	slices.Sort(s.tags)
	return answer{status: 201, header: http.Header{"Location": {r.base + r.http.URL.Path}}}, nil
}

func (c *Cloud) serverTagRemove(r *request) (answer, error) {
	s, err := c.taggedServer(r)
	if err != nil {
		return answer{}, err
	}
	at := slices.Index(s.tags, r.arg("tag"))
	if at < 0 {
		return answer{}, refuse(404, "Instance %s has no tag '%s'", s.id, r.arg("tag"))
	}
	s.tags = slices.Delete(slices.Clone(s.tags), at, at+1)
	return noContent()
}
