package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// aStoppedRun is a run that somebody stopped: one step had a change under way,
// another only looked, a third fans out.
func aStoppedRun() []effect.Event {
	var s script
	create := &effect.Change{Kind: effect.Create}
	none := effect.Unchanged()
	stop := func(target string) error {
		return &fault.Error{Target: target, Kind: fault.Cancelled, Err: fault.New(fault.Cancelled, "the run was stopped")}
	}
	s.add(0, effect.Event{Kind: effect.StepStart, Step: "server"})
	s.add(0, effect.Event{Kind: effect.StepStart, Step: "look"})
	s.add(0, effect.Event{Kind: effect.StepStart, Step: "nodes"})
	s.add(0, effect.Event{Kind: effect.OpStart, Step: "server", Target: "cloud/server/gw", Change: create})
	s.add(0, effect.Event{Kind: effect.OpEnd, Step: "server", Target: "cloud/network/n", Change: &none})
	s.add(0, effect.Event{Kind: effect.OpStart, Step: "nodes[0]", Target: "cloud/server/n0", Change: create})
	s.add(0, effect.Event{Kind: effect.OpStart, Step: "nodes[1]", Target: "cloud/server/n1", Change: create})
	s.add(time.Second, effect.Event{Kind: effect.OpEnd, Step: "nodes[1]", Target: "cloud/server/n1", Change: create, Err: fault.New(fault.Quota, "no more servers"), Elapsed: time.Second})
	s.add(time.Second, effect.Event{Kind: effect.OpEnd, Step: "server", Target: "cloud/server/gw", Change: create, Err: stop("cloud/server/gw"), Elapsed: 2 * time.Second})
	s.add(0, effect.Event{Kind: effect.OpEnd, Step: "look", Target: "cloud/image/i", Err: stop("cloud/image/i")})
	s.add(0, effect.Event{Kind: effect.OpEnd, Step: "nodes[0]", Target: "cloud/server/n0", Change: create, Err: stop("cloud/server/n0"), Elapsed: 2 * time.Second})
	for _, step := range []string{"server", "look", "nodes"} {
		s.add(0, effect.Event{Kind: effect.StepEnd, Step: step, Err: &runtime.StepError{Step: step, Err: stop("")}, Elapsed: 2 * time.Second})
	}
	return s.events
}

// What ended because the run was stopped hasn't failed.
func TestStoppedRun(t *testing.T) {
	_, plain := show(t, Config{Kind: Plain}, aStoppedRun())
	s := newStage(t, 100, 24, Config{})
	s.play(aStoppedRun()...)
	_ = s.Close()
	golden(t, "stopped.txt", []byte(string(plain)+"---\n"+s.emu.text()))
	if n := strings.Count(strings.ToLower(string(plain)), "failed"); n != 1 { // the op that did
		t.Errorf("%d lines say that something failed", n)
	}
	out, _ := show(t, Config{Kind: JSON}, aStoppedRun())
	got := make(map[string]int)
	for line := range bytes.Lines(out) {
		var rec Record
		if err := json.Unmarshal(line, &rec); err != nil {
			t.Fatal(err)
		}
		got[rec.Kind+" "+rec.Status]++
	}
	for key, want := range map[string]int{"step_end stopped": 3, "op_end stopped": 3, "op_end failed": 1, "op_end ok": 1, "step_end failed": 0, "step_start ": 3} {
		if got[key] != want {
			t.Errorf("%d records are %q, want %d", got[key], key, want)
		}
	}
	_, colored := show(t, Config{Kind: Plain, Color: true}, aStoppedRun())
	if bytes.Contains(colored, []byte("\x1b["+red+"mstopped")) || !bytes.Contains(colored, []byte("\x1b["+yellow+"mstopped")) {
		t.Errorf("stopped isn't yellow: %q", colored)
	}
}
