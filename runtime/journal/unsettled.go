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
	for _, entries := range s.recent(since) {
		begun := make(map[string]time.Time)
		for _, e := range entries {
			switch {
			case e.Type == TypeIntent && creates(e) && !e.Time.Before(since):
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

// Created returns what was made since, and that no run deleted after that, with
// the time at which it was. It has to be there, listed or not.
func (s *Store) Created(since time.Time) map[effect.Made]time.Time {
	out, deleted := make(map[effect.Made]time.Time), make(map[effect.Made]time.Time)
	for _, entries := range s.recent(since) {
		for _, e := range entries {
			made := effect.Made{Target: e.Target, Mark: e.Mark}
			switch {
			case e.Type != TypeResult || e.Time.Before(since):
			case creates(e) && e.Error == "" && e.Time.After(out[made]):
				out[made] = e.Time
			case e.Change == string(effect.Delete) && e.Time.After(deleted[made]):
				deleted[made] = e.Time
			}
		}
	}
	for made, at := range deleted {
		if !out[made].After(at) {
			delete(out, made)
		}
	}
	return out
}

// mtimeSlack is how far a file's time may lie behind the clock: file systems
// stamp by the kernel's tick, and some by the second or two.
const mtimeSlack = 2 * time.Second

// recent returns the entries of each journal that was written to since, and
// perhaps of some that were written to shortly before.
func (s *Store) recent(since time.Time) [][]Entry {
	files, err := os.ReadDir(filepath.Join(s.dir, "runs"))
	if err != nil {
		return nil
	}
	var out [][]Entry
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), ".jsonl")
		if info, err := f.Info(); !ok || err != nil || info.ModTime().Before(since.Add(-mtimeSlack)) {
			continue
		}
		entries, _, _ := s.Read(id)
		out = append(out, entries)
	}
	return out
}

func creates(e Entry) bool {
	return e.Change == string(effect.Create) || e.Change == string(effect.Replace)
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
