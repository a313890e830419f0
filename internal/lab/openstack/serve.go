package openstack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
)

// request is one API call on its way through a service.
type request struct {
	http    *http.Request
	service string // one of services
	path    string // below the service's prefix, no slash at the end
	query   url.Values
	args    map[string]string // from the route's {names}
	id      string
	body    []byte
	token   *token // the caller's, nil on open routes
	version int    // Nova's or Cinder's microversion, the part after the point
	scope   string // the project that a path of Cinder names
	base    string // scheme and host for links
	fault   *Fault // what was injected
	action  string // which server action, for the log
	s3      bool   // it is signed as Amazon's are
}

// answer is what a handler returns; body is a JSON-able value, or []byte as it is.
type answer struct {
	status int
	header http.Header
	body   any
}

// route connects a method and a path pattern with a handler, which runs under the Cloud's lock unless it
// streams. Open routes need no token.
type route struct {
	method, pattern string
	handle          func(*Cloud, *request) (answer, error)
	open, streams   bool
}

// refusal is an error that a service answers a client.
type refusal struct {
	status  int
	kind    string // Neutron's exception name, "" elsewhere
	message string
	header  http.Header
}

func (r *refusal) Error() string { return r.message }

func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, message: fmt.Sprintf(format, args...)}
}

func ok(body any) (answer, error)       { return answer{status: 200, body: body}, nil }
func created(body any) (answer, error)  { return answer{status: 201, body: body}, nil }
func accepted(body any) (answer, error) { return answer{status: 202, body: body}, nil }
func noContent() (answer, error)        { return answer{status: 204}, nil }

const maxBody = 16 << 20

var services = []string{"identity", "compute", "network", "image", "volume", "load-balancer", "object-store", "lab"}

func (c *Cloud) serve(w http.ResponseWriter, hr *http.Request) {
	start := c.now()
	r := &request{http: hr, id: newRequestID(), query: hr.URL.Query(), base: c.cfg.BaseURL}
	if r.base == "" {
		scheme := "http"
		if hr.TLS != nil {
			scheme = "https"
		}
		r.base = scheme + "://" + hr.Host
	}
	for _, s := range services {
		if rest, found := strings.CutPrefix(hr.URL.Path, "/"+s); found && (rest == "" || rest[0] == '/') {
			r.service, r.path = s, strings.TrimRight(rest, "/")
		}
	}
	if isS3(hr) {
		r.service, r.path, r.s3 = "object-store", hr.URL.Path, true
	}
	if r.service == "volume" {
		r.scopeVolumePath()
	}
	if r.service == "" {
		http.NotFound(w, hr)
		return
	}
	f := c.spoiled(r)
	r.fault = f
	var a answer
	drop := false
	switch {
	case f == nil:
		a = c.answer(r)
	default:
		if f.DelayMS > 0 && !c.pause(hr, time.Duration(f.DelayMS)*time.Millisecond) {
			c.record(r, start, 0, true)
			return
		}
		c.prepare(r, f)
		hr.Body = inject.Cut(hr.Body, f.Bytes)
		takesEffect := f.Reset != "before" && (f.Status == 0 && !f.Quota || f.Effect)
		if takesEffect {
			a = c.answer(r)
		}
		drop = f.Reset != "" || f.Bytes > 0
		if f.Status != 0 || f.Quota {
			a = f.answer(r)
		}
	}
	a.header = c.headers(r, a)
	payload := encode(a)
	c.record(r, start, a.status, drop)
	if drop {
		dropConnection(w)
		return
	}
	for k, v := range a.header {
		w.Header()[k] = v
	}
	if payload != nil {
		w.Header().Set("Content-Length", strconv.Itoa(len(payload)))
	}
	w.WriteHeader(a.status)
	if hr.Method != http.MethodHead {
		w.Write(payload) // a client that has gone is no concern of ours
	}
}

// answer authenticates, routes and runs the request, then waits for the hooks that it has caused.
func (c *Cloud) answer(r *request) answer {
	a, err := c.dispatch(r)
	if err != nil {
		ref, known := err.(*refusal)
		if !known {
			ref = &refusal{status: http.StatusInternalServerError, message: err.Error()}
		}
		a = renderRefusal(r, ref)
	}
	select {
	case <-c.notices.last():
	case <-time.After(2 * time.Second): // a hook that hangs must not hang the API
	case <-r.http.Context().Done():
	}
	return a
}

func (c *Cloud) dispatch(r *request) (answer, error) {
	rt, err := route{handle: (*Cloud).s3}, error(nil)
	if !r.s3 {
		rt, err = c.find(r)
	}
	if err != nil {
		return answer{}, err
	}
	if rt.streams {
		return rt.handle(c, r)
	}
	r.body, err = io.ReadAll(io.LimitReader(r.http.Body, maxBody))
	if err != nil {
		return answer{}, refuse(400, "The request body could not be read.")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.advance()
	if err := c.admit(r, rt); err != nil {
		return answer{}, err
	}
	return rt.handle(c, r)
}

// admit checks the caller's token and, for Nova, the microversion. The lock is held.
func (c *Cloud) admit(r *request, rt route) error {
	if r.service == "lab" || r.s3 {
		return nil
	}
	if !rt.open {
		if r.token = c.identity.valid(r.http.Header.Get("X-Auth-Token"), c.now()); r.token == nil {
			return c.unauthorized(r)
		}
		if !c.withinRules(r) {
			return c.unauthorized(r)
		}
		if r.service != "identity" && r.token.project == nil {
			return refuse(403, "Policy doesn't allow this request without a project scope.")
		}
	}
	switch r.service {
	case "compute":
		return r.speak("compute", "X-OpenStack-Nova-API-Version", 2, 1, maxMicroversion)
	case "volume":
		return c.admitVolume(r, rt)
	}
	return nil
}

// find looks the route up: an unknown path is a 404, a known one with another method a 405.
func (c *Cloud) find(r *request) (route, error) {
	segments := strings.Split(strings.Trim(r.path, "/"), "/")
	method := r.http.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	pathKnown := false
	for _, rt := range c.routes[r.service] {
		args, fits := matchPath(rt.pattern, segments)
		if !fits {
			continue
		}
		pathKnown = true
		if rt.method == method || rt.method == r.http.Method {
			r.args = args
			return rt, nil
		}
	}
	if pathKnown {
		return route{}, &refusal{status: 405, message: r.methodRefused(), kind: "HTTPMethodNotAllowed"}
	}
	return route{}, &refusal{status: 404, message: "The resource could not be found.", kind: "HTTPNotFound"}
}

// methodRefused is what a service says to a method that a path doesn't take.
func (r *request) methodRefused() string {
	if r.service == "network" {
		return "The server could not comply with the request since it is either malformed or otherwise incorrect."
	}
	return "The method " + r.http.Method + " is not allowed for this resource."
}

func matchPath(pattern string, segments []string) (map[string]string, bool) {
	want := strings.Split(strings.Trim(pattern, "/"), "/")
	args := map[string]string{}
	if rest, found := strings.CutSuffix(want[len(want)-1], "...}"); found && len(segments) >= len(want) {
		args[rest[1:]] = strings.Join(segments[len(want)-1:], "/")
		want, segments = want[:len(want)-1], segments[:len(want)-1]
	}
	if len(want) != len(segments) {
		return nil, false
	}
	for i, w := range want {
		if strings.HasPrefix(w, "{") {
			if segments[i] == "" {
				return nil, false
			}
			args[w[1:len(w)-1]] = segments[i]
		} else if w != segments[i] {
			return nil, false
		}
	}
	return args, true
}

// headers adds what every answer of a service carries.
func (c *Cloud) headers(r *request, a answer) http.Header {
	h := a.header.Clone()
	if h == nil {
		h = http.Header{}
	}
	h.Set("X-Openstack-Request-Id", r.id)
	if r.s3 {
		h.Set("X-Amz-Request-Id", r.id)
		h.Set("X-Amz-Id-2", r.id)
	}
	if h.Get("Content-Type") == "" && a.body != nil {
		h.Set("Content-Type", "application/json")
	}
	if r.service == "volume" && r.token != nil {
		h.Set("X-Compute-Request-Id", r.id)
		h.Set("Openstack-Api-Version", "volume 3."+strconv.Itoa(r.version))
		h["Vary"] = []string{"OpenStack-API-Version"}
	}
	if r.service == "compute" {
		h.Set("X-Compute-Request-Id", r.id)
		if a.status != http.StatusNotAcceptable && strings.HasPrefix(r.path, "/v2.1") {
			version := "2." + strconv.Itoa(max(r.version, 1))
			h.Set("Openstack-Api-Version", "compute "+version)
			h.Set("X-Openstack-Nova-Api-Version", version)
			h["Vary"] = []string{"OpenStack-API-Version", "X-OpenStack-Nova-API-Version"}
		}
	}
	return h
}

func encode(a answer) []byte {
	switch b := a.body.(type) {
	case nil:
		return nil
	case []byte:
		return b
	default:
		var buf bytes.Buffer
		e := json.NewEncoder(&buf)
		e.SetEscapeHTML(false)
		if err := e.Encode(b); err != nil {
			return []byte(`{"error": "the simulator made a body that is no JSON"}`)
		}
		return bytes.TrimRight(buf.Bytes(), "\n")
	}
}

// pause waits on the Cloud's clock; false means that the client has gone.
func (c *Cloud) pause(hr *http.Request, d time.Duration) bool {
	over := make(chan struct{})
	t := c.clock.AfterFunc(d, func() { close(over) })
	select {
	case <-over:
		return true
	case <-hr.Context().Done():
		t.Stop()
		return false
	}
}

// dropConnection ends the connection without an answer: the client sees a reset.
func dropConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 or a recorder: net/http closes the stream
	}
	if tcp, isTCP := conn.(*net.TCPConn); isTCP {
		tcp.SetLinger(0)
	}
	conn.Close()
}
