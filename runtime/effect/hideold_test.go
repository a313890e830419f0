package effect

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// rotated is a system with values that are secret, of which only the new ones
// are declared.
type rotated struct {
	want map[string]any
	have map[string]any
}

func (r *rotated) Target() Target { return Target{Scope: "box", Kind: "server", Name: "v"} }
func (r *rotated) Observe(context.Context) (State, error) {
	return State{Exists: true, Attrs: map[string]any{"name": "v"}}, nil
}
func (r *rotated) Diff(State) (Change, error) {
	return Change{Kind: Update, Fields: Compare(r.want, r.have), After: map[string]any{"name": "v"}}, nil
}
func (r *rotated) Apply(context.Context, Change) (State, error) {
	return State{Exists: true, Attrs: map[string]any{"name": "v"}}, nil
}

// TestOldSecret sees to it that the value that a secret takes the place of shows
// nowhere: it was one, too, and nobody declares it any more.
func TestOldSecret(t *testing.T) {
	const old = "oldoldold-1111-AAAA"
	for _, mode := range []Mode{Plan, Apply} {
		d, ctx, rec, events := world(mode)
		s, err := NewSecret(ctx, "newnewnew-2222-BBBB", "env:X")
		if err != nil {
			t.Fatal(err)
		}
		op := &rotated{
			want: map[string]any{"token": s, "text": Text{secret: s}, "map": map[string]any{"a": map[string]any{"token": s}}, "list": []any{"x", s},
				"written": "token=newnewnew-2222-BBBB", "new": s, "mtu": 1400, "plain": "b"},
			have: map[string]any{"token": old, "text": old, "map": map[string]any{"a": map[string]any{"token": old}}, "list": []any{old, "y"},
				"written": "token=" + old, "mtu": 1500, "plain": "a"},
		}
		if _, err := Do(ctx, op); err != nil {
			t.Fatal(err)
		}
		var shown strings.Builder
		for _, e := range *events {
			form, err := json.Marshal(e.Change)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&shown, "%s %+v\n", form, e.Change)
		}
		for _, p := range d.Planned() {
			saved, err := NewSaver([]byte("0123456789abcdef"), d.Redactor).Save(p.Step, p.Target, p.Change, p.Pos)
			if err != nil {
				t.Fatal(err)
			}
			form, err := json.Marshal(saved)
			if err != nil {
				t.Fatal(err)
			}
			shown.Write(form)
		}
		fmt.Fprintln(&shown, rec.lines, rec.attrs)
		if out := shown.String(); strings.Contains(out, "oldold") || strings.Contains(d.Redactor.String(out), "newnew") {
			t.Errorf("it shows in %s", out)
		}
		fields := make(map[string]any)
		for _, f := range (*events)[0].Change.Fields {
			fields[f.Path] = f.Old
		}
		want := map[string]any{"token": Mask, "text": Mask, "map": Mask, "list": Mask, "written": Mask, "new": nil, "mtu": 1500, "plain": "a"}
		if fmt.Sprint(fields) != fmt.Sprint(want) {
			t.Errorf("the old values are %v, want %v", fields, want)
		}
	}
}
