package openstack_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// A patientClock is the machine's, but it only notes the pauses of a second and
// more.
type patientClock struct {
	effect.SystemClock
	mu     sync.Mutex
	paused []time.Duration
}

func (c *patientClock) Sleep(ctx context.Context, d time.Duration) error {
	if d < time.Second {
		return c.SystemClock.Sleep(ctx, d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = append(c.paused, d)
	return ctx.Err()
}

// longest returns the longest pause that was noted.
func (c *patientClock) longest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var d time.Duration
	for _, p := range c.paused {
		d = max(d, p)
	}
	return d
}

// passing are faults that a run gets over, each with the pause that it asks for.
func passing() map[string]struct {
	fault lab.Fault
	asked time.Duration
} {
	type entry = struct {
		fault lab.Fault
		asked time.Duration
	}
	return map[string]entry{
		"409":               {lab.Fault{Status: 409}, 0},
		"429":               {lab.Fault{Status: 429, RetryAfter: "7"}, 7 * time.Second},
		"429-date":          {lab.Fault{Status: 429, RetryAfter: "+9s"}, 9 * time.Second},
		"500":               {lab.Fault{Status: 500}, 0},
		"500-after-effect":  {lab.Fault{Status: 500, Effect: true}, 0},
		"503-twice":         {lab.Fault{Status: 503, RetryAfter: "3", Count: 2}, 3 * time.Second},
		"504-hidden":        {lab.Fault{Status: 504, Effect: true, HideMS: 8}, 0},
		"reset-before":      {lab.Fault{Reset: "before"}, 0},
		"reset-after":       {lab.Fault{Reset: "after"}, 0},
		"reset-hidden":      {lab.Fault{Reset: "after", HideMS: 8}, 0},
		"slow":              {lab.Fault{DelayMS: 5}, 0},
		"token-expires":     {lab.Fault{Expire: true}, 0},
		"expires-twice":     {lab.Fault{Expire: true, Count: 2}, 0},
		"expires-and-reset": {lab.Fault{Expire: true, Reset: "after"}, 0},
		"not-yet-listed":    {lab.Fault{HideMS: 20}, 0},
	}
}

// TestPassingFaults disturbs each write of a gateway, and of its deletion, by
// each fault that passes: in the same run all is made, nothing twice, and what
// the cloud asks for is heeded.
func TestPassingFaults(t *testing.T) {
	skip.Slow(t, "it makes some hundred gateways")
	quiet := newWorld(t, lab.Config{BootDelay: time.Millisecond})
	quiet.must(everything)
	want := quiet.cloud.State(true)
	n := len(quiet.writes(0))
	quiet.must(nothing)
	empty := quiet.cloud.State(true)
	m := len(quiet.writes(0)) - n
	for name, p := range passing() {
		p.fault.Method = "write"
		for i := range n {
			t.Run(fmt.Sprintf("make/%s/%d", name, i), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, lab.Config{BootDelay: time.Millisecond})
				w.disturbed(p.fault, i, p.asked, everything)
				compare(t, want, w.cloud.State(true))
				if p.fault.HideMS > 0 {
					return // another run couldn't know yet what this one made
				}
				since := len(w.cloud.Requests(0))
				w.must(everything)
				if writes := w.writes(since); len(writes) > 0 {
					t.Errorf("the second run wrote %q", writes)
				}
			})
		}
		for i := range m {
			if p.fault.HideMS > 0 || p.asked > 0 || name == "slow" {
				break // nothing is made, and answers are read as they are above
			}
			t.Run(fmt.Sprintf("delete/%s/%d", name, i), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, lab.Config{BootDelay: time.Millisecond})
				w.must(everything)
				w.disturbed(p.fault, i, p.asked, nothing)
				compare(t, empty, w.cloud.State(true))
			})
		}
	}
}

// disturbed runs source, whose write number i the fault hits.
func (w *world) disturbed(f lab.Fault, i int, asked time.Duration, source string) {
	w.t.Helper()
	f.Skip = i
	w.inject(f)
	clock := new(patientClock)
	door := startest.NewDoor(effect.Apply)
	door.Clock = clock
	if err := w.run(context.Background(), w.newModule(), door, source); err != nil {
		w.t.Fatal(startest.Explain(err))
	}
	if all := w.cloud.Faults(); all[0].Hits != max(f.Count, 1) {
		w.t.Errorf("the fault acted %d times", all[0].Hits)
	}
	// A date has no parts of a second.
	if got := clock.longest(); got < asked || got > asked+time.Second {
		w.t.Errorf("the longest pause is %v, the cloud asked for %v", got, asked)
	}
}

func (w *world) inject(f lab.Fault) {
	w.t.Helper()
	if _, err := w.cloud.Inject(f); err != nil {
		w.t.Fatal(err)
	}
}

// TestReadsPassFaults has each kind of read disturbed.
func TestReadsPassFaults(t *testing.T) {
	w := newWorld(t, lab.Config{BootDelay: time.Millisecond})
	w.must(everything)
	for name, p := range passing() {
		if name == "409" || p.fault.HideMS > 0 {
			continue // no read meets it
		}
		for _, noun := range []string{"network", "server", "image", "keypair", "floating_ip"} {
			w.cloud.ClearFaults("")
			f := p.fault
			f.Method = "GET"
			w.inject(f)
			door := startest.NewDoor(effect.Apply)
			door.Clock = new(patientClock)
			if err := w.run(context.Background(), w.newModule(), door, "if not cloud."+noun+`.get("gw"): fail("it isn't there")`); err != nil {
				t.Errorf("%s %s: %s", name, noun, startest.Explain(err))
			}
			if w.cloud.Faults()[0].Hits == 0 {
				t.Errorf("%s %s wasn't disturbed", name, noun)
			}
		}
	}
}

// TestLastingFaults has each noun refused for good: it is told at once, with
// the kind that the refusal means.
func TestLastingFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault lab.Fault
		kind  fault.Kind
		tries int
	}{
		"400":   {lab.Fault{Status: 400}, fault.Invalid, 1},
		"403":   {lab.Fault{Status: 403}, fault.Denied, 1},
		"404":   {lab.Fault{Status: 404}, fault.NotFound, 1},
		"501":   {lab.Fault{Status: 501}, fault.Invalid, 1},
		"quota": {lab.Fault{Quota: true}, fault.Quota, 1},
		"409":   {lab.Fault{Status: 409}, fault.Conflict, 4},
		"503":   {lab.Fault{Status: 503}, fault.Unavailable, 4},
		"reset": {lab.Fault{Reset: "before"}, fault.Unreachable, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, lab.Config{BootDelay: time.Millisecond})
			w.must(base)
			for noun, call := range nouns() {
				w.cloud.ClearFaults("")
				f := test.fault
				f.Method, f.Path, f.Count = "POST", "/(networks|subnets|routers|ports|security-groups|floatingips|images|servers|os-keypairs|volumes)$", -1
				w.inject(f)
				err := w.run(context.Background(), w.newModule(), startest.NewDoor(effect.Apply), call)
				if fault.KindOf(err) != test.kind {
					t.Errorf("%s: got %v (%s), want %s", noun, err, fault.KindOf(err), test.kind)
				}
				if hits := w.cloud.Faults()[0].Hits; hits != test.tries {
					t.Errorf("%s: %d tries, want %d", noun, hits, test.tries)
				}
			}
		})
	}
}

// TestLastingConflictsAreNotTriedAgain meets conflicts that nothing but another
// recipe ends: one try is enough.
func TestLastingConflictsAreNotTriedAgain(t *testing.T) {
	for call, want := range map[string]struct {
		fault lab.Fault
		kind  fault.Kind
		path  string
	}{
		`cloud.subnet.ensure("n", network = "base", cidr = "10.9.0.0/24", allocation_pools = ["10.9.0.10-10.9.0.20", "10.9.0.15-10.9.0.30"])`: {kind: fault.Invalid, path: "/subnets"},
		`openstack.connect("admin").project.ensure("n")`:                                         {lab.Fault{Service: "identity", Path: "/projects$", Status: 409}, fault.Exists, "/projects"},
		`cloud.server.ensure("vm", image = "lab-tiny", flavor = "m1.nano", networks = ["base"])`: {lab.Fault{Service: "compute", Path: "/servers$", Status: 409, Body: "Multiple security groups found matching 'web'. Use an ID to be more specific."}, fault.Invalid, "/servers"},
		`cloud.load_balancer.ensure("n", subnet = "base")`:                                       {lab.Fault{Service: "load-balancer", Path: "/loadbalancers$", Status: 409, Body: "Another Listener on this Load Balancer is already using protocol TCP and protocol_port 80"}, fault.Exists, "/loadbalancers"},
	} {
		w := newWorld(t, lab.Config{})
		w.must(base)
		if want.fault.Status != 0 {
			want.fault.Method, want.fault.Count = "POST", -1
			w.inject(want.fault)
		}
		since := len(w.cloud.Requests(0))
		err := w.run(context.Background(), w.newModule(), startest.NewDoor(effect.Apply), call)
		if fault.KindOf(err) != want.kind {
			t.Errorf("%s: got %v (%s), want %s", call, err, fault.KindOf(err), want.kind)
		}
		tries := 0
		for _, r := range w.cloud.Requests(since) {
			if r.Method == "POST" && strings.HasSuffix(r.Path, want.path) {
				tries++
			}
		}
		if tries != 1 {
			t.Errorf("%s: %d tries", call, tries)
		}
	}
}

// TestExpiredTokenIsRenewedOnce lets the token of many calls at a time expire.
func TestExpiredTokenIsRenewedOnce(t *testing.T) {
	w := newWorld(t, lab.Config{})
	m := w.newModule()
	logins := func() (n int) {
		for _, r := range w.cloud.Requests(0) {
			if r.Service == "identity" && r.Method == "POST" {
				n++
			}
		}
		return n
	}
	run := func(source string) {
		t.Helper()
		if err := w.run(context.Background(), m, startest.NewDoor(effect.Apply), source); err != nil {
			t.Fatal(startest.Explain(err))
		}
	}
	run(`cloud.network.ensure("a")`)
	for round := 1; round <= 3; round++ {
		w.cloud.ExpireTokens()
		// Slow enough that all calls are under way with the old token.
		w.inject(lab.Fault{Service: "network", Method: "GET", DelayMS: 30, Count: 8})
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() { run(fmt.Sprintf(`cloud.network.get("n%d")`, i)) })
		}
		all.Wait()
		if n := logins(); n != 1+round {
			t.Errorf("%d logins after the token expired %d times", n, round)
		}
	}
	// A renewal that fails for a while is tried again.
	w.cloud.ExpireTokens()
	w.inject(lab.Fault{Service: "identity", Method: "POST", Status: 503, Count: 2})
	run(`cloud.network.ensure("b")`)
	// Credentials that aren't taken any more are told at once.
	w.cloud.ExpireTokens()
	w.cloud.ClearFaults("")
	w.inject(lab.Fault{Service: "identity", Method: "POST", Status: 401, Count: -1})
	err := w.run(context.Background(), m, startest.NewDoor(effect.Apply), `cloud.network.ensure("c")`)
	if fault.KindOf(err) != fault.Denied || !strings.Contains(err.Error(), "renewing it failed") {
		t.Errorf("got %v (%s)", err, fault.KindOf(err))
	}
	if hits := w.cloud.Faults()[0].Hits; hits > 2 {
		t.Errorf("%d logins with credentials that were refused", hits)
	}
}

// TestRetriesEndWithTheStep asks a step to wait for longer than it may take.
func TestRetriesEndWithTheStep(t *testing.T) {
	w := newWorld(t, lab.Config{})
	w.must(base)
	w.inject(lab.Fault{Service: "network", Method: "POST", Status: 503, RetryAfter: "3600", Count: -1})
	ctx, cancel := context.WithTimeoutCause(context.Background(), 150*time.Millisecond, fault.New(fault.Timeout, "step net took longer than 150ms"))
	defer cancel()
	err := w.run(ctx, w.newModule(), startest.NewDoor(effect.Apply), `cloud.network.ensure("n")`)
	if fault.KindOf(err) != fault.Timeout || !strings.Contains(err.Error(), "step net took longer than 150ms; last seen: Neutron answered 503") {
		t.Errorf("got %v (%s)", err, fault.KindOf(err))
	}
	if hits := w.cloud.Faults()[0].Hits; hits != 1 {
		t.Errorf("%d tries, though an hour was asked for", hits)
	}
}

// TestServerFaults has a server end in ERROR, and a wait disturbed.
func TestServerFaults(t *testing.T) {
	w := newWorld(t, lab.Config{BootDelay: 20 * time.Millisecond})
	w.must(base)
	const call = `cloud.server.ensure("n", image = "lab-tiny", flavor = "m1.nano", networks = ["base"]%s)`
	w.inject(lab.Fault{Service: "compute", Method: "POST", Path: "/servers$", Outcome: "error"})
	since := len(w.cloud.Requests(0))
	err := w.run(context.Background(), w.newModule(), startest.NewDoor(effect.Apply), fmt.Sprintf(call, ""))
	if fault.KindOf(err) != fault.Failed || !strings.Contains(err.Error(), "ended in ERROR") || !strings.Contains(fault.HintOf(err), "replace = True") {
		t.Errorf("got %v (%s), hint %q", err, fault.KindOf(err), fault.HintOf(err))
	}
	if writes := w.writes(since); len(writes) != 1 {
		t.Errorf("wrote %q", writes)
	}
	// While it is waited for, the API may fail more often than an op is tried.
	w.inject(lab.Fault{Service: "compute", Method: "GET", Path: "/servers/[^/?]+$", Skip: 1, Status: 503, Count: 3})
	w.inject(lab.Fault{Service: "compute", Method: "GET", Path: "/servers/[^/?]+$", Skip: 1, Reset: "before", Count: 3})
	w.must(fmt.Sprintf(call, ", replace = True"))
	for _, f := range w.cloud.Faults()[1:] {
		if f.Hits != 3 {
			t.Errorf("%d of 3 answers were disturbed", f.Hits)
		}
	}
	if all := w.cloud.State(true)["server"]; len(all) != 1 || all[0]["status"] != "ACTIVE" {
		t.Errorf("servers: %v", all)
	}
}

// TestPartialCreatesCount has the second call refused of what takes two to be
// made: the run has changed something.
func TestPartialCreatesCount(t *testing.T) {
	for call, second := range map[string]lab.Fault{
		`cloud.network.ensure("n", tags = ["a"])`:                                                                                      {Method: "PUT", Path: "/tags$"},
		`cloud.security_group.ensure("n", rules = [{"protocol": "tcp", "port": 22}])`:                                                  {Method: "POST", Path: "/security-group-rules$"},
		`cloud.router.ensure("n", subnets = ["base"])`:                                                                                 {Method: "PUT", Path: "/add_router_interface$"},
		`cloud.server.ensure("n", image = "lab-tiny", flavor = "m1.nano", networks = ["base"], tags = ["a"])`:                          {Method: "PUT", Path: "/tags$"},
		`openstack.connect("admin").flavor.ensure("n", vcpus = 1, ram = 64, disk = 1, public = False, extra_specs = {"hw:cpus": "a"})`: {Method: "POST", Path: "/os-extra_specs$"},
	} {
		w := newWorld(t, lab.Config{BootDelay: time.Millisecond})
		w.must(base)
		second.Status, second.Count = 400, -1
		w.inject(second)
		door := startest.NewDoor(effect.Apply)
		err := w.run(context.Background(), w.newModule(), door, call)
		if c := door.Counts(); fault.KindOf(err) != fault.Invalid || c.Changed() != 1 || c.Partly != 1 || c.Failed != 1 {
			t.Errorf("%s: %v, %+v", call, err, c)
		}
	}
}
