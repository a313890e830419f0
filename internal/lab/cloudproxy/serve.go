package cloudproxy

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// call is one request on its way.
type call struct {
	http    *http.Request
	own     string // the proxy's root, as the client calls it
	to      backend
	path    string // below the service's root
	host    string // to be called by; empty for that of the service's root
	body    []byte // of the request, unless it streams
	streams bool
	fault   *openstack.Fault
	log     openstack.Request
}

// reply is what the client gets.
type reply struct {
	status int
	header http.Header
	body   []byte
	stream io.ReadCloser // instead of body
}

// largest is up to which size a request's body is looked at. Images are sent
// through as they come.
const largest = 4 << 20

// ServeHTTP passes one request on, or doesn't, as the faults say.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{http: r, own: "http://" + r.Host}
	rest := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	name, path, _ := strings.Cut(rest, "/")
	for _, s := range p.services {
		if s.name == name {
			c.to, c.path = s, "/"+path
		}
	}
	// What is signed as Amazon's requests are is signed with its path and host.
	signed := strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	for _, s := range p.services {
		if signed && s.name == "object-store" {
			c.to, c.path, c.host = s, r.URL.EscapedPath(), r.Host
		}
	}
	if c.to.name == "" {
		http.NotFound(w, r)
		return
	}
	if err := c.read(); err != nil {
		http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	start := time.Now()
	c.log = p.describe(c, start)
	c.fault = p.Take(c.to.name, r.Method, r.URL.RequestURI())
	answer, drop := p.answer(c)
	c.log.Status, c.log.Milliseconds = answer.status, float64(time.Since(start).Microseconds())/1000
	c.log.ID = requestID(answer.header)
	if c.fault != nil {
		c.log.Fault = c.fault.ID
	}
	if drop {
		c.log.Status = 0
	}
	// Whoever has the answer finds the entry.
	p.Log(c.log)
	if drop {
		if answer.stream != nil {
			_ = answer.stream.Close()
		}
		dropConnection(w)
		return
	}
	answer.write(w, r.Method)
}

// read reads the request's body, unless it is for the service alone.
func (c *call) read() error {
	kind, _, _ := mime.ParseMediaType(c.http.Header.Get("Content-Type"))
	c.streams = kind == "application/octet-stream" || c.http.ContentLength > largest || c.http.ContentLength < 0 && !strings.HasSuffix(kind, "json")
	if c.streams {
		return nil
	}
	var err error
	c.body, err = io.ReadAll(c.http.Body)
	return err
}

// answer does what the fault says, and sends the request on unless the fault
// keeps it back. The client sees a reset instead of the answer if drop.
func (p *Proxy) answer(c *call) (_ *reply, drop bool) {
	f := c.fault
	if f == nil {
		return p.forward(c)
	}
	if f.DelayMS > 0 {
		select {
		case <-time.After(time.Duration(f.DelayMS) * time.Millisecond):
		case <-c.http.Context().Done():
			return &reply{}, true
		case <-p.life.Done():
			return &reply{}, true
		}
	}
	if f.Expire {
		p.expire(c.http.Header.Get("X-Auth-Token"))
	}
	answer := &reply{}
	if f.Reset != "before" && (f.Status == 0 && !f.Quota || f.Effect) {
		if f.Outcome == "error" {
			c.spoil()
		}
		if answer, drop = p.forward(c); drop {
			return answer, true
		}
	}
	if f.Status != 0 || f.Quota {
		if answer.stream != nil {
			_ = answer.stream.Close()
		}
		answer = &reply{}
		answer.status, answer.header, answer.body = f.Answer(c.to.name, c.path)
	}
	return answer, f.Reset != ""
}

// forward sends the request to the cloud and makes its answer the proxy's. The
// client sees a reset if the cloud resets the connection.
func (p *Proxy) forward(c *call) (_ *reply, drop bool) {
	if p.isLost(c.http.Header.Get("X-Auth-Token")) {
		return unauthorized(c), false
	}
	p.tell(Before, c.log)
	answer, err := p.send(c)
	if err != nil {
		// As it would be without a proxy: a service that isn't there refuses the connection.
		return &reply{}, true
	}
	done := c.log
	done.Status, done.ID = answer.status, requestID(answer.header)
	p.tell(After, done)
	p.learn(c, answer)
	return answer, false
}

// send sends the request to the cloud and reads the answer, if it is JSON.
func (p *Proxy) send(c *call) (*reply, error) {
	address, err := url.Parse(c.to.root + c.path)
	if err != nil {
		return nil, err
	}
	address.RawQuery = c.http.URL.RawQuery
	body := io.Reader(bytes.NewReader(c.body))
	if c.streams {
		body = c.http.Body
		if c.fault != nil {
			body = inject.Cut(c.http.Body, c.fault.Bytes)
		}
	}
	// A request that the client has given up is finished all the same, as the cloud itself would do.
	req, err := http.NewRequestWithContext(p.life, c.http.Method, address.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header, req.Host = c.http.Header.Clone(), c.host
	for _, h := range []string{"Connection", "Accept-Encoding", "Keep-Alive", "Te", "Upgrade"} {
		req.Header.Del(h)
	}
	switch {
	case c.streams:
		req.ContentLength = c.http.ContentLength
	case len(c.body) == 0:
		req.Body = nil
	}
	got, err := p.client.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	answer := &reply{status: got.StatusCode, header: got.Header}
	for _, h := range []string{"Connection", "Keep-Alive", "Transfer-Encoding"} {
		answer.header.Del(h)
	}
	for _, h := range []string{"Location", "Link", "Content-Location", "Www-Authenticate"} {
		for i, v := range answer.header[h] {
			answer.header[h][i] = string(p.rewrite([]byte(v), c.own))
		}
	}
	kind, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type"))
	// What Swift sends is the tenant's, and has no addresses of the cloud.
	text := (kind == "application/json" || strings.HasPrefix(kind, "text/")) && c.to.name != "object-store"
	if !text || got.ContentLength == 0 || c.http.Method == http.MethodHead {
		answer.stream = got.Body
		return answer, nil
	}
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	if err != nil {
		return nil, err
	}
	answer.body = p.rewrite(data, c.own)
	return answer, nil
}

// rewrite replaces the cloud's addresses by the proxy's.
func (p *Proxy) rewrite(data []byte, own string) []byte {
	for _, s := range p.services {
		data = bytes.ReplaceAll(data, []byte(s.root), []byte(own+"/"+s.name))
	}
	return data
}

func (a *reply) write(w http.ResponseWriter, method string) {
	for k, v := range a.header {
		w.Header()[k] = v
	}
	if a.stream != nil {
		defer a.stream.Close()
		w.WriteHeader(a.status)
		_, _ = io.Copy(w, a.stream) // either side may have gone; it sees that by itself
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	w.WriteHeader(a.status)
	if method != http.MethodHead {
		_, _ = w.Write(a.body)
	}
}

func requestID(h http.Header) string {
	if id := h.Get("X-Openstack-Request-Id"); id != "" {
		return id
	}
	return h.Get("X-Compute-Request-Id")
}

// unauthorized is what the token middleware in front of each service answers.
func unauthorized(c *call) *reply {
	body, _ := json.Marshal(map[string]any{"error": map[string]any{"code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication."}})
	return &reply{status: http.StatusUnauthorized, body: body, header: http.Header{"Content-Type": {"application/json"},
		"Www-Authenticate": {`Keystone uri="` + c.own + `/identity/v3"`}}}
}

// dropConnection ends the connection without an answer: the client sees a reset.
func dropConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http closes the stream
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
