package openstack_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// elsewhere does something in the project without the module.
func (w *world) elsewhere(call client.Call) client.Object {
	w.t.Helper()
	c, err := w.client()
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	out, err := c.Do(context.Background(), call)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// idOf returns the id of the one network of that name.
func (w *world) idOf(network string) string {
	w.t.Helper()
	for _, n := range w.cloud.State(false)["network"] {
		if n["name"] == network {
			return fmt.Sprint(n["id"])
		}
	}
	w.t.Fatalf("there is no network %s", network)
	return ""
}

// TestGlanceNeverCausesAWrite has what a run saw at its first glance change
// behind its back: what it then thinks missing or different is looked at anew.
func TestGlanceNeverCausesAWrite(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		then   string
	}{
		"made": {func(w *world) {
			w.elsewhere(client.Call{Service: client.Network, Method: http.MethodPost, Path: "/networks",
				Body: client.Object{"network": client.Object{"name": "b", "description": "gsrun:test/test/b"}}})
		}, `cloud.network.ensure("b")`},
		"set right": {func(w *world) {
			w.elsewhere(client.Call{Service: client.Network, Method: http.MethodPut, Path: "/networks/" + w.idOf("a"), Body: client.Object{"network": client.Object{"mtu": 1300}}})
		}, `cloud.network.ensure("a", mtu = 1300)`},
		"renamed": {func(w *world) {
			w.elsewhere(client.Call{Service: client.Network, Method: http.MethodPut, Path: "/networks/" + w.idOf("a"), Body: client.Object{"network": client.Object{"name": "other"}}})
			w.elsewhere(client.Call{Service: client.Network, Method: http.MethodPost, Path: "/subnets",
				Body: client.Object{"subnet": client.Object{"network_id": w.idOf("other"), "cidr": "10.20.0.0/24", "ip_version": 4, "name": "s", "description": "gsrun:test/test/s"}}})
		}, `cloud.subnet.ensure("s", network = "other", cidr = "10.20.0.0/24")`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, lab.Config{})
			w.must(`cloud.network.ensure("a", mtu = 1400)`)
			m, door := w.newModule(), startest.NewDoor(effect.Apply)
			since := len(w.cloud.Requests(0))
			if err := w.run(context.Background(), m, door, `cloud.network.ensure("a", mtu = 1400)`); err != nil {
				t.Fatal(startest.Explain(err))
			}
			if writes := w.writes(since); len(writes) > 0 {
				t.Fatalf("wrote %q", writes)
			}
			c.change(w)
			since = len(w.cloud.Requests(0))
			if err := w.run(context.Background(), m, door, c.then); err != nil {
				t.Fatal(startest.Explain(err))
			}
			if writes := w.writes(since); len(writes) > 0 {
				t.Errorf("wrote %q", writes)
			}
		})
	}
}

// TestOwnWritesAreSeen ensures what the same run has just deleted.
func TestOwnWritesAreSeen(t *testing.T) {
	w := newWorld(t, lab.Config{})
	w.must(`cloud.network.ensure("a")`)
	since := len(w.cloud.Requests(0))
	w.must(`
cloud.network.ensure("a")
cloud.network.delete("a")
cloud.network.ensure("a")`)
	if got, want := fmt.Sprint(len(w.writes(since))), "2"; got != want {
		t.Errorf("wrote %q", w.writes(since))
	}
}

// TestReadsAreNoGlances has a recipe read what changes behind its back.
func TestReadsAreNoGlances(t *testing.T) {
	w := newWorld(t, lab.Config{})
	w.must(`cloud.network.ensure("a", mtu = 1400)`)
	m, door := w.newModule(), startest.NewDoor(effect.Apply)
	if err := w.run(context.Background(), m, door, `cloud.network.ensure("a", mtu = 1400)`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	w.elsewhere(client.Call{Service: client.Network, Method: http.MethodPut, Path: "/networks/" + w.idOf("a"), Body: client.Object{"network": client.Object{"mtu": 1300}}})
	if err := w.run(context.Background(), m, door, `
if cloud.network.get("a").mtu != 1300 or [n.mtu for n in cloud.network.list("a")] != [1300]:
    fail("it is old")`); err != nil {
		t.Error(startest.Explain(err))
	}
}

// TestManyStepsShareAList ensures many things in many steps, again.
func TestManyStepsShareAList(t *testing.T) {
	for _, cloud := range []string{"lab", "admin"} {
		t.Run(cloud, func(t *testing.T) {
			w := newWorld(t, lab.Config{Quota: map[string]int{"network": -1, "subnet": -1, "port": -1, "router": -1, "security_group": -1, "security_group_rule": -1}})
			steps := func(since int) map[string]int {
				m, door := w.newModule(), startest.NewDoor(effect.Apply)
				var group sync.WaitGroup
				for i := range 12 {
					group.Go(func() {
						err := w.run(context.Background(), m, door, strings.ReplaceAll(`
cloud = openstack.connect("`+cloud+`")
net = cloud.network.ensure("N")
sub = cloud.subnet.ensure("N", network = net, cidr = "10.20.0.0/24")
group = cloud.security_group.ensure("N", rules = [{"protocol": "tcp", "port": 22}])
cloud.port.ensure("N", network = net, security_groups = [group])
cloud.router.ensure("N", external = "public")`, "N", fmt.Sprint("n", i)))
						if err != nil {
							t.Error(startest.Explain(err))
						}
					})
				}
				group.Wait()
				calls := make(map[string]int)
				for _, r := range w.cloud.Requests(since) {
					path, _, _ := strings.Cut(r.Path, "?")
					calls[r.Method+" "+path]++
				}
				return calls
			}
			steps(0)
			calls := steps(len(w.cloud.Requests(0)))
			for call, n := range calls {
				most := 1
				if cloud == "admin" && (strings.HasSuffix(call, "/networks") || strings.HasSuffix(call, "/ports")) {
					most = 13 // names and the routers' ports are asked for by themselves: an administrator sees those of all projects
				}
				if n > most {
					t.Errorf("%d of %s", n, call)
				}
			}
			if len(calls) != 6 { // the login and five kinds
				t.Errorf("calls: %v", calls)
			}
		})
	}
}

// TestSmallRunsListNothing ensures a few things in a project that has many, and
// one more, which is looked for in a list.
func TestSmallRunsListNothing(t *testing.T) {
	w := newWorld(t, lab.Config{Quota: map[string]int{"network": -1}})
	w.must(`[cloud.network.ensure("n%d" % i) for i in range(20)]`)
	w.closeLooks = 0
	for n, want := range []int{0, 0, 0, 0, 1, 1} {
		since := len(w.cloud.Requests(0))
		w.must(fmt.Sprintf(`[cloud.network.ensure("n%%d" %% i) for i in range(%d)]`, n))
		lists, single := 0, 0
		for _, r := range w.cloud.Requests(since) {
			switch {
			case r.Service != "network":
			case strings.Contains(r.Path, "description="):
				single++
			default:
				lists++
			}
		}
		if lists != want || single != min(n, 3) {
			t.Errorf("ensuring %d: %d lists and %d of a single one, want %d and %d", n, lists, single, want, min(n, 3))
		}
	}
}

// TestGlanceGivesThePauseAskedFor has the first look refused for a while.
func TestGlanceGivesThePauseAskedFor(t *testing.T) {
	w := newWorld(t, lab.Config{})
	w.must(`cloud.network.ensure("a")`)
	w.inject(lab.Fault{Service: "network", Method: "GET", Status: 503, RetryAfter: "7"})
	since := len(w.cloud.Requests(0))
	door := startest.NewDoor(effect.Apply)
	clock := new(patientClock)
	door.Clock = clock
	if err := w.run(context.Background(), w.newModule(), door, `cloud.network.ensure("a")`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	asked := 0
	for _, r := range w.cloud.Requests(since) {
		if r.Service == "network" {
			asked++
		}
	}
	if asked != 2 || clock.longest() < 7*time.Second {
		t.Errorf("asked %d times, the longest pause was %s", asked, clock.longest())
	}
}
