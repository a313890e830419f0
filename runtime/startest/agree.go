package startest

import (
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// An agreement checks that what a change said would come did come, wherever it
// claimed to know.
type agreement struct {
	t      *testing.T
	mu     sync.Mutex
	claims map[string]map[string]any // Change.After by target
}

// Agree makes d check all its changes, in place of what recorded them.
func Agree(t *testing.T, d *effect.Door) {
	a := &agreement{t: t, claims: make(map[string]map[string]any)}
	d.Recorder = a
	d.Emit = func(e effect.Event) {
		if e.Kind == effect.OpStart {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.claims[e.Target] = e.Change.After
		}
	}
}

func (a *agreement) Intent(effect.Record) error { return nil }

func (a *agreement) Result(r effect.Record) error {
	if r.Err != nil || r.Kind == effect.None || r.Kind == effect.Delete {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	claim := a.claims[r.Target]
	for name := range r.Attrs {
		if _, ok := claim[name]; !ok {
			a.t.Errorf("%s %s: the plan lacks %s", r.Kind, r.Target, name)
		}
	}
	for name, want := range claim {
		if _, unknown := want.(effect.Unknown); unknown {
			continue
		}
		for _, f := range effect.Compare(map[string]any{name: want}, r.Attrs) {
			a.t.Errorf("%s %s: the plan says %s will be %v, and it is %v", r.Kind, r.Target, f.Path, f.New, f.Old)
		}
	}
	return nil
}
