package openstack_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"

	"git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
)

func (l *lab) inject(f openstack.Fault) {
	l.t.Helper()
	if _, err := l.cloud.Inject(f); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) networkNames() []string {
	l.t.Helper()
	pages, err := networks.List(l.network, networks.ListOpts{ProjectID: ""}).AllPages(l.ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	var names []string
	for _, n := range must[[]networks.Network](l.t, "list")(networks.ExtractNetworks(pages)) {
		names = append(names, n.Name)
	}
	return names
}

func (l *lab) tryNetwork(name string) error {
	_, err := networks.Create(l.ctx, l.network, networks.CreateOpts{Name: name}).Extract()
	return err
}

func has(l []string, s string) bool {
	for _, x := range l {
		if x == s {
			return true
		}
	}
	return false
}

func TestFaultStatus(t *testing.T) {
	l := newLab(t, nil)
	l.inject(openstack.Fault{Service: "network", Method: "POST", Path: "/networks$", Status: 503, Count: 2, RetryAfter: "1"})
	wantStatus(t, l.tryNetwork("a"), 503, "NeutronError")
	if names := l.networkNames(); has(names, "a") {
		t.Errorf("a refused create took effect: %v", names)
	}
	var e gophercloud.ErrUnexpectedResponseCode
	if err := l.tryNetwork("a"); !asCode(err, &e) || e.ResponseHeader.Get("Retry-After") != "1" || !strings.HasPrefix(e.ResponseHeader.Get("X-Openstack-Request-Id"), "req-") {
		t.Errorf("second: %v", err)
	}
	if err := l.tryNetwork("a"); err != nil {
		t.Errorf("third: %v", err)
	}
	l.inject(openstack.Fault{Method: "POST", Path: "/networks", Skip: 1, Status: 500, Effect: true, Body: `{"late":true}`})
	if err := l.tryNetwork("b"); err != nil {
		t.Errorf("a skipped fault hit: %v", err)
	}
	wantStatus(t, l.tryNetwork("c"), 500, `{"late":true}`)
	if names := l.networkNames(); !has(names, "c") {
		t.Errorf("the effect is missing: %v", names)
	}
}

func TestFaultReset(t *testing.T) {
	l := newLab(t, nil)
	l.inject(openstack.Fault{Service: "network", Method: "POST", Reset: "before"})
	if err := l.tryNetwork("before"); err == nil {
		t.Error("no error from a reset connection")
	}
	l.inject(openstack.Fault{Service: "network", Method: "POST", Reset: "after"})
	if err := l.tryNetwork("after"); err == nil {
		t.Error("no error from a reset connection")
	}
	if names := l.networkNames(); has(names, "before") || !has(names, "after") {
		t.Errorf("networks: %v", names)
	}
	n := 0
	for _, q := range l.cloud.Requests(0) {
		if q.Status == 0 && q.Fault != "" && q.Method == "POST" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d dropped connections in the log, want 2", n)
	}
}

// TestFaultQuota has each service refuse in its own form.
func TestFaultQuota(t *testing.T) {
	l := newLab(t, nil)
	l.inject(openstack.Fault{Service: "network", Method: "POST", Quota: true})
	wantStatus(t, l.tryNetwork("a"), 409, "OverQuota")
	l.inject(openstack.Fault{Service: "compute", Method: "POST", Quota: true})
	_, err := keypairs.Create(l.ctx, l.compute, keypairs.CreateOpts{Name: "k"}).Extract()
	wantStatus(t, err, 403, "Quota exceeded")
	if names := l.networkNames(); has(names, "a") {
		t.Errorf("a refused create took effect: %v", names)
	}
}

func TestFaultTokenExpires(t *testing.T) {
	l := newLab(t, nil)
	n := countReauth(l.demo)
	l.inject(openstack.Fault{Service: "network", Method: "POST", Expire: true})
	if err := l.tryNetwork("a"); err != nil || *n != 1 {
		t.Errorf("%v after %d logins", err, *n)
	}
}

func TestEventualConsistency(t *testing.T) {
	l := newLab(t, nil)
	l.inject(openstack.Fault{Service: "network", Method: "POST", HideMS: 500})
	n := must[*networks.Network](t, "create")(networks.Create(l.ctx, l.network, networks.CreateOpts{Name: "late"}).Extract())
	if has(l.networkNames(), "late") {
		t.Error("listed at once")
	}
	if _, err := networks.Get(l.ctx, l.network, n.ID).Extract(); err != nil {
		t.Errorf("by id: %v", err)
	}
	l.clock.Advance(500 * time.Millisecond)
	if !has(l.networkNames(), "late") {
		t.Error("not listed later")
	}
	l.cloud.SetLag("network", time.Second)
	l.tryNetwork("second")
	l.cloud.SetLag("", 0)
	l.tryNetwork("third")
	if names := l.networkNames(); has(names, "second") || !has(names, "third") {
		t.Errorf("with a lag for the second: %v", names)
	}
}

func TestFaultDelay(t *testing.T) {
	l := newLab(t, func(cfg *openstack.Config) { cfg.Clock = nil })
	l.inject(openstack.Fault{Service: "network", Method: "POST", DelayMS: 50})
	start := time.Now()
	if err := l.tryNetwork("slow"); err != nil || time.Since(start) < 50*time.Millisecond {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}

func TestBadFaults(t *testing.T) {
	l := newLab(t, nil)
	for _, f := range []openstack.Fault{{}, {Path: "(", Status: 500}, {Reset: "never"}, {Outcome: "luck"}, {Status: 42}, {Service: "cpu", Status: 500}} {
		if _, err := l.cloud.Inject(f); err == nil {
			t.Errorf("%+v was taken", f)
		}
	}
}

// admin calls the lab's own interface.
func (l *lab) adminCall(method, path string, body, out any) int {
	l.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		l.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(l.ctx, method, l.url+"/lab"+path, bytes.NewReader(data))
	if err != nil {
		l.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	if out != nil {
		if err := json.Unmarshal(raw, out); err != nil {
			l.t.Fatalf("%s: %v", raw, err)
		}
	}
	return resp.StatusCode
}

func TestAdminInterface(t *testing.T) {
	l := newLab(t, nil)
	if code := l.adminCall("POST", "/faults", map[string]any{"id": "mine", "service": "network", "status": 409, "count": -1}, nil); code != 201 {
		t.Fatalf("inject: %d", code)
	}
	wantStatus(t, l.tryNetwork("a"), 409, "")
	wantStatus(t, l.tryNetwork("a"), 409, "")
	var out struct {
		Faults   []openstack.Fault
		Requests []openstack.Request
	}
	l.adminCall("GET", "/faults", nil, &out)
	if len(out.Faults) != 1 || out.Faults[0].Hits != 2 {
		t.Errorf("faults: %+v", out.Faults)
	}
	if code := l.adminCall("DELETE", "/faults/other", nil, nil); code != 404 {
		t.Errorf("removing an unknown fault: %d", code)
	}
	if code := l.adminCall("DELETE", "/faults/mine", nil, nil); code != 200 {
		t.Errorf("removing: %d", code)
	}
	if err := l.tryNetwork("a"); err != nil {
		t.Error(err)
	}
	if code := l.adminCall("POST", "/faults", map[string]any{"nonsense": 1}, nil); code != 400 {
		t.Errorf("an unknown field: %d", code)
	}
	n := countReauth(l.demo)
	l.adminCall("POST", "/tokens/expire", nil, nil)
	before := len(l.cloud.Requests(0))
	l.adminCall("POST", "/lag", map[string]any{"kind": "network", "ms": 1000}, nil)
	l.tryNetwork("hidden")
	if *n != 1 || has(l.networkNames(), "hidden") {
		t.Errorf("%d logins; networks %v", *n, l.networkNames())
	}
	l.adminCall("GET", "/requests?since="+json.Number(itoa(before)).String(), nil, &out)
	if len(out.Requests) == 0 || out.Requests[0].Seq != before+1 || out.Requests[0].Status != 401 {
		t.Errorf("requests since %d: %+v", before, out.Requests)
	}
	var state map[string][]map[string]any
	l.adminCall("GET", "/state?normalize=true", nil, &state)
	if len(state["network"]) != 3 {
		t.Errorf("networks in the state: %v", state["network"])
	}
}

func TestRequestLog(t *testing.T) {
	l := newLab(t, nil)
	l.tryNetwork("a")
	app := l.login(gophercloud.AuthOptions{ApplicationCredentialID: "0123456789abcdef0123456789abcdef", ApplicationCredentialSecret: "app-secret-canary"})
	at(l.compute, "2.53").Get(l.ctx, l.compute.ServiceURL("servers")+"?name=x", nil, nil)
	log := l.log.String()
	for _, secret := range []string{demoPassword, "app-secret-canary", l.demo.Token(), app.Token()} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has a secret: %s", log)
		}
	}
	lines := strings.Split(strings.TrimSpace(log), "\n")
	requests := l.cloud.Requests(0)
	if len(lines) != len(requests) {
		t.Fatalf("%d lines, %d requests", len(lines), len(requests))
	}
	var q openstack.Request
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &q); err != nil {
		t.Fatal(err)
	}
	if q.Service != "compute" || q.Method != "GET" || q.Path != "/compute/v2.1/servers?name=x" || q.Microversion != "2.53" || q.User != "demo" || q.Project != "demo" || q.Status != 200 || q.Seq != len(lines) {
		t.Errorf("last line: %+v", q)
	}
	writes := 0
	for _, q := range requests {
		if q.Write() {
			writes++
		}
	}
	if writes != 1 {
		t.Errorf("%d writes, want the one network", writes)
	}
	if got := l.cloud.Requests(len(lines) - 1); len(got) != 1 || got[0].ID != q.ID {
		t.Errorf("since the last: %+v", got)
	}
}
