package site

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// TestWrongSites: what is wrong is told with its line and a hint that fits.
func TestWrongSites(t *testing.T) {
	for text, want := range map[string][2]string{
		"":                                      {"site.yaml is empty", "name: NAME"},
		"# nothing\n":                           {"site.yaml is empty", "name: NAME"},
		"null\n":                                {"site.yaml is empty", "name: NAME"},
		"- a\n":                                 {"site.yaml:1: the file is a list", "name: NAME"},
		"text\n":                                {"site.yaml:1: the file is a text", "name: NAME"},
		"state: x\n":                            {"site.yaml: name is missing", "name: NAME"},
		"name:\n":                               {"site.yaml: name is missing", "name: NAME"},
		"state: x\nname: 12\n":                  {"site.yaml:2: name is 12, a number", "in quotes"},
		"name: -ab\n":                           {`site.yaml:1: name "-ab" begins with '-', which is no letter`, "lower-case letters"},
		"name: \"1a\"\n":                        {`begins with '1', which is no letter`, "lower-case letters"},
		"name: ab-\n":                           {`name "ab-" ends with a dash`, "lower-case letters"},
		"name: Bad\n":                           {`name "Bad" holds 'B'`, "lower-case letters"},
		"name: " + strings.Repeat("a", 33):      {"has 33 characters", "at most 32"},
		"name: [a]\n":                           {"site.yaml:1: got a list, want a text", ""},
		"name: a\n---\nname: b\n":               {"site.yaml:2: a second YAML document begins here", "one document"},
		"name: a\nname: b\n":                    {"site.yaml:2: name is said twice, first at line 1", "keep one"},
		"name: a\ninputs:\n  g: {x: 1, x: 2}\n": {"site.yaml:3: inputs.g.x is said twice", "keep one"},
		"name: a\ninputs: [g]\n":                {"site.yaml:2: inputs is a list", "{RECIPE: {INPUT: VALUE}}"},
		"name: a\ninputs:\n  g: 7\n":            {"site.yaml:3: inputs.g is 7, a number", "{RECIPE: {INPUT: VALUE}}"},
		"name: a\ninputs:\n  g:\n    d: 2024-01-01\n": {"site.yaml:4: inputs.g.d is a date", "in quotes"},
		"name: a\nvalues:\n  d: [2024-01-01]\n":       {"site.yaml:3: values.d[0] is a date", "in quotes"},
		"name: a\nvalues:\n  p: {80: web}\n":          {"site.yaml:3: values.p has a key that is no text: 80", "in quotes"},
		"name: a\nvalues: 7\n":                        {"site.yaml:2: values is 7, a number", "{NAME: VALUE}"},
		"name: a\ncluods: x\n":                        {"site.yaml:2: field cluods not found", "it may say name"},
		"name: a\nlimits:\n  steps: many\n":           {"site.yaml:3: got a text (many), want a whole number", ""},
		"name: a\nlimits:\n  interval: 5\n":           {"site.yaml:3: got a number (5), want a time with its unit, such as 5s", ""},
		"name: a\nlimits: {interval: 5ms}\n":          {"site.yaml:2: limits.interval is 5ms; the least is 100ms", "2s"},
		"name: a\nlimits: {patience: -5s}\n":          {"site.yaml:2: limits.patience is -5s", "6s"},
		"name: a\nlimits: {interval: -5s}\n":          {"site.yaml:2: limits.interval is -5s; the least is 100ms", ""},
		"name: a\nlimits:\n  interval: soon\n":        {"site.yaml:3: got a text (soon), want", ""},
		"name: a\nvalues: {\n":                        {"site.yaml:", ""},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(dir)
		if err == nil || fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), want[0]) || !strings.Contains(fault.HintOf(err), want[1]) {
			t.Errorf("%q: %v (%s), want %q", text, err, fault.HintOf(err), want)
		}
	}
}

func TestWhereASiteSaysSomething(t *testing.T) {
	dir := t.TempDir()
	text := "name: a\ninputs:\n  gateway: &g\n    cidr: 10.0.0.0/8\n  seed:\n    <<: *g\n    size: 3\n"
	if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.InputsOf("seed"); got["cidr"] != "10.0.0.0/8" || got["size"] != 3 {
		t.Errorf("a merged mapping: %v", got)
	}
	for what, want := range map[string]string{"inputs.gateway.cidr": ":4", "inputs.seed": ":5", "inputs.seed.size": ":7", "inputs.other": ""} {
		if got := s.At(what); want == "" && got != "" || !strings.HasSuffix(got, want) {
			t.Errorf("%s is at %q, want %q", what, got, want)
		}
	}
}

func TestInterval(t *testing.T) {
	read := func(text string) *Site {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s, lab := read("name: a\nlimits: {interval: 5s}\n"), read("name: lab\nlimits: {interval: 500ms, patience: 1s}\n")
	if got := s.Limits.Interval; got != 5*time.Second {
		t.Errorf("interval is %s", got)
	}
	if got := s.Under(lab).Limits; got.Interval != 500*time.Millisecond || got.Patience != time.Second {
		t.Errorf("under a lab they are %+v", got)
	}
}
