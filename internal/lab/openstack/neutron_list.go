package openstack

import (
	"net/url"
	"sort"
	"strconv"
	"strings"
)

// listControls are query parameters that aren't filters.
var listControls = map[string]bool{"fields": true, "limit": true, "marker": true, "page_reverse": true, "sort_key": true, "sort_dir": true}

func (c *Cloud) neutronList(r *request) (answer, error) {
	n, err := c.nounOf(r)
	if err != nil {
		return answer{}, err
	}
	c.ensureDefaultGroup(r)
	type row struct {
		t *thing
		d doc
	}
	var rows []row
	for _, t := range c.network.things[n.name] {
		if !c.sees(r, t) || !c.shown(t.id) || !c.tagsMatch(t, r.query) {
			continue
		}
		if d := c.thingDoc(r, t); c.filtersMatch(n, t, d, r.query) {
			rows = append(rows, row{t, d})
		}
	}
	keys, dirs := r.query["sort_key"], r.query["sort_dir"]
	if len(keys) != len(dirs) {
		return answer{}, plainBad("The number of sort_keys and sort_dirs must be same")
	}
	for _, dir := range dirs {
		if dir != "asc" && dir != "desc" {
			return answer{}, plainBad("['" + dir + "'] is invalid value for sort_dirs, valid value is 'asc' and 'desc'")
		}
	}
	for key, wanted := range r.query {
		a := n.attribute(key)
		for _, w := range wanted {
			if _, valid := parseBool(w); a != nil && isBool(a.fallback) && !a.unfound && !valid {
				return answer{}, invalidInput("'" + w + "' cannot be converted to boolean")
			}
		}
	}
	for _, k := range keys {
		if n.attribute(k) == nil && k != "id" && k != "project_id" && k != "tenant_id" && k != "created_at" && k != "updated_at" {
			return answer{}, refuseAs(400, "HTTPBadRequest", "['"+k+"'] is invalid attribute for sort_keys")
		}
	}
	sort.Slice(rows, func(i, j int) bool {
		for k, key := range keys {
			a, b := text(rows[i].d[key]), text(rows[j].d[key])
			if a != b {
				return a < b != (k < len(dirs) && dirs[k] == "desc")
			}
		}
		return rows[i].t.id < rows[j].t.id
	})
	limit, err := pageLimit(r)
	if err != nil {
		return answer{}, err
	}
	reverse := r.flag("page_reverse")
	first, last := 0, len(rows)
	if marker := r.query.Get("marker"); marker != "" && limit > 0 {
		at := -1
		for i := range rows {
			if rows[i].t.id == marker {
				at = i
			}
		}
		if at < 0 {
			return answer{}, n.notFound(marker)
		}
		if reverse {
			last = at
		} else {
			first = at + 1
		}
	}
	rows = rows[first:last]
	if limit > 0 && len(rows) > limit {
		if reverse {
			rows = rows[len(rows)-limit:]
		} else {
			rows = rows[:limit]
		}
	}
	out := doc{}
	items := make([]any, len(rows))
	for i, x := range rows {
		items[i] = only(x.d, r.query["fields"])
	}
	out[n.plural] = items
	if limit > 0 {
		var links []any
		link := func(rel string, at int, back bool) {
			q := url.Values{}
			for k, v := range r.query {
				if k != "marker" && k != "page_reverse" {
					q[k] = v
				}
			}
			if len(rows) > 0 {
				q.Set("marker", rows[at].t.id)
			}
			if back {
				q.Set("page_reverse", "True")
			}
			links = append(links, doc{"rel": rel, "href": r.base + r.http.URL.Path + "?" + q.Encode()})
		}
		if len(rows) >= limit || reverse {
			link("next", max(len(rows)-1, 0), false)
		}
		if len(rows) >= limit || !reverse {
			link("previous", 0, true)
		}
		if links != nil {
			out[n.plural+"_links"] = links
		}
	}
	return ok(out)
}

func isBool(v any) bool {
	_, is := v.(bool)
	return is
}

func pageLimit(r *request) (int, error) {
	s := r.query.Get("limit")
	if s == "" {
		return 0, nil
	}
	limit, err := strconv.Atoi(s)
	if err != nil || limit < 0 {
		return 0, refuseAs(400, "BadRequest", "Bad limit request: Limit must be an integer 0 or greater and not '"+s+"'.")
	}
	return limit, nil
}

// alwaysFound are the filters beyond a noun's attributes.
var alwaysFound = map[string]bool{"id": true, "project_id": true, "tenant_id": true, "revision_number": true, "status": true, "changed_since": true}

func (c *Cloud) filtersMatch(n *noun, t *thing, d doc, q url.Values) bool {
	for key, wanted := range q {
		if listControls[key] || strings.HasPrefix(key, "tags") || strings.HasPrefix(key, "not-tags") {
			continue
		}
		if key == "changed_since" {
			if str(d, "updated_at") < strings.TrimSuffix(wanted[0], "Z") {
				return false
			}
			continue
		}
		if a := n.attribute(key); a == nil && !alwaysFound[key] || a != nil && a.unfound {
			if n.match == nil {
				continue // what isn't known is no filter
			}
			if _, known := n.match(c, t, key, nil); !known {
				continue
			}
		}
		if n.match != nil {
			if matched, known := n.match(c, t, key, wanted); known {
				if !matched {
					return false
				}
				continue
			}
		}
		have, held := t.doc[key] // an attribute that only administrators see is a filter for all
		if !held {
			have = d[key]
		}
		matched := false
		for _, w := range wanted {
			if b, isBool := have.(bool); isBool {
				want, valid := parseBool(w)
				matched = matched || valid && want == b
			} else {
				matched = matched || strings.EqualFold(text(have), w) // as MariaDB compares
			}
		}
		if !matched {
			return false
		}
	}
	return true
}

func (c *Cloud) tagsMatch(t *thing, q url.Values) bool {
	has := map[string]bool{}
	for _, tag := range t.tags {
		has[tag] = true
	}
	count := func(key string) (found, asked int) {
		for _, v := range q[key] {
			for _, tag := range strings.Split(v, ",") {
				asked++
				if has[tag] {
					found++
				}
			}
		}
		return
	}
	if found, asked := count("tags"); found < asked {
		return false
	}
	if found, asked := count("tags-any"); asked > 0 && found == 0 {
		return false
	}
	if found, asked := count("not-tags"); asked > 0 && found == asked {
		return false
	}
	if found, _ := count("not-tags-any"); found > 0 {
		return false
	}
	return true
}
