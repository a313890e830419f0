package effect

import (
	"context"
	"reflect"
)

// A Planned is a change that a plan found.
type Planned struct {
	Step   string
	Target Target
	Change Change
	Pos    string
}

// Planned returns the changes found so far, in the order in which they were.
func (d *Door) Planned() []Planned {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Planned(nil), d.planned...)
}

func (d *Door) plan(ctx context.Context, s *Scope, t Target, c Change) State {
	s.setPending(t.within())
	doubt(ctx)
	if d.plannedAgain(s, t, c) {
		// Applied, the second op would find what the first one made.
		d.count(None)
		d.emit(s, Event{Kind: OpEnd, Target: t.String(), Change: &Change{Kind: None}})
		return State{Exists: c.Kind != Delete, Attrs: c.After}
	}
	d.mu.Lock()
	n := len(d.planned)
	if d.plannedAt == nil {
		d.plannedAt = make(map[Target][]int)
	}
	d.plannedAt[t] = append(d.plannedAt[t], n)
	d.planned = append(d.planned, Planned{Step: s.Step, Target: t, Change: c, Pos: s.Pos})
	d.mu.Unlock()
	s.setReach(t, c.Reach, n)
	d.count(c.Kind)
	d.emit(s, Event{Kind: OpPlan, Target: t.String(), Change: &c})
	if c.Kind == Later && c.After == nil {
		return State{Unknown: true}
	}
	return State{Exists: c.Kind != Delete, Attrs: c.After}
}

// plannedOtherwise returns the changes of t that are planned already, if one
// of them changes it in another way than c does.
func (d *Door) plannedOtherwise(t Target, c Change) []Change {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Change
	differ := false
	for _, i := range d.plannedAt[t] {
		if p := d.planned[i].Change; p.Kind != Run {
			all = append(all, p)
			differ = differ || !sameChange(p, c)
		}
	}
	if !differ {
		return nil
	}
	return all
}

func sameChange(a, b Change) bool {
	return a.Kind == b.Kind && reflect.DeepEqual(a.After, b.After) && reflect.DeepEqual(a.Fields, b.Fields)
}

// plannedAgain reports whether c is the last planned change of t once more, and
// nothing that is planned since may change t.
func (d *Door) plannedAgain(s *Scope, t Target, c Change) bool {
	n := d.lastPlanned(t)
	if n < 0 || c.Kind == Run || c.Kind == Later && c.After == nil || s.isReached(t, n+1) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return sameChange(d.planned[n].Change, c)
}

// lastPlanned returns the number of the last planned change of t, or -1.
func (d *Door) lastPlanned(t Target) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at := d.plannedAt[t]; len(at) > 0 {
		return at[len(at)-1]
	}
	return -1
}
