package artifact_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.starlark.net/starlark"

	client "git.vanillacore.net/govstack/gsrun/internal/client/artifact"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	labmirror "git.vanillacore.net/govstack/gsrun/internal/lab/mirror"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/artifact"
)

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

const manifest = "https://github.com/cert-manager/cert-manager/releases/download/v1.20.3/cert-manager.yaml"

// TestMirrorFaults fetches from the lab's mirror, which is told to fail.
func TestMirrorFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault labmirror.Fault
		asked time.Duration
		kind  fault.Kind // "" if it gets over it
		tries int        // how often the fault acts
	}{
		"429":          {labmirror.Fault{Status: 429, RetryAfter: "7"}, 7 * time.Second, "", 1},
		"429-date":     {labmirror.Fault{Status: 429, RetryAfter: "+9s", Count: 2}, 9 * time.Second, "", 2},
		"500":          {labmirror.Fault{Status: 500, Count: 3}, 0, "", 3},
		"503":          {labmirror.Fault{Action: labmirror.Refuse, RetryAfter: "2"}, 2 * time.Second, "", 1},
		"reset":        {labmirror.Fault{Action: labmirror.Reset}, 0, "", 1},
		"slow":         {labmirror.Fault{Action: labmirror.Slow, DelayMS: 20}, 0, "", 1},
		"503-for-good": {labmirror.Fault{Status: 503, Count: -1}, 0, fault.Unavailable, 4},
		"missing":      {labmirror.Fault{Action: labmirror.Missing, Count: -1}, 0, fault.NotFound, 1},
		"forbidden":    {labmirror.Fault{Status: 403, Count: -1}, 0, fault.Denied, 1},
		"corrupt":      {labmirror.Fault{Action: labmirror.Corrupt, Count: -1}, 0, fault.Untrusted, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := labmirror.New()
			server := httptest.NewServer(m)
			defer server.Close()
			sums, err := labmirror.Digests(manifest)
			if err != nil {
				t.Fatal(err)
			}
			lock := client.NewLock("test.lock")
			if err := lock.Set(client.Pin{Kind: client.KindFile, Source: manifest, SHA256: sums[manifest]}); err != nil {
				t.Fatal(err)
			}
			module := artifact.Module(artifact.Config{Lock: lock, Mirror: server.URL, Cache: t.TempDir()})
			defer module.Recv.(*artifact.Fetcher).Close()
			if _, err := m.Inject(test.fault); err != nil {
				t.Fatal(err)
			}
			clock := new(patientClock)
			door := startest.NewDoor(effect.Apply)
			door.Clock = clock
			opts := startest.Options{Door: door, Modules: []*builtin.Module{module}, Globals: starlark.StringDict{"url": starlark.String(manifest)}}
			globals := startest.Load(t, "fetch.star", "def fetch():\n    return artifact.fetch(url).text()\n", opts)
			_, err = startest.Call(t, globals["fetch"].(starlark.Callable), opts)
			if fault.KindOf(err) != test.kind || err != nil && !strings.Contains(err.Error(), "cert-manager.yaml") {
				t.Errorf("got %v (%s), want %q", err, fault.KindOf(err), test.kind)
			}
			if hits := m.Faults()[0].Hits; hits != test.tries {
				t.Errorf("the fault acted %d times, want %d", hits, test.tries)
			}
			if clock.longest < test.asked || clock.longest > test.asked+time.Second {
				t.Errorf("the longest pause is %v, the mirror asked for %v", clock.longest, test.asked)
			}
		})
	}
}
