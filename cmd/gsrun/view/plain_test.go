package view

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
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

// What is tried again and fails as before says so in short. Errors that differ,
// or are of different targets, are told whole.
func TestRetries(t *testing.T) {
	var s script
	quota := func() error { return fault.New(fault.Quota, "no servers left, and a long text on why") }
	retry := func(step, target string, try int, err error) {
		s.add(0, effect.Event{Kind: effect.OpRetry, Step: step, Target: target, Try: try, Err: err})
	}
	retry("a", "cloud/x", 1, quota())
	retry("a", "cloud/x", 2, quota())
	retry("b", "cloud/x", 1, quota()) // another step
	retry("a", "cloud/y", 1, quota()) // another target
	retry("a", "cloud/x", 3, quota())
	retry("a", "cloud/x", 4, fault.New(fault.Timeout, "no answer"))
	retry("a", "cloud/x", 5, nil)
	failed := &fault.Error{Target: "cloud/x", Kind: fault.Quota, Err: quota()}
	s.add(0, effect.Event{Kind: effect.OpEnd, Step: "c", Target: "cloud/x", Err: failed})
	retry("c", "", 1, failed) // the step
	s.add(0, effect.Event{Kind: effect.OpEnd, Step: "c", Target: "cloud/x", Err: failed})
	retry("c", "", 2, failed)
	retry("c", "", 3, fault.New(fault.Failed, "another"))
	retry("c", "", 4, fault.New(fault.Failed, "another"))
	_, got := show(t, Config{Kind: Plain}, s.events)
	const long = "no servers left, and a long text on why"
	want := "a: retry 1: cloud/x: " + long + "\na: retry 2: same error\nb: retry 1: cloud/x: " + long + "\na: retry 1: cloud/y: " + long +
		"\na: retry 3: cloud/x: " + long + "\na: retry 4: cloud/x: no answer\na: retry 5\n" +
		"c: failed after 0.0s: cloud/x: " + long + "\nc: retry 1: same error\nc: failed after 0.0s: cloud/x: " + long + "\nc: retry 2: same error\n" +
		"c: retry 3: another\nc: retry 4: same error\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A message doesn't name its target twice.
func TestEchoes(t *testing.T) {
	for in, want := range map[string]string{
		"cloud/port/p: cloud/port/p (id) can't be changed":         "cloud/port/p (id) can't be changed",
		"item 0: cloud/port/p: cloud/port/p: cloud/port/p is gone": "item 0: cloud/port/p is gone",
		"cloud/port/p: cloud/port/p2 is gone":                      "cloud/port/p: cloud/port/p2 is gone",
		"cloud/port/p: cloud/port/p":                               "cloud/port/p",
		"1: 1 is wrong":                                            "1: 1 is wrong",
		"no connection":                                            "no connection",
	} {
		if got := reasonOf(fault.New(fault.Failed, "%s", in), nil).message; got != want {
			t.Errorf("%q is told as %q, want %q", in, got, want)
		}
	}
	// What an op failed with is found again in the failure of its step.
	err := fault.New(fault.Conflict, "cloud/port/p (id) can't be changed")
	_, got := show(t, Config{Kind: Plain}, []effect.Event{
		{Kind: effect.OpEnd, Step: "a", Target: "cloud/port/p", Err: &fault.Error{Target: "cloud/port/p", Kind: fault.Conflict, Err: err}},
		{Kind: effect.StepEnd, Step: "a", Err: &runtime.StepError{Step: "a", Err: &fault.Error{Target: "cloud/port/p", Kind: fault.Conflict, Err: err}}},
	})
	if want := "a: failed after 0.0s: cloud/port/p (id) can't be changed\na: FAILED (0.0s)\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What the recipe catches is told, but not as a failure of its step.
func TestCaughtFailure(t *testing.T) {
	events := []effect.Event{
		{Kind: effect.OpEnd, Step: "a", Target: "cloud/port/p", Attempt: true, Err: fault.New(fault.Denied, "not allowed")},
		{Kind: effect.OpEnd, Step: "a", Target: "cloud/port/q", Change: &effect.Change{Kind: effect.Create}},
		{Kind: effect.StepEnd, Step: "a"},
	}
	_, got := show(t, Config{Kind: Plain}, events)
	if want := "a: attempt failed after 0.0s: cloud/port/p: not allowed\na: created cloud/port/q (0.0s)\na: ok, 1 changed (0.0s)\n"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if out, _ := show(t, Config{Kind: JSON}, events); !strings.Contains(string(out), `"attempt":true`) {
		t.Errorf("%s", out)
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
