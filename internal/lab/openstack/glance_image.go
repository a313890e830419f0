package openstack

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// readOnlyImage are the attributes that Glance alone sets.
var readOnlyImage = []string{"created_at", "updated_at", "status", "checksum", "os_hash_algo", "os_hash_value", "size", "virtual_size",
	"direct_url", "self", "file", "schema", "id", "owner", "stores", "locations"}

// imageSchema is what an attribute must look like; all others are properties.
func imageSchema(key string) *schema {
	switch key {
	case "name":
		return &schema{types: []string{"null", "string"}, maxLen: 255}
	case "visibility":
		return &schema{enum: []any{"community", "public", "private", "shared"}}
	case "protected", "os_hidden":
		return &schema{types: []string{"boolean"}}
	case "min_disk", "min_ram":
		return &schema{types: []string{"integer"}}
	case "disk_format":
		return &schema{enum: []any{nil, "ami", "ari", "aki", "vhd", "vhdx", "vmdk", "raw", "qcow2", "vdi", "iso", "ploop"}}
	case "container_format":
		return &schema{enum: []any{nil, "ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed"}}
	case "tags":
		return &schema{types: []string{"array"}, any: []*schema{{each: &schema{types: []string{"string"}, maxLen: 255}}}}
	}
	return &schema{types: []string{"string"}}
}

func (m *image) setTags(tags []string) {
	slices.Sort(tags)
	m.tags = slices.Compact(tags)
}

// set changes one attribute or property; the error is Glance's.
func (m *image) set(r *request, key string, v any) error {
	if key == "locations" {
		return refuse(403, "Attribute 'locations' is reserved.")
	}
	if slices.Contains(readOnlyImage, key) {
		return refuse(403, "Attribute '%s' is read-only.", key)
	}
	if len(key) > 255 {
		return refuse(400, "Custom property should not be greater than 255 characters.")
	}
	if why := imageSchema(key).fault(v); why != "" {
		return refuse(400, "Provided object does not match schema 'image': %s", why)
	}
	switch key {
	case "name":
		m.title = v
	case "visibility":
		if v == "public" && !r.token.admin {
			return refuse(403, "You are not authorized to complete publicize_image action.")
		}
		m.visibility = text(v)
	case "protected":
		m.protected = v == true
	case "os_hidden":
		m.hidden = v == true
	case "min_disk", "min_ram":
		n, _ := integer(v)
		if n < 0 {
			return refuse(400, "Invalid value '%d' for parameter '%s': Cannot be a negative value", n, key)
		}
		if key == "min_disk" {
			m.minDisk = n
		} else {
			m.minRAM = n
		}
	case "disk_format", "container_format":
		if m.status != "queued" {
			return refuse(403, "Attribute %s can be only replaced for a queued image.", key)
		}
		if key == "disk_format" {
			m.diskFormat = v
		} else {
			m.containerFormat = v
		}
	case "tags":
		tags, _ := texts(v)
		m.setTags(tags)
	default:
		m.props[key] = text(v)
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
	a.header = http.Header{"Location": {r.base + "/image/v2/images/" + m.id}, "Openstack-Image-Import-Methods": {strings.Join(c.cfg.ImportMethods, ",")}}
	return a, nil
}

func (c *Cloud) imagePatch(r *request) (answer, error) {
	kind := r.http.Header.Get("Content-Type")
	if !strings.HasPrefix(kind, "application/openstack-images-v2") || !strings.HasSuffix(kind, "-json-patch") {
		return answer{}, refuse(415, "The request media type %s is not supported by this server.", kind)
	}
	m, err := c.findImage(r, "modify_image", true)
	if err != nil {
		return answer{}, err
	}
	var changes []struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value *any   `json:"value"`
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
		if !strings.HasPrefix(ch.Path, "/") {
			return answer{}, refuse(400, "Pointer `%s` does not start with \"/\".", ch.Path)
		}
		if strings.Count(ch.Path, "/") > 1 {
			return answer{}, refuse(400, "Invalid JSON pointer for this resource: '%s'", ch.Path)
		}
		if (ch.Op == "add" || ch.Op == "replace") && ch.Value == nil && !strings.Contains(string(r.body), `"value"`) {
			return answer{}, refuse(400, "Operation \"%s\" requires a member named \"value\".", ch.Op)
		}
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(ch.Path[1:])
		if err := next.change(r, ch.Op, key, ch.Value); err != nil {
			return answer{}, err
		}
	}
	next.updated = c.now()
	*m = next
	return ok(imageDoc(m))
}

// change does one operation of a patch.
func (m *image) change(r *request, op, key string, value *any) error {
	_, isProperty := m.props[key]
	isBase := has(imageDoc(&image{}), key)
	conflict := func() error {
		return refuse(409, "There was a conflict when trying to complete your request.<br /><br />\n Property %s does not exist.", key)
	}
	denied := func(why string) error {
		return refuse(403, "Access was denied to this resource.<br /><br />\n %s", why)
	}
	switch {
	case !slices.Contains([]string{"add", "remove", "replace"}, op):
		return refuse(400, "Invalid operation: `%s`. It must be one of the following: add, remove, replace.", op)
	case key == "owner" && !r.token.admin:
		return denied("Owner can't be updated by non admin.")
	case op != "remove" && (op == "add" || isBase || isProperty):
		var v any
		if value != nil {
			v = *value
		}
		return m.set(r, key, v)
	case op == "remove" && slices.Contains(readOnlyImage, key):
		return refuse(403, "Attribute '%s' is read-only.", key)
	case op == "remove" && isBase:
		return denied("Property " + key + " may not be removed.")
	case !isProperty:
		return conflict()
	}
	delete(m.props, key)
	return nil
}

var imageSortKeys = []string{"name", "status", "container_format", "disk_format", "size", "id", "created_at", "updated_at"}

// checkList refuses what a list can't be asked for.
func checkList(q url.Values, keys, dirs []string) error {
	for _, k := range keys {
		if !slices.Contains(imageSortKeys, k) {
			return refuse(400, "Invalid sort key: %s. It must be one of the following: %s.", k, strings.Join(imageSortKeys, ", "))
		}
	}
	for _, d := range dirs {
		if d != "" && d != "asc" && d != "desc" {
			return refuse(400, "Invalid sort direction: %s", d)
		}
	}
	if v := q.Get("visibility"); v != "" && !slices.Contains([]string{"public", "private", "shared", "community", "all"}, v) {
		return refuse(400, "Invalid visibility value: %s", v)
	}
	for _, k := range []string{"size_min", "size_max"} {
		if _, err := strconv.Atoi(q.Get(k)); q.Has(k) && err != nil {
			return refuse(400, "Unable to filter on a range with a non-numeric value.")
		}
	}
	return nil
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
	if err := checkList(q, keys, dirs); err != nil {
		return answer{}, err
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
		if err != nil {
			return answer{}, refuse(400, "limit param must be an integer")
		}
		if n < 0 {
			return answer{}, refuse(400, "limit param must be positive")
		}
		limit = min(n, 1000)
	}
	first := 0
	if marker := q.Get("marker"); marker != "" {
		first = slices.IndexFunc(found, func(m *image) bool { return m.id == marker }) + 1
		if first == 0 {
			return answer{}, refuse(400, "No image found with ID %s", marker)
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
	if x := m.member(r.token.project.id); x != nil && m.visibility == "shared" {
		status := q.Get("member_status")
		mine = mine || status == "all" || x.status == cmp.Or(status, "accepted")
	}
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
