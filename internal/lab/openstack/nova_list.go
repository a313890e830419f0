package openstack

import (
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"
)

func (c *Cloud) serverList(r *request) (answer, error)   { return c.listServers(r, false) }
func (c *Cloud) serverDetail(r *request) (answer, error) { return c.listServers(r, true) }

func (c *Cloud) listServers(r *request, detail bool) (answer, error) {
	match, err := c.serverFilter(r)
	if err != nil {
		return answer{}, err
	}
	var found []*server
	for _, s := range c.compute.servers {
		if c.shown(s.id) && match(s) {
			found = append(found, s)
		}
	}
	if err := checkSort(r.query["sort_key"], r.query["sort_dir"], serverSortKeys); err != nil {
		return answer{}, err
	}
	sortServers(found, r.query["sort_key"], r.query["sort_dir"])
	ids := make([]string, len(found))
	for i, s := range found {
		ids[i] = s.id
	}
	from, to, next, err := r.page("servers", ids, true)
	if err != nil {
		return answer{}, err
	}
	out := []any{}
	for _, s := range found[from:to] {
		if detail {
			out = append(out, c.serverDoc(r, s))
		} else {
			out = append(out, doc{"id": s.id, "name": s.name, "links": r.links("servers", s.id)})
		}
	}
	d := doc{"servers": out}
	if next != nil {
		d["servers_links"] = next
	}
	return ok(d)
}

// serverSortKeys are what a list of servers may be sorted by.
var serverSortKeys = []any{"access_ip_v4", "access_ip_v6", "auto_disk_config", "availability_zone", "config_drive", "created_at", "display_description",
	"display_name", "host", "hostname", "image_ref", "instance_type_id", "kernel_id", "key_name", "launch_index", "launched_at", "locked_by", "node", "power_state",
	"progress", "project_id", "ramdisk_id", "root_device_name", "task_state", "terminated_at", "updated_at", "user_id", "uuid", "vm_state"}

func checkSort(keys, dirs []string, known []any) error {
	for _, k := range keys {
		if !slices.Contains(known, any(k)) {
			return invalidQuery("sort_key", k, pythonRepr(k)+" is not one of "+pythonRepr(known))
		}
	}
	for _, d := range dirs {
		if d != "asc" && d != "desc" {
			return refuse(400, "Invalid input received: Unknown sort direction, must be 'desc' or 'asc'")
		}
	}
	return nil
}

// sortServers orders by the keys given, then the newest first.
func sortServers(l []*server, keys, dirs []string) {
	field := func(s *server, key string) string {
		switch key {
		case "display_name", "name":
			return s.name
		case "created_at":
			return s.created.Format(time.RFC3339Nano)
		case "updated_at":
			return s.updated.Format(time.RFC3339Nano)
		case "uuid", "id":
			return s.id
		case "vm_state", "status":
			return s.vmState
		}
		return ""
	}
	sort.Slice(l, func(i, j int) bool {
		for k, key := range keys {
			a, b := field(l[i], key), field(l[j], key)
			if a != b {
				return a < b != (k >= len(dirs) || dirs[k] == "desc")
			}
		}
		if !l[i].created.Equal(l[j].created) {
			return l[i].created.After(l[j].created)
		}
		return l[i].id > l[j].id
	})
}

// serverFilter reads the query. Unknown filters are ignored, as Nova does.
func (c *Cloud) serverFilter(r *request) (func(*server) bool, error) {
	var tests []func(*server) bool
	add := func(t func(*server) bool) { tests = append(tests, t) }
	q := r.query
	all := r.token.admin && q.Has("all_tenants") && (q.Get("all_tenants") == "" || r.flag("all_tenants"))
	if q.Has("all_tenants") && !r.token.admin && r.flag("all_tenants") {
		return nil, forbidden(r, "os_compute_api:servers:index:get_all_tenants")
	}
	switch {
	case all && q.Get("project_id")+q.Get("tenant_id") != "":
		add(func(s *server) bool { return s.project == q.Get("project_id")+q.Get("tenant_id") })
	case !all:
		add(func(s *server) bool { return s.project == r.token.project.id })
	}
	for _, f := range []struct {
		key   string
		field func(*server) []string
	}{
		{"name", func(s *server) []string { return []string{s.name} }},
		{"ip", func(s *server) []string { return c.serverAddresses(s, 4) }},
		{"ip6", func(s *server) []string { return c.serverAddresses(s, 6) }},
	} {
		if pattern := q.Get(f.key); pattern != "" {
			re, err := regexp.Compile(pattern)
			if err != nil {
				return nil, invalidQuery(f.key, pattern, "'"+pattern+"' is not a 'regex'")
			}
			add(func(s *server) bool { return slices.ContainsFunc(f.field(s), re.MatchString) })
		}
	}
	if wanted := q["status"]; len(wanted) > 0 {
		add(func(s *server) bool {
			return slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, s.status()) })
		})
	}
	exact := map[string]func(*server) string{
		"uuid":              func(s *server) string { return s.id },
		"flavor":            func(s *server) string { return s.flavor.id },
		"image":             func(s *server) string { return s.image },
		"vm_state":          func(s *server) string { return s.vmState },
		"reservation_id":    func(s *server) string { return s.reservation },
		"user_id":           func(s *server) string { return s.user },
		"access_ip_v4":      func(s *server) string { return s.accessV4 },
		"availability_zone": func(s *server) string { return s.shownZone() },
		"key_name":          func(s *server) string { return s.keyName },
		"host": func(s *server) string {
			if s.host == nil {
				return ""
			}
			return s.host.name
		},
	}
	for key, field := range exact {
		if want := refID(q.Get(key)); want != "" && (r.token.admin || (key != "host" && (r.version >= 83 || key != "availability_zone" && key != "key_name" && key != "user_id"))) {
			add(func(s *server) bool { return field(s) == want })
		}
	}
	for key, newer := range map[string]bool{"changes-since": true, "changes-before": false} {
		if v := q.Get(key); v != "" {
			at, err := time.Parse(time.RFC3339, v)
			if err != nil {
				return nil, invalidQuery(key, v, "'"+v+"' is not a 'date-time'")
			}
			add(func(s *server) bool {
				return !s.updated.Truncate(time.Second).Before(at) == newer || s.updated.Equal(at)
			})
		}
	}
	if r.version >= 26 {
		add(func(s *server) bool { return serverTagsMatch(s, q) })
	}
	return func(s *server) bool {
		for _, t := range tests {
			if !t(s) {
				return false
			}
		}
		return true
	}, nil
}

func serverTagsMatch(s *server, q map[string][]string) bool {
	count := func(key string) (found, asked int) {
		for _, v := range q[key] {
			for _, tag := range strings.Split(v, ",") {
				asked++
				if slices.Contains(s.tags, tag) {
					found++
				}
			}
		}
		return
	}
	found, asked := count("tags")
	anyFound, anyAsked := count("tags-any")
	notFound, notAsked := count("not-tags")
	notAnyFound, _ := count("not-tags-any")
	return found == asked && (anyAsked == 0 || anyFound > 0) && (notAsked == 0 || notFound < notAsked) && notAnyFound == 0
}

func (c *Cloud) serverAddresses(s *server, version int) []string {
	var out []string
	for _, a := range c.addresses(s) {
		if ipVersion(a.Fixed) == version {
			out = append(out, a.Fixed)
		}
		if a.Floating != "" && version == 4 {
			out = append(out, a.Floating)
		}
	}
	return out
}
