package openstack

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// Fault makes matching requests go wrong. A request gets the first fault that matches and isn't used up.
type Fault struct {
	ID      string `json:"id"`                // made up if empty
	Service string `json:"service,omitempty"` // identity, compute, network, image; empty for any
	Method  string `json:"method,omitempty"`  // empty or * for any
	Path    string `json:"path,omitempty"`    // regular expression, searched in the path with the query
	Skip    int    `json:"skip,omitempty"`    // matching requests to let pass first
	Count   int    `json:"count,omitempty"`   // how often; 0 is once, -1 always

	Status     int    `json:"status,omitempty"`      // answer with this instead of asking the service
	RetryAfter string `json:"retry_after,omitempty"` // header of that answer
	Body       string `json:"body,omitempty"`        // of that answer; default: an error in the service's own form
	Effect     bool   `json:"effect,omitempty"`      // the request takes effect before Status is answered
	Reset      string `json:"reset,omitempty"`       // "before" or "after" the effect the connection is reset
	DelayMS    int    `json:"delay_ms,omitempty"`    // wait before anything else
	HideMS     int    `json:"hide_ms,omitempty"`     // what the request creates isn't listed for so long
	Expire     bool   `json:"expire,omitempty"`      // the request's token expires before it is looked at
	Outcome    string `json:"outcome,omitempty"`     // "error": the server that the request creates ends in ERROR

	Hits int `json:"hits"` // how often it was applied, kept by the Cloud

	path *regexp.Regexp
}

type lagRule struct {
	kind string // as in State: "network", "server"; empty for any
	lag  time.Duration
}

type faults struct {
	mu    sync.Mutex
	next  int
	rules []*Fault
}

// Inject adds a fault and returns its id. The error is about a bad regular expression or an unknown word.
func (c *Cloud) Inject(f Fault) (string, error) {
	var err error
	if f.path, err = regexp.Compile(f.Path); err != nil {
		return "", fmt.Errorf("compiling the fault's path %q: %w", f.Path, err)
	}
	if f.Reset != "" && f.Reset != "before" && f.Reset != "after" {
		return "", fmt.Errorf("a fault's reset is before or after, not %q", f.Reset)
	}
	if f.Outcome != "" && f.Outcome != "error" {
		return "", fmt.Errorf("a fault's outcome is error, not %q", f.Outcome)
	}
	if f.Status != 0 && (f.Status < 200 || f.Status > 599) {
		return "", fmt.Errorf("a fault's status lies between 200 and 599, not %d", f.Status)
	}
	if f.Count == 0 {
		f.Count = 1
	}
	f.Hits = 0
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	c.faults.next++
	if f.ID == "" {
		f.ID = "fault-" + strconv.Itoa(c.faults.next)
	}
	c.faults.rules = append(c.faults.rules, &f)
	return f.ID, nil
}

// Faults lists the faults with their hits.
func (c *Cloud) Faults() []Fault {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	out := make([]Fault, len(c.faults.rules))
	for i, f := range c.faults.rules {
		out[i] = *f
	}
	return out
}

// ClearFaults removes one fault, or all for an empty id, and reports how many it has removed.
func (c *Cloud) ClearFaults(id string) int {
	c.faults.mu.Lock()
	defer c.faults.mu.Unlock()
	var kept []*Fault
	for _, f := range c.faults.rules {
		if id != "" && f.ID != id {
			kept = append(kept, f)
		}
	}
	removed := len(c.faults.rules) - len(kept)
	c.faults.rules = kept
	return removed
}

// SetLag makes lists eventually consistent: what is created from now on isn't listed before lag has passed,
// though it can be read by its id. kind is a name as in State ("network", "server"); empty means all. A lag
// of 0 ends it.
func (c *Cloud) SetLag(kind string, lag time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var kept []lagRule
	for _, l := range c.lag {
		if kind != "" && l.kind != kind {
			kept = append(kept, l)
		}
	}
	if lag > 0 {
		kept = append(kept, lagRule{kind, lag})
	}
	c.lag = kept
}

// ExpireTokens makes every token that was given out so far invalid.
func (c *Cloud) ExpireTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.identity.tokens)
}

func (fs *faults) match(r *request) *Fault {
	if r.service == "lab" {
		return nil
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	uri := r.http.URL.RequestURI()
	for _, f := range fs.rules {
		if f.Count >= 0 && f.Hits >= f.Count ||
			f.Service != "" && f.Service != r.service ||
			f.Method != "" && f.Method != "*" && f.Method != r.http.Method ||
			!f.path.MatchString(uri) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		f.Hits++
		applied := *f
		return &applied
	}
	return nil
}

// prepare does what a fault does before the request is looked at.
func (c *Cloud) prepare(r *request, f *Fault) {
	if f.Expire {
		c.mu.Lock()
		delete(c.identity.tokens, r.http.Header.Get("X-Auth-Token"))
		c.mu.Unlock()
	}
}

// answer is the injected one.
func (f *Fault) answer(r *request) answer {
	a := answer{status: f.Status, header: http.Header{}}
	if f.RetryAfter != "" {
		a.header.Set("Retry-After", f.RetryAfter)
	}
	if f.Body != "" {
		a.body = []byte(f.Body)
		a.header.Set("Content-Type", "application/json")
		return a
	}
	e := &refusal{status: f.Status, message: "The lab was told to answer so."}
	b := renderRefusal(r, e)
	a.body = b.body
	if b.header != nil {
		a.header.Set("Content-Type", b.header.Get("Content-Type"))
	}
	return a
}

// conceal applies the lag rules to a resource that has just been made. The lock is held.
func (c *Cloud) conceal(r *request, kind, id string) {
	var lag time.Duration
	for _, l := range c.lag {
		if l.kind == "" || l.kind == kind {
			lag = max(lag, l.lag)
		}
	}
	if r != nil && r.fault != nil {
		lag = max(lag, time.Duration(r.fault.HideMS)*time.Millisecond)
	}
	if lag > 0 {
		c.hidden[id] = c.now().Add(lag)
	}
}
