package effect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// clock is a clock whose sleeps take no time.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	sleeps []time.Duration
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }
func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	c.now = c.now.Add(d)
	c.sleeps = append(c.sleeps, d)
	return nil
}

// recorder remembers what was recorded, in order.
type recorder struct {
	lines []string
	attrs []map[string]any
}

func (r *recorder) Intent(x Record) error {
	r.lines = append(r.lines, "intent "+string(x.Kind)+" "+x.Target+" "+x.Mark)
	return nil
}

func (r *recorder) Result(x Record) error {
	r.attrs = append(r.attrs, x.Attrs)
	r.lines = append(r.lines, fmt.Sprintf("result %s %s %v", x.Kind, x.Target, x.Err))
	return nil
}

// box is a system with one value.
type box struct {
	value   *string
	want    Text
	errs    []error // of the next applies
	effects bool    // an apply that fails has had its effect
	touches bool    // an apply that fails has changed something before
	calls   []string
}

func (b *box) Target() Target { return Target{Scope: "box", Kind: "value", Name: "v"} }
func (b *box) Observe(context.Context) (State, error) {
	b.calls = append(b.calls, "observe")
	if b.value == nil {
		return State{}, nil
	}
	return State{Exists: true, Attrs: map[string]any{"value": *b.value}}, nil
}
func (b *box) Diff(s State) (Change, error) {
	after := map[string]any{"value": b.want.Value(), "id": Unknown{Of: "id"}}
	if !s.Exists {
		return Change{Kind: Create, Fields: []Field{{Path: "value", New: b.want.Value()}}, After: after}, nil
	}
	f := Compare(map[string]any{"value": b.want}, s.Attrs)
	if len(f) == 0 {
		return Unchanged(), nil
	}
	return Change{Kind: Update, Fields: f, After: after}, nil
}
func (b *box) Apply(ctx context.Context, c Change) (State, error) {
	b.calls = append(b.calls, "apply")
	set := func() { v := b.want.Reveal(); b.value = &v }
	if len(b.errs) > 0 {
		err := b.errs[0]
		b.errs = b.errs[1:]
		if b.touches {
			Touched(ctx)
		}
		if b.effects {
			set()
		}
		return State{}, err
	}
	set()
	return State{Exists: true, Attrs: map[string]any{"value": *b.value}}, nil
}

func world(mode Mode) (*Door, context.Context, *recorder, *[]Event) {
	rec, events := &recorder{}, &[]Event{}
	var mu sync.Mutex
	d := &Door{Mode: mode, Clock: &clock{now: time.Unix(0, 0)}, Recorder: rec, Redactor: new(Redactor), Deletes: -1,
		Emit: func(e Event) { mu.Lock(); defer mu.Unlock(); *events = append(*events, e) }}
	scope := NewScope(d, Owner{Site: "s", Recipe: "r"}, "step", nil)
	return d, With(context.Background(), scope), rec, events
}

func TestApplyRecordsIntentBeforeAndResultAfter(t *testing.T) {
	d, ctx, rec, _ := world(Apply)
	b := &box{want: Plain("x")}
	if _, err := Do(ctx, b); err != nil {
		t.Fatal(err)
	}
	if _, err := Do(ctx, b); err != nil {
		t.Fatal(err)
	}
	want := "intent create box/value/v gsrun:s/r/v|result create box/value/v <nil>|result none box/value/v <nil>"
	if got := strings.Join(rec.lines, "|"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if c := d.Counts(); c.Created != 1 || c.Unchanged != 1 {
		t.Errorf("%+v", c)
	}
}

func TestPlanAppliesNothing(t *testing.T) {
	d, ctx, rec, events := world(Plan)
	b := &box{want: Plain("x")}
	st, err := Do(ctx, b)
	if err != nil || b.value != nil || len(rec.lines) != 0 {
		t.Fatalf("%v, value %v, journal %v", err, b.value, rec.lines)
	}
	if _, ok := st.Attrs["id"].(Unknown); !ok || st.Attrs["value"] != "x" {
		t.Errorf("%+v", st)
	}
	if p := d.Planned(); len(p) != 1 || p[0].Change.Kind != Create || (*events)[0].Kind != OpPlan {
		t.Errorf("%+v %+v", p, events)
	}
	got, err := Read(ctx, Query{Target: Target{Scope: "box", Name: "w"}, Scope: "box"}, func(context.Context) (string, error) { return "read", nil })
	if _, ok := got.(Unknown); !ok || err != nil {
		t.Errorf("a read of what is about to change: %v %v", got, err)
	}
	got, err = Read(ctx, Query{Target: Target{Scope: "boxes"}, Scope: "boxes"}, func(context.Context) (string, error) { return "read", nil })
	if got != "read" || err != nil {
		t.Errorf("a read of something else: %v %v", got, err)
	}
}

func TestLostAnswerIsFoundNotMadeTwice(t *testing.T) {
	d, ctx, rec, events := world(Apply)
	b := &box{want: Plain("x"), errs: []error{fault.New(fault.Unreachable, "connection reset")}, effects: true}
	if _, err := Do(ctx, b); err != nil {
		t.Fatal(err)
	}
	if c := d.Counts(); c.Created != 1 || c.Unchanged != 0 {
		t.Errorf("the change was made by this run: %+v", c)
	}
	if last := rec.lines[len(rec.lines)-1]; last != "result create box/value/v <nil>" {
		t.Errorf("journal: %s", last)
	}
	if got := strings.Join(b.calls, " "); got != "observe apply observe" {
		t.Errorf("calls: %s", got)
	}
	retries := 0
	for _, e := range *events {
		if e.Kind == OpRetry {
			retries++
		}
	}
	if retries != 1 {
		t.Errorf("%d retries were told", retries)
	}
}

// An op that fails once something was changed counts as a change.
func TestPartialChangesCount(t *testing.T) {
	refused := fault.New(fault.Invalid, "refused")
	for _, c := range []struct {
		box  *box
		want Counts
	}{
		{&box{want: Plain("x"), errs: []error{refused}}, Counts{Failed: 1}},
		{&box{want: Plain("x"), errs: []error{refused}, touches: true}, Counts{Failed: 1, Partly: 1}},
		{&box{want: Plain("x"), errs: []error{fault.New(fault.Conflict, "busy"), refused}, touches: true}, Counts{Failed: 1, Partly: 1}},
		{&box{want: Plain("x"), errs: []error{fault.New(fault.Conflict, "busy")}, touches: true}, Counts{Created: 1}},
	} {
		d, ctx, _, _ := world(Apply)
		_, err := Do(ctx, c.box)
		if got := d.Counts(); got != c.want || (err == nil) != (c.want.Failed == 0) {
			t.Errorf("got %+v (%v), want %+v", got, err, c.want)
		}
		if got, want := d.Counts().Changed(), c.want.Partly+c.want.Created; got != want {
			t.Errorf("%d changed, want %d", got, want)
		}
	}
}

func TestRetriesByKindAndRetryAfter(t *testing.T) {
	d, ctx, _, _ := world(Apply)
	busy := &fault.Error{Kind: fault.Unavailable, After: 40 * time.Second, Err: errors.New("busy")}
	if _, err := Do(ctx, &box{want: Plain("x"), errs: []error{busy}}); err != nil {
		t.Fatal(err)
	}
	if s := d.Clock.(*clock).sleeps; len(s) != 1 || s[0] < 40*time.Second {
		t.Errorf("slept %v", s)
	}
	b := &box{want: Plain("x"), errs: []error{fault.New(fault.Denied, "no")}}
	if _, err := Do(ctx, b); fault.KindOf(err) != fault.Denied || len(b.calls) != 2 || !strings.Contains(err.Error(), "box/value/v: no") {
		t.Errorf("%v after %v", err, b.calls)
	}
	errs := make([]error, 10)
	for i := range errs {
		errs[i] = busy
	}
	b = &box{want: Plain("x"), errs: errs}
	if _, err := Do(ctx, b); fault.KindOf(err) != fault.Unavailable || strings.Count(strings.Join(b.calls, " "), "apply") != 5 {
		t.Errorf("%v after %v", err, b.calls)
	}
}

func TestGuardAndBudget(t *testing.T) {
	d, ctx, j, _ := world(Apply)
	d.Guard = func(context.Context) (func(), error) { return nil, fault.New(fault.Locked, "taken over") }
	b := &box{want: Plain("x")}
	if _, err := Do(ctx, b); fault.KindOf(err) != fault.Locked || b.value != nil {
		t.Errorf("%v, %v", err, b.value)
	}
	if len(j.lines) != 0 {
		t.Errorf("a change that was refused is in the journal: %q", j.lines)
	}
	d.Guard = func(context.Context) (func(), error) {
		j.lines = append(j.lines, "enter")
		return func() { j.lines = append(j.lines, "leave") }, nil
	}
	b.errs = []error{fault.New(fault.Denied, "no")}
	if _, err := Do(ctx, b); fault.KindOf(err) != fault.Denied {
		t.Error(err)
	}
	b.errs = nil
	if _, err := Do(ctx, b); err != nil {
		t.Error(err)
	}
	var order []string
	for _, line := range j.lines {
		order = append(order, strings.Fields(line)[0])
	}
	if got := strings.Join(order, " "); got != "enter intent result leave enter intent result leave" {
		t.Errorf("the guard and the journal: %s", got)
	}
	d.Guard, d.Deletes = nil, 1
	if _, err := Do(ctx, deletion{"a"}); err != nil {
		t.Error(err)
	}
	if _, err := Do(ctx, deletion{"b"}); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "exceed the run's deletion budget of 1") {
		t.Errorf("second deletion: %v", err)
	}
}

type deletion struct{ name string }

func (d deletion) Target() Target                             { return Target{Scope: "box", Name: d.name} }
func (deletion) Observe(context.Context) (State, error)       { return State{Exists: true}, nil }
func (deletion) Diff(State) (Change, error)                   { return Change{Kind: Delete}, nil }
func (deletion) Apply(context.Context, Change) (State, error) { return State{}, nil }

func TestAwait(t *testing.T) {
	d, ctx, _, events := world(Apply)
	n := 0
	v, err := Await(ctx, Wait{For: "the box", Timeout: time.Hour}, func(context.Context) (Poll, error) {
		switch n++; n {
		case 1:
			return Poll{Seen: "closed"}, nil
		case 2:
			return Poll{}, fault.New(fault.Unreachable, "no route")
		}
		return Poll{Done: true, Value: "open"}, nil
	})
	if v != "open" || err != nil || n != 3 || len(*events) != 2 {
		t.Errorf("%v %v after %d, events %v", v, err, n, *events)
	}
	ctx2, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d.Clock = SystemClock{}
	_, err = Await(ctx2, Wait{For: "the box", Timeout: 10 * time.Millisecond, Interval: time.Millisecond}, func(context.Context) (Poll, error) { return Poll{Seen: "closed"}, nil })
	if fault.KindOf(err) != fault.Timeout || !strings.Contains(err.Error(), "waiting for the box: not done after") || !strings.Contains(err.Error(), "last seen: closed") {
		t.Errorf("%v", err)
	}
	_, err = Await(ctx, Wait{For: "the box"}, func(context.Context) (Poll, error) { return Poll{}, fault.New(fault.Denied, "no") })
	if fault.KindOf(err) != fault.Denied {
		t.Errorf("a denied look must end the wait: %v", err)
	}
	_, pctx, _, _ := world(Plan)
	v, err = Await(pctx, Wait{For: "the box"}, func(context.Context) (Poll, error) { return Poll{Seen: "closed"}, nil })
	if _, ok := v.(Unknown); !ok || err != nil {
		t.Errorf("a plan looks once: %v %v", v, err)
	}
}

func TestSecretsAreRemovedFromEvents(t *testing.T) {
	_, ctx, rec, events := world(Apply)
	secret, err := NewSecret(ctx, "p@ss word/with\"quote", "env:P")
	if err != nil {
		t.Fatal(err)
	}
	b := &box{want: Text{secret: secret}, errs: []error{fault.New(fault.Failed, "can't set %s, nor cEBzcyB3b3JkL3dpdGgicXVvdGU=", secret.Reveal())}}
	Progressf(ctx, "setting %s and %s", secret.Reveal(), secret)
	_, err = Do(ctx, b)
	if err == nil {
		t.Fatal("no error")
	}
	for _, e := range *events {
		if text := fmt.Sprintf("%+v %v", e, e.Err); strings.Contains(text, "p@ss") || strings.Contains(text, "cEBzcy") {
			t.Errorf("leak in %s", text)
		}
	}
	if text := strings.Join(rec.lines, " "); strings.Contains(text, "p@ss") {
		t.Errorf("leak in the journal: %s", text)
	}
	for _, form := range []string{`p@ss word/with"quote`, `p@ss word/with\"quote`, "p%40ss+word%2Fwith%22quote", "p@ss%20word%2Fwith%22quote", "cEBzcyB3b3JkL3dpdGgicXVvdGU"} {
		if got := From(ctx).Door.Redactor.String("<" + form + ">"); got != "<***>" {
			t.Errorf("%s: %s", form, got)
		}
	}
	if _, err := NewSecret(ctx, "short", "env:X"); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a short secret: %v", err)
	}
}

func TestRender(t *testing.T) {
	text, err := Render("t", "a={{ .a }} l={{ range .l }}{{ . }},{{ end }}", map[string]any{"a": "1", "l": []any{"x", "y"}})
	if err != nil || text.Reveal() != "a=1 l=x,y," || text.IsSecret() {
		t.Errorf("%v %v", text.Reveal(), err)
	}
	text, err = Render("t", "k={{ .k }}", map[string]any{"k": SecretOf("hidden thing", "")})
	if err != nil || !text.IsSecret() || text.Reveal() != "k=hidden thing" || text.String() != Mask {
		t.Errorf("%v %v", text, err)
	}
	text, err = Render("t", "k={{ .k.id }}", map[string]any{"k": map[string]any{"id": Unknown{Of: "x"}}})
	if err != nil || text.Known() {
		t.Errorf("%v %v", text, err)
	}
	if _, err := Render("t", "{{ .nope }}", map[string]any{"a": 1}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("missing variable: %v", err)
	}
	if _, err := Render("t", "{{ if }}", nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("bad template: %v", err)
	}
}

func TestSamePlannedChangeIsShownOnce(t *testing.T) {
	d, ctx, _, _ := world(Plan)
	for _, want := range []string{"x", "x", "y"} {
		st, err := Do(ctx, &box{want: Plain(want)})
		if err != nil || st.Attrs["value"] != want {
			t.Errorf("%s: %+v %v", want, st, err)
		}
	}
	if c := d.Counts(); c.Created != 1 || c.Later != 1 || c.Unchanged != 1 || len(d.Planned()) != 2 {
		t.Errorf("%+v, %d planned", c, len(d.Planned()))
	}
}

func TestRecordsHoldNoSecretAsPlainText(t *testing.T) {
	_, ctx, rec, _ := world(Apply)
	if _, err := NewSecret(ctx, "correct horse", "env:P"); err != nil {
		t.Fatal(err)
	}
	st, err := Do(ctx, &box{want: Plain("it printed correct horse")})
	if err != nil || st.Attrs["value"] != "it printed correct horse" {
		t.Errorf("the recipe gets what there is: %v %v", st, err)
	}
	if got := rec.attrs[0]["value"]; got != "it printed ***" {
		t.Errorf("journalled: %v", got)
	}
}

func TestRedactorKnowsPiecesAndLongerSecrets(t *testing.T) {
	_, ctx, _, _ := world(Apply)
	for _, text := range []string{"hunter2hunter2", "hunter2hunter2-PRODUCTION", "  padded secret\n"} {
		if _, err := NewSecret(ctx, text, ""); err != nil {
			t.Fatal(err)
		}
	}
	dsn, err := NewSecret(ctx, "user:hunter-pass@db", "")
	if err != nil {
		t.Fatal(err)
	}
	dsn.Taint(starlark.String("hunter-pass"))
	r := From(ctx).Door.Redactor
	for text, want := range map[string]string{"<hunter2hunter2-PRODUCTION>": "<***>", "<hunter2hunter2>": "<***>", "<padded secret>": "<***>", "<hunter-pass>": "<***>"} {
		if got := r.String(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestConcurrentDeletionsShareTheBudget(t *testing.T) {
	d, ctx, _, _ := world(Apply)
	d.Deletes, d.Recorder = 2, nil
	var wg sync.WaitGroup
	var refused atomic.Int32
	for i := range 6 {
		wg.Go(func() {
			if _, err := Do(ctx, deletion{fmt.Sprint(i)}); fault.KindOf(err) == fault.Invalid {
				refused.Add(1)
			}
		})
	}
	wg.Wait()
	if c := d.Counts(); c.Deleted != 2 || refused.Load() != 4 {
		t.Errorf("%d deleted, %d refused", c.Deleted, refused.Load())
	}
}

func TestLostAnswerLeaksNothing(t *testing.T) {
	_, ctx, rec, _ := world(Apply)
	if _, err := NewSecret(ctx, "correct horse", ""); err != nil {
		t.Fatal(err)
	}
	b := &box{want: Plain("has correct horse in it"), errs: []error{fault.New(fault.Unreachable, "reset")}, effects: true}
	if _, err := Do(ctx, b); err != nil {
		t.Fatal(err)
	}
	if last := rec.attrs[len(rec.attrs)-1]; last["value"] != "has *** in it" {
		t.Errorf("journalled: %v", last)
	}
}

func TestChangesOfUnknownTargetsHideReads(t *testing.T) {
	read := func(ctx context.Context, scope string) any {
		v, err := Read(ctx, Query{Target: Target{Scope: scope}, Scope: scope}, func(context.Context) (string, error) { return "read", nil })
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, target := range []Target{{Scope: "box/a", Kind: "value"}, {Scope: "box/a"}, {Scope: "box", Name: "box.value.ensure of x"}} {
		_, ctx, _, _ := world(Plan)
		if _, err := DoLater(ctx, target); err != nil {
			t.Fatal(err)
		}
		if _, ok := read(ctx, "box/a/value").(Unknown); !ok {
			t.Errorf("after a change of %v, a read in its scope is known", target)
		}
		if read(ctx, "boxes/a") != "read" {
			t.Errorf("after a change of %v, a read elsewhere is unknown", target)
		}
	}
}

// What this run deletes isn't expected to be there any more.
func TestDeletedIsntExpected(t *testing.T) {
	op, owner := deletion{"a"}, Owner{Site: "s", Recipe: "r"}
	made := Made{op.Target().String(), owner.Mark(op.Target().Name)}
	d := &Door{Mode: Apply, Clock: SystemClock{}, Deletes: -1, Created: map[Made]time.Time{made: time.Now()}}
	ctx := With(t.Context(), NewScope(d, owner, "step", nil))
	if Unsettled(ctx, op.Target()).IsZero() {
		t.Error("it isn't expected before")
	}
	if other := With(t.Context(), NewScope(d, Owner{Site: "s", Recipe: "other"}, "step", nil)); !Unsettled(other, op.Target()).IsZero() {
		t.Error("another recipe expects it")
	}
	if _, err := Do(ctx, op); err != nil {
		t.Fatal(err)
	}
	if at := Unsettled(ctx, op.Target()); !at.IsZero() {
		t.Errorf("it is expected still, of %v", at)
	}
}
