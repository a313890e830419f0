package openstack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// An Object is a JSON object as the API sends it, with whole numbers as int64.
type Object = map[string]any

// A Call is one request.
type Call struct {
	Service Service
	Version string // the microversion; empty is the service's base version
	Method  string
	Path    string // below the version, such as "/servers/detail"
	Query   url.Values
	Body    any               // sent as JSON
	Header  map[string]string //
	Stream  io.ReadSeeker     // sent as it is, in place of Body; such a call has no deadline of its own
}

// reads reports whether the call changes nothing.
func (c Call) reads() bool {
	switch c.Method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodPost: // Nova's way to read a console
		body, _ := c.Body.(Object)
		_, ok := body["os-getConsoleOutput"]
		return ok && len(body) == 1
	}
	return false
}

// An Answer is what a service says to a call that it carries out.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends a call and returns the object that is answered, nil if the answer
// has no body. Errors are faults: see translate.
func (c *Client) Do(ctx context.Context, call Call) (Object, error) {
	a, err := c.Send(ctx, call)
	if err != nil || len(a.Body) == 0 || a.Status == http.StatusNoContent {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(a.Body))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		return nil, fault.New(fault.Unavailable, "%s answered %s %s with something that isn't JSON", title(call.Service), call.Method, call.Path)
	}
	obj, _ := plainNumbers(out).(Object)
	return obj, nil
}

// Send sends a call and returns the whole answer, for services that don't say
// everything in an object. Errors are faults: see translate.
func (c *Client) Send(ctx context.Context, call Call) (Answer, error) {
	address, err := c.url(call.Service, call.Path, call.Query)
	if err != nil {
		return Answer{}, err
	}
	if err := c.negotiate(ctx, call.Service, call.Version); err != nil {
		return Answer{}, err
	}
	if !call.reads() {
		c.snapshots.wrote()
		defer c.snapshots.wrote()
	}
	if call.Method == http.MethodPost {
		leave, err := enter(ctx, c.creates[call.Service])
		if err != nil {
			return Answer{}, err
		}
		defer leave()
	}
	a, err := c.send(ctx, call, address, []int{http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent})
	if err == nil && !call.reads() && c.entry.Wrote != nil {
		c.entry.Wrote(ctx)
	}
	return a, err
}

// enter takes one of the places of a bounded crowd.
func enter(ctx context.Context, places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, fault.FromContext(ctx)
	}
}

// send sends a call to an address. A token that the service doesn't take any
// more is renewed, and the call sent once more.
func (c *Client) send(ctx context.Context, call Call, address string, okCodes []int) (Answer, error) {
	leave, err := enter(ctx, c.slots[call.Service])
	if err != nil {
		return Answer{}, err
	}
	defer leave()
	cctx := ctx
	if call.Stream == nil {
		var cancel context.CancelFunc
		cctx, cancel = context.WithTimeoutCause(ctx, c.entry.Timeout, tooSlow(call.Service, c.entry.Timeout))
		defer cancel()
	}
	token := c.provider.Token()
	a, f := c.sendOnce(cctx, call, address, okCodes)
	if !expired(a, f) || c.entry.Method == ByToken { // a token doesn't say how to get another
		return a, asError(f)
	}
	if rerr := c.renew(cctx, token); rerr != nil {
		if ferr := fault.FromContext(cctx); ferr != nil {
			return Answer{}, ferr
		}
		return Answer{}, rerr
	}
	if call.Stream != nil {
		if _, serr := call.Stream.Seek(0, io.SeekStart); serr != nil {
			return Answer{}, fault.New(fault.Unavailable, "the token expired, and what was being sent can't be read again: %v", serr)
		}
	}
	if a, f = c.sendOnce(cctx, call, address, okCodes); expired(a, f) && call.Service != Identity {
		// That Keystone has just renewed it says that the credentials are good. It
		// may have expired once more, or the service doesn't know it yet.
		f.Kind, f.Hint = fault.Unavailable, title(call.Service)+" doesn't take tokens that Keystone gives: the cloud's operators can tell why"
	}
	return a, asError(f)
}

// expired reports whether a service doesn't take the token.
func expired(a Answer, f *fault.Error) bool {
	return f != nil && a.Status == http.StatusUnauthorized
}

// asError is f without the trap of an interface that holds nil.
func asError(f *fault.Error) error {
	if f == nil {
		return nil
	}
	return f
}

// sendOnce sends a call. The status is there also where the service says no.
func (c *Client) sendOnce(ctx context.Context, call Call, address string, okCodes []int) (Answer, *fault.Error) {
	opts := &gophercloud.RequestOpts{KeepResponseBody: true, OkCodes: okCodes, MoreHeaders: make(map[string]string)}
	for k, v := range call.Header {
		opts.MoreHeaders[k] = v
	}
	if call.Stream != nil {
		opts.RawBody = struct{ io.ReadSeeker }{call.Stream} // net/http would close a file, and a renewed token sends it again
		opts.MoreHeaders["Content-Type"] = "application/octet-stream"
	} else if call.Body != nil {
		opts.JSONBody = call.Body
	}
	sc := &gophercloud.ServiceClient{ProviderClient: c.provider, Type: string(call.Service), Microversion: call.Version}
	resp, err := sc.Request(ctx, call.Method, address, opts)
	if err != nil {
		var code gophercloud.ErrUnexpectedResponseCode
		_ = errors.As(err, &code) // 0 where there is no answer
		return Answer{Status: code.Actual}, translate(ctx, call.Service, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, translate(ctx, call.Service, fmt.Errorf("reading the answer to %s %s: %w", call.Method, call.Path, err))
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: raw}, nil
}

// One sends a call and returns the object under key in the answer.
func (c *Client) One(ctx context.Context, call Call, key string) (Object, error) {
	if obj, ok, err := c.glanceOne(ctx, call, key); ok || err != nil {
		return obj, err
	}
	out, err := c.Do(ctx, call)
	if err != nil {
		return nil, err
	}
	obj, ok := out[key].(Object)
	if !ok {
		return nil, fault.New(fault.Unavailable, "%s answered %s %s without %q", title(call.Service), call.Method, call.Path, key)
	}
	return obj, nil
}

// List returns the objects under key of all pages.
func (c *Client) List(ctx context.Context, call Call, key string) ([]Object, error) {
	if all, ok, err := c.glanceList(ctx, call, key); ok || err != nil {
		return all, err
	}
	return c.list(ctx, call, key, 0)
}

// list lists page by page; it gives up once there are more than most, unless
// that is 0.
func (c *Client) list(ctx context.Context, call Call, key string, most int) ([]Object, error) {
	call.Method = http.MethodGet
	var all []Object
	seen := make(map[string]bool)
	for {
		out, err := c.Do(ctx, call)
		if err != nil {
			return nil, err
		}
		items, ok := out[key].([]any)
		if !ok {
			return nil, fault.New(fault.Unavailable, "%s answered GET %s without %q", title(call.Service), call.Path, key)
		}
		for _, it := range items {
			if obj, ok := it.(Object); ok {
				all = append(all, obj)
			}
		}
		next := nextPage(out, key)
		if next == "" || len(items) == 0 || most > 0 && len(all) > most {
			return all, nil
		}
		if seen[next] {
			return nil, fault.New(fault.Unavailable, "%s lists %s in a circle: page %s came twice", title(call.Service), call.Path, next)
		}
		seen[next] = true
		// Only the query is taken: the host in the link may be one that only the cloud's own proxy knows.
		u, err := url.Parse(next)
		if err != nil {
			return nil, fault.New(fault.Unavailable, "%s gives a bad link to the next page of %s: %q", title(call.Service), call.Path, next)
		}
		call.Query = u.Query()
	}
}

// nextPage returns the link to the page after out: Nova and Neutron put it
// under KEY_links, Glance under next.
func nextPage(out Object, key string) string {
	if s, ok := out["next"].(string); ok {
		return s
	}
	links, _ := out[key+"_links"].([]any)
	for _, l := range links {
		if m, ok := l.(Object); ok && m["rel"] == "next" {
			s, _ := m["href"].(string)
			return s
		}
	}
	return ""
}

// plainNumbers replaces json.Number by int64 and float64.
func plainNumbers(x any) any {
	switch x := x.(type) {
	case json.Number:
		if i, err := x.Int64(); err == nil {
			return i
		}
		f, _ := x.Float64() // a JSON number is one; a huge one is infinite
		return f
	case []any:
		for i := range x {
			x[i] = plainNumbers(x[i])
		}
	case Object:
		for k := range x {
			x[k] = plainNumbers(x[k])
		}
	}
	return x
}
