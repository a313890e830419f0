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
	Slow    Action = "slow"    // the answer waits for the rule's Delay
	Reset   Action = "reset"   // the connection is reset after half of the bytes
)

// A Rule makes downloads fail. Path is a pattern as path.Match has it, for the whole path or its
// last element.
type Rule struct {
	Path   string
	Action Action
	Delay  time.Duration
	Count  int // how often it acts; 0 is always
}

// A Server is the mirror: an http.Handler that may be used by many goroutines.
type Server struct {
	mu       sync.Mutex
	requests []Request
	rules    []*Rule
}

// New returns a mirror without faults.
func New() *Server { return &Server{} }

// Requests returns the requests that were answered so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Add adds a rule. The first that matches counts.
func (s *Server) Add(r Rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, &r)
}

// Clear removes all rules.
func (s *Server) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = nil
}

// take returns the rule that applies to a path, and counts it.
func (s *Server) take(name string) Rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.rules {
		whole, _ := path.Match(r.Path, name)
		last, _ := path.Match(r.Path, path.Base(name))
		if !whole && !last {
			continue
		}
		taken := *r
		if r.Count > 0 {
			if r.Count--; r.Count == 0 {
				s.rules = append(s.rules[:i:i], s.rules[i+1:]...)
			}
		}
		return taken
	}
	return Rule{}
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
	rule := s.take(r.URL.Path)
	content, err := Content("https:/" + r.URL.Path)
	switch {
	case rule.Action == Missing || err != nil:
		http.Error(counted, "404: not found", http.StatusNotFound)
		return
	case rule.Action == Refuse:
		http.Error(counted, "503: the mirror is out of order", http.StatusServiceUnavailable)
		return
	case rule.Action == Slow:
		timer := time.NewTimer(rule.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	case rule.Action == Corrupt:
		content = append([]byte(nil), content...)
		content[len(content)/2] ^= 1
	case rule.Action == Reset:
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
