package openstack

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
)

// Fault makes matching requests go wrong. A request gets the first fault that matches and isn't used up.
type Fault struct {
	ID      string `json:"id" doc:"name to clear it by; made up if empty"`
	Service string `json:"service,omitempty" doc:"identity, compute, network, image, volume, load-balancer or object-store; any if empty"`
	Method  string `json:"method,omitempty" doc:"HTTP method, or write for all that change something; any if empty"`
	Path    string `json:"path,omitempty" doc:"regular expression, searched in the path with the query"`
	Skip    int    `json:"skip,omitempty" doc:"matching requests to let pass first"`
	Count   int    `json:"count,omitempty" doc:"how often; 0 is once, -1 always"`
	Chance  int    `json:"chance,omitempty" doc:"at how many of 100 matching requests; 0 is all"`

	Status     int    `json:"status,omitempty" doc:"answer with this instead of asking the service"`
	RetryAfter string `json:"retry_after,omitempty" doc:"header of that answer: seconds, an HTTP date, or +2s for the date in 2 s"`
	Body       string `json:"body,omitempty" doc:"body of that answer; default: an error in the service's own form"`
	Quota      bool   `json:"quota,omitempty" doc:"answer as if a quota were used up"`
	Effect     bool   `json:"effect,omitempty" doc:"the request takes effect before status is answered"`
	Reset      string `json:"reset,omitempty" doc:"before or after: when the connection is reset, seen from the effect"`
	Bytes      int    `json:"bytes,omitempty" doc:"the connection is reset once so many bytes of the body have come"`
	DelayMS    int    `json:"delay_ms,omitempty" doc:"wait before anything else"`
	HideMS     int    `json:"hide_ms,omitempty" doc:"what the request creates isn't listed for so long"`
	Expire     bool   `json:"expire,omitempty" doc:"the request's token expires before it is looked at"`
	Outcome    string `json:"outcome,omitempty" doc:"error: the server, volume or load balancer that the request creates or changes ends in an error"`

	Hits int `json:"hits"` // how often it was applied, kept by the Cloud

	path *regexp.Regexp
}

// FaultSet is the faults of one cloud, simulated or real. All methods are safe for concurrent use.
type FaultSet struct {
	services []string
	set      *inject.Set[Fault]
}

// NewFaultSet returns an empty set, for a cloud with these services.
func NewFaultSet(services ...string) *FaultSet {
	return &FaultSet{services, inject.New("openstack", func(f *Fault) inject.Turns {
		return inject.Turns{ID: &f.ID, Skip: &f.Skip, Count: &f.Count, Chance: &f.Chance, Hits: &f.Hits}
	})}
}

type lagRule struct {
	kind string // as in State: "network", "server"; empty for any
	lag  time.Duration
}

// Inject adds a fault and returns its id. The error is about a bad regular expression or an unknown word.
func (s *FaultSet) Inject(f Fault) (string, error) {
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
	if f.Service != "" && !slices.Contains(s.services, f.Service) {
		return "", fmt.Errorf("a fault's service is one of %s, not %q", strings.Join(s.services, ", "), f.Service)
	}
	if !f.does() {
		return "", errors.New("the fault does nothing: give status, quota, reset, bytes, delay_ms, hide_ms, expire or outcome")
	}
	return s.set.Add(f), nil
}

// does reports whether the fault makes any difference.
func (f *Fault) does() bool {
	return f.Status != 0 || f.Quota || f.Reset != "" || f.Bytes > 0 || f.DelayMS != 0 || f.HideMS != 0 || f.Expire || f.Outcome != ""
}

// Faults lists the faults with their hits.
func (s *FaultSet) Faults() []Fault { return s.set.List() }

// ClearFaults removes one fault, or all for an empty id, and reports how many it has removed.
func (s *FaultSet) ClearFaults(id string) int { return s.set.Clear(id) }

// SeedFaults makes the chances of the faults repeatable.
func (s *FaultSet) SeedFaults(seed uint64) { s.set.Seed(seed) }

// Take returns a copy of the fault that a request to a service gets, or nil. The path has the query with it.
func (s *FaultSet) Take(service, method, path string) *Fault {
	login := service == "identity"
	return s.set.Take(func(f *Fault) bool {
		return (f.Method != inject.Writes || !login || f.Service == "identity") && (f.Service == "" || f.Service == service) && inject.Method(f.Method, method) && f.path.MatchString(path)
	})
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

// spoiled returns the fault that a request gets, or nil.
func (c *Cloud) spoiled(r *request) *Fault {
	if r.service == "lab" {
		return nil
	}
	return c.Take(r.service, r.http.Method, r.http.URL.RequestURI())
}

// prepare does what a fault does before the request is looked at.
func (c *Cloud) prepare(r *request, f *Fault) {
	if f.Expire {
		c.mu.Lock()
		delete(c.identity.tokens, r.http.Header.Get("X-Auth-Token"))
		c.mu.Unlock()
	}
}

// Answer is what the service answers to a request that gets the fault, whose path below the service's
// prefix is path. The fault has a status or a used up quota.
func (f *Fault) Answer(service, path string) (status int, header http.Header, body []byte) {
	a := f.answer(&request{service: service, path: path})
	if a.header == nil {
		a.header = http.Header{}
	}
	if a.header.Get("Content-Type") == "" {
		a.header.Set("Content-Type", "application/json")
	}
	return a.status, a.header, encode(a)
}

// answer is the injected one.
func (f *Fault) answer(r *request) answer {
	if f.Quota {
		e := quotaRefusal(r)
		a := renderRefusal(r, e)
		a.status = e.status
		return a
	}
	a := answer{status: f.Status, header: http.Header{}}
	if f.RetryAfter != "" {
		a.header.Set("Retry-After", inject.RetryAfter(f.RetryAfter))
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

// quotaRefusal is what a service answers where a quota is used up.
func quotaRefusal(r *request) *refusal {
	switch r.service {
	case "network":
		what := strings.ReplaceAll(strings.TrimSuffix(path.Base(r.path), "s"), "-", "_")
		return &refusal{status: 409, kind: "OverQuota", message: "Quota exceeded for resources: ['" + what + "']."}
	case "image":
		return &refusal{status: 413, message: "Denying attempt to upload image because it exceeds the quota."}
	case "volume":
		return overVolumeQuota("VolumeLimitExceeded: Maximum number of volumes allowed (0) exceeded for quota 'volumes'.")
	case "load-balancer":
		return &refusal{status: 403, message: "Quota has been met for resources: the lab was told to answer so"}
	case "compute":
		return &refusal{status: 403, message: "Quota exceeded for " + path.Base(r.path) + ": the lab was told to answer so"}
	}
	return &refusal{status: 403, message: "Unable to create more: it exceeds quota."}
}
