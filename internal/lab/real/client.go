package real

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// transport knows no proxy: everything is on loopback.
var transport = &http.Transport{DisableKeepAlives: true}

// doc is a JSON object.
type doc = map[string]any

// imagePatch is how Glance wants to be told of changes.
type imagePatch []doc

// client calls the APIs as one user.
type client struct {
	auth, user, password, project string

	mu        sync.Mutex
	token     string
	projectID string
	userID    string
	endpoints map[string]string // by the catalog's type
}

// login gets a token and the catalog.
func (c *client) login(ctx context.Context) error {
	domain := doc{"id": "default"}
	in := doc{"auth": doc{
		"identity": doc{"methods": []string{"password"}, "password": doc{"user": doc{"name": c.user, "domain": domain, "password": c.password}}},
		"scope":    doc{"project": doc{"name": c.project, "domain": domain}},
	}}
	var out struct {
		Token struct {
			Project, User struct{ ID string }
			Catalog       []struct {
				Type      string
				Endpoints []struct{ Interface, URL string }
			}
		}
	}
	header, err := send(ctx, http.MethodPost, c.auth+"/auth/tokens", nil, in, &out)
	if err != nil {
		return fmt.Errorf("logging in as %s: %w", c.user, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token, c.projectID, c.userID = header.Get("X-Subject-Token"), out.Token.Project.ID, out.Token.User.ID
	c.endpoints = map[string]string{}
	for _, s := range out.Token.Catalog {
		for _, e := range s.Endpoints {
			if e.Interface == "public" {
				c.endpoints[s.Type] = strings.TrimRight(e.URL, "/")
			}
		}
	}
	return nil
}

// call calls an API with a JSON body, and decodes the answer into out. It logs
// in again if the token is no longer valid.
func (c *client) call(ctx context.Context, method, service, path string, in, out any) error {
	err := c.try(ctx, method, service, path, in, out)
	if refused(err, http.StatusUnauthorized) {
		if err := c.login(ctx); err != nil {
			return err
		}
		return c.try(ctx, method, service, path, in, out)
	}
	return err
}

// endpoint returns where a service is, and the token to show there.
func (c *client) endpoint(service string) (base, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endpoints[service], c.token
}

func (c *client) try(ctx context.Context, method, service, path string, in, out any) error {
	base, token := c.endpoint(service)
	if base == "" {
		return fault.New(fault.NotFound, "Keystone's catalog has no %s", service)
	}
	header := http.Header{"X-Auth-Token": {token}}
	if service == "compute" {
		header.Set("X-Openstack-Nova-Api-Version", "2.79")
	}
	_, err := send(ctx, method, base+path, header, in, out)
	return err
}

// refusal is an answer that says no.
type refusal struct {
	method, url string
	status      int
	body        string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s %s: %d %s", r.method, r.url, r.status, r.body)
}

// refused reports whether err is an answer of one of the statuses.
func refused(err error, statuses ...int) bool {
	r, ok := err.(*refusal)
	for _, s := range statuses {
		if ok && r.status == s {
			return true
		}
	}
	return false
}

func send(ctx context.Context, method, address string, header http.Header, in, out any) (http.Header, error) {
	body, kind := io.Reader(nil), "application/json"
	switch b := in.(type) {
	case nil:
	case []byte:
		body, kind = bytes.NewReader(b), "application/octet-stream"
	default:
		if _, ok := in.(imagePatch); ok {
			kind = "application/openstack-images-v2.1-json-patch"
		}
		data, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	answer, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fault.New(fault.Unreachable, "%s %s: %w", method, address, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, fault.New(fault.Unreachable, "%s %s: %w", method, address, err)
	}
	if answer.StatusCode >= 300 {
		return nil, &refusal{method, address, answer.StatusCode, strings.TrimSpace(string(data))}
	}
	if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			return nil, fmt.Errorf("reading the answer to %s %s: %w", method, address, err)
		}
	}
	return answer.Header, nil
}

// names lists what a container or an account holds: one page.
func (c *client) names(ctx context.Context, address string) ([]string, error) {
	var list []struct{ Name string }
	err := c.store(ctx, http.MethodGet, address+"?format=json", &list)
	if refused(err, http.StatusNotFound) {
		return nil, nil
	}
	var names []string
	for _, one := range list {
		names = append(names, one.Name)
	}
	return names, err
}

// store calls Swift, whose addresses are made by hand.
func (c *client) store(ctx context.Context, method, address string, out any) error {
	try := func() error {
		_, token := c.endpoint("object-store")
		_, err := send(ctx, method, address, http.Header{"X-Auth-Token": {token}}, nil, out)
		return err
	}
	err := try()
	if refused(err, http.StatusUnauthorized) {
		if err := c.login(ctx); err != nil {
			return err
		}
		err = try()
	}
	if method == http.MethodDelete && refused(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// made creates a resource and returns its id. The body and the answer hold it
// under the name kind.
func (c *client) made(ctx context.Context, service, path, kind string, in doc) (string, error) {
	var out map[string]struct{ ID any }
	if err := c.call(ctx, http.MethodPost, service, path, doc{kind: in}, &out); err != nil {
		return "", err
	}
	return fmt.Sprint(out[kind].ID), nil
}

// listed returns the resources under the name kind in a list.
func (c *client) listed(ctx context.Context, service, path, kind string) ([]doc, error) {
	var out map[string]json.RawMessage
	if err := c.call(ctx, http.MethodGet, service, path, nil, &out); err != nil {
		return nil, err
	}
	var all []doc
	if err := json.Unmarshal(out[kind], &all); err != nil {
		return nil, fmt.Errorf("reading the list %s: %w", path, err)
	}
	return all, nil
}

func query(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return "?" + v.Encode()
}
