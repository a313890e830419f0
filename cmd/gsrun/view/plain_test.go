package view

import (
	"bytes"
	"testing"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// show returns what a view writes for events: on stdout and on stderr.
func show(t *testing.T, c Config, events []effect.Event) (out, err []byte) {
	t.Helper()
	var o, e bytes.Buffer
	c.Out, c.Err = &o, &e
	v := New(c)
	for _, ev := range events {
		v.Event(ev)
	}
	if cerr := v.Close(); cerr != nil {
		t.Fatal(cerr)
	}
	return o.Bytes(), e.Bytes()
}

func TestPlain(t *testing.T) {
	for name, c := range map[string]Config{
		"plain.txt": {Kind: Plain}, "plain_verbose.txt": {Kind: Plain, Verbose: true}, "plain_color.txt": {Kind: Plain, Color: true},
	} {
		out, err := show(t, c, aRun())
		if len(out) > 0 {
			t.Errorf("%s: stdout got %q", name, out)
		}
		golden(t, name, err)
	}
}

// A message of several lines is one line, without signs that only programs know.
func TestMessagesOfSeveralLines(t *testing.T) {
	events, p, s := everywhere("first\n\n  second")
	for name, text := range everyOutput(t, events, p, s, nil) {
		if strings.HasSuffix(name, "json") || strings.HasPrefix(name, string(JSON)) {
			continue
		}
		for line := range strings.Lines(text) {
			if strings.Contains(line, "second") && strings.Contains(line, "f first") && strings.Contains(line, `\n`) {
				continue
			}
		}
	}
}

func TestPlainPlan(t *testing.T) {
	_, err := show(t, Config{Kind: Auto, Verb: Planning}, aPlanRun())
	golden(t, "plain_plan.txt", err)
}
