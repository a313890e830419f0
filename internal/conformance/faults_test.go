package conformance

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// A disturbance is what the first try of each write meets.
type disturbance struct {
	status int    // answered in place of the cloud; 0 resets the connection
	header string // Retry-After
	after  bool   // the write has taken effect
	asked  time.Duration
}

// disturbances are those that a run gets over.
var disturbances = map[string]disturbance{
	"401 that a new token ends": {status: 401},
	"409 that passes":           {status: 409},
	"429 with Retry-After":      {status: 429, header: "7", asked: 7 * time.Second},
	"500":                       {status: 500},
	"500 after the effect":      {status: 500, after: true},
	"502 after the effect":      {status: 502, after: true},
	"503 with Retry-After":      {status: 503, header: "3", asked: 3 * time.Second},
	"504 after the effect":      {status: 504, after: true},
	"reset before the effect":   {},
	"reset after the effect":    {after: true},
}

// mixes returns which disturbances the writes of a run meet in turn, by the
// run's name: each kind alone, or where runs take long a few runs in which all
// take turns, so that each kind meets other writes in each.
func mixes(few bool) map[string][]disturbance {
	out := make(map[string][]disturbance)
	if !few {
		for name, d := range disturbances {
			out[name] = []disturbance{d}
		}
		return out
	}
	names := slices.Sorted(maps.Keys(disturbances))
	for run := range 2 {
		var mix []disturbance
		for i := range names {
			mix = append(mix, disturbances[names[(i+5*run)%len(names)]])
		}
		out[fmt.Sprintf("in turn %d", run+1)] = mix
	}
	return out
}

// TestFaults makes one of each noun, and deletes it again, with the first try
// of each write disturbed: in the same run all is made, nothing twice, nothing
// leaks, and what the cloud asks for is heeded.
func TestFaults(t *testing.T) {
	skip.Slow(t, "it makes some ten gateways")
	t.Parallel()
	src, err := os.ReadFile("testdata/faults/gateway.star")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets() {
		t.Run(target.name, func(t *testing.T) {
			target.need(t)
			var before, made inventory
			if !t.Run("undisturbed", func(t *testing.T) {
				quiet := newScenario(t, target)
				fns := startest.Load(t, "gateway.star", string(src), quiet.options(effect.Apply))
				before = quiet.inventory()
				quiet.calm(fns["make"])
				made = quiet.inventory()
				quiet.calm(fns["drop"])
				if diff := differences(before, quiet.inventory()); diff != "" {
					t.Errorf("drop leaves:\n%s", diff)
				}
			}) {
				return
			}
			total := 0
			var mu sync.Mutex
			t.Run("each", func(t *testing.T) {
				for name, mix := range mixes(target.slots != nil) {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						s := newScenario(t, target)
						fns := startest.Load(t, "gateway.star", string(src), s.options(effect.Apply))
						n := s.disturbed(mix, fns["make"])
						if diff := differences(made, s.inventory()); diff != "" {
							t.Errorf("made, it isn't what an undisturbed run leaves:\n%s", diff)
						}
						since := len(s.cloud.Requests(0))
						s.calm(fns["make"])
						if writes := s.calls(since, isWrite); len(writes) > 0 {
							t.Errorf("the second time it wrote: %v", writes)
						}
						n += s.disturbed(mix, fns["drop"])
						if diff := differences(before, s.inventory()); diff != "" {
							t.Errorf("dropped, it leaves:\n%s", diff)
						}
						mu.Lock()
						defer mu.Unlock()
						total += n
					})
				}
			})
			t.Logf("%d writes were disturbed", total)
			if !t.Failed() && total < 60 {
				t.Errorf("only %d writes were disturbed", total)
			}
		})
	}
}

// calm calls fn undisturbed.
func (s *scenario) calm(fn starlark.Value) {
	s.t.Helper()
	if _, _, err := s.run(fn.(starlark.Callable), "lab", effect.Apply); err != nil {
		s.t.Fatal(startest.Explain(err))
	}
}

// disturbed calls fn with the first try of each write disturbed, by those of mix
// in turn, and returns how many there were.
func (s *scenario) disturbed(mix []disturbance, fn starlark.Value) int {
	s.t.Helper()
	var mu sync.Mutex
	met := make(map[string]disturbance)
	var asked time.Duration
	watch := watcher(func(w http.ResponseWriter, r *http.Request, body []byte, done bool) bool {
		// Two networks of one name don't occur; the same call again is another try.
		try := r.Method + " " + r.URL.Path + " " + string(body)
		mu.Lock()
		d, again := met[try]
		if !again {
			d = mix[len(met)%len(mix)]
			if d.status == http.StatusConflict && strings.HasPrefix(r.URL.Path, "/identity/") {
				d.status = http.StatusInternalServerError // Keystone's conflicts don't pass
			}
			met[try], asked = d, max(asked, d.asked)
		}
		mu.Unlock()
		if d == (disturbance{status: http.StatusOK}) || again && !done || done != d.after {
			return false
		}
		mu.Lock()
		met[try] = disturbance{status: http.StatusOK}
		mu.Unlock()
		if d.status == 0 {
			panic(http.ErrAbortHandler)
		}
		if d.header != "" {
			w.Header().Set("Retry-After", d.header)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(d.status)
		fmt.Fprintf(w, `{"error": {"code": %d, "message": "a test wants it so"}}`, d.status)
		return true
	})
	s.watch.Store(&watch)
	defer s.watch.Store(nil)
	opts := s.options(effect.Apply)
	clock := &quickClock{}
	opts.Door.Clock = clock
	if _, _, err := s.call(fn.(starlark.Callable), "lab", opts); err != nil {
		s.t.Fatal(startest.Explain(err))
	}
	if clock.longest != asked {
		s.t.Errorf("the longest pause is %v, the cloud asked for %v", clock.longest, asked)
	}
	return len(met)
}

// A quickClock is the machine's, but only notes the pauses of three seconds and
// more, which only the cloud asks for.
type quickClock struct {
	effect.SystemClock
	mu      sync.Mutex
	longest time.Duration
}

func (c *quickClock) Sleep(ctx context.Context, d time.Duration) error {
	if d < 3*time.Second {
		return c.SystemClock.Sleep(ctx, d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.longest = max(c.longest, d)
	return ctx.Err()
}
