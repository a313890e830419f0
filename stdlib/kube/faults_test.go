package kube_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiproxy"
	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/kube"
)

// A sickServer is the API server as it is reached by way of a proxy that makes
// requests go wrong.
type sickServer struct {
	t       *testing.T
	faults  *inject.Set[apiproxy.Fault]
	address string
}

func sicken(t *testing.T) *sickServer {
	t.Helper()
	cluster := start(t)
	s := &sickServer{t: t, faults: apiproxy.NewFaults()}
	proxy, err := apiproxy.New(apiproxy.Config{Cluster: cluster, Address: cluster.Address, Host: "lab-seed", Faults: s.faults})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer conn.Close()
				proxy.Serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		proxy.Close()
		work.Wait()
	})
	return s
}

// A patientClock is the machine's, but it only notes the pauses of a second and
// more.
type patientClock struct {
	effect.SystemClock
	mu      sync.Mutex
	longest time.Duration
}

func (c *patientClock) Sleep(ctx context.Context, d time.Duration) error {
	if d < time.Second {
		return c.SystemClock.Sleep(ctx, d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = max(c.longest, d)
	return ctx.Err()
}

// run runs a function of a module that has no connection yet, and returns what
// it wrote and how long it paused at most.
func (s *sickServer) run(body string) (writes []string, longest time.Duration, err error) {
	s.t.Helper()
	var c counter
	clock := new(patientClock)
	door := startest.NewDoor(effect.Apply)
	door.Clock = clock
	conf := strings.ReplaceAll(kubeconfig(s.t, "gsrun-test", "system:masters"), start(s.t).Address, s.address)
	opts := startest.Options{Modules: []*builtin.Module{module(s.t, kube.Config{Wrap: c.wrap})}, Door: door,
		Globals: starlark.StringDict{"kubeconfig": starlark.String(conf)}}
	_, err = run(s.t, opts, "def test():\n    c = kube.cluster(\"lab\", kubeconfig = kubeconfig)\n    "+strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n    ")+"\n")
	_, writes = c.take()
	return writes, clock.longest, err
}

func (s *sickServer) inject(f apiproxy.Fault) {
	s.t.Helper()
	if _, err := apiproxy.Inject(s.faults, f); err != nil {
		s.t.Fatal(err)
	}
}

// TestPassingFaults disturbs each thing that is done with objects by each
// fault that passes.
func TestPassingFaults(t *testing.T) {
	s := sicken(t)
	passing := map[string]struct {
		fault apiproxy.Fault
		asked time.Duration
		more  int // writes beyond those of an undisturbed run
	}{
		"409":          {apiproxy.Fault{Status: 409, Count: 2}, 0, 2},
		"429":          {apiproxy.Fault{Status: 429, RetryAfter: "7"}, 7 * time.Second, 1},
		"429-date":     {apiproxy.Fault{Status: 429, RetryAfter: "+9s"}, 9 * time.Second, 1},
		"500":          {apiproxy.Fault{Status: 500}, 0, 1},
		"500-effect":   {apiproxy.Fault{Status: 500, Effect: true}, 0, 0},
		"503":          {apiproxy.Fault{Status: 503, RetryAfter: "3", Count: 2}, 3 * time.Second, 2},
		"504":          {apiproxy.Fault{Status: 504}, 0, 1},
		"reset-before": {apiproxy.Fault{Reset: "before"}, 0, 1},
		"reset-after":  {apiproxy.Fault{Reset: "after"}, 0, 0},
		"cut":          {apiproxy.Fault{Cut: true}, 0, 0},
		"slow":         {apiproxy.Fault{DelayMS: 20}, 0, 0},
	}
	const object = `c.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s"}, "data": {"a": "%s"}}])`
	for name, p := range passing {
		t.Run(name, func(t *testing.T) {
			s.t = t
			cm := "sick-" + name
			for _, step := range []struct{ what, method, path, body string }{
				{"create", "write", "/configmaps/" + cm, fmt.Sprintf(object, cm, "1")},
				{"update", "write", "/configmaps/" + cm, fmt.Sprintf(object, cm, "2")},
				{"dry run", "PATCH", "/configmaps/" + cm + ".*dryRun", fmt.Sprintf(object, cm, "3")},
				{"get", "GET", "/configmaps/" + cm, fmt.Sprintf(`assert.eq(c.get("ConfigMap", %q)["data"]["a"], "3")`, cm)},
				{"list", "GET", "/configmaps", `assert.true(c.list("ConfigMap", namespace = "default"))`},
				{"discovery", "GET", "^/(api|apis)(/|$|\\?)", fmt.Sprintf(`c.get("ConfigMap", %q)`, cm)},
				{"wait", "GET", "/configmaps/" + cm, fmt.Sprintf(`c.wait("ConfigMap", %q, path = "data.a", value = "3")`, cm)},
				{"delete", "write", "/configmaps/" + cm, fmt.Sprintf(`c.delete("ConfigMap", %q)`, cm)},
			} {
				s.faults.Clear("")
				f := p.fault
				if step.method == "GET" && f.Status == 409 {
					continue // no read meets it
				}
				f.Method, f.Path = step.method, step.path
				s.inject(f)
				writes, longest, err := s.run(step.body)
				if err != nil {
					t.Fatalf("%s: %s", step.what, startest.Explain(err))
				}
				if hits := s.faults.List()[0].Hits; hits != max(f.Count, 1) {
					t.Errorf("%s: the fault acted %d times", step.what, hits)
				}
				if step.method == "write" && len(writes) != 1+p.more {
					t.Errorf("%s: wrote %q", step.what, writes)
				}
				if longest < p.asked || longest > p.asked+time.Second {
					t.Errorf("%s: the longest pause is %v, the API server asked for %v", step.what, longest, p.asked)
				}
				s.faults.Clear("")
				if step.what == "create" || step.what == "update" {
					if writes, _, err := s.run(step.body); err != nil || len(writes) > 0 {
						t.Errorf("%s again: wrote %q, %v", step.what, writes, err)
					}
				}
			}
		})
	}
}

// TestLastingFaults has an apply fail for good.
func TestLastingFaults(t *testing.T) {
	s := sicken(t)
	for name, test := range map[string]struct {
		fault apiproxy.Fault
		kind  fault.Kind
		tries int
	}{
		"400":      {apiproxy.Fault{Status: 400}, fault.Invalid, 1},
		"401":      {apiproxy.Fault{Status: 401}, fault.Denied, 1},
		"403":      {apiproxy.Fault{Status: 403}, fault.Denied, 1},
		"quota":    {apiproxy.Fault{Status: 403, Message: `configmaps "x" is forbidden: exceeded quota: small`}, fault.Quota, 1},
		"422":      {apiproxy.Fault{Status: 422}, fault.Invalid, 1},
		"conflict": {apiproxy.Fault{Status: 409}, fault.Conflict, 4},
		"503":      {apiproxy.Fault{Status: 503}, fault.Unavailable, 4},
		"429":      {apiproxy.Fault{Status: 429, RetryAfter: "1"}, fault.Unavailable, 4},
		"reset":    {apiproxy.Fault{Reset: "before"}, fault.Unreachable, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			s.faults.Clear("")
			test.fault.Method, test.fault.Path, test.fault.Count = "PATCH", "/configmaps/", -1
			s.inject(test.fault)
			_, _, err := s.run(`c.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "never"}}])`)
			if fault.KindOf(err) != test.kind {
				t.Errorf("got %v (%s), want %s", err, fault.KindOf(err), test.kind)
			}
			if hits := s.faults.List()[0].Hits; hits != test.tries {
				t.Errorf("%d tries, want %d", hits, test.tries)
			}
		})
	}
}

// TestWaitUnderFaults lets each second look of a wait fail: it goes on, and if
// it is in vain, says what it waited for and saw last.
func TestWaitUnderFaults(t *testing.T) {
	s := sicken(t)
	s.inject(apiproxy.Fault{Method: "GET", Path: "/configmaps/absent", Status: 503, Count: -1, Chance: 50})
	_, _, err := s.run(`c.wait("ConfigMap", "absent", path = "data.a", timeout = "1s")`)
	if fault.KindOf(err) != fault.Timeout || !strings.Contains(err.Error(), "ConfigMap/absent: data.a being set: not done after 1") || !strings.Contains(err.Error(), "last seen: ") {
		t.Errorf("got %v (%s)", err, fault.KindOf(err))
	}
}

// TestRetryAfterEndsWithTheStep asks a step to wait for longer than it may take.
func TestRetryAfterEndsWithTheStep(t *testing.T) {
	s := sicken(t)
	s.inject(apiproxy.Fault{Method: "PATCH", Status: 503, RetryAfter: "3600", Count: -1})
	conf := strings.ReplaceAll(kubeconfig(t, "gsrun-test", "system:masters"), start(t).Address, s.address)
	opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{})}, Timeout: time.Second,
		Globals: starlark.StringDict{"kubeconfig": starlark.String(conf)}}
	_, err := run(t, opts, `
def test():
    kube.cluster("lab", kubeconfig = kubeconfig).apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "never"}}])
`)
	if fault.KindOf(err) != fault.Timeout || !strings.Contains(err.Error(), "last seen: ") || !strings.Contains(err.Error(), "503") {
		t.Errorf("got %v (%s)", err, fault.KindOf(err))
	}
	if hits := s.faults.List()[0].Hits; hits != 1 {
		t.Errorf("%d tries, though an hour was asked for", hits)
	}
}
