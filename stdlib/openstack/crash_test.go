package openstack_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// everything makes one of each noun, as a gateway does.
const everything = `
net = cloud.network.ensure("gw")
sub = cloud.subnet.ensure("gw", network = net, cidr = "10.20.0.0/24")
sg = cloud.security_group.ensure("gw", rules = [{"protocol": "tcp", "port": 22}, {"protocol": "icmp"}])
cloud.router.ensure("gw", external = "public", subnets = [sub], routes = {"192.168.0.0/16": "10.20.0.10"})
port = cloud.port.ensure("gw", network = net, fixed_ips = ["10.20.0.10"], security_groups = [sg])
key = cloud.keypair.ensure("gw", public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFEprDqY8tc7vJ3kGk0o2q8Xn3b8b2v1Xq0b0Yw3q0bq")
img = cloud.image.ensure("gw", file = file1, disk_format = "raw")
vm = cloud.server.ensure("gw", image = img, flavor = "m1.nano", ports = [port], key_name = key)
cloud.floating_ip.ensure("gw", network = "public", server = vm)
`

// nothing deletes it again.
const nothing = `
for noun in [cloud.floating_ip, cloud.server, cloud.image, cloud.keypair, cloud.port, cloud.router, cloud.security_group, cloud.subnet, cloud.network]:
    noun.delete("gw")
`

// TestCrashes ends a run at each of its writes, right before it takes effect
// and right after, and runs it again: the end is that of a run that wasn't
// disturbed, with nothing twice.
func TestCrashes(t *testing.T) {
	quiet := newWorld(t, lab.Config{BootDelay: time.Millisecond})
	quiet.must(everything)
	want := quiet.cloud.State(true)
	n := len(quiet.writes(0))
	quiet.must(nothing)
	empty := quiet.cloud.State(true)
	m := len(quiet.writes(0)) - n
	if n < 12 || m < 10 {
		t.Fatalf("%d writes to make all, %d to delete it", n, m)
	}
	for _, when := range []string{"before", "after"} {
		for i := range n {
			t.Run(fmt.Sprintf("make/%s/%d", when, i), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, lab.Config{BootDelay: time.Millisecond})
				w.crash(i, when, everything)
				w.must(everything)
				compare(t, want, w.cloud.State(true))
				since := len(w.cloud.Requests(0))
				w.must(everything)
				if writes := w.writes(since); len(writes) > 0 {
					t.Errorf("the third run wrote %q", writes)
				}
			})
		}
		for i := range m {
			t.Run(fmt.Sprintf("delete/%s/%d", when, i), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, lab.Config{BootDelay: time.Millisecond})
				w.must(everything)
				w.crash(i, when, nothing)
				w.must(nothing)
				compare(t, empty, w.cloud.State(true))
			})
		}
	}
}

func (w *world) must(source string) {
	w.t.Helper()
	if err := w.run(context.Background(), w.newModule(), startest.NewDoor(effect.Apply), source); err != nil {
		w.t.Fatal(startest.Explain(err))
	}
}

// crash runs source until its write number i, which ends the run.
func (w *world) crash(i int, when, source string) {
	w.t.Helper()
	at := &reset{when: when}
	at.left.Store(int64(i))
	w.resetAt.Store(at)
	door := startest.NewDoor(effect.Apply)
	door.Retry.Tries = 1
	if err := w.run(context.Background(), w.newModule(), door, source); err == nil {
		w.t.Fatal("the run wasn't disturbed")
	}
	w.resetAt.Store(nil)
}

// A reset breaks the connection at a write.
type reset struct {
	left atomic.Int64 // writes to let pass
	when string       // before or after it takes effect
}

// ServeHTTP is the cloud's, but for the write at which a connection breaks.
func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	at := w.resetAt.Load()
	write := r.Method != http.MethodGet && !strings.HasPrefix(r.URL.Path, "/identity/")
	if at == nil || !write {
		w.cloud.ServeHTTP(rw, r)
		return
	}
	if at.left.Add(-1) != -1 {
		w.cloud.ServeHTTP(rw, r)
		return
	}
	if at.when == "after" {
		w.cloud.ServeHTTP(httptest.NewRecorder(), r)
	}
	panic(http.ErrAbortHandler)
}

func compare(t *testing.T, want, got map[string][]map[string]any) {
	t.Helper()
	for kind := range want {
		if len(want[kind]) != len(got[kind]) {
			t.Errorf("%s: %d, want %d: %v", kind, len(got[kind]), len(want[kind]), got[kind])
			continue
		}
		for i := range want[kind] {
			if !reflect.DeepEqual(want[kind][i], got[kind][i]) {
				t.Errorf("%s: got\n%v, want\n%v", kind, got[kind][i], want[kind][i])
			}
		}
	}
}
