package openstack_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// keystone answers logins with a catalog in which the services lie below the
// server's own address.
func keystone(mux *http.ServeMux, url func() string) {
	mux.HandleFunc("POST /v3/auth/tokens", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Subject-Token", "token-1")
		w.WriteHeader(http.StatusCreated)
		var services []string
		for _, s := range []string{"compute", "network", "image", "load-balancer"} {
			services = append(services, fmt.Sprintf(`{"type": %q, "endpoints": [{"interface": "public", "region": "R", "region_id": "R", "url": "%s/%s"}]}`, s, url(), s))
		}
		fmt.Fprintf(w, `{"token": {"expires_at": "2099-01-01T00:00:00.000000Z", "project": {"id": "p1", "name": "p"}, "catalog": [%s]}}`, strings.Join(services, ","))
	})
}

// fake starts a server that logs in and answers everything else with h.
func fake(t *testing.T, h http.HandlerFunc) *openstack.Client { return slowly(t, "30", h) }

// slowly is fake with a time limit, in seconds.
func slowly(t *testing.T, seconds string, h http.HandlerFunc) *openstack.Client {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	keystone(mux, func() string { return server.URL })
	mux.HandleFunc("/", h)
	e, err := entry(t, `clouds: {x: {api_timeout: `+seconds+`, auth: {auth_url: "`+server.URL+`/v3", username: u, password: hunter22, project_name: p, default_domain: D}}}`, "", "x")
	if err != nil {
		t.Fatal(err)
	}
	c, err := openstack.Connect(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRefusals(t *testing.T) {
	glance := "<html>\n <head>\n  <title>409 Conflict</title>\n </head>\n <body>\n  <h1>409 Conflict</h1>\n  Image status transition from saving to saving isn&#x27;t allowed<br /><br />\n\n\n </body>\n</html>"
	for name, c := range map[string]struct {
		service    openstack.Service
		status     int
		body       string
		header     http.Header
		kind       fault.Kind
		text, hint string
		after      time.Duration
	}{
		"400":          {service: openstack.Compute, status: 400, body: `{"badRequest": {"code": 400, "message": "Invalid imageRef provided."}}`, kind: fault.Invalid, text: "Nova answered 400: Invalid imageRef provided. (GET /compute/v2.1/x, request req-7)"},
		"401":          {service: openstack.Network, status: 401, body: `{"error": {"code": 401, "message": "The request you have made requires authentication.", "title": "Unauthorized"}}`, kind: fault.Unavailable, text: "requires authentication", hint: "doesn't take tokens that Keystone gives"},
		"403":          {service: openstack.Network, status: 403, body: `{"NeutronError": {"type": "PolicyNotAuthorized", "message": "rule:create_network is disallowed by policy", "detail": ""}}`, kind: fault.Denied, text: "disallowed by policy", hint: "roles"},
		"403 quota":    {service: openstack.Compute, status: 403, body: `{"forbidden": {"code": 403, "message": "Quota exceeded for cores: Requested 8, but already used 18 of 20 cores"}}`, kind: fault.Quota, text: "used 18 of 20 cores", hint: "cloud.limits()"},
		"413":          {service: openstack.Image, status: 413, body: "<html><body>Denying attempt to upload image because it exceeds the quota</body></html>", kind: fault.Quota, text: "exceeds the quota"},
		"404":          {service: openstack.Network, status: 404, body: `{"NeutronError": "Network x could not be found."}`, kind: fault.NotFound, text: "Neutron answered 404: Network x could not be found."},
		"406":          {service: openstack.Compute, status: 406, body: `{"computeFault": {"code": 406, "message": "Version 2.19 is not supported by the API. Minimum is 2.1 and maximum is 2.12."}}`, kind: fault.Invalid, text: "maximum is 2.12", hint: "older"},
		"409":          {service: openstack.Network, status: 409, body: `{"NeutronError": {"type": "IpAddressInUse", "message": "IP in use.", "detail": "by x"}}`, kind: fault.Conflict, text: "IP in use. by x"},
		"403 quota lb": {service: openstack.LoadBalancer, status: 403, body: `{"faultcode": "Client", "faultstring": "Quota has been met for resources: Load Balancer", "debuginfo": null}`, kind: fault.Quota, text: "resources: Load Balancer", hint: "quota show"},
		"409 quota":    {service: openstack.Network, status: 409, body: `{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['floatingip'].", "detail": ""}}`, kind: fault.Quota, text: "['floatingip']", hint: "quota show"},
		"409 used up":  {service: openstack.Network, status: 409, body: `{"NeutronError": {"type": "IpAddressGenerationFailure", "message": "No more IP addresses available on network n.", "detail": ""}}`, kind: fault.Quota, text: "No more IP", hint: "address range"},
		"409 pools":    {service: openstack.Network, status: 409, body: `{"NeutronError": {"type": "OverlappingAllocationPools", "message": "Found overlapping allocation pools: a b for subnet c.", "detail": ""}}`, kind: fault.Invalid, text: "overlapping"},
		"409 rule":     {service: openstack.Network, status: 409, body: `{"NeutronError": {"type": "SecurityGroupRuleExists", "message": "Security group rule already exists. Rule id is x.", "detail": ""}}`, kind: fault.Exists, text: "already exists"},
		"409 key":      {service: openstack.Compute, status: 409, body: `{"conflictingRequest": {"code": 409, "message": "Key pair 'k' already exists."}}`, kind: fault.Exists, text: "already exists"},
		"409 groups":   {service: openstack.Compute, status: 409, body: `{"conflictingRequest": {"code": 409, "message": "Multiple security groups found matching 'web'. Use an ID to be more specific."}}`, kind: fault.Invalid, text: "more specific"},
		"409 locked":   {service: openstack.Compute, status: 409, body: `{"conflictingRequest": {"code": 409, "message": "Instance 1-2 is locked"}}`, kind: fault.Denied, text: "is locked", hint: "server unlock"},
		"409 state":    {service: openstack.Compute, status: 409, body: `{"conflictingRequest": {"code": 409, "message": "Cannot 'reboot' instance 1-2 while it is in task_state rebooting"}}`, kind: fault.Conflict, text: "task_state"},
		"409 listener": {service: openstack.LoadBalancer, status: 409, body: `{"faultcode": "Client", "faultstring": "Another Listener on this Load Balancer is already using protocol TCP and protocol_port 80", "debuginfo": null}`, kind: fault.Exists, text: "already using"},
		"409 pending":  {service: openstack.LoadBalancer, status: 409, body: `{"faultcode": "Client", "faultstring": "Load Balancer x is immutable and cannot be updated.", "debuginfo": null}`, kind: fault.Conflict, text: "immutable"},
		"409 page":     {service: openstack.Image, status: 409, body: glance, kind: fault.Conflict, text: "Glance answered 409: Image status transition from saving to saving isn't allowed (GET /image/v2/x, request req-7)"},
		"429":          {service: openstack.Network, status: 429, header: http.Header{"Retry-After": {"7"}}, kind: fault.Unavailable, text: "429: Too Many Requests", after: 7 * time.Second},
		"503 date": {service: openstack.Compute, status: 503, header: http.Header{"Retry-After": {"Wed, 01 Jan 2020 00:00:30 GMT"}, "Date": {"Wed, 01 Jan 2020 00:00:10 GMT"}},
			body: "no JSON <b>at</b> all", kind: fault.Unavailable, text: "no JSON at all", after: 20 * time.Second},
		"500": {service: openstack.Compute, status: 500, body: `{"computeFault": {"message": "Unexpected API Error."}}`, kind: fault.Unavailable, text: "Unexpected API Error."},
		"501": {service: openstack.Compute, status: 501, body: `{"notImplemented": {"message": "no"}}`, kind: fault.Invalid, text: "501: no"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake(t, func(w http.ResponseWriter, _ *http.Request) {
				for k, v := range c.header {
					w.Header()[k] = v
				}
				w.Header().Set("X-Openstack-Request-Id", "req-7")
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			})
			_, err := client.Do(context.Background(), openstack.Call{Service: c.service, Method: "GET", Path: "/x"})
			if fault.KindOf(err) != c.kind {
				t.Errorf("kind is %s, want %s (%v)", fault.KindOf(err), c.kind, err)
			}
			if !strings.Contains(fmt.Sprint(err), c.text) || !strings.Contains(fmt.Sprint(err), "request req-7") {
				t.Errorf("error is %q, want %q and the request's id in it", err, c.text)
			}
			if !strings.Contains(fault.HintOf(err), c.hint) {
				t.Errorf("hint is %q, want %q in it", fault.HintOf(err), c.hint)
			}
			if got := fault.AfterOf(err); got != c.after {
				t.Errorf("after is %s, want %s", got, c.after)
			}
		})
	}
}

func TestBrokenConnections(t *testing.T) {
	client := fake(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/network/v2.0/half":
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"networks": [`)
		case "/network/v2.0/odd":
			fmt.Fprint(w, "hello")
		case "/network/v2.0/empty":
			fmt.Fprint(w, "{}")
		default:
			panic(http.ErrAbortHandler)
		}
	})
	for path, kind := range map[string]fault.Kind{"/reset": fault.Unreachable, "/half": fault.Unreachable, "/odd": fault.Unavailable, "/empty": fault.Unavailable} {
		_, err := client.List(context.Background(), openstack.Call{Service: openstack.Network, Path: path}, "networks")
		if fault.KindOf(err) != kind {
			t.Errorf("%s: kind is %s, want %s (%v)", path, fault.KindOf(err), kind, err)
		}
	}
}

func TestContextEndsCalls(t *testing.T) {
	begun := make(chan struct{})
	client := fake(t, func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancelCause(context.Background())
	go func() {
		<-begun
		cancel(fault.New(fault.Cancelled, "somebody pressed Ctrl-C"))
	}()
	_, err := client.Do(ctx, openstack.Call{Service: openstack.Network, Method: "GET", Path: "/x"})
	if fault.KindOf(err) != fault.Cancelled || !strings.Contains(err.Error(), "Ctrl-C") {
		t.Errorf("got %v (%s)", err, fault.KindOf(err))
	}
	ctx, stop := context.WithTimeout(context.Background(), 0)
	defer stop()
	if _, err = client.Do(ctx, openstack.Call{Service: openstack.Network, Method: "GET", Path: "/x"}); fault.KindOf(err) != fault.Timeout {
		t.Errorf("got %v (%s)", err, fault.KindOf(err))
	}
}

func TestCallsHaveDeadlines(t *testing.T) {
	client := slowly(t, "0.05", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/body") {
			fmt.Fprint(w, "{")
			w.(http.Flusher).Flush()
		}
		if strings.HasSuffix(r.URL.Path, "/file") { // an upload isn't bounded
			time.Sleep(100 * time.Millisecond)
			return
		}
		<-r.Context().Done()
	})
	for _, path := range []string{"/head", "/body"} {
		_, err := client.Do(context.Background(), openstack.Call{Service: openstack.Network, Method: "GET", Path: path})
		if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "Neutron didn't answer within 50ms") || !strings.Contains(fault.HintOf(err), "api_timeout") {
			t.Errorf("%s: got %v (%s)", path, err, fault.KindOf(err))
		}
	}
	if _, err := client.Do(context.Background(), openstack.Call{Service: openstack.Image, Method: "PUT", Path: "/images/x/file", Stream: strings.NewReader("data")}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := client.Do(ctx, openstack.Call{Service: openstack.Network, Method: "GET", Path: "/head"}); fault.KindOf(err) != fault.Timeout {
		t.Errorf("the caller's deadline: got %v (%s)", err, fault.KindOf(err))
	}
}

func TestPages(t *testing.T) {
	client := fake(t, func(w http.ResponseWriter, r *http.Request) {
		at := r.URL.Query().Get("marker")
		switch r.URL.Path {
		case "/network/v2.0/networks":
			next := map[string]string{"": "b", "b": "c"}[at]
			links := ""
			if next != "" {
				// The link's host is one that nobody can reach.
				links = fmt.Sprintf(`, "networks_links": [{"rel": "previous", "href": "x"}, {"rel": "next", "href": "http://inside/v2.0/networks?marker=%s&name=n"}]`, next)
			} else if r.URL.Query().Get("name") != "n" {
				t.Errorf("page %q has lost its filter", at)
			}
			fmt.Fprintf(w, `{"networks": [{"id": "%s1", "mtu": 1500, "big": 12345678901}]%s}`, at, links)
		case "/image/v2/images":
			if at == "" {
				fmt.Fprint(w, `{"images": [{"id": "i1"}], "next": "/v2/images?marker=i1"}`)
			} else {
				fmt.Fprint(w, `{"images": [{"id": "i2"}]}`)
			}
		case "/image/v2/circle":
			fmt.Fprint(w, `{"circle": [{"id": "i1"}], "next": "/v2/circle?marker=i1"}`)
		}
	})
	all, err := client.List(context.Background(), openstack.Call{Service: openstack.Network, Path: "/networks"}, "networks")
	if err != nil || len(all) != 3 || all[0]["mtu"] != int64(1500) || all[2]["big"] != int64(12345678901) {
		t.Errorf("got %v, %v", all, err)
	}
	if all, err = client.List(context.Background(), openstack.Call{Service: openstack.Image, Path: "/images"}, "images"); err != nil || len(all) != 2 {
		t.Errorf("got %v, %v", all, err)
	}
	if _, err = client.List(context.Background(), openstack.Call{Service: openstack.Image, Path: "/circle"}, "circle"); err == nil || !strings.Contains(err.Error(), "in a circle") {
		t.Errorf("got %v", err)
	}
}

func TestMicroversionIsSent(t *testing.T) {
	var got http.Header
	client := fake(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		fmt.Fprint(w, "{}")
	})
	if _, err := client.Do(context.Background(), openstack.Call{Service: openstack.Compute, Version: openstack.ServerVersion, Method: "GET", Path: "/servers"}); err != nil {
		t.Fatal(err)
	}
	if got.Get("OpenStack-API-Version") != "compute 2.26" || got.Get("X-OpenStack-Nova-API-Version") != "2.26" || !strings.HasPrefix(got.Get("User-Agent"), "gsrun") {
		t.Errorf("headers are %v", got)
	}
}

func TestHostKeys(t *testing.T) {
	const ed = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFEprDqY8tc7vJ3kGk0o2q8Xn3b8b2v1Xq0b0Yw3q0bq"
	begin, end := "-----BEGIN SSH HOST KEY KEYS-----\n", "-----END SSH HOST KEY KEYS-----\n"
	for name, c := range map[string]struct {
		console string
		want    int
	}{
		"plain":     {begin + ed + " root@x\n" + end, 1},
		"prefixes":  {"[  1.0] ci: " + begin + "[  1.1] ci: " + ed + "\r\n" + "[ 1.2] " + end, 1},
		"no end":    {begin + ed + "\n", 0},
		"no block":  {ed + "\n", 0},
		"broken":    {begin + ed[:40] + "\n" + end, 0},
		"the last":  {begin + ed + "\n" + ed + "\n" + end + begin + ed + "\n" + end, 1},
		"cut short": {begin + ed + "\n" + end + begin + ed + "\n", 1},
	} {
		keys := openstack.HostKeys(c.console)
		if len(keys) != c.want || c.want > 0 && keys[0] != ed {
			t.Errorf("%s: got %q, want %d", name, keys, c.want)
		}
	}
}
