package journal

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Unsettled returns what may still be coming into being: creations that a run
// began and whose end it never saw, by target, with the time of their
// beginning. The process may have died, and the request that it had sent goes
// on. Those from before since are left out, and so is what can't be read: both
// are history.
func (s *Store) Unsettled(since time.Time) map[string]time.Time {
	out := make(map[string]time.Time)
	files, err := os.ReadDir(filepath.Join(s.dir, "runs"))
	if err != nil {
		return out
	}
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), ".jsonl")
		if info, err := f.Info(); !ok || err != nil || info.ModTime().Before(since) {
			continue
		}
		entries, _, _ := s.Read(id)
		begun := make(map[string]time.Time)
		for _, e := range entries {
			switch creates := e.Change == string(effect.Create) || e.Change == string(effect.Replace); {
			case e.Type == TypeIntent && creates && !e.Time.Before(since):
				begun[e.Target] = e.Time
			case e.Type == TypeResult && settles(e):
				delete(begun, e.Target)
			}
		}
		for target, at := range begun {
			if at.After(out[target]) {
				out[target] = at
			}
		}
	}
	return out
}

// settles reports whether a change is over with its result: an answer that
// never came says nothing.
func settles(e Entry) bool {
	switch fault.Kind(e.Kind) {
	case fault.Unreachable, fault.Unavailable, fault.Timeout, fault.Cancelled:
		return false
	}
	return true
}
