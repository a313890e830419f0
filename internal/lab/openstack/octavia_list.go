package openstack

import (
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// partControls are query parameters that aren't filters.
var partControls = []string{"fields", "limit", "marker", "page_reverse", "sort", "sort_key", "sort_dir", "tags", "tags-any", "not-tags", "not-tags-any"}

// partList lists the parts of a kind: those of the caller's project, or all for an administrator.
func partList(k *partKind) func(*Cloud, *request) (answer, error) {
	return func(c *Cloud, r *request) (answer, error) {
		project := r.query.Get("project_id")
		if project == "" && !r.token.admin {
			project = r.token.project.id
		}
		if !r.token.admin && project != r.token.project.id {
			return answer{}, lbForbidden
		}
		pool := ""
		if k == memberKind {
			p, err := c.poolInPath(r)
			if err != nil {
				return answer{}, err
			}
			pool, project = p.id, ""
		}
		limit, err := partLimit(r)
		if err != nil {
			return answer{}, err
		}
		if err := k.checkFilters(r.query); err != nil {
			return answer{}, err
		}
		var rows []*part
		c.eachPart(k, func(p *part) {
			if (project == "" || p.project == project) && (pool == "" || p.pool == pool) && c.shown(p.id) && c.partFits(p, r.query) {
				rows = append(rows, p)
			}
		})
		if err := c.sortParts(k, rows, r.query); err != nil {
			return answer{}, err
		}
		marker := r.query.Get("marker")
		if marker != "" {
			at := slices.IndexFunc(rows, func(p *part) bool { return p.id == marker })
			if at < 0 {
				return answer{}, refuse(400, "Supplied pagination marker '%s' is not valid.", marker)
			}
			rows = rows[at+1:]
		}
		links := []any{}
		if limit > 0 && len(rows) >= limit {
			rows = rows[:limit]
		}
		link := func(rel string, p *part, more string) {
			q := "limit=" + strconv.Itoa(limit)
			for _, key := range []string{"sort", "sort_key"} {
				if v := r.query.Get(key); v != "" {
					q += "&" + key + "=" + v
				}
			}
			links = append(links, doc{"rel": rel, "href": r.base + r.http.URL.Path + "?" + q + "&marker=" + p.id + more})
		}
		if len(rows) > 0 && limit > 0 {
			if marker != "" {
				link("previous", rows[0], "&page_reverse=True")
			}
			if len(rows) >= limit {
				link("next", rows[len(rows)-1], "")
			}
		}
		items := []any{}
		for _, p := range rows {
			items = append(items, only(c.partDoc(p, false), r.query["fields"]))
		}
		return ok(doc{k.plural: items, k.plural + "_links": links})
	}
}

// maxParts is how many parts a page has at most.
const maxParts = 1000

func partLimit(r *request) (int, error) {
	s := r.query.Get("limit")
	if s == "" {
		return maxParts, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, &refusal{status: 400, kind: "HTTPBadRequest",
			message: "The server could not comply with the request since it is either malformed or otherwise incorrect.\n\n Supplied pagination limit '" + s + "' is not valid."}
	}
	if n < 1 {
		return 0, nil
	}
	return min(n, maxParts), nil
}

func (k *partKind) checkFilters(q url.Values) error {
	for name := range q {
		switch {
		case slices.Contains(partControls, name), slices.Contains(k.filters, name), k.attribute(name) != nil:
		case name == "id", name == "project_id", name == "provisioning_status", name == "operating_status", name == "created_at", name == "updated_at":
		default:
			return refuse(400, "One or more arguments are either duplicate or invalid")
		}
	}
	return nil
}

func (c *Cloud) partFits(p *part, q url.Values) bool {
	d := c.partDoc(p, false)
	d["loadbalancer_id"], d["load_balancer_id"], d["pool_id"] = p.balancer, p.balancer, p.pool
	for name, want := range q {
		if slices.Contains(partControls, name) || name == "project_id" {
			continue
		}
		if b, isBool := d[name].(bool); isBool {
			if v, _ := parseBool(want[0]); v != b {
				return false
			}
		} else if text(d[name]) != want[0] {
			return false
		}
	}
	return tagsFit(p.tags, q)
}

// tagsFit is what the filters by tags say, each with tags between commas.
func tagsFit(tags []string, q url.Values) bool {
	count := func(key string) (found, asked int) {
		for _, v := range q[key] {
			for _, tag := range strings.Split(v, ",") {
				asked++
				if slices.Contains(tags, tag) {
					found++
				}
			}
		}
		return
	}
	all, asked := count("tags")
	some, askedSome := count("tags-any")
	none, askedNone := count("not-tags")
	any, _ := count("not-tags-any")
	return all == asked && (askedSome == 0 || some > 0) && (askedNone == 0 || none < askedNone) && any == 0
}

// sortParts sorts by the keys of the query; rows of one rank stay as they are.
func (c *Cloud) sortParts(k *partKind, rows []*part, q url.Values) error {
	var keys []string
	down := map[string]bool{}
	add := func(key, dir string) error {
		if dir != "" && dir != "asc" && dir != "desc" {
			return refuse(400, "Supplied sort direction '%s' is not valid.", dir)
		}
		if k.attribute(key) == nil && !slices.Contains([]string{"id", "created_at", "updated_at", "provisioning_status", "operating_status"}, key) {
			return refuse(400, "Supplied sort key '%s' is not valid.", key)
		}
		keys = append(keys, key)
		down[key] = dir == "desc"
		return nil
	}
	if s := q.Get("sort"); s != "" {
		for _, part := range strings.Split(s, ",") {
			key, dir, _ := strings.Cut(part, ":")
			if err := add(key, dir); err != nil {
				return err
			}
		}
	} else if s := q.Get("sort_key"); s != "" {
		dirs := strings.Split(q.Get("sort_dir"), ",")
		for i, key := range strings.Split(s, ",") {
			dir := ""
			if i < len(dirs) {
				dir = strings.ToLower(dirs[i])
			}
			if err := add(key, dir); err != nil {
				return err
			}
		}
	}
	docs := map[string]doc{}
	for _, p := range rows {
		docs[p.id] = c.partDoc(p, false)
	}
	sort.SliceStable(rows, func(i, j int) bool {
		for _, key := range keys {
			a, b := docs[rows[i].id][key], docs[rows[j].id][key]
			x, isNumber := a.(int)
			if y, too := b.(int); isNumber && too && x != y {
				return x < y != down[key]
			}
			if s, t := text(a), text(b); s != t {
				return s < t != down[key]
			}
		}
		return false
	})
	return nil
}
