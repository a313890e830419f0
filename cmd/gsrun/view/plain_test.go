package view

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
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

// A message of several lines is one line, without signs that only programmers
// know.
func TestMessagesOfSeveralLines(t *testing.T) {
	const text = "first\n\n  second"
	target := effect.Target{Scope: "ssh/gw", Kind: "run", Name: text}
	err := &fault.Error{Target: target.String(), Kind: fault.Failed, Hint: text, Err: errors.New(text)}
	change := &effect.Change{Kind: effect.Run, Note: text}
	var s script
	for _, e := range []effect.Event{{Kind: effect.RunStart, Message: text}, {Kind: effect.Progress, Message: text}, {Kind: effect.Waiting, Message: text},
		{Kind: effect.OpRetry, Try: 1, Err: err}, {Kind: effect.OpStart, Change: change}, {Kind: effect.OpPlan, Change: change}, {Kind: effect.OpEnd, Change: change},
		{Kind: effect.OpEnd, Err: err}, {Kind: effect.Deferred, Err: err}, {Kind: effect.StepEnd, Err: err}} {
		e.Step, e.Target = "a", target.String()
		s.add(0, e)
	}
	p := PlanData{Changes: []effect.Planned{{Step: "a", Target: target, Change: *change}}, Stops: []Stop{{Step: "a", Err: err}}, Err: err}
	for name, out := range everyOutput(t, s.events, p, SummaryData{Err: err}, nil) {
		switch {
		case strings.HasSuffix(name, "json"), strings.HasPrefix(name, string(JSON)), name == "summary":
			continue
		case strings.Contains(out, `\n`):
			t.Errorf("%s: shows a newline as its escape:\n%s", name, out)
		case !strings.Contains(out, "first; second"):
			t.Errorf("%s: doesn't join the lines:\n%s", name, out)
		}
	}
}

func TestPlainPlan(t *testing.T) {
	_, err := show(t, Config{Kind: Auto, Verb: Planning}, aPlanRun())
	golden(t, "plain_plan.txt", err)
}
