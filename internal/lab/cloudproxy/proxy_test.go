package cloudproxy_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/cloudproxy"
	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

// stub is a cloud of two services, which keeps what it was sent.
type stub struct {
	identity, compute *httptest.Server

	mu   sync.Mutex
	seen []string // method, path and body
}

func newStub(t *testing.T) *stub {
	s := &stub{}
	s.identity = httptest.NewServer(http.HandlerFunc(s.serveIdentity))
	s.compute = httptest.NewServer(http.HandlerFunc(s.serveCompute))
	t.Cleanup(func() { s.identity.Close(); s.compute.Close() })
	return s
}

func (s *stub) note(r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
}

func (s *stub) took() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.seen
	s.seen = nil
	return took
}

func (s *stub) serveIdentity(w http.ResponseWriter, r *http.Request) {
	s.note(r)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Subject-Token", "token-1")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"token": map[string]any{"user": map[string]any{"name": "demo"}, "project": map[string]any{"name": "home"},
		"catalog": []any{map[string]any{"type": "compute", "endpoints": []any{map[string]any{"interface": "public", "url": s.compute.URL + "/v2.1"}}}}}})
}

func (s *stub) serveCompute(w http.ResponseWriter, r *http.Request) {
	s.note(r)
	w.Header().Set("X-Openstack-Request-Id", "req-1")
	if r.URL.Path == "/v2.1/file" {
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.WriteString(w, "raw "+s.compute.URL)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", s.compute.URL+"/v2.1/servers/1")
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"server": {"id": "1", "size": 12345678901234567}}`)
		return
	}
	_, _ = io.WriteString(w, `{"servers": [{"id": "1", "size": 12345678901234567}, {"id": "2"}], "servers_links": [{"href": "`+s.compute.URL+`/v2.1/servers?marker=2"}]}`)
}

func serve(t *testing.T) (*stub, *cloudproxy.Server) {
	s := newStub(t)
	p := cloudproxy.Serve(map[string]string{"identity": s.identity.URL, "compute": s.compute.URL})
	t.Cleanup(p.Close)
	return s, p
}

// do calls the proxy on a connection of its own.
func do(t *testing.T, p *cloudproxy.Server, method, path, body string) (int, http.Header, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("X-Auth-Token", "token-1")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Openstack-Nova-Api-Version", "2.79")
	answer, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(data), nil
}

func inject(t *testing.T, p *cloudproxy.Server, f openstack.Fault) string {
	t.Helper()
	id, err := p.Inject(f)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAddresses(t *testing.T) {
	s, p := serve(t)
	status, _, body, err := do(t, p, "POST", "/identity/v3/auth/tokens", `{"auth": {}}`)
	if err != nil || status != 201 || !strings.Contains(body, `"url":"`+p.URL()+`/compute/v2.1"`) || strings.Contains(body, s.compute.URL) {
		t.Errorf("%d %s %v", status, body, err)
	}
	status, header, body, err := do(t, p, "GET", "/compute/v2.1/servers?limit=2", "")
	if err != nil || status != 200 || !strings.Contains(body, p.URL()+"/compute/v2.1/servers?marker=2") || header.Get("Location") != p.URL()+"/compute/v2.1/servers/1" {
		t.Errorf("%d %v %s %v", status, header, body, err)
	}
	// What isn't text goes through as it is.
	if _, _, body, err := do(t, p, "GET", "/compute/v2.1/file", ""); err != nil || body != "raw "+s.compute.URL {
		t.Errorf("%q %v", body, err)
	}
	if status, _, _, err := do(t, p, "GET", "/elsewhere", ""); err != nil || status != 404 {
		t.Errorf("%d %v", status, err)
	}
	want := []string{`POST /v3/auth/tokens {"auth": {}}`, "GET /v2.1/servers?limit=2", "GET /v2.1/file"}
	if got := s.took(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the cloud got %q", got)
	}
}

func TestLog(t *testing.T) {
	_, p := serve(t)
	for _, c := range [][3]string{{"POST", "/identity/v3/auth/tokens", "{}"}, {"POST", "/compute/v2.1/servers/1/action", `{"reboot": {}}`}, {"GET", "/compute/v2.1/servers", ""}} {
		if _, _, _, err := do(t, p, c[0], c[1], c[2]); err != nil {
			t.Fatal(err)
		}
	}
	log := p.Requests(0)
	if len(log) != 3 || log[0].Service != "identity" || log[0].Status != 201 || log[0].Write() {
		t.Fatalf("%+v", log)
	}
	q := log[1]
	if q.Seq != 2 || q.Service != "compute" || q.Path != "/compute/v2.1/servers/1/action" || q.Action != "reboot" || q.Status != 202 || q.User != "demo" || q.Project != "home" ||
		q.ID != "req-1" || q.Microversion != "2.79" || !q.Write() {
		t.Errorf("%+v", q)
	}
	if after := p.Requests(2); len(after) != 1 || after[0].Method != "GET" {
		t.Errorf("%+v", after)
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fault  openstack.Fault
		status int    // 0: the connection is reset
		effect bool   // the cloud gets the request
		says   string // in the body
	}{
		{"status", openstack.Fault{Status: 503, RetryAfter: "2"}, 503, false, "serviceUnavailable"},
		{"status after the effect", openstack.Fault{Status: 500, Effect: true}, 500, true, "computeFault"},
		{"body", openstack.Fault{Status: 409, Body: `{"own": 1}`}, 409, false, `{"own": 1}`},
		{"quota", openstack.Fault{Quota: true}, 403, false, "Quota exceeded for servers"},
		{"reset before", openstack.Fault{Reset: "before"}, 0, false, ""},
		{"reset after", openstack.Fault{Reset: "after"}, 0, true, ""},
		{"delay", openstack.Fault{DelayMS: 1}, 202, true, `"id": "1"`},
		{"expire", openstack.Fault{Expire: true}, 401, false, "requires authentication"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, p := serve(t)
			tt.fault.Service, tt.fault.Method = "compute", "write"
			id := inject(t, p, tt.fault)
			status, header, body, err := do(t, p, "POST", "/compute/v2.1/servers", "{}")
			if reset := errors.Is(err, syscall.ECONNRESET); reset != (tt.status == 0) || !reset && err != nil {
				t.Fatal(err)
			}
			if status != tt.status || !strings.Contains(body, tt.says) || header.Get("Retry-After") != tt.fault.RetryAfter {
				t.Errorf("%d %v %s", status, header, body)
			}
			if got := s.took(); len(got) == 1 != tt.effect {
				t.Errorf("the cloud got %q", got)
			}
			if log := p.Requests(0); len(log) != 1 || log[0].Status != tt.status || log[0].Fault != id {
				t.Errorf("%+v", log)
			}
			if f := p.Faults(); len(f) != 1 || f[0].Hits != 1 || p.ClearFaults(id) != 1 {
				t.Errorf("%+v", f)
			}
			want := 200
			if tt.fault.Expire {
				want = 401 // it isn't valid any more
			}
			if status, _, _, err := do(t, p, "GET", "/compute/v2.1/servers", ""); err != nil || status != want {
				t.Errorf("afterwards: %d %v", status, err)
			}
		})
	}
	_, p := serve(t)
	if _, err := p.Inject(openstack.Fault{Service: "weather", Status: 500}); err == nil {
		t.Error("a service that isn't there")
	}
}

func TestOutcome(t *testing.T) {
	s, p := serve(t)
	inject(t, p, openstack.Fault{Outcome: "error"})
	if _, _, _, err := do(t, p, "POST", "/compute/v2.1/servers", `{"server":{"metadata":{"a":"b"},"name":"x"}}`); err != nil {
		t.Fatal(err)
	}
	if got := s.took(); len(got) != 1 || got[0] != `POST /v2.1/servers {"server":{"metadata":{"a":"b","lab_fail":"spawn"},"name":"x"}}` {
		t.Errorf("the cloud got %q", got)
	}
}

func TestHide(t *testing.T) {
	_, p := serve(t)
	list := func() string {
		_, _, body, err := do(t, p, "GET", "/compute/v2.1/servers", "")
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	inject(t, p, openstack.Fault{Method: "POST", HideMS: 3600_000})
	if _, _, _, err := do(t, p, "POST", "/compute/v2.1/servers", "{}"); err != nil {
		t.Fatal(err)
	}
	if body := list(); strings.Contains(body, `"id":"1"`) || !strings.Contains(body, `"id":"2"`) || !strings.Contains(body, "marker=2") {
		t.Error(body)
	}

	_, p = serve(t)
	p.SetLag("network", time.Hour)
	for range 2 {
		if _, _, _, err := do(t, p, "POST", "/compute/v2.1/servers", "{}"); err != nil {
			t.Fatal(err)
		}
		if body := list(); !strings.Contains(body, "12345678901234567") {
			t.Error("hidden though it is no network, or not after the lag was ended", body)
		}
		p.SetLag("", 0)
	}
	p.SetLag("server", time.Hour)
	if _, _, _, err := do(t, p, "POST", "/compute/v2.1/servers", "{}"); err != nil {
		t.Fatal(err)
	}
	if body := list(); strings.Contains(body, "12345678901234567") {
		t.Error("shown at once", body)
	}
}

func TestExpireTokens(t *testing.T) {
	_, p := serve(t)
	if status, _, _, err := do(t, p, "POST", "/identity/v3/auth/tokens", "{}"); err != nil || status != 201 {
		t.Fatal(status, err)
	}
	p.ExpireTokens()
	status, header, _, err := do(t, p, "GET", "/compute/v2.1/servers", "")
	if err != nil || status != 401 || !strings.Contains(header.Get("Www-Authenticate"), p.AuthURL()) {
		t.Errorf("%d %v %v", status, header, err)
	}
}

// TestHook counts what the cloud has got at each moment.
func TestHook(t *testing.T) {
	s, p := serve(t)
	var moments []string
	p.SetHook(func(m cloudproxy.Moment, q openstack.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		moments = append(moments, string(m)+" "+q.Method+" "+http.StatusText(q.Status))
		if sent := len(s.seen) > 0; sent != (m == cloudproxy.After) {
			t.Errorf("%s: the cloud has got %q", m, s.seen)
		}
	})
	if _, _, _, err := do(t, p, "POST", "/compute/v2.1/servers", "{}"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(moments, ", "); got != "before POST , after POST Accepted" {
		t.Error(got)
	}
	p.SetHook(nil)
}

// TestGone stands for a service that was stopped.
func TestGone(t *testing.T) {
	s, p := serve(t)
	s.compute.Close()
	if _, _, _, err := do(t, p, "GET", "/compute/v2.1/servers", ""); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	if log := p.Requests(0); len(log) != 1 || log[0].Status != 0 {
		t.Errorf("%+v", log)
	}
}
