package view

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func TestJSON(t *testing.T) {
	for name, events := range map[string][]effect.Event{"events.jsonl": aRun(), "events_plan.jsonl": aPlanRun()} {
		out, err := show(t, Config{Kind: JSON}, events)
		if len(err) > 0 {
			t.Errorf("%s: stderr got %q", name, err)
		}
		golden(t, name, out)
		lines := bytes.Split(bytes.TrimSuffix(out, []byte("\n")), []byte("\n"))
		if len(lines) != len(events) {
			t.Fatalf("%s: %d lines for %d events", name, len(lines), len(events))
		}
		for i, l := range lines {
			var rec Record
			if err := json.Unmarshal(l, &rec); err != nil {
				t.Fatalf("%s:%d: %v", name, i+1, err)
			}
			if at, err := time.Parse(time.RFC3339, rec.Time); err != nil || !at.Equal(events[i].Time) {
				t.Errorf("%s:%d: time %q, want %v", name, i+1, rec.Time, events[i].Time)
			}
		}
	}
}

func TestPlanJSON(t *testing.T) {
	var b bytes.Buffer
	if err := PlanJSON(&b, aPlan(), PlanOptions{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "plan.json", b.Bytes())
	var rec PlanRecord
	if err := json.Unmarshal(b.Bytes(), &rec); err != nil {
		t.Fatal(err)
	}
	if len(rec.Changes) != len(aPlan().Changes) || len(rec.Stops) != 2 {
		t.Errorf("%d changes and %d stops", len(rec.Changes), len(rec.Stops))
	}
}

func summaries() map[string]SummaryData {
	steps := []runtime.StepResult{{Path: "a", Status: runtime.OK}, {Path: "b", Status: runtime.OK}, {Path: "c", Status: runtime.Skipped}}
	end := epoch.Add(72 * time.Second)
	return map[string]SummaryData{
		"summary_ok": {Run: "20260301-1", Recipe: "gateway", Steps: steps, Counts: effect.Counts{Created: 5, Updated: 2, Ran: 1, Unchanged: 40},
			Time: end, Elapsed: 72 * time.Second, Outputs: outputs()},
		"summary_failed": {Run: "20260301-2", Recipe: "gateway", Time: end, Elapsed: 3 * time.Hour, Counts: effect.Counts{Failed: 1, Partly: 1},
			Steps: append(steps, runtime.StepResult{Path: "d", Status: runtime.Failed}, runtime.StepResult{Path: "e", Status: runtime.NotRun}, runtime.StepResult{Path: "f", Status: runtime.Deferred}),
			Err:   &runtime.StepError{Step: "d", Err: fault.Hinted(fault.Quota, "ask for more", "no"+evil)}},
		"summary_stopped": {Steps: append(steps[:len(steps):len(steps)], runtime.StepResult{Path: "d", Status: runtime.Stopped}, runtime.StepResult{Path: "e", Status: runtime.NotRun}),
			Counts: effect.Counts{Created: 1}, Time: end, Err: fault.New(fault.Cancelled, "interrupted"), Elapsed: 9990 * time.Millisecond},
	}
}

func TestSummary(t *testing.T) {
	for name, s := range summaries() {
		var text, line bytes.Buffer
		if err := Summary(&text, s, SummaryOptions{}); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", text.Bytes())
		if err := SummaryJSON(&line, s, SummaryOptions{}); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", line.Bytes())
		if !json.Valid(line.Bytes()) {
			t.Errorf("%s: not JSON", name)
		}
	}
}

// A value of any type must be shown somehow, never panic, never break JSON.
func TestAnyValue(t *testing.T) {
	type named struct{ Secret *effect.Secret }
	deep := any("end")
	for range 2 * maxDepth {
		deep = []any{deep}
	}
	for _, x := range []any{nil, math.NaN(), math.Inf(-1), 1e300, 1e-9, float32(1.5), uint8(3), big.NewInt(7), []byte("a\xff"), []byte("a"),
		[]string{"a"}, map[string]string{"a": "b"}, map[int]any{1: 2}, time.Second, epoch, named{secret()}, &named{secret()}, (*named)(nil),
		make(chan int), effect.Plain("x"), effect.Data{V: secret()}, deep, "bad \xff utf8", outputs(), struct{}{}} {
		n := normal(x, nil)
		if line := jsonLine(forJSON(n)); !json.Valid(line) {
			t.Errorf("%T: not JSON: %s", x, line)
		}
		for _, text := range []string{inline(n), block(n)[0]} {
			if text == "" || clean(text) != text {
				t.Errorf("%T: shown as %q", x, text)
			}
		}
	}
	if got := normal(1e6, nil); got != json.Number("1000000") {
		t.Errorf("1e6 is shown as %v", got)
	}
}

// What JSON would let through comes back whole from its escapes.
func TestJSONEscapes(t *testing.T) {
	const text = "a\u009b\x7f\u2028\U000e0041\u200d日本🙂<&>"
	line := jsonLine(text)
	if bytes.IndexFunc(bytes.TrimSuffix(line, []byte("\n")), hostile) >= 0 {
		t.Errorf("not escaped: %q", line)
	}
	var got string
	if err := json.Unmarshal(line, &got); err != nil || got != text {
		t.Errorf("got %q, %v", got, err)
	}
}
