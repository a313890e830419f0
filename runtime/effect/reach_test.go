package effect

import (
	"context"
	"testing"
)

// A thing is an op that changes a target, and perhaps others.
type thing struct {
	name   string
	have   map[string]any // nil: it isn't there
	change Change
}

func (o *thing) Target() Target { return Target{Scope: "world/a", Kind: "thing", Name: o.name} }
func (o *thing) Observe(context.Context) (State, error) {
	return State{Exists: o.have != nil, Attrs: o.have}, nil
}
func (o *thing) Diff(s State) (Change, error) {
	c := o.change
	if !s.Exists && c.After != nil {
		c.After = map[string]any{"wanted": c.After["wanted"], "own": Unknown{Of: "own"}}
	}
	return c, nil
}
func (o *thing) Apply(context.Context, Change) (State, error) { return State{}, nil }

// TestReach plans ops one after the other; what an earlier one may change isn't
// known of a later one.
func TestReach(t *testing.T) {
	there := map[string]any{"wanted": 1, "own": "x"}
	update := func(name string, reach ...string) *thing {
		return &thing{name, there, Change{Kind: Update, Fields: []Field{{Path: "wanted", Old: 0, New: 1}}, After: there, Reach: reach}}
	}
	for name, c := range map[string]struct {
		ops   []*thing
		kinds []ChangeKind
	}{
		"apart":              {[]*thing{update("a"), update("b")}, []ChangeKind{Update, Update}},
		"all":                {[]*thing{update("a", "world/a/"), update("b")}, []ChangeKind{Update, Later}},
		"another world":      {[]*thing{update("a", "world/b/"), update("b")}, []ChangeKind{Update, Update}},
		"one":                {[]*thing{update("a", "world/a/thing/b"), update("b"), update("bc")}, []ChangeKind{Update, Later, Update}},
		"any scope":          {[]*thing{update("a", "world/*/thing/"), update("b")}, []ChangeKind{Update, Later}},
		"unchanged":          {[]*thing{update("a", "world/a/"), {"b", there, Unchanged()}}, []ChangeKind{Update, Later}},
		"itself":             {[]*thing{update("a", "world/a/"), update("a")}, []ChangeKind{Update}},
		"itself and another": {[]*thing{update("a"), update("b", "world/a/"), update("a")}, []ChangeKind{Update, Update, Later}},
	} {
		d := &Door{Mode: Plan, Clock: SystemClock{}}
		ctx := With(context.Background(), NewScope(d, Owner{}, "step", nil))
		var last State
		for _, op := range c.ops {
			var err error
			if last, err = Do(ctx, op); err != nil {
				t.Fatal(err)
			}
		}
		var kinds []ChangeKind
		for _, p := range d.Planned() {
			kinds = append(kinds, p.Change.Kind)
		}
		if len(kinds) != len(c.kinds) {
			t.Errorf("%s: planned %v, want %v", name, kinds, c.kinds)
			continue
		}
		for i := range kinds {
			if kinds[i] != c.kinds[i] {
				t.Errorf("%s: planned %v, want %v", name, kinds, c.kinds)
			}
		}
		if _, unknown := last.Attrs["own"].(Unknown); unknown != (kinds[len(kinds)-1] == Later) {
			t.Errorf("%s: what it doesn't see to is %v", name, last.Attrs["own"])
		}
	}
	d := &Door{Mode: Plan, Clock: SystemClock{}}
	before := NewScope(d, Owner{}, "before", nil)
	before.Stop()
	if _, err := Do(With(context.Background(), NewScope(d, Owner{}, "step", []*Scope{before})), update("a")); err != nil || d.Planned()[0].Change.Kind != Later {
		t.Errorf("after a stop: %v, %v", d.Planned(), err)
	}
}
