package view

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// approval is a question and its answer, with a control character in both.
func approval() []effect.Event {
	return []effect.Event{
		{Time: epoch, Kind: effect.StepStart, Step: "gate"},
		{Time: epoch, Kind: effect.Asked, Step: "gate", Ask: &effect.Ask{Text: "Delete\x1b[2J?", How: "gsrun approve R --site s"}},
		{Time: epoch.Add(time.Minute), Kind: effect.Answered, Step: "gate", Elapsed: time.Minute, Ask: &effect.Ask{Text: "Delete?", Answer: "denied", By: "you@there\x1b"}},
	}
}

func TestApprovalInLines(t *testing.T) {
	var out bytes.Buffer
	v := New(Config{Kind: Plain, Err: &out})
	for _, e := range approval() {
		v.Event(e)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	want := "gate: started\ngate: asks: Delete\\x1b[2J?\ngate: to answer: gsrun approve R --site s\ngate: denied by you@there\\x1b: Delete? (1m00s)\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

func TestApprovalInTheTree(t *testing.T) {
	s := newStage(t, 60, 10, Config{Verb: Running})
	events := approval()
	s.play(events[:2]...)
	if got := s.emu.text(); !strings.Contains(got, "gate  waits for approval: Delete\\x1b[2J?") || !strings.Contains(got, "gate: to answer: gsrun approve R") {
		t.Errorf("while it waits:\n%s", got)
	}
	s.play(events[2])
	if got := s.emu.text(); strings.Contains(got, "waits for approval") || !strings.Contains(got, "gate: denied by you@there") {
		t.Errorf("once it is answered:\n%s", got)
	}
	s.check(t)
}

func TestQuestionsInAPlan(t *testing.T) {
	var q Questions
	for _, e := range approval() {
		q.Event(e)
	}
	data := PlanData{Recipe: "x", Questions: q.All(), Budget: -1}
	var text, json bytes.Buffer
	if err := Plan(&text, data, PlanOptions{}); err != nil {
		t.Fatal(err)
	}
	if want := "gate\n  would ask: Delete\\x1b[2J?\n\nNo changes.\n"; text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &text, want)
	}
	if err := PlanJSON(&json, data, PlanOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(json.String(), `"questions":[{"step":"gate","text":"Delete\u001b[2J?"}]`) {
		t.Errorf("got %s", &json)
	}
}
