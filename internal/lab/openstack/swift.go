package openstack

import (
	"crypto/md5"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// objectStore is Swift's data: containers by project and name.
type objectStore map[string]map[string]*container

type container struct {
	header  http.Header // what was said of it: X-Container-Meta-*, X-Container-Read and so on
	objects map[string]*storedObject
	// versions are the states of objects since the container keeps them, the oldest first.
	versions []version
	stamps   int
	created  time.Time
	changed  time.Time
}

type storedObject struct {
	header  http.Header // X-Object-Meta-*, Content-Type
	data    []byte
	etag    string
	changed time.Time
}

// The limits of Swift's constraints.
const (
	swiftList      = 10000
	swiftName      = 256
	swiftMetaValue = 256
	swiftPolicy    = "Policy-0"
)

func objectRoutes() []route {
	var routes []route
	at := func(pattern string, handle func(*Cloud, *request) (answer, error), methods ...string) {
		for _, m := range methods {
			routes = append(routes, route{method: m, pattern: pattern, handle: handle})
		}
	}
	routes = append(routes, route{method: "GET", pattern: "/info", handle: (*Cloud).swiftInfo, open: true})
	at("/v1/{account}", (*Cloud).accountShow, "GET")
	at("/v1/{account}/{container}", (*Cloud).containerShow, "GET")
	at("/v1/{account}/{container}", (*Cloud).containerWrite, "PUT", "POST")
	at("/v1/{account}/{container}", (*Cloud).containerDelete, "DELETE")
	at("/v1/{account}/{container}/{object...}", (*Cloud).objectShow, "GET")
	at("/v1/{account}/{container}/{object...}", (*Cloud).objectWrite, "PUT", "POST")
	at("/v1/{account}/{container}/{object...}", (*Cloud).objectDelete, "DELETE")
	return routes
}

// The texts that go with Swift's answers.
var swiftTexts = map[int]string{
	400: "The server could not comply with the request since it is either malformed or otherwise incorrect.",
	403: "Access was denied to this resource.", 404: "The resource could not be found.",
	405: "The method is not allowed for this resource.", 409: "There was a conflict when trying to complete your request.",
	411: "Content-Length header required.", 412: "A precondition for this request was not met.",
	422: "Unable to process the contained instructions",
}

func swiftRefusal(status int) error { return refuse(status, "%s", swiftTexts[status]) }

// swiftError is the page that Swift makes of a refusal; what it says of a bad request is a text.
func swiftError(e *refusal) ([]byte, string) {
	if e.message != swiftTexts[e.status] && e.status == http.StatusBadRequest {
		return []byte(e.message), "text/plain"
	}
	return []byte("<html><h1>" + http.StatusText(e.status) + "</h1><p>" + e.message + "</p></html>"), "text/html; charset=UTF-8"
}

func (c *Cloud) swiftInfo(*request) (answer, error) {
	return ok(doc{"swift": doc{"version": "2.30.0", "container_listing_limit": swiftList, "max_container_name_length": swiftName, "max_meta_value_length": swiftMetaValue,
		"max_meta_name_length": 128, "max_meta_count": 90, "max_file_size": 5368709122, "policies": []any{doc{"name": swiftPolicy, "aliases": swiftPolicy, "default": true}}},
		"object_versioning": doc{}, "container_quotas": doc{}})
}

// account gives the containers that the path is about.
func (c *Cloud) account(r *request) (map[string]*container, error) {
	project, known := strings.CutPrefix(r.arg("account"), "AUTH_")
	if !known || project != r.token.project.id && !r.token.admin {
		return nil, swiftRefusal(403)
	}
	if c.objects[project] == nil {
		c.objects[project] = map[string]*container{}
	}
	return c.objects[project], nil
}

func (c *Cloud) containerOf(r *request) (*container, error) {
	all, err := c.account(r)
	if err != nil {
		return nil, err
	}
	box := all[r.arg("container")]
	if box == nil {
		return nil, swiftRefusal(404)
	}
	return box, nil
}

func (b *container) bytes() int {
	n := 0
	for _, o := range b.objects {
		n += len(o.data)
	}
	return n
}

func swiftStamp(t time.Time) string {
	return strconv.FormatFloat(float64(t.UnixMicro())/1e6, 'f', 5, 64)
}

// swiftPage applies marker, end_marker, prefix and limit to sorted names.
func (r *request) swiftPage(names []string) ([]string, error) {
	limit := swiftList
	if s := r.query.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err == nil && n > swiftList {
			return nil, refuse(412, "Maximum limit is %d", swiftList)
		}
		if err == nil && n >= 0 {
			limit = n
		}
	}
	var out []string
	for _, n := range names {
		end := r.query.Get("end_marker")
		if n > r.query.Get("marker") && (end == "" || n < end) && strings.HasPrefix(n, r.query.Get("prefix")) && len(out) < limit {
			out = append(out, n)
		}
	}
	return out, nil
}

// listing answers with a list as the query asks for it: JSON, or a name a line.
func (r *request) listing(names []string, rows []any, h http.Header) (answer, error) {
	if r.http.Method == http.MethodHead {
		return answer{status: 204, header: h}, nil
	}
	if r.query.Get("format") == "json" || strings.Contains(r.http.Header.Get("Accept"), "application/json") {
		h.Set("Content-Type", "application/json; charset=utf-8")
		return answer{status: 200, header: h, body: rows}, nil
	}
	if len(names) == 0 {
		return answer{status: 204, header: h}, nil
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	return answer{status: 200, header: h, body: []byte(strings.Join(names, "\n") + "\n")}, nil
}

func (c *Cloud) accountShow(r *request) (answer, error) {
	all, err := c.account(r)
	if err != nil {
		return answer{}, err
	}
	h := http.Header{"X-Account-Container-Count": {strconv.Itoa(len(all))}}
	var shown []string
	for _, name := range sortedKeys(all) {
		if c.shown(r.arg("account") + "/" + name) {
			shown = append(shown, name)
		}
	}
	names, err := r.swiftPage(shown)
	if err != nil {
		return answer{}, err
	}
	rows := []any{}
	for _, name := range names {
		b := all[name]
		rows = append(rows, doc{"name": name, "count": len(b.objects), "bytes": b.bytes(), "last_modified": b.changed.Format("2006-01-02T15:04:05.000000")})
	}
	return r.listing(names, rows, h)
}

func (c *Cloud) containerShow(r *request) (answer, error) {
	box, err := c.containerOf(r)
	if err != nil {
		return answer{}, err
	}
	h := box.header.Clone()
	h.Set("X-Container-Object-Count", strconv.Itoa(len(box.objects)))
	h.Set("X-Container-Bytes-Used", strconv.Itoa(box.bytes()))
	h.Set("X-Timestamp", swiftStamp(box.created))
	h.Set("X-Storage-Policy", swiftPolicy)
	h.Set("Last-Modified", box.changed.UTC().Format(http.TimeFormat))
	var shown []string
	for _, name := range sortedKeys(box.objects) {
		if c.shown(r.arg("account") + "/" + r.arg("container") + "/" + name) {
			shown = append(shown, name)
		}
	}
	names, err := r.swiftPage(shown)
	if err != nil {
		return answer{}, err
	}
	rows := []any{}
	for _, name := range names {
		o := box.objects[name]
		rows = append(rows, doc{"name": name, "hash": o.etag, "bytes": len(o.data), "content_type": o.header.Get("Content-Type"), "last_modified": o.changed.Format("2006-01-02T15:04:05.000000")})
	}
	return r.listing(names, rows, h)
}

// metaHeaders applies the headers of a request to what is kept: those with the prefix, and the others named. An
// empty value, or X-Remove- before the name, removes one.
func (r *request) metaHeaders(kept http.Header, prefix string, others ...string) error {
	for name, values := range r.http.Header {
		value := strings.TrimSpace(values[0])
		if rest, removes := strings.CutPrefix(name, "X-Remove-"); removes {
			name, value = "X-"+rest, ""
		}
		meta := strings.HasPrefix(name, prefix)
		if !meta && !slices.Contains(others, name) {
			continue
		}
		switch {
		case meta && len(name)-len(prefix) > 128:
			return refuse(400, "Metadata name too long: %s", name)
		case meta && len(value) > swiftMetaValue:
			return refuse(400, "Metadata value longer than %d: %s", swiftMetaValue, name)
		case value == "":
			kept.Del(name)
		default:
			kept.Set(name, value)
		}
	}
	return nil
}

func (c *Cloud) containerWrite(r *request) (answer, error) {
	all, err := c.account(r)
	if err != nil {
		return answer{}, err
	}
	name := r.arg("container")
	box := all[name]
	switch policy := r.http.Header.Get("X-Storage-Policy"); {
	case box == nil && r.http.Method == http.MethodPost:
		return answer{}, swiftRefusal(404)
	case len(name) > swiftName:
		return answer{}, refuse(400, "Container name length of %d longer than %d", len(name), swiftName)
	case policy != "" && policy != swiftPolicy && r.http.Method == http.MethodPut:
		return answer{}, refuse(400, "Invalid X-Storage-Policy '%s'", policy)
	}
	for _, q := range []string{"X-Container-Meta-Quota-Bytes", "X-Container-Meta-Quota-Count"} {
		if v := r.http.Header.Get(q); v != "" && strings.Trim(v, "0123456789") != "" {
			what := "Invalid bytes quota."
			if strings.HasSuffix(q, "Count") {
				what = "Invalid count quota."
			}
			return answer{}, refuse(400, "%s", what)
		}
	}
	for _, h := range []string{"X-Container-Read", "X-Container-Write"} {
		clean, err := cleanACL(r.http.Header.Get(h), h == "X-Container-Write")
		if err != nil {
			return answer{}, err
		}
		if clean != "" {
			r.http.Header.Set(h, clean)
		}
	}
	status := http.StatusAccepted
	header := http.Header{}
	if box != nil {
		header = box.header.Clone()
	}
	if err := r.metaHeaders(header, "X-Container-Meta-", "X-Container-Read", "X-Container-Write", "X-Versions-Enabled", "X-Versions-Location", "X-History-Location"); err != nil {
		return answer{}, err
	}
	if v := header.Get("X-Versions-Enabled"); v != "" {
		on, _ := parseBool(v)
		header.Set("X-Versions-Enabled", map[bool]string{true: "True", false: "False"}[on])
	}
	if box == nil {
		status = http.StatusCreated
		box = &container{objects: map[string]*storedObject{}, created: c.now()}
		all[name] = box
		c.conceal(r, "container", r.arg("account")+"/"+name)
	}
	if r.http.Method == http.MethodPost {
		status = http.StatusNoContent
	}
	box.header, box.changed = header, c.now()
	return answer{status: status}, nil
}

func (c *Cloud) containerDelete(r *request) (answer, error) {
	box, err := c.containerOf(r)
	if err != nil {
		return answer{}, err
	}
	if len(box.objects) > 0 {
		return answer{}, swiftRefusal(409)
	}
	if len(box.versions) > 0 {
		return answer{}, refuse(409, "Delete all versions before deleting container.")
	}
	all, err := c.account(r)
	if err != nil {
		return answer{}, err
	}
	delete(all, r.arg("container"))
	return noContent()
}

func (c *Cloud) objectShow(r *request) (answer, error) {
	box, err := c.containerOf(r)
	if err != nil {
		return answer{}, err
	}
	o := box.objects[r.arg("object")]
	if o == nil {
		return answer{}, swiftRefusal(404)
	}
	h := o.header.Clone()
	h.Set("Etag", o.etag)
	h.Set("X-Timestamp", swiftStamp(o.changed))
	h.Set("Last-Modified", o.changed.UTC().Format(http.TimeFormat))
	return answer{status: 200, header: h, body: o.data}, nil
}

func (c *Cloud) objectWrite(r *request) (answer, error) {
	box, err := c.containerOf(r)
	if err != nil {
		return answer{}, err
	}
	name := r.arg("object")
	o := box.objects[name]
	if r.http.Method == http.MethodPost {
		if o == nil {
			return answer{}, swiftRefusal(404)
		}
		header := http.Header{"Content-Type": o.header["Content-Type"]} // all other metadata is replaced
		if err := r.metaHeaders(header, "X-Object-Meta-", "Content-Type"); err != nil {
			return answer{}, err
		}
		o.header, o.changed = header, c.now()
		return answer{status: 202}, nil
	}
	sum := md5.Sum(r.body)
	etag := hex.EncodeToString(sum[:])
	if want := strings.Trim(r.http.Header.Get("Etag"), `"`); want != "" && want != etag {
		return answer{}, swiftRefusal(422)
	}
	if r.http.Header.Get("If-None-Match") == "*" && o != nil {
		return answer{}, swiftRefusal(412)
	}
	bytes, count := box.bytes()+len(r.body), len(box.objects)
	if o != nil {
		bytes -= len(o.data)
	} else {
		count++
	}
	for header, n := range map[string]int{"X-Container-Meta-Quota-Bytes": bytes, "X-Container-Meta-Quota-Count": count} {
		if limit, err := strconv.Atoi(box.header.Get(header)); err == nil && n > limit {
			return answer{}, refuse(413, "Upload exceeds quota.")
		}
	}
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if err := r.metaHeaders(header, "X-Object-Meta-", "Content-Type"); err != nil {
		return answer{}, err
	}
	now := &storedObject{header: header, data: slices.Clone(r.body), etag: etag, changed: c.now()}
	c.keep(box, name, o, now)
	box.objects[name] = now
	c.conceal(r, "object", r.arg("account")+"/"+r.arg("container")+"/"+name)
	return answer{status: 201, header: http.Header{"Etag": {etag}, "Last-Modified": {c.now().Format(http.TimeFormat)}}}, nil
}

func (c *Cloud) objectDelete(r *request) (answer, error) {
	box, err := c.containerOf(r)
	if err != nil {
		return answer{}, err
	}
	o := box.objects[r.arg("object")]
	if o == nil {
		return answer{}, swiftRefusal(404)
	}
	c.keep(box, r.arg("object"), o, nil)
	delete(box.objects, r.arg("object"))
	return noContent()
}
