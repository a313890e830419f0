package view

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func TestPlan(t *testing.T) {
	for name, o := range map[string]PlanOptions{
		"plan.txt": {}, "plan_color.txt": {Color: true}, "plan_ascii.txt": {ASCII: true},
	} {
		var b bytes.Buffer
		if err := Plan(&b, aPlan(), o); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
	}
}

func TestPlanWithoutChanges(t *testing.T) {
	var b bytes.Buffer
	if err := Plan(&b, PlanData{Steps: aPlan().Steps[:1]}, PlanOptions{Color: true}); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != "No changes.\n" {
		t.Errorf("got %q", got)
	}
}

// A manifest may have hundreds of fields: something new shows the first ones.
func TestPlanOfALargeObject(t *testing.T) {
	c := effect.Change{Kind: effect.Create}
	for i := range 100 {
		c.Fields = append(c.Fields, effect.Field{Path: fmt.Sprintf("spec.f%02d", i), New: i})
	}
	p := PlanData{Changes: []effect.Planned{{Step: "a", Target: effect.Target{Scope: "kube/x"}, Change: c}}}
	for _, full := range []bool{false, true} {
		var b bytes.Buffer
		if err := Plan(&b, p, PlanOptions{Full: full}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "spec.f99"); got != full {
			t.Errorf("full = %v: the last field is shown: %v", full, got)
		}
		if got := strings.Contains(b.String(), "... 76 more fields"); got == full {
			t.Errorf("full = %v: says that there are more: %v", full, got)
		}
	}
}

// A secret that didn't change isn't shown as a change of the map that it is in.
func TestPlanOfAMapWithAnUnchangedSecret(t *testing.T) {
	old := map[string]any{"kept": plainSecret, "other": plainSecret, "n": 1}
	new := map[string]any{"kept": secret(), "other": effect.SecretOf("another-"+plainSecret, ""), "n": 2}
	got := details{}.of(effect.Target{}, effect.Change{Kind: effect.Update, Fields: []effect.Field{{Path: "env", Old: old, New: new}}})
	want := []string{"env.n:     1 → 2", "env.other: *** (changed)"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
