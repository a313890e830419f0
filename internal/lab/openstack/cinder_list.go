package openstack

import (
	"encoding/json"
	"slices"
	"sort"
	"strconv"
	"strings"
)

func (c *Cloud) volumeList(r *request) (answer, error)   { return c.listVolumes(r, false) }
func (c *Cloud) volumeDetail(r *request) (answer, error) { return c.listVolumes(r, true) }

func (c *Cloud) listVolumes(r *request, detail bool) (answer, error) {
	if err := r.knowsFilters(volumeFilters); err != nil {
		return answer{}, err
	}
	var found []doc
	for _, v := range c.block.volumes {
		if r.listsProject(v.project) && c.shown(v.id) {
			if d := c.volumeDoc(r, v); r.volumeMatches(d, volumeFilters) {
				found = append(found, d)
			}
		}
	}
	return r.volumeAnswer("volumes", "Volume", found, func(d doc) doc {
		if detail {
			return d
		}
		return doc{"id": d["id"], "name": d["name"], "links": d["links"]}
	})
}

// volumeAnswer sorts, cuts and wraps what a list has found.
func (r *request) volumeAnswer(key, noun string, found []doc, show func(doc) doc) (answer, error) {
	if err := r.sortVolumes(found); err != nil {
		return answer{}, err
	}
	ids := make([]string, len(found))
	for i, d := range found {
		ids[i] = str(d, "id")
	}
	from, to, next, err := r.volumePage(ids, noun)
	if err != nil {
		return answer{}, err
	}
	items := []any{}
	for _, d := range found[from:to] {
		items = append(items, show(d))
	}
	out := doc{key: items}
	if next != nil {
		out[key+"_links"] = next
	}
	if r.version >= 45 && r.flag("with_count") {
		out["count"] = len(found)
	}
	return ok(out)
}

// listsProject tells whether a list shows what a project has: the caller's own, unless an admin asks for all.
func (r *request) listsProject(project string) bool {
	if !r.token.admin || !r.flag("all_tenants") {
		return project == r.token.project.id
	}
	want := r.query.Get("project_id")
	return want == "" || want == project
}

// What may be filtered by; all else is ignored, and refused from 3.31 on.
var (
	volumeFilters   = []string{"name", "status", "metadata", "bootable", "migration_status", "availability_zone", "group_id", "size", "created_at", "updated_at", "consumes_quota", "id"}
	snapshotFilters = []string{"name", "status", "volume_id", "metadata", "availability_zone", "consumes_quota", "id"}
)

var volumeControls = []string{"limit", "offset", "marker", "sort", "sort_key", "sort_dir", "all_tenants", "project_id", "with_count"}

func (r *request) knowsFilters(filters []string) error {
	for _, k := range sortedKeys(r.query) {
		if r.version >= 31 && !slices.Contains(filters, k) && !slices.Contains(volumeControls, k) {
			return refuse(400, "Invalid filters %s are found in query options.", k)
		}
	}
	return nil
}

// volumeMatches applies the query's filters.
func (r *request) volumeMatches(d doc, filters []string) bool {
	for k, values := range r.query {
		if !slices.Contains(filters, k) {
			continue
		}
		for _, want := range values {
			if k == "metadata" && !metadataMatches(d[k], want) || k != "metadata" && text(d[k]) != want || d[k] == nil {
				return false
			}
		}
	}
	return true
}

// metadataMatches compares with a dictionary as Python or JSON writes it.
func metadataMatches(have any, want string) bool {
	m, _ := have.(map[string]string)
	var pairs map[string]string
	if json.Unmarshal([]byte(strings.ReplaceAll(want, "'", `"`)), &pairs) != nil {
		return false
	}
	for k, v := range pairs {
		if got, there := m[k]; !there || got != v {
			return false
		}
	}
	return true
}

var volumeSortKeys = []string{"id", "name", "display_name", "status", "size", "created_at", "updated_at", "availability_zone", "bootable", "volume_type_id", "description"}

// sortVolumes orders a list as the query asks for; else the newest first.
func (r *request) sortVolumes(found []doc) error {
	keys, dirs := r.query["sort_key"], r.query["sort_dir"]
	for _, part := range strings.Split(r.query.Get("sort"), ",") {
		if part != "" {
			k, d, _ := strings.Cut(part, ":")
			keys, dirs = append(keys, k), append(dirs, d)
		}
	}
	if len(keys) == 0 {
		keys = []string{"created_at"}
	}
	for i, k := range keys {
		if !slices.Contains(volumeSortKeys, k) {
			return refuse(400, "Invalid input received: Invalid sort key")
		}
		if i < len(dirs) && !slices.Contains([]string{"", "asc", "desc"}, dirs[i]) {
			return refuse(400, "Invalid input received: Unknown sort direction, must be 'desc' or 'asc'.")
		}
	}
	last := "desc"
	if n := len(dirs); n > 0 && dirs[n-1] != "" {
		last = dirs[n-1]
	}
	sort.Slice(found, func(i, j int) bool {
		for k, key := range append(keys, "id") {
			a, b := sortable(found[i][key]), sortable(found[j][key])
			dir := last
			if k < len(keys) && k < len(dirs) && dirs[k] != "" {
				dir = dirs[k]
			}
			if a != b {
				return a < b == (dir == "asc")
			}
		}
		return false
	})
	return nil
}

// sortable is a value as a text that sorts like it.
func sortable(v any) string {
	if n, isNumber := v.(int); isNumber {
		s := strconv.Itoa(n)
		return strings.Repeat("0", max(0, 12-len(s))) + s
	}
	return text(v)
}

func (c *Cloud) volumeSummary(r *request) (answer, error) {
	if r.version < 12 {
		return answer{}, tooOld()
	}
	count, size := 0, 0
	for _, v := range c.block.volumes {
		if r.listsProject(v.project) {
			count++
			size += v.size
		}
	}
	return ok(doc{"volume-summary": doc{"total_count": count, "total_size": size}})
}
