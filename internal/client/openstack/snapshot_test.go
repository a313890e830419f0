package openstack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A shelf is a server with as many things of every kind as it is told to have.
type shelf struct {
	mu    sync.Mutex
	calls []string
	n     int
	wrong int // status of the next answer; 0 for none
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.Path
	s.calls = append(s.calls, strings.TrimSuffix(r.Method+" "+path+"?"+r.URL.RawQuery, "?"))
	if s.wrong != 0 {
		w.WriteHeader(s.wrong)
		s.wrong = 0
		return
	}
	if strings.HasSuffix(path, "/compute/v2.1/") {
		fmt.Fprint(w, `{"version": {"id": "v2.1", "version": "2.93", "min_version": "2.1"}}`)
		return
	}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	key := segments[2]
	switch {
	case r.Method != http.MethodGet:
		fmt.Fprint(w, `{}`)
	case len(segments) > 3 && segments[3] != "detail":
		fmt.Fprintf(w, `{%q: {"id": %q, "name": "asked"}}`, strings.TrimSuffix(strings.TrimPrefix(key, "os-"), "s"), segments[3])
	default:
		var all []any
		for i := range s.n {
			o := map[string]any{"id": fmt.Sprint("i", i), "name": fmt.Sprint("n", i), "project_id": "p1", "owner": "p1", "device_id": fmt.Sprint("d", i%2), "mtu": 1500, "tags": []string{"t"}}
			if key == "os-keypairs" {
				o = map[string]any{"keypair": o}
			}
			all = append(all, o)
		}
		out, _ := json.Marshal(map[string]any{strings.ReplaceAll(strings.TrimPrefix(key, "os-"), "-", "_"): all})
		w.Write(out)
	}
}

// since returns the calls from number n on.
func (s *shelf) since(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls[n:])
}

func names(all []openstack.Object) string {
	var out []string
	for _, o := range all {
		out = append(out, fmt.Sprint(o["name"]))
	}
	return strings.Join(out, " ")
}

func TestGlanceListsOnce(t *testing.T) {
	s := &shelf{n: 4}
	c := fake(t, s.ServeHTTP)
	ctx := openstack.Glance(context.Background(), "run")
	network := func(path, query string) openstack.Call {
		q, _ := url.ParseQuery(query)
		return openstack.Call{Service: openstack.Network, Path: path, Query: q}
	}
	server := func(query string) openstack.Call {
		q, _ := url.ParseQuery(query)
		return openstack.Call{Service: openstack.Compute, Version: openstack.ServerVersion, Path: "/servers/detail", Query: q}
	}
	image := func(query string) openstack.Call {
		q, _ := url.ParseQuery(query)
		return openstack.Call{Service: openstack.Image, Path: "/images", Query: q}
	}
	for _, ask := range []struct {
		call openstack.Call
		key  string
		want string // names
		new  string // the call that it costs
	}{
		{network("/ports", "device_id=d1&project_id=p1"), "ports", "n1 n3", "GET /network/v2.0/ports"},
		{network("/ports", "name=n2"), "ports", "n2", ""},
		{network("/ports", "device_id=d9"), "ports", "", ""},
		{network("/ports", "tags=t"), "ports", "n0 n1 n2 n3", "GET /network/v2.0/ports?tags=t"},
		{network("/ports", "fixed_ips=subnet_id%3Dx"), "ports", "n0 n1 n2 n3", "GET /network/v2.0/ports?fixed_ips=subnet_id%3Dx"},
		{network("/agents", "name=n1"), "agents", "n0 n1 n2 n3", "GET /network/v2.0/agents?name=n1"},
		{server("name=%5En3%24"), "servers", "n3", "GET /compute/v2.1/ GET /compute/v2.1/servers/detail"},
		{server(""), "servers", "n0 n1 n2 n3", ""},
		{image("owner=p1&name=n0&limit=200"), "images", "n0", "GET /image/v2/images?limit=200&owner=p1"},
		{image("owner=p1&gsrun_mark=m&limit=200"), "images", "", ""},
		{image("name=n0&limit=200"), "images", "n0 n1 n2 n3", "GET /image/v2/images?limit=200&name=n0"},
		{image("name=n0&limit=200"), "images", "n0 n1 n2 n3", ""},
	} {
		n := len(s.since(0))
		got, err := c.List(ctx, ask.call, ask.key)
		if err != nil || names(got) != ask.want {
			t.Errorf("%s %s: got %q, %v, want %q", ask.call.Path, ask.call.Query.Encode(), names(got), err, ask.want)
		}
		if calls := strings.Join(s.since(n), " "); calls != ask.new {
			t.Errorf("%s %s: called %q, want %q", ask.call.Path, ask.call.Query.Encode(), calls, ask.new)
		}
	}
}

func TestGlanceAtOne(t *testing.T) {
	s := &shelf{n: 3}
	c := fake(t, s.ServeHTTP)
	ctx := openstack.Glance(context.Background(), "run")
	for _, ask := range []struct {
		service         openstack.Service
		path, key, want string
		new             string
	}{
		{openstack.Compute, "/os-keypairs/n1", "keypair", "n1", "GET /compute/v2.1/os-keypairs"},
		{openstack.Compute, "/os-keypairs/n2", "keypair", "n2", ""},
		{openstack.Network, "/routers/i1", "router", "n1", "GET /network/v2.0/routers"},
		{openstack.Network, "/routers/i7", "router", "asked", "GET /network/v2.0/routers/i7"}, // another project's
	} {
		n := len(s.since(0))
		got, err := c.One(ctx, openstack.Call{Service: ask.service, Method: "GET", Path: ask.path}, ask.key)
		if ask.service == openstack.Compute && got != nil && got["keypair"] != nil {
			got = got["keypair"].(openstack.Object)
		}
		if err != nil || got["name"] != ask.want {
			t.Errorf("%s: got %v, %v, want %s", ask.path, got, err, ask.want)
		}
		if calls := strings.Join(s.since(n), " "); calls != ask.new {
			t.Errorf("%s: called %q, want %q", ask.path, calls, ask.new)
		}
	}
}

// TestGlancesEnd has each thing after which a snapshot says nothing any more.
func TestGlancesEnd(t *testing.T) {
	call := openstack.Call{Service: openstack.Network, Path: "/networks"}
	for name, c := range map[string]struct {
		then func(*openstack.Client, *shelf)
		run  any
		cost int // lists of the next glance
	}{
		"nothing":        {func(*openstack.Client, *shelf) {}, "run", 0},
		"a close look":   {func(c *openstack.Client, _ *shelf) { _, _ = c.List(context.Background(), call, "networks") }, "run", 0},
		"another run":    {func(*openstack.Client, *shelf) {}, "other", 1},
		"time":           {func(c *openstack.Client, _ *shelf) { c.Later(openstack.SnapshotAge) }, "run", 1},
		"less time":      {func(c *openstack.Client, _ *shelf) { c.Later(openstack.SnapshotAge / 2) }, "run", 0},
		"a write":        {writing("POST", openstack.Network, nil, 0), "run", 1},
		"a deletion":     {writing("DELETE", openstack.Compute, nil, 0), "run", 1},
		"a failed write": {writing("PUT", openstack.Network, nil, 500), "run", 1},
		"a console read": {writing("POST", openstack.Compute, openstack.Object{"os-getConsoleOutput": openstack.Object{}}, 0), "run", 0},
		"an action":      {writing("POST", openstack.Compute, openstack.Object{"reboot": openstack.Object{}}, 0), "run", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{n: 3}
			client := fake(t, s.ServeHTTP)
			if _, err := client.List(openstack.Glance(context.Background(), "run"), call, "networks"); err != nil {
				t.Fatal(err)
			}
			c.then(client, s)
			n := len(s.since(0))
			if _, err := client.List(openstack.Glance(context.Background(), c.run), call, "networks"); err != nil {
				t.Fatal(err)
			}
			if calls := s.since(n); len(calls) != c.cost {
				t.Errorf("called %q, want %d lists", calls, c.cost)
			}
		})
	}
}

func writing(method string, service openstack.Service, body any, wrong int) func(*openstack.Client, *shelf) {
	return func(c *openstack.Client, s *shelf) {
		s.mu.Lock()
		s.wrong = wrong
		s.mu.Unlock()
		_, _ = c.Do(context.Background(), openstack.Call{Service: service, Method: method, Path: "/networks/x", Body: body})
	}
}

// TestGlancesAreCopies changes what a glance returned.
func TestGlancesAreCopies(t *testing.T) {
	s := &shelf{n: 2}
	c := fake(t, s.ServeHTTP)
	ctx := openstack.Glance(context.Background(), "run")
	call := openstack.Call{Service: openstack.Network, Path: "/networks"}
	first, err := c.List(ctx, call, "networks")
	if err != nil {
		t.Fatal(err)
	}
	first[0]["name"] = "changed"
	first[0]["tags"].([]any)[0] = "changed"
	second, err := c.List(ctx, call, "networks")
	if err != nil || second[0]["name"] != "n0" || second[0]["tags"].([]any)[0] != "t" {
		t.Errorf("got %v, %v", second, err)
	}
}

// TestGlanceIsShared lets many ask at the same time, with an answer and with an
// error, which isn't kept.
func TestGlanceIsShared(t *testing.T) {
	s := &shelf{n: 5}
	c := fake(t, s.ServeHTTP)
	all := func() (failed int) {
		var group sync.WaitGroup
		var mu sync.Mutex
		for i := range 40 {
			group.Go(func() {
				got, err := c.List(openstack.Glance(context.Background(), "run"), openstack.Call{Service: openstack.Network, Path: "/subnets", Query: url.Values{"name": {fmt.Sprint("n", i%5)}}}, "subnets")
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed++
				} else if len(got) != 1 {
					t.Errorf("got %v", got)
				}
			})
		}
		group.Wait()
		return failed
	}
	if failed := all(); failed > 0 || len(s.since(0)) != 1 {
		t.Errorf("%d failed, calls %q", failed, s.since(0))
	}
	c.Later(openstack.SnapshotAge)
	s.wrong = 503
	if _, err := c.List(openstack.Glance(context.Background(), "run"), openstack.Call{Service: openstack.Network, Path: "/subnets"}, "subnets"); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("got %v", err)
	}
	if failed := all(); failed > 0 {
		t.Errorf("%d failed after the service was back", failed)
	}
}

// TestTooManyAreAskedForOneByOne has more of a kind than are kept.
func TestTooManyAreAskedForOneByOne(t *testing.T) {
	s := &shelf{n: 2001}
	c := fake(t, s.ServeHTTP)
	for range 3 {
		if _, err := c.List(openstack.Glance(context.Background(), "run"), openstack.Call{Service: openstack.Network, Path: "/ports", Query: url.Values{"name": {"x"}}}, "ports"); err != nil {
			t.Fatal(err)
		}
	}
	want := "GET /network/v2.0/ports GET /network/v2.0/ports?name=x GET /network/v2.0/ports?name=x GET /network/v2.0/ports?name=x"
	if got := strings.Join(s.since(0), " "); got != want {
		t.Errorf("called %s, want %s", got, want)
	}
}
