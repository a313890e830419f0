package openstack

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Request is what the log keeps of one API call. Tokens, passwords and bodies aren't in it.
type Request struct {
	Seq          int       `json:"seq"` // 1 for the first
	Time         time.Time `json:"time"`
	Service      string    `json:"service"` // identity, compute, network, image or volume
	Method       string    `json:"method"`
	Path         string    `json:"path"`   // with the query
	Status       int       `json:"status"` // 0: the connection was dropped
	ID           string    `json:"request_id"`
	Microversion string    `json:"microversion,omitempty"`
	Action       string    `json:"action,omitempty"`  // which server action a POST to .../action asks for
	User         string    `json:"user,omitempty"`    // name
	Project      string    `json:"project,omitempty"` // name
	Milliseconds float64   `json:"ms"`
	Fault        string    `json:"fault,omitempty"` // id of the injected fault
}

// Write tells whether the call was meant to change something. Logging in and out doesn't count, nor does
// reading a console, which is a POST.
func (q Request) Write() bool {
	if q.Method == "GET" || q.Method == "HEAD" || q.Action == "os-getConsoleOutput" {
		return false
	}
	return !strings.HasPrefix(q.Path, "/identity/v3/auth/tokens") && !strings.HasSuffix(q.Path, "/remote-consoles")
}

// RequestLog is the log of the API calls to one cloud, simulated or real. The zero value is an empty one.
type RequestLog struct {
	mu      sync.Mutex
	entries []Request
	writer  io.Writer
}

// Requests returns the log after entry number since: 0 for all.
func (l *RequestLog) Requests(since int) []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	since = min(max(since, 0), len(l.entries))
	return append([]Request(nil), l.entries[since:]...)
}

// Log appends a call and gives it its number.
func (l *RequestLog) Log(q Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.Seq = len(l.entries) + 1
	l.entries = append(l.entries, q)
	if l.writer != nil {
		line, err := json.Marshal(q)
		if err == nil {
			l.writer.Write(append(line, '\n')) // the log in memory is what counts
		}
	}
}

// Requests returns the log after entry number since: 0 for all. Calls of the administration interface
// aren't logged.
func (c *Cloud) Requests(since int) []Request { return c.log.Requests(since) }

// record appends to the log before the answer is sent, so that whoever has the answer finds the entry.
func (c *Cloud) record(r *request, start time.Time, status int, dropped bool) {
	if r.service == "lab" {
		return
	}
	q := Request{Time: start, Service: r.service, Method: r.http.Method, Path: r.http.URL.RequestURI(), Status: status, ID: r.id, Action: r.action,
		Milliseconds: float64(c.now().Sub(start).Microseconds()) / 1000}
	if dropped {
		q.Status = 0
	}
	if r.service == "compute" && r.version > 1 {
		q.Microversion = "2." + strconv.Itoa(r.version)
	}
	if r.service == "volume" {
		q.Microversion = "3." + strconv.Itoa(r.version)
	}
	if r.token != nil {
		q.User = r.token.user.name
		if r.token.project != nil {
			q.Project = r.token.project.name
		}
	}
	if r.fault != nil {
		q.Fault = r.fault.ID
	}
	c.log.Log(q)
}
