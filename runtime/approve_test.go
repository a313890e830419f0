package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// people answer questions; they remember what they approved, as an asker does.
type people struct {
	mu    sync.Mutex
	says  func(q effect.Question) (effect.Answer, bool) // false: nobody answers
	known map[string]bool
	asked []string
	fail  func(string) error // of the world
}

func (p *people) Ask(ctx context.Context, q effect.Question, asked func(string)) (effect.Answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[q.ID] {
		return effect.Answer{Approved: true, By: "me@here"}, nil
	}
	p.asked = append(p.asked, q.Step+" "+q.Text)
	asked("call me")
	ans, ok := effect.Answer{Approved: true, By: "me@here"}, true
	if p.says != nil {
		ans, ok = p.says(q)
	}
	if !ok {
		<-ctx.Done()
		return ans, &fault.Error{Kind: fault.Timeout, Hint: "ask again so", Err: fault.FromContext(ctx)}
	}
	p.known[q.ID] = ans.Approved
	return ans, nil
}

// ask runs a recipe of one step with the given body.
func ask(t *testing.T, mode effect.Mode, p *people, body, options string) (*harness, *Result, error) {
	t.Helper()
	h := newHarness(t, "x.star", "def a(ctx):\n    \"\"\"A.\"\"\"\n    "+strings.ReplaceAll(body, "\n", "\n    ")+"\nmain = recipe(steps = [step(a"+options+")], outputs = lambda a: {\"a\": a})\n")
	h.w.fail = p.fail
	e := h.engine()
	r, err := e.Load("x.star")
	if err != nil {
		t.Fatal(err)
	}
	p.known = make(map[string]bool)
	door := &effect.Door{Mode: mode, Clock: effect.SystemClock{}, Redactor: new(effect.Redactor), Deletes: -1, Asker: p, Retry: effect.Retry{Tries: 1},
		Emit: func(ev effect.Event) { h.mu.Lock(); defer h.mu.Unlock(); h.events = append(h.events, ev) }}
	res, err := e.Run(t.Context(), r, Options{ID: "r1", Site: Site{Name: "lab"}, Door: door})
	return h, res, err
}

// TestApprovalsHoldForTheRun: what was approved isn't asked again when the step
// is tried again, and every question of a step is one of its own.
func TestApprovalsHoldForTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		body, options string
		want          []string
	}{
		"twice":    {"approve(\"x\")\napprove(\"x\")\napprove(\"y\")", "", []string{"a x", "a x", "a y"}},
		"retried":  {"approve(\"x\")\napprove(\"x\")\nworld.thing(\"t\")", ", retries = 1", []string{"a x", "a x"}},
		"items":    {"approve(\"x\")", ", each = lambda: [1, 2]", []string{"a[0] x", "a[1] x"}},
		"parallel": {"parallel([1, 2], lambda n: approve(\"x\"))", "", []string{"a x", "a x"}},
		"loop":     {"for n in [1, 2]:\n    approve(\"x %d\" % n)", "", []string{"a x 1", "a x 2"}},
	} {
		p := &people{}
		failed := false
		p.fail = func(string) error {
			if !failed {
				failed = true
				return fault.New(fault.Failed, "once")
			}
			return nil
		}
		_, _, err := ask(t, effect.Apply, p, c.body, c.options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		slices.Sort(p.asked)
		if fmt.Sprint(p.asked) != fmt.Sprint(c.want) {
			t.Errorf("%s: asked %v, want %v", name, p.asked, c.want)
		}
	}
}

func TestApproveEnds(t *testing.T) {
	for name, c := range map[string]struct {
		body, options string
		says          func(effect.Question) (effect.Answer, bool)
		kind          fault.Kind
		text, hint    string
	}{
		"denied": {"approve(\"x\")", ", retries = 3", func(effect.Question) (effect.Answer, bool) { return effect.Answer{By: "you@there"}, true },
			fault.Denied, "you@there denied it: x", "run it again"},
		"nobody": {"approve(\"x\", timeout = \"20ms\")", "", func(effect.Question) (effect.Answer, bool) { return effect.Answer{}, false },
			fault.Timeout, `waiting for approval of "x": nobody answered within 20ms`, "ask again so"},
		"the step's end": {"approve(\"x\")", ", timeout = \"20ms\"", func(effect.Question) (effect.Answer, bool) { return effect.Answer{}, false },
			fault.Timeout, `waiting for approval of "x": step a took longer than 20ms`, ""},
		"no text": {"approve(\"\")", "", nil, fault.Invalid, "the text is empty", "say what is about to happen"},
		"no time": {"approve(\"x\", timeout = \"0s\")", "", nil, fault.Invalid, "the timeout is 0s", ""},
	} {
		p := &people{says: c.says}
		_, _, err := ask(t, effect.Apply, p, c.body, c.options)
		if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) || !strings.Contains(fault.HintOf(err), c.hint) {
			t.Errorf("%s: %v (%s), hint %q", name, err, fault.KindOf(err), fault.HintOf(err))
		}
		if len(p.asked) > 1 {
			t.Errorf("%s: asked %v", name, p.asked)
		}
	}
	h := newHarness(t, "x.star", "def a():\n    \"\"\"A.\"\"\"\n    approve(\"x\")\nmain = recipe(steps = [a])\n")
	if _, _, _, err := h.run(t.Context(), effect.Apply, "x.star"); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "nobody can be asked here: x") {
		t.Errorf("without an asker: %v", err)
	}
}

// TestApproveInAPlan: a plan asks nobody, goes on, and knows nothing of what
// the person will say.
func TestApproveInAPlan(t *testing.T) {
	p := &people{}
	h, res, err := ask(t, effect.Plan, p, "r = approve(\"x\")\nworld.thing(\"t\")\nreturn [r, attempt(lambda: approve(\"y\")).ok]", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Outputs.String(); got != "struct(a = [None, (known after apply)])" {
		t.Errorf("got %s", got)
	}
	var kinds []string
	for _, e := range h.events {
		if e.Ask != nil {
			kinds = append(kinds, fmt.Sprintf("%s %s %q", e.Kind, e.Ask.Text, e.Ask.How))
		}
	}
	if fmt.Sprint(kinds) != `[asked x "" asked y ""]` || len(p.asked) != 0 {
		t.Errorf("events %v, asked %v", kinds, p.asked)
	}
}
