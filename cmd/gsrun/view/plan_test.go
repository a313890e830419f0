package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
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

// A plan that failed or was stopped says so, and that there may be more.
func TestPlanThatFailed(t *testing.T) {
	failed := &runtime.StepError{Step: "gateway/nat", Err: fault.Hinted(fault.Denied, "ask for rights", "no rights")}
	counts := "1 to create, 1 to update, 1 to replace, 2 to delete, 1 to run, 1 known only after apply."
	for name, c := range map[string]struct {
		err            error
		changes        []effect.Planned
		want, status   string
		kind, hint, of string
	}{
		"failed":   {failed, aPlan().Changes, "Plan incomplete: step gateway/nat failed; found so far: " + counts, "failed", "denied", "ask for rights", "step gateway/nat: no rights"},
		"redacted": {fault.New(fault.Failed, "step a[2]: no ***"), nil, "Plan incomplete: step a[2] failed; found so far: no changes.", "failed", "failed", "", "step a[2]: no ***"},
		"no step":  {fault.New(fault.Failed, "no outputs"), nil, "Plan incomplete: it failed; found so far: no changes.", "failed", "failed", "", "no outputs"},
		"stopped":  {fault.New(fault.Cancelled, "interrupted"), nil, "Plan incomplete: it was stopped; found so far: no changes.", "stopped", "cancelled", "", "interrupted"},
		"ok":       {nil, aPlan().Changes, "Plan: " + counts, "ok", "", "", ""},
	} {
		p := PlanData{Changes: c.changes, Err: c.err, Budget: -1}
		var text, line bytes.Buffer
		if err := errors.Join(Plan(&text, p, PlanOptions{}), PlanJSON(&line, p, PlanOptions{})); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
		if got := lines[len(lines)-1]; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		var rec PlanRecord
		if err := json.Unmarshal(line.Bytes(), &rec); err != nil {
			t.Fatal(err)
		}
		var e ErrorRecord
		if rec.Error != nil {
			e = *rec.Error
		}
		if rec.Status != c.status || e != (ErrorRecord{Kind: c.kind, Message: c.of, Hint: c.hint}) {
			t.Errorf("%s: status %q and error %+v", name, rec.Status, rec.Error)
		}
	}
}

// A plan says beforehand what the run would fail by: its budget of deletions.
func TestPlanBeyondTheBudget(t *testing.T) {
	deletes := aPlan().Changes[5:]
	for _, c := range []struct {
		changes []effect.Planned
		err     error
		budget  int
		want    string
	}{
		{deletes, nil, 0, "The run's budget is 0 deletions: it needs --max-deletes 2."},
		{deletes, nil, 1, "The run's budget is 1 deletion: it needs --max-deletes 2."},
		{deletes, fault.New(fault.Failed, "no"), 1, "The run's budget is 1 deletion: it needs --max-deletes 2 or more."},
		{aPlan().Changes, nil, 0, "The run's budget is 0 deletions: it needs --max-deletes 3 or more."}, // one replaces, another isn't known yet
		{deletes, nil, 2, ""},
		{deletes, nil, -1, ""},
		{nil, nil, 0, ""},
	} {
		p := PlanData{Changes: c.changes, Err: c.err, Budget: c.budget}
		var text, line bytes.Buffer
		if err := errors.Join(Plan(&text, p, PlanOptions{}), PlanJSON(&line, p, PlanOptions{})); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
		if last := lines[len(lines)-1]; c.want != "" && last != c.want || c.want == "" && strings.Contains(last, "budget") {
			t.Errorf("budget %d: got %q, want %q", c.budget, last, c.want)
		}
		var rec PlanRecord
		if err := json.Unmarshal(line.Bytes(), &rec); err != nil {
			t.Fatal(err)
		}
		if d := rec.Deletions; d.Exceeded != (c.want != "") || (d.Budget == nil) != (c.budget < 0) || d.Budget != nil && *d.Budget != c.budget {
			t.Errorf("budget %d: got %s", c.budget, line.String())
		}
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

// Something new had nothing before.
func TestCreateWithoutOldValues(t *testing.T) {
	c := effect.Change{Kind: effect.Create, Fields: []effect.Field{{Path: "groups", Old: "", New: "adm"}, {Path: "uid", Old: 0, New: 7},
		{Path: "list", Old: []any{}, New: []any{"a"}}, {Path: "on", Old: false, New: true}, {Path: "kept", Old: "x", New: "y"}, {Path: "none", Old: "", New: nil}}}
	for kind, want := range map[effect.ChangeKind][]string{
		effect.Create: {"groups: adm", "uid:    7", "list:   [a]", "on:     true", "kept:   x → y", "none:   none"},
		effect.Update: {`groups: "" → adm`, "uid:    0 → 7", "list:   [] → [a]", "on:     false → true", "kept:   x → y", `none:   "" → none`},
	} {
		c.Kind = kind
		if got := (details{}).of(effect.Target{}, c); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
}

// The elements of a list that come and go one by one are one block.
func TestFieldsThatAreElements(t *testing.T) {
	rule := func(port int) any { return map[string]any{"port": port, "protocol": "tcp"} }
	come := []effect.Field{{Path: "rules", New: rule(22)}, {Path: "mtu", New: 1450}, {Path: "rules", New: rule(443)}}
	for name, c := range map[string]struct {
		kind   effect.ChangeKind
		fields []effect.Field
		want   []string
	}{
		"create": {effect.Create, come, []string{"rules:", "  - port: 22", "    protocol: tcp", "  - port: 443", "    protocol: tcp", "mtu: 1450"}},
		"update": {effect.Update, []effect.Field{{Path: "rules", New: rule(22)}, {Path: "rules", Old: rule(80)}},
			[]string{"rules:", "  -- port: 80", "  -  protocol: tcp", "  +- port: 22", "  +  protocol: tcp"}},
		"update, adding": {effect.Update, []effect.Field{{Path: "subnets", New: "a"}, {Path: "subnets", New: "b"}}, []string{"subnets:", "  +- a", "  +- b"}},
		"delete":         {effect.Delete, []effect.Field{{Path: "rules", Old: "a"}, {Path: "rules", Old: "b"}}, []string{"rules: [a, b]"}},
		"secret":         {effect.Update, []effect.Field{{Path: "keys", Old: plainSecret, New: secret()}, {Path: "keys", New: secret()}}, []string{"keys: *** (changed)"}},
		"secrets": {effect.Update, []effect.Field{{Path: "users", Old: map[string]any{"name": "a", "password": plainSecret}}, {Path: "users", New: map[string]any{"name": "b", "password": secret()}}},
			[]string{"users:", "  -- name: a", "  -  password: ***", "  +- name: b", "  +  password: ***"}},
	} {
		if got := (details{}).of(effect.Target{}, effect.Change{Kind: c.kind, Fields: c.fields}); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	_, got := show(t, Config{Kind: Plain}, []effect.Event{{Kind: effect.OpEnd, Step: "a", Target: "t", Change: &effect.Change{Kind: effect.Update, Fields: come}}})
	if want := "a: updated t [rules, mtu] (0.0s)\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
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
