package openstack

import (
	"net/http"
	"time"
)

// images is Glance's data.
type images struct{ all map[string]*image }

// image is one image. What users may set freely, name included, is in props.
type image struct {
	id, owner, status           string
	visibility                  string // public, private, shared, community
	protected, hidden           bool
	minDisk, minRAM             int
	diskFormat, containerFormat any // nil or a string
	tags                        []string
	props                       map[string]string
	title                       any // the name: nil or a string
	data, staged                []byte
	md5, sha512                 string
	members                     []*imageMember
	created, updated            time.Time
}

func newImages() images { return images{all: map[string]*image{}} }

func (m *image) name() string { return text(m.title) }

// ownedBy tells whether a caller may change the image.
func (m *image) ownedBy(t *token) bool { return t.admin || m.owner == t.projectID() }

// visibleTo tells whether a caller may read the image by its id.
func (m *image) visibleTo(t *token) bool {
	return m.ownedBy(t) || m.visibility == "public" || m.visibility == "community" || m.visibility == "shared" && m.member(t.projectID()) != nil
}

func (c *Cloud) seedImages() {
	if len(c.cfg.Users) == 0 {
		return
	}
	owner := c.identity.projectNamed(c.cfg.Users[0].Projects[0], defaultDomain).id
	for _, i := range c.cfg.Images {
		m := &image{id: i.ID, owner: owner, status: "queued", visibility: "public", protected: i.Protected, minDisk: i.MinDisk, minRAM: i.MinRAM,
			diskFormat: "qcow2", containerFormat: "bare", tags: append([]string(nil), i.Tags...), props: map[string]string{}, title: i.Name, created: c.now(), updated: c.now()}
		if m.id == "" {
			m.id = c.ids.uuid()
		}
		if i.DiskFormat != "" {
			m.diskFormat = i.DiskFormat
		}
		for k, v := range i.Properties {
			m.props[k] = v
		}
		h := newHashes()
		h.Write(i.Data)
		m.activate(append([]byte(nil), i.Data...), h, c.now())
		c.image.all[m.id] = m
	}
}

func imageRoutes() []route {
	return []route{
		{method: "GET", pattern: "/", handle: (*Cloud).imageVersions, open: true},
		{method: "GET", pattern: "/versions", handle: (*Cloud).imageVersions, open: true},
		{method: "GET", pattern: "/v2/images", handle: (*Cloud).imageList},
		{method: "POST", pattern: "/v2/images", handle: (*Cloud).imageCreate},
		{method: "GET", pattern: "/v2/images/{id}", handle: (*Cloud).imageShow},
		{method: "PATCH", pattern: "/v2/images/{id}", handle: (*Cloud).imagePatch},
		{method: "DELETE", pattern: "/v2/images/{id}", handle: (*Cloud).imageDelete},
		{method: "PUT", pattern: "/v2/images/{id}/file", handle: (*Cloud).imageUpload, streams: true},
		{method: "GET", pattern: "/v2/images/{id}/file", handle: (*Cloud).imageDownload},
		{method: "PUT", pattern: "/v2/images/{id}/tags/{tag}", handle: (*Cloud).imageTagAdd},
		{method: "DELETE", pattern: "/v2/images/{id}/tags/{tag}", handle: (*Cloud).imageTagRemove},
		{method: "POST", pattern: "/v2/images/{id}/actions/{action}", handle: (*Cloud).imageAction},
		{method: "PUT", pattern: "/v2/images/{id}/stage", handle: (*Cloud).imageStage, streams: true},
		{method: "POST", pattern: "/v2/images/{id}/import", handle: (*Cloud).imageImport},
		{method: "GET", pattern: "/v2/images/{id}/members", handle: (*Cloud).imageMemberList},
		{method: "POST", pattern: "/v2/images/{id}/members", handle: (*Cloud).imageMemberAdd},
		{method: "GET", pattern: "/v2/images/{id}/members/{member}", handle: (*Cloud).imageMemberShow},
		{method: "PUT", pattern: "/v2/images/{id}/members/{member}", handle: (*Cloud).imageMemberUpdate},
		{method: "DELETE", pattern: "/v2/images/{id}/members/{member}", handle: (*Cloud).imageMemberRemove},
		{method: "GET", pattern: "/v2/info/import", handle: (*Cloud).importInfo},
	}
}

func (c *Cloud) imageVersions(r *request) (answer, error) {
	out := []any{}
	for i, id := range []string{"v2.15", "v2.9", "v2.7", "v2.6", "v2.5", "v2.4", "v2.3", "v2.2", "v2.1", "v2.0"} {
		status := "SUPPORTED"
		if i == 0 {
			status = "CURRENT"
		}
		out = append(out, doc{"id": id, "status": status, "links": []any{doc{"rel": "self", "href": r.base + "/image/v2/"}}})
	}
	status := http.StatusMultipleChoices
	if r.path == "/versions" {
		status = http.StatusOK
	}
	return answer{status: status, body: doc{"versions": out}}, nil
}

// imageDoc is the image as Glance shows it: base attributes and properties side by side.
func imageDoc(m *image) doc {
	d := doc{}
	for k, v := range m.props {
		d[k] = v
	}
	base := doc{"id": m.id, "name": m.title, "status": m.status, "visibility": m.visibility, "owner": m.owner, "protected": m.protected,
		"os_hidden": m.hidden, "min_disk": m.minDisk, "min_ram": m.minRAM, "disk_format": m.diskFormat, "container_format": m.containerFormat,
		"tags": anyOf(m.tags), "created_at": stamp(m.created), "updated_at": stamp(m.updated), "size": nil, "virtual_size": nil,
		"checksum": nil, "os_hash_algo": nil, "os_hash_value": nil,
		"self": "/v2/images/" + m.id, "file": "/v2/images/" + m.id + "/file", "schema": "/v2/schemas/image"}
	if m.md5 != "" {
		base["size"], base["checksum"], base["os_hash_algo"], base["os_hash_value"] = len(m.data), m.md5, "sha512", m.sha512
	}
	for k, v := range base {
		d[k] = v
	}
	return d
}

// findImage gives an image that the caller may read; write asks for the right to change it.
func (c *Cloud) findImage(r *request, action string, write bool) (*image, error) {
	m := c.image.all[r.arg("id")]
	if m == nil || !m.visibleTo(r.token) {
		return nil, refuse(404, "No image found with ID %s", r.arg("id"))
	}
	if write && !m.ownedBy(r.token) {
		return nil, refuse(403, "You are not authorized to complete %s action.", action)
	}
	return m, nil
}

func (c *Cloud) imageShow(r *request) (answer, error) {
	m, err := c.findImage(r, "get_image", false)
	if err != nil {
		return answer{}, err
	}
	return ok(imageDoc(m))
}

func (c *Cloud) imageDelete(r *request) (answer, error) {
	m, err := c.findImage(r, "delete_image", true)
	if e, isRefusal := err.(*refusal); isRefusal && e.status == 404 {
		return answer{}, refuse(404, "Failed to find image %s to delete", r.arg("id"))
	}
	if err != nil {
		return answer{}, err
	}
	if m.protected {
		return answer{}, refuse(403, "Image %s is protected and cannot be deleted.", m.id)
	}
	delete(c.image.all, m.id)
	return noContent()
}

func (c *Cloud) imageTagAdd(r *request) (answer, error) {
	m, err := c.findImage(r, "modify_image", true)
	if err != nil {
		return answer{}, err
	}
	if len(r.arg("tag")) > 255 {
		return answer{}, refuse(400, "Tag exceeds 255 characters")
	}
	m.setTags(append([]string{r.arg("tag")}, m.tags...))
	m.updated = c.now()
	return noContent()
}

func (c *Cloud) imageTagRemove(r *request) (answer, error) {
	m, err := c.findImage(r, "modify_image", true)
	if err != nil {
		return answer{}, err
	}
	for i, tag := range m.tags {
		if tag == r.arg("tag") {
			m.tags = append(append([]string(nil), m.tags[:i]...), m.tags[i+1:]...)
			m.updated = c.now()
			return noContent()
		}
	}
	return answer{}, refuse(404, "The resource could not be found.")
}

func (c *Cloud) imageAction(r *request) (answer, error) {
	if err := r.needAdmin(r.arg("action")); err != nil {
		return answer{}, err
	}
	m, err := c.findImage(r, r.arg("action"), true)
	if err != nil {
		return answer{}, err
	}
	switch a := r.arg("action"); {
	case a == "deactivate" && (m.status == "active" || m.status == "deactivated"):
		m.status = "deactivated"
	case a == "reactivate" && (m.status == "active" || m.status == "deactivated"):
		m.status = "active"
	case a == "deactivate" || a == "reactivate":
		return answer{}, refuse(403, "Not allowed to %s image in status '%s'", a, m.status)
	default:
		return answer{}, refuse(404, "The resource could not be found.")
	}
	return noContent()
}
