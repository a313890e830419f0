package effect

import (
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Contract is a saved plan that a run keeps to: each change that it makes must
// be one of the plan's, and as the plan says in all that was known then.
type Contract struct {
	saver   Saver
	changes []SavedChange
	stops   map[string]bool // steps whose plan stopped
	begun   map[string]bool // targets that a run of this plan began to change
}

// NewContract returns the contract of the changes of a saved plan, whose steps
// named by stops were planned only in part. Of the targets in begun an earlier
// run of the same plan has made something, perhaps not all.
func NewContract(s Saver, changes []SavedChange, stops []string, begun map[string]bool) *Contract {
	c := &Contract{saver: s, changes: changes, stops: make(map[string]bool), begun: begun}
	for _, path := range stops {
		c.stops[path] = true
	}
	return c
}

// Admit returns an error of kind Drift unless the plan has this change, which
// the call at pos makes.
func (c *Contract) Admit(step, pos string, t Target, ch Change) error {
	now, err := c.saver.Save(step, t, ch, "")
	if err != nil {
		return err
	}
	var differs []string
	for _, s := range c.changes {
		if s.Step != step || !s.covers(t, pos) {
			continue
		}
		if c.begun[t.String()] {
			s.Change, s.May = Later, s.Change // what was made of it so far is ours
		}
		if differs = c.saver.differences(s, now); len(differs) == 0 {
			return nil
		}
	}
	const again = "plan again, and look at what is new"
	switch {
	case differs != nil:
		return fault.Hinted(fault.Drift, again, "%s isn't as it was planned: %s", t, strings.Join(differs, "; "))
	case c.stopped(step):
		return fault.Hinted(fault.Drift, "what the plan has of this step is done; plan again for the rest",
			"%s: the plan of step %s ends before it would %s this", t, step, ch.Kind)
	}
	return fault.Hinted(fault.Drift, again, "%s: the plan doesn't have that step %s would %s this", t, step, ch.Kind)
}

// Drift compares the contract with a plan that was made now: the error, of kind
// Drift, lists all in which that isn't what was planned. Changes that are made
// already are no drift: seen reports whether a target was found to be as it
// should.
func (c *Contract) Drift(now []Planned, stops []string, seen func(target string) bool) error {
	var differs []string
	met := make(map[string]bool)
	for _, p := range now {
		met[p.Step+" "+p.Target.String()] = true
		if err := c.Admit(p.Step, p.Pos, p.Target, p.Change); err != nil {
			differs = append(differs, err.Error())
		}
	}
	for _, path := range stops {
		if !c.stopped(path) {
			differs = append(differs, "step "+path+" can't be planned to its end any more")
		}
	}
	for _, s := range c.changes {
		if t := s.target().String(); !met[s.Step+" "+t] && !s.Unknown && !seen(t) && !c.begun[t] {
			differs = append(differs, "step "+s.Step+" has nothing to do with "+t+" any more")
		}
	}
	if len(differs) == 0 {
		return nil
	}
	return fault.Hinted(fault.Drift, "nothing was touched; plan again, and look at what is new",
		"the world isn't as it was planned for:\n%s", strings.Join(differs, "\n"))
}

// stopped reports whether the plan of a step, or of the step that it is an item
// or a part of, stopped.
func (c *Contract) stopped(step string) bool {
	for path := range c.stops {
		if step == path || strings.HasPrefix(step, path+"/") || strings.HasPrefix(step, path+"[") {
			return true
		}
	}
	return false
}

// covers reports whether s is a change of the target t, or one whose target
// wasn't known of the call at pos.
func (s SavedChange) covers(t Target, pos string) bool {
	if s.Unknown {
		return s.Pos == pos
	}
	return s.target() == t
}
