package effect

import (
	"maps"
	"slices"
	"strings"
)

// What a plan observes is what a later op finds only if nothing that comes
// before changes it. An earlier change of the same target is looked up by the
// target; what else it may change, it says itself (Change.Reach).

// anything is the reach of a step whose plan stopped.
const anything = "*"

// setReach notes what planned change number n, of t, may change.
func (s *Scope) setReach(t Target, reach []string, n int) {
	if t.Unknown && reach == nil {
		reach = t.reach()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range reach {
		s.reached[r] = n
		if !strings.Contains(r, "*") {
			s.pending[strings.TrimSuffix(r, "/")] = true
		}
	}
}

// reach returns what a target that isn't known may be.
func (t Target) reach() []string {
	t.Unknown = false
	if t.Kind == "" {
		return []string{t.Scope + "/"}
	}
	prefix, _, part := strings.Cut(t.String(), UnknownText)
	if part {
		prefix += "*"
	}
	return []string{prefix}
}

// isReached reports whether this step, or one that it depends on, has a
// planned change from number n on, other than the last one of t itself, that
// may change t too.
func (s *Scope) isReached(t Target, n int) bool {
	target, own := t.String(), s.Door.lastPlanned(t)
	return s.any(func(s *Scope) bool {
		for r, last := range s.reached {
			prefix, rest, wild := strings.Cut(r, "*")
			switch {
			case last < n, last == own:
			case !strings.HasPrefix(target, prefix):
			case wild && strings.Contains(target[len(prefix):], rest), strings.HasSuffix(prefix, "/") && !wild, target == r:
				return true
			}
		}
		return false
	})
}

// uncertain returns the change of an op whose target an earlier change of the
// plan may change, or nil if there is none. What the op observed isn't what it
// will find then.
func (d *Door) uncertain(s *Scope, op Op, t Target, before State, c Change) *Change {
	earlier := d.plannedOtherwise(t, c)
	reached := s.isReached(t, 0)
	if c.Follows || !reached && (len(earlier) == 0 || c.Kind == Run) {
		return nil
	}
	u := &Change{Kind: Later, May: mayBe(op, c.Kind), Note: "an earlier change of this plan comes first", Fields: c.Fields, After: c.After, Reach: c.Reach, Before: before}
	switch {
	case s.any(func(s *Scope) bool { _, stopped := s.reached[anything]; return stopped }):
		u.Note = "the plan of a step before it stops"
	case reached:
		u.Note = "what the plan installs or runs there before may change it"
	}
	if c.Kind == None {
		u.After = before.Attrs
	}
	var fresh Change
	if reached && u.After != nil {
		// What holds if nothing is there as well is what the op sees to.
		var err error
		if fresh, err = op.Diff(State{}); err != nil {
			fresh.After = nil
		}
	}
	u.After = maps.Clone(u.After)
	for k, v := range u.After {
		known := !slices.Contains(c.Relative, k) && (!reached || holds(fresh.After, k, v))
		for _, e := range earlier {
			known = known && (holds(e.After, k, v) || wants(c.Fields, k, v))
		}
		if !known {
			u.After[k] = Unknown{Of: t.String() + " " + k}
		}
	}
	return u
}

// mayBe returns the deletion that a change may turn out to be that would be of
// the given kind now; "" for none.
func mayBe(op Op, now ChangeKind) ChangeKind {
	if r, ok := op.(Remover); ok && r.Removes() {
		return Delete
	}
	if now == Delete || now == Replace {
		return now
	}
	return ""
}

func holds(attrs map[string]any, name string, v any) bool {
	have, ok := attrs[name]
	return ok && equalData(plainData(v), plainData(have))
}

// wants reports whether an op changes the attribute to v itself.
func wants(fields []Field, name string, v any) bool {
	for _, f := range fields {
		if f.Path == name && equalData(plainData(v), plainData(f.New)) {
			return true
		}
	}
	return false
}
