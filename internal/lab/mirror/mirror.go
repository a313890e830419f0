// Package mirror serves, over HTTP, the lab's stand-ins for the files that recipes fetch: the
// install manifests of the components that they deploy, and cloud images.
//
// The path of a file is its upstream host and path: what a recipe knows as
// https://github.com/a/b/releases/download/v1/c.yaml is /github.com/a/b/releases/download/v1/c.yaml
// here. The bytes follow from the URL alone, so that a lock file made once stays right. The
// stand-ins are made here; they have the names, kinds and versions of the real files, not their
// text.
package mirror

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
)

// A Request is one request that the mirror answered.
type Request struct {
	Method string
	Path   string
	Range  string
	Status int
	Bytes  int64
}

// An Action is what a fault does to a download.
type Action string

// The actions.
const (
	Corrupt Action = "corrupt" // one byte differs
	Missing Action = "missing" // 404
	Refuse  Action = "refuse"  // 503
	Slow    Action = "slow"    // the answer waits for the fault's delay
	Reset   Action = "reset"   // the connection is reset after half of the bytes
)

// A Fault makes downloads fail. Each gets the first that matches and isn't used up.
type Fault struct {
	ID     string `json:"id" doc:"name to clear it by; made up if empty"`
	Path   string `json:"path,omitempty" doc:"pattern of the upstream's /host/path or of its last element; any if empty"`
	Skip   int    `json:"skip,omitempty" doc:"matching downloads to let pass first"`
	Count  int    `json:"count,omitempty" doc:"how often; 0 is once, -1 always"`
	Chance int    `json:"chance,omitempty" doc:"at how many of 100 matching downloads; 0 is all"`

	Action     Action `json:"action,omitempty" doc:"corrupt (one byte differs), missing (404), refuse (503), slow (with delay_ms) or reset (after half of the bytes)"`
	Status     int    `json:"status,omitempty" doc:"answer with this"`
	RetryAfter string `json:"retry_after,omitempty" doc:"header of an answer by status or refuse: seconds, an HTTP date, or +2s for the date in 2 s"`
	DelayMS    int    `json:"delay_ms,omitempty" doc:"wait before the answer"`

	Hits int `json:"hits"` // how often it acted
}

// A Server is the mirror: an http.Handler that may be used by many goroutines.
type Server struct {
	mu       sync.Mutex
	requests []Request
	faults   *inject.Set[Fault]
}

// New returns a mirror without faults.
func New() *Server { return &Server{faults: newFaults()} }

// Requests returns the requests that were answered so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ServeHTTP answers GET and HEAD, with ranges.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	counted := &counter{ResponseWriter: w, status: http.StatusOK}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, Request{Method: r.Method, Path: r.URL.Path, Range: r.Header.Get("Range"), Status: counted.status, Bytes: counted.bytes})
	}()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(counted, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	f := s.take(r.URL.Path)
	content, err := Content("https:/" + r.URL.Path)
	if f.DelayMS > 0 {
		timer := time.NewTimer(time.Duration(f.DelayMS) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	if f.RetryAfter != "" {
		counted.Header().Set("Retry-After", inject.RetryAfter(f.RetryAfter))
	}
	switch {
	case f.Action == Missing || err != nil:
		http.Error(counted, "404: not found", http.StatusNotFound)
		return
	case f.Action == Refuse:
		http.Error(counted, "503: the mirror is out of order", http.StatusServiceUnavailable)
		return
	case f.Status != 0:
		http.Error(counted, "the mirror was told to answer so", f.Status)
		return
	case f.Action == Corrupt:
		content = append([]byte(nil), content...)
		content[len(content)/2] ^= 1
	case f.Action == Reset:
		counted.Header().Set("Content-Length", itoa(len(content)))
		_, _ = counted.Write(content[:len(content)/2])
		// It makes the server drop the connection instead of ending the answer.
		panic(http.ErrAbortHandler)
	}
	sum := sha256.Sum256(content)
	counted.Header().Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	counted.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(counted, r, "", time.Time{}, bytes.NewReader(content))
}

// counter notes the status and the length of an answer.
type counter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (c *counter) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.bytes += int64(n)
	return n, err
}

// Content returns the stand-in for an upstream URL. An unknown one is fault.NotFound.
func Content(upstream string) ([]byte, error) {
	u, err := url.Parse(upstream)
	if err != nil || u.Host == "" {
		return nil, fault.New(fault.Invalid, "%q is no URL of an upstream file", upstream)
	}
	name := u.Host + path.Clean(u.Path)
	for _, route := range routes() {
		if version, ok := route.match(name); ok {
			return route.make(version, name)
		}
	}
	return nil, fault.Hinted(fault.NotFound, "it has stand-ins for: "+strings.Join(Known(), ", "),
		"the lab's mirror has no stand-in for %s", upstream)
}

// Digests returns the sha256 (lower-case hexadecimal) of the stand-in of each URL, for a lab's
// lock file.
func Digests(urls ...string) (map[string]string, error) {
	digests := map[string]string{}
	for _, u := range urls {
		content, err := Content(u)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(content)
		digests[u] = hex.EncodeToString(sum[:])
	}
	return digests, nil
}
