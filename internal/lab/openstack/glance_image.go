package openstack

import (
	"encoding/json"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// readOnlyImage are the attributes that Glance alone sets.
var readOnlyImage = []string{"created_at", "updated_at", "status", "checksum", "os_hash_algo", "os_hash_value", "size", "virtual_size",
	"direct_url", "self", "file", "schema", "id", "owner", "stores", "locations"}

var diskFormats = []string{"ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop"}

var containerFormats = []string{"ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"}

func (m *image) setTags(tags []string) {
	slices.Sort(tags)
	m.tags = slices.Compact(tags)
}

// set changes one attribute or property; the error is Glance's.
func (m *image) set(r *request, key string, v any) error {
	wrong := func() error {
		return refuse(400, "Provided object does not match schema 'image': '%s' is no valid %s.", text(v), key)
	}
	if slices.Contains(readOnlyImage, key) {
		return refuse(403, "Attribute '%s' is read-only.", key)
	}
	valid := true
	switch key {
	case "name":
		_, isText := v.(string)
		valid = isText || v == nil
		if valid {
			m.title = v
		}
	case "visibility":
		s, _ := v.(string)
		if valid = slices.Contains([]string{"public", "private", "shared", "community"}, s); valid {
			if s == "public" && !r.token.admin {
				return refuse(403, "You are not authorized to complete publicize_image action.")
			}
			m.visibility = s
		}
	case "protected":
		m.protected, valid = v.(bool)
	case "os_hidden":
		m.hidden, valid = v.(bool)
	case "min_disk", "min_ram":
		var n int
		n, valid = integer(v)
		if valid = valid && n >= 0; valid && key == "min_disk" {
			m.minDisk = n
		} else if valid {
			m.minRAM = n
		}
	case "disk_format", "container_format":
		if m.status != "queued" {
			return refuse(403, "Attribute %s can be only replaced for a queued image.", key)
		}
		known := diskFormats
		if key == "container_format" {
			known = containerFormats
		}
		s, _ := v.(string)
		if valid = v == nil || slices.Contains(known, s); valid && key == "disk_format" {
			m.diskFormat = v
		} else if valid {
			m.containerFormat = v
		}
	case "tags":
		var tags []string
		if tags, valid = texts(v); valid {
			m.setTags(tags)
		}
	default:
		var s string
		if s, valid = v.(string); valid {
			m.props[key] = s
		}
	}
	if !valid {
		return wrong()
	}
	return nil
}

func (c *Cloud) imageCreate(r *request) (answer, error) {
	in, err := r.json()
	if err != nil {
		return answer{}, err
	}
	m := &image{owner: r.token.project.id, status: "queued", visibility: "shared", props: map[string]string{}, created: c.now(), updated: c.now()}
	if id, given := in["id"].(string); given {
		if !uuidForm.MatchString(id) {
			return answer{}, refuse(400, "Provided object does not match schema 'image': '%s' is not a UUID.", id)
		}
		if c.image.all[id] != nil {
			return answer{}, refuse(409, "Image ID %s already exists!", id)
		}
		m.id = id
	} else {
		m.id = c.ids.uuid()
	}
	if owner, given := in["owner"].(string); given && owner != m.owner {
		if !r.token.admin {
			return answer{}, refuse(403, "You are not permitted to create images owned by '%s'.", owner)
		}
		m.owner = owner
	}
	for _, k := range sortedKeys(in) {
		if k == "id" || k == "owner" {
			continue
		}
		if err := m.set(r, k, in[k]); err != nil {
			return answer{}, err
		}
	}
	c.image.all[m.id] = m
	c.conceal(r, "image", m.id)
	a, _ := created(imageDoc(m))
	a.header = map[string][]string{"Location": {r.base + "/image/v2/images/" + m.id}}
	return a, nil
}

func (c *Cloud) imagePatch(r *request) (answer, error) {
	kind := r.http.Header.Get("Content-Type")
	if !strings.HasPrefix(kind, "application/openstack-images-v2") || !strings.HasSuffix(kind, "-json-patch") {
		return answer{}, refuse(415, "Unsupported Content-Type. Accepted: application/openstack-images-v2.0-json-patch, application/openstack-images-v2.1-json-patch")
	}
	m, err := c.findImage(r, "modify_image", true)
	if err != nil {
		return answer{}, err
	}
	var changes []struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	if err := json.Unmarshal(r.body, &changes); err != nil {
		return answer{}, refuse(400, "Request body must be a JSON array of operation objects.")
	}
	// All or nothing: the changes go to a copy first.
	next := *m
	next.props = map[string]string{}
	for k, v := range m.props {
		next.props[k] = v
	}
	for _, ch := range changes {
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.TrimPrefix(ch.Path, "/"))
		_, isProperty := next.props[key]
		isBase := has(imageDoc(&image{}), key)
		switch ch.Op {
		case "add":
		case "replace":
			if !isBase && !isProperty {
				return answer{}, refuse(409, "Property %s does not exist.", key)
			}
		case "remove":
			switch {
			case slices.Contains(readOnlyImage, key):
				return answer{}, refuse(403, "Attribute '%s' is read-only.", key)
			case isBase:
				return answer{}, refuse(403, "Property %s may not be removed.", key)
			case !isProperty:
				return answer{}, refuse(409, "Property %s does not exist.", key)
			}
			delete(next.props, key)
			continue
		default:
			return answer{}, refuse(400, "Operations must be \"add\", \"replace\", or \"remove\".")
		}
		if err := next.set(r, key, ch.Value); err != nil {
			return answer{}, err
		}
	}
	next.updated = c.now()
	*m = next
	return ok(imageDoc(m))
}

var imageControls = map[string]bool{"limit": true, "marker": true, "sort": true, "sort_key": true, "sort_dir": true, "member_status": true, "tag": true,
	"size_min": true, "size_max": true, "visibility": true, "os_hidden": true}

func (c *Cloud) imageList(r *request) (answer, error) {
	q := r.query
	var found []*image
	docs := map[string]doc{}
	for _, m := range c.image.all {
		if c.shown(m.id) && listsImage(r, m, q) {
			if d := imageDoc(m); imageMatches(d, m, q) {
				found = append(found, m)
				docs[m.id] = d
			}
		}
	}
	keys, dirs := q["sort_key"], q["sort_dir"]
	for _, part := range strings.Split(q.Get("sort"), ",") {
		if part != "" {
			k, d, _ := strings.Cut(part, ":")
			keys, dirs = append(keys, k), append(dirs, d)
		}
	}
	sort.Slice(found, func(i, j int) bool {
		for k, key := range append(keys, "created_at") {
			a, b := text(docs[found[i].id][key]), text(docs[found[j].id][key])
			if a != b {
				return a < b != (k >= len(dirs) || dirs[k] == "" || dirs[k] == "desc")
			}
		}
		return found[i].id > found[j].id
	})
	limit := 25
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return answer{}, refuse(400, "limit param must be an integer")
		}
		limit = min(n, 1000)
	}
	first := 0
	if marker := q.Get("marker"); marker != "" {
		first = slices.IndexFunc(found, func(m *image) bool { return m.id == marker }) + 1
		if first == 0 {
			return answer{}, refuse(400, "Invalid marker. Image could not be found.")
		}
	}
	found = found[first:]
	out := doc{"schema": "/v2/schemas/images"}
	own := url.Values{}
	for k, v := range q {
		if k != "marker" {
			own[k] = v
		}
	}
	out["first"] = strings.TrimSuffix("/v2/images?"+own.Encode(), "?")
	if len(found) > limit {
		found = found[:limit]
	}
	if len(found) > 0 && len(found) == limit {
		own.Set("marker", found[len(found)-1].id)
		out["next"] = "/v2/images?" + own.Encode()
	}
	items := []any{}
	for _, m := range found {
		items = append(items, docs[m.id])
	}
	out["images"] = items
	return ok(out)
}

// listsImage applies the rules of visibility, which are narrower than those of a read by id.
func listsImage(r *request, m *image, q url.Values) bool {
	want := q.Get("visibility")
	mine := m.owner == r.token.project.id
	hidden, _ := parseBool(q.Get("os_hidden"))
	switch {
	case hidden != m.hidden:
		return false
	case want == "all":
		return mine || r.token.admin || m.visibility != "private" && m.visibility != "shared"
	case want != "":
		return m.visibility == want && (mine || r.token.admin || want == "public" || want == "community")
	}
	return mine || r.token.admin && m.visibility != "community" || m.visibility == "public"
}

func imageMatches(d doc, m *image, q url.Values) bool {
	for _, tag := range q["tag"] {
		if !slices.Contains(m.tags, tag) {
			return false
		}
	}
	if n, err := strconv.Atoi(q.Get("size_min")); err == nil && len(m.data) < n {
		return false
	}
	if n, err := strconv.Atoi(q.Get("size_max")); err == nil && len(m.data) > n {
		return false
	}
	for k, wanted := range q {
		if imageControls[k] {
			continue
		}
		want := []string{wanted[0]}
		if l, isList := strings.CutPrefix(wanted[0], "in:"); isList {
			want = strings.Split(l, ",")
			for i := range want {
				want[i] = strings.Trim(want[i], `"`)
			}
		}
		if !slices.Contains(want, text(d[k])) {
			return false
		}
	}
	return true
}
