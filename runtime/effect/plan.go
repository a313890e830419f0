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
	if c.Opaque || c.Kind == Run {
		s.setOpaque(t.Scope)
	}
	doubt(ctx)
	if d.planAgain(s, t, c) {
		// Applied, the second op would find what the first one made.
		d.count(None)
		d.emit(s, Event{Kind: OpEnd, Target: t.String(), Change: &Change{Kind: None}})
		return State{Exists: true, Attrs: c.After}
	}
	d.count(c.Kind)
	d.emit(s, Event{Kind: OpPlan, Target: t.String(), Change: &c})
	if c.Kind == Later && c.After == nil {
		return State{Unknown: true}
	}
	return State{Exists: c.Kind != Delete, Attrs: c.After}
}

// plannedOtherwise reports whether the plan changes t already, in another way
// than c does.
func (d *Door) plannedOtherwise(t Target, c Change) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.plannedAt[t] {
		if p := d.planned[i].Change; p.Kind != Run && !sameChange(p, c) {
			return true
		}
	}
	return false
}

func sameChange(a, b Change) bool {
	return a.Kind == b.Kind && reflect.DeepEqual(a.After, b.After) && reflect.DeepEqual(a.Fields, b.Fields)
}

// planAgain adds c to the plan, unless the same change of t is planned already,
// which it reports.
func (d *Door) planAgain(s *Scope, t Target, c Change) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.Kind == Create || c.Kind == Update || c.Kind == Later && c.After != nil {
		for _, i := range d.plannedAt[t] {
			if sameChange(d.planned[i].Change, c) {
				return true
			}
		}
	}
	if d.plannedAt == nil {
		d.plannedAt = make(map[Target][]int)
	}
	d.plannedAt[t] = append(d.plannedAt[t], len(d.planned))
	d.planned = append(d.planned, Planned{Step: s.Step, Target: t, Change: c, Pos: s.Pos})
	return false
}
