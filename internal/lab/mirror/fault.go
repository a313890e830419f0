package mirror

import (
	"path"
	"slices"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
)

func newFaults() *inject.Set[Fault] {
	return inject.New("mirror", func(f *Fault) inject.Turns {
		return inject.Turns{ID: &f.ID, Skip: &f.Skip, Count: &f.Count, Chance: &f.Chance, Hits: &f.Hits}
	})
}

// Inject adds a fault and returns its id. The error is of kind Invalid.
func (s *Server) Inject(f Fault) (string, error) {
	if _, err := path.Match(f.Path, ""); err != nil {
		return "", fault.New(fault.Invalid, "path: %q is no pattern", f.Path)
	}
	actions := []Action{"", Corrupt, Missing, Refuse, Slow, Reset}
	switch {
	case !slices.Contains(actions, f.Action):
		return "", fault.New(fault.Invalid, "action is corrupt, missing, refuse, slow or reset, not %q", f.Action)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return "", fault.New(fault.Invalid, "status lies between 400 and 599, not %d", f.Status)
	case f.Action == Slow && f.DelayMS <= 0:
		return "", fault.New(fault.Invalid, "slow needs a delay_ms")
	case f.Action == "" && f.Status == 0 && f.DelayMS == 0:
		return "", fault.New(fault.Invalid, "the fault does nothing: give action, status or delay_ms")
	}
	return s.faults.Add(f), nil
}

// Faults lists the faults with their hits.
func (s *Server) Faults() []Fault { return s.faults.List() }

// ClearFaults removes the faults of that id, or all for an empty one, and
// returns how many there were.
func (s *Server) ClearFaults(id string) int { return s.faults.Clear(id) }

// SeedFaults makes the chances of the faults repeatable.
func (s *Server) SeedFaults(seed uint64) { s.faults.Seed(seed) }

// take returns the fault that a download gets; its zero value if there is none.
func (s *Server) take(name string) Fault {
	f := s.faults.Take(func(f *Fault) bool {
		whole, _ := path.Match(f.Path, name) // the pattern is right
		last, _ := path.Match(f.Path, path.Base(name))
		return f.Path == "" || whole || last
	})
	if f == nil {
		return Fault{}
	}
	return *f
}
