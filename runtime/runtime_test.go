package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// world is a system with things that have a size, for ops to work on.
type world struct {
	mu     sync.Mutex
	things map[string]int64
	writes int
	fail   func(name string) error
	asleep func() // called when a sleep begins, if set
	lost   error  // what looking at a thing fails with
	looks  int
}

type thingArgs struct {
	Name string      `star:"name,required" doc:"Its name."`
	Size effect.Data `star:"size" doc:"Its size."`
}

type sleepArgs struct {
	For   time.Duration `star:"duration,required" doc:"How long."`
	Break bool          `star:"breaks" doc:"Fail in its own words when the context ends."`
}

func (w *world) module() *builtin.Module {
	return builtin.NewModule(builtin.Module{Name: "world", Doc: "Things.", Recv: w, Funcs: []builtin.Func{
		builtin.Of(builtin.Spec[*world, thingArgs]{Name: "thing", Doc: "Ensure a thing.", Returns: "thing", Example: `world.thing("a")`, Effect: builtin.Changes,
			Run: func(ctx context.Context, w *world, a thingArgs) (any, error) {
				return effect.Do(ctx, &thingOp{w: w, name: a.Name, size: a.Size.V})
			}}),
		builtin.Of(builtin.Spec[*world, thingArgs]{Name: "look", Doc: "Read a thing.", Returns: "int", Example: `world.look("a")`, Effect: builtin.Reads,
			Run: func(ctx context.Context, w *world, a thingArgs) (any, error) {
				return effect.Read(ctx, effect.Query{Target: effect.Target{Scope: "world", Kind: "thing", Name: a.Name}, Scope: "world"}, func(context.Context) (any, error) {
					w.mu.Lock()
					defer w.mu.Unlock()
					return w.things[a.Name], nil
				})
			}}),
		builtin.Of(builtin.Spec[*world, sleepArgs]{Name: "sleep", Doc: "Wait.", Returns: "None", Example: `world.sleep("1s")`, Effect: builtin.Waits,
			Run: func(ctx context.Context, w *world, a sleepArgs) (any, error) {
				if w.asleep != nil {
					w.asleep()
				}
				if effect.From(ctx).Door.Clock.Sleep(ctx, a.For) == nil {
					return nil, nil
				}
				if a.Break {
					return nil, fault.New(fault.Unreachable, "the connection broke")
				}
				return nil, fault.FromContext(ctx)
			}}),
	}})
}

type thingOp struct {
	w    *world
	name string
	size any
}

func (o *thingOp) Target() effect.Target {
	return effect.Target{Scope: "world", Kind: "thing", Name: o.name}
}

func (o *thingOp) Observe(context.Context) (effect.State, error) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	if o.w.looks++; o.w.lost != nil {
		return effect.State{}, o.w.lost
	}
	n, ok := o.w.things[o.name]
	return effect.State{Exists: ok, Attrs: map[string]any{"name": o.name, "size": n, "id": "id-" + o.name}}, nil
}

func (o *thingOp) Diff(s effect.State) (effect.Change, error) {
	after := map[string]any{"name": o.name, "size": o.size, "id": effect.Unknown{Of: "world/thing/" + o.name + " id"}}
	if !s.Exists {
		return effect.Change{Kind: effect.Create, After: after}, nil
	}
	after["id"] = s.Attrs["id"]
	fields := effect.Compare(map[string]any{"size": o.size}, s.Attrs)
	if len(fields) == 0 {
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Update, Fields: fields, After: after}, nil
}

func (o *thingOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	if o.w.fail != nil {
		if err := o.w.fail(o.name); err != nil {
			return effect.State{}, err
		}
	}
	o.w.mu.Lock()
	n, _ := o.size.(int64)
	o.w.things[o.name] = n
	o.w.writes++
	o.w.mu.Unlock()
	return o.Observe(ctx)
}

// harness runs recipes given as text.
type harness struct {
	t      *testing.T
	w      *world
	layers []Layer
	events []effect.Event
	mu     sync.Mutex
}

func newHarness(t *testing.T, files ...string) *harness {
	h := &harness{t: t, w: &world{things: make(map[string]int64)}}
	h.layers = []Layer{layer("tree", "recipes", files...)}
	return h
}

func layer(name, prefix string, files ...string) Layer {
	fs := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		fs[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return Layer{Name: name, Prefix: prefix, Recipes: fs}
}

func (h *harness) engine() *Engine {
	return New(Config{Layers: h.layers, Modules: []*builtin.Module{h.w.module()}, MaxSteps: 2_000_000})
}

func (h *harness) run(ctx context.Context, mode effect.Mode, file string) (*Engine, *effect.Door, *Result, error) {
	h.t.Helper()
	e := h.engine()
	r, err := e.Load(file)
	if err != nil {
		return e, nil, nil, err
	}
	inputs, err := r.ResolveInputs(nil, nil)
	if err != nil {
		return e, nil, nil, err
	}
	door := &effect.Door{Mode: mode, Clock: effect.SystemClock{}, Redactor: new(effect.Redactor), Deletes: -1, Retry: effect.Retry{Tries: 3, Base: time.Millisecond},
		Emit: func(ev effect.Event) { h.mu.Lock(); defer h.mu.Unlock(); h.events = append(h.events, ev) }}
	res, err := e.Run(ctx, r, Options{ID: "r1", Site: Site{Name: "lab"}, Inputs: inputs, Door: door})
	return e, door, res, err
}

const chain = `
"""A chain."""

def a(ctx):
    """First."""
    return world.thing("a", size = 1)

def b(ctx, a):
    """Second."""
    return struct(id = a.id, name = ctx.name("b"), t = (1, 2))

def c(b, a):
    """Third, without ctx."""
    return [b.id, b.name, b.t, a.size]

main = recipe(steps = [c, b, a], outputs = lambda c, b: {"c": c, "id": b.id})
`

func TestGraphFromParameterNames(t *testing.T) {
	h := newHarness(t, "x.star", chain)
	_, door, res, err := h.run(t.Context(), effect.Apply, "x.star")
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Outputs.String(); got != `struct(c = ["id-a", "lab-b", [1, 2], 1], id = "id-a")` {
		t.Errorf("outputs: %s", got)
	}
	if c := door.Counts(); c.Created != 1 || h.w.writes != 1 {
		t.Errorf("counts %+v, writes %d", c, h.w.writes)
	}
	_, door, _, err = h.run(t.Context(), effect.Apply, "x.star")
	if err != nil || door.Counts().Changed() != 0 || h.w.writes != 1 {
		t.Errorf("second run: %v, %+v, %d writes", err, door.Counts(), h.w.writes)
	}
}

func TestPlanChangesNothingAndPassesUnknowns(t *testing.T) {
	h := newHarness(t, "x.star", chain)
	_, door, res, err := h.run(t.Context(), effect.Plan, "x.star")
	if err != nil {
		t.Fatal(err)
	}
	if h.w.writes != 0 || len(door.Planned()) != 1 || door.Counts().Created != 1 {
		t.Errorf("writes %d, planned %+v", h.w.writes, door.Planned())
	}
	if got := res.Outputs.String(); !strings.Contains(got, "id = (known after apply)") {
		t.Errorf("outputs: %s", got)
	}
}

func TestPlanStopsWhereItWouldDecide(t *testing.T) {
	h := newHarness(t, "x.star", `
def a():
    """A."""
    return world.thing("a", size = 1)

def b(a):
    """B."""
    if a.id == "id-a":
        world.thing("b")
    return "decided"

def c(b):
    """C."""
    world.thing("c", size = b)
    return world.look("z")

def d():
    """D: not downstream of anything."""
    return world.look("z")

main = recipe(steps = [a, b, c, d], outputs = lambda c, d: {"c": c, "d": d})
`)
	_, door, res, err := h.run(t.Context(), effect.Plan, "x.star")
	if err != nil {
		t.Fatal(err)
	}
	var status []string
	for _, s := range res.Steps {
		if s.Path == "b" {
			if s.Status != Deferred || !strings.Contains(s.Err.Error(), "world/thing/a id is not known before it is applied") {
				t.Errorf("b: %+v", s)
			}
		}
		status = append(status, s.Path+":"+string(s.Status))
	}
	if len(door.Planned()) != 2 {
		t.Errorf("planned %+v (%v)", door.Planned(), status)
	}
	if got := res.Outputs.String(); got != "struct(c = (known after apply), d = 0)" {
		t.Errorf("a read below a stopped plan must be unknown, one beside it known: %s", got)
	}
	if _, _, res, err = h.run(t.Context(), effect.Apply, "x.star"); err != nil || h.w.writes != 3 {
		t.Errorf("apply: %v %v", res, err)
	}
}

func TestIndependentStepsRunTogether(t *testing.T) {
	h := newHarness(t, "x.star", `
def a():
    """A."""
    world.thing("a")

def b():
    """B."""
    world.thing("b")

main = recipe(steps = [a, b])
`)
	// Each waits for the other: only steps that run at the same time end.
	var n atomic.Int32
	both := make(chan struct{})
	h.w.fail = func(string) error {
		if n.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
			return nil
		case <-t.Context().Done():
			return errors.New("the other never came")
		}
	}
	if _, _, _, err := h.run(t.Context(), effect.Apply, "x.star"); err != nil {
		t.Fatal(err)
	}
}

func TestEachWhenUseAttemptParallel(t *testing.T) {
	h := newHarness(t, "child.star", `
"""Child."""
def make(ctx):
    """Make."""
    return world.thing(ctx.name(ctx.inputs.who), size = ctx.inputs.size)

main = recipe(inputs = {"who": input.string(doc = "Who."), "size": input.int(default = 2, min = 1, doc = "Size.")}, steps = [make],
    outputs = lambda make: {"name": make.name, "size": make.size})
`, "x.star", `
load("child.star", child = "main")

def hosts():
    """Hosts."""
    return ["x", "y", "z"]

def each(ctx):
    """Each."""
    return "%s%d" % (ctx.item, ctx.index)

def never():
    """Never."""
    fail("it ran")

def tries(never, one, two):
    """Tries."""
    r = attempt(lambda: fail("no luck", hint = "try again"))
    p = parallel([3, 1, 2], lambda n: n * 10)
    w = wait("it", until = lambda: "done", timeout = "1s")
    return [never, r.ok, r.error.kind, r.error.message, r.error.hint, p, w, one.name, two.name, two.size]

main = recipe(
    steps = [
        hosts,
        step(each, each = lambda hosts: hosts, max = 2),
        step(never, when = lambda hosts: len(hosts) > 3),
        use("one", child, inputs = lambda hosts: {"who": hosts[0]}),
        use("two", child, inputs = lambda: {"who": "w", "size": 7}, instance = "eu"),
        tries,
    ],
    outputs = lambda each, tries: {"each": each, "tries": tries},
)
`)
	_, _, res, err := h.run(t.Context(), effect.Apply, "x.star")
	if err != nil {
		t.Fatal(err)
	}
	want := `struct(each = ["x0", "y1", "z2"], tries = [None, False, "failed", "no luck", "try again", [30, 10, 20], "done", "lab-x", "lab-eu-w", 7])`
	if got := res.Outputs.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var paths []string
	for _, s := range res.Steps {
		paths = append(paths, s.Path+":"+string(s.Status))
	}
	if all := strings.Join(paths, " "); !strings.Contains(all, "one/make:ok") || !strings.Contains(all, "never:skipped") {
		t.Errorf("steps: %s", all)
	}
}

// TestUnknownsThatCouldHideChanges: what a plan can't follow stops it, instead
// of being left out.
func TestUnknownsThatCouldHideChanges(t *testing.T) {
	h := newHarness(t, "x.star", `
def a():
    """A."""
    return world.thing("a", size = 1).id

def b(a):
    """B: it fails when it runs, so its plan may not go on."""
    fail("bad " + a)

def c(a):
    """C."""
    world.thing(a)
    return world.look("z")

main = recipe(steps = [a, c, b], outputs = lambda c: {"c": c})
`)
	_, _, _, err := h.run(t.Context(), effect.Plan, "x.star")
	if fault.KindOf(err) != fault.Failed || !strings.Contains(err.Error(), "(known after apply)") {
		t.Errorf("fail with an unknown text: %v", err)
	}
}

// TestAttemptInAPlan: how a change will end isn't known before it is made, so
// nothing may be decided on it.
func TestAttemptInAPlan(t *testing.T) {
	src := func(call string) string {
		return "def a():\n    \"\"\"A.\"\"\"\n    world.thing(\"first\")\n    r = attempt(lambda: " + call + ")\n    return [r.ok, r.value, r.error]\n" +
			"main = recipe(steps = [a], outputs = lambda a: {\"a\": a})\n"
	}
	for call, want := range map[string]string{
		`world.thing("b")`: "(known after apply)",
		`world.look("b")`:  "(known after apply)", // a read under a pending change
		`1 + 1`:            "True",
		`fail("no")`:       "False",
	} {
		h := newHarness(t, "x.star", src(call))
		_, _, res, err := h.run(t.Context(), effect.Plan, "x.star")
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Outputs.String(); !strings.HasPrefix(got, "struct(a = ["+want+",") {
			t.Errorf("%s: %s, want ok to be %s", call, got, want)
		}
	}
}

// TestAttemptsAreNoFailures: what an attempt catches doesn't count as failed,
// unless it can't be caught.
func TestAttemptsAreNoFailures(t *testing.T) {
	h := newHarness(t, "x.star", `
def a():
    """A."""
    attempt(lambda: world.thing("bad"))
    attempt(lambda: parallel(["bad"], world.thing))
    world.thing("good")

main = recipe(steps = [a])
`)
	failure := fault.New(fault.Denied, "not allowed")
	h.w.fail = func(name string) error {
		if name == "bad" {
			return failure
		}
		return nil
	}
	_, door, _, err := h.run(t.Context(), effect.Apply, "x.star")
	if c := door.Counts(); err != nil || c.Failed != 0 || c.Created != 1 {
		t.Errorf("%v, %+v", err, c)
	}
	caught := 0
	for _, e := range h.events {
		if e.Kind == effect.OpEnd && e.Err != nil && e.Attempt {
			caught++
		}
	}
	if caught != 2 {
		t.Errorf("%d failures are told as caught", caught)
	}
	failure = fault.New(fault.Drift, "changed since")
	if _, door, _, err := h.run(t.Context(), effect.Apply, "x.star"); err == nil || door.Counts().Failed != 1 {
		t.Errorf("drift: %v, %+v", err, door.Counts())
	}
}

func TestFailureLetsOthersEnd(t *testing.T) {
	h := newHarness(t, "x.star", `
def bad():
    """Bad."""
    world.thing("bad")

def good():
    """Good."""
    world.thing("good")

def after(bad):
    """After."""
    world.thing("after")

main = recipe(steps = [bad, good, after])
`)
	begun, release := make(chan struct{}), make(chan struct{})
	h.w.fail = func(name string) error {
		if name == "bad" {
			<-begun // the other runs when this one fails
			defer close(release)
			return fault.Hinted(fault.Denied, "ask", "not allowed")
		}
		close(begun)
		<-release
		return nil
	}
	e, _, res, err := h.run(t.Context(), effect.Apply, "x.star")
	if fault.KindOf(err) != fault.Denied {
		t.Fatalf("got %v", err)
	}
	if h.w.things["good"] != 0 || h.w.writes != 1 {
		t.Errorf("the step beside it should have ended: %v", h.w.things)
	}
	status := make(map[string]Status)
	for _, s := range res.Steps {
		status[s.Path] = s.Status
	}
	if status["bad"] != Failed || status["good"] != OK || status["after"] != NotRun {
		t.Errorf("status %v", status)
	}
	rep := e.Explain(err)
	if text := rep.String(); !strings.Contains(text, "gsrun: error: step bad: world/thing/bad: not allowed\n") ||
		!strings.Contains(text, "recipes/x.star:4: in bad\n      world.thing(\"bad\")") || !strings.Contains(text, "gsrun: hint: ask") {
		t.Errorf("report:\n%s", text)
	}
}

func TestTimeoutAndCancelReachPrimitives(t *testing.T) {
	h := newHarness(t, "x.star", `
def slow(ctx):
    """Slow."""
    ctx.defer(lambda: world.thing("cleaned"))
    world.sleep("1h")

main = recipe(steps = [step(slow, timeout = "30ms")])
`)
	start := time.Now()
	_, _, _, err := h.run(t.Context(), effect.Apply, "x.star")
	if fault.KindOf(err) != fault.Timeout || !strings.Contains(err.Error(), "step slow took longer than 30ms") {
		t.Errorf("timeout: %v", err)
	}
	if _, ok := h.w.things["cleaned"]; !ok {
		t.Error("what was deferred did not run")
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	h = newHarness(t, "x.star", "def loop():\n    \"\"\"Loop.\"\"\"\n    world.sleep(\"1h\")\nmain = recipe(steps = [loop])\n")
	if _, _, _, err := h.run(ctx, effect.Apply, "x.star"); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("cancel: %v", err)
	}
	if time.Since(start) > 30*time.Second {
		t.Error("it took as long as the primitive wanted")
	}
}

// A run whose context ends for a reason says that reason, wherever it was.
func TestLostLockEndsTheRun(t *testing.T) {
	for name, body := range map[string]string{
		"a primitive": `world.sleep("1h")`,
		"a library":   `world.sleep("1h", breaks = True)`,
		"a wait":      `wait("nothing", until = lambda: world.sleep("1ms"), timeout = "1h", interval = "1ms")`,
		"attempts":    `[attempt(lambda: world.sleep("1h")) for x in range(9)]`,
		"parallel":    `parallel(range(3), lambda x: world.sleep("1h"))`,
	} {
		h := newHarness(t, "x.star", "def a():\n    \"\"\"A.\"\"\"\n    "+body+"\n    world.thing(\"after\")\nmain = recipe(steps = [step(a, retries = 2)])\n")
		ctx, cancel := context.WithCancelCause(t.Context())
		lost := fault.Hinted(fault.Locked, "run again", "the lock was taken over")
		h.w.asleep = func() { cancel(lost) }
		_, _, _, err := h.run(ctx, effect.Apply, "x.star")
		if fault.KindOf(err) != fault.Locked || !strings.Contains(err.Error(), "the lock was taken over") || fault.HintOf(err) != "run again" || h.w.writes != 0 {
			t.Errorf("%s: %v, hint %q, %d writes", name, err, fault.HintOf(err), h.w.writes)
		}
	}
}

func TestRecursionThroughParallel(t *testing.T) {
	h := newHarness(t, "x.star", "def again(n):\n    return parallel([n + 1], again)\ndef a():\n    \"\"\"A.\"\"\"\n    again(0)\nmain = recipe(steps = [a])\n")
	if _, _, _, err := h.run(t.Context(), effect.Apply, "x.star"); fault.KindOf(err) != fault.Limit || !strings.Contains(err.Error(), "nested more than 64 deep") {
		t.Errorf("got %v", err)
	}
}

func TestRetries(t *testing.T) {
	h := newHarness(t, "x.star", "def a():\n    \"\"\"A.\"\"\"\n    return world.thing(\"a\")\nmain = recipe(steps = [step(a, retries = 1)])\n")
	n := 0
	h.w.fail = func(string) error {
		if n++; n <= 3 {
			return fault.New(fault.Unavailable, "busy")
		}
		return nil
	}
	if _, _, _, err := h.run(t.Context(), effect.Apply, "x.star"); err != nil || n != 4 {
		t.Errorf("%d tries, %v", n, err)
	}
	h.w.things, n = map[string]int64{}, 0
	h.w.fail = func(string) error { n++; return fault.New(fault.Denied, "no") }
	if _, _, _, err := h.run(t.Context(), effect.Apply, "x.star"); fault.KindOf(err) != fault.Denied || n != 1 {
		t.Errorf("denied: %d tries, %v", n, err)
	}
}

// TestBadInput lists what a user can get wrong, and what they are told.
func TestBadInput(t *testing.T) {
	good := "def a():\n    \"\"\"A.\"\"\"\n"
	for name, c := range map[string]struct {
		src  string
		want []string
	}{
		"syntax":       {"x = (\n", []string{"recipes/x.star:2", "syntax error"}},
		"undefined":    {"x = nope\n", []string{"recipes/x.star:1:5: undefined: nope"}},
		"no main":      {"x = 1\n", []string{"recipes/x.star has no main", "hint: end it with main = recipe(...)"}},
		"no docstring": {"def a():\n    pass\nmain = recipe(steps = [a])\n", []string{"recipes/x.star:1:1: step a has no docstring", "hint: say in a docstring"}},
		"lambda":       {"main = recipe(steps = [lambda: 1])\n", []string{"a lambda can't be a step"}},
		"unknown step": {good + "def b(aa):\n    \"\"\"B.\"\"\"\nmain = recipe(steps = [a, b])\n", []string{"recipes/x.star:3:1: step b needs aa, which is no step", "did you mean a?"}},
		"two faults":   {good + "def b(q):\n    \"\"\"B.\"\"\"\ndef c(r):\n    \"\"\"C.\"\"\"\nmain = recipe(steps = [a, b, c])\n", []string{"step b needs q", "step c needs r"}},
		"step cycle":   {"def a(b):\n    \"\"\"A.\"\"\"\ndef b(a):\n    \"\"\"B.\"\"\"\nmain = recipe(steps = [a, b])\n", []string{"cycle of steps: a -> b -> a", "recipes/x.star:1"}},
		"twice":        {good + "main = recipe(steps = [a, a])\n", []string{"two steps are called a"}},
		"top level":    {"world.thing(\"a\")\n", []string{"world.thing was called at top level", "hint: move the call into a step", "recipes/x.star:1"}},
		"load cycle":   {"load(\"y.star\", \"y\")\n", []string{"cycle of load statements: recipes/x.star -> recipes/y.star -> recipes/x.star"}},
		"load missing": {"load(\"z.star\", \"y\")\n", []string{"no file z.star in recipes", "recipes/x.star:1"}},
		"inner load":   {"load(\"w.star\", \"w\")\n", []string{"recipes/x.star:1", "recipes/w.star:2: in f", "return 1 // 0"}},
		"steps":        {"def f():\n    for i in range(100000000):\n        pass\nf()\n", []string{"took more than 2000000 steps", "hint: move the work", "recipes/x.star:2"}},
		"recursion":    {"def f():\n    f()\nf()\n", []string{"called recursively", "hint: recipes can't recurse"}},
		"bad default":  {"main = recipe(inputs = {\"n\": input.cidr(default = \"10.0.0.1/24\", doc = \"N.\")}, steps = [])\n", []string{"has host bits set; the range is 10.0.0.0/24"}},
		"unknown input": {"def a(ctx):\n    \"\"\"A.\"\"\"\n    return [ctx.inputs.sze, ctx.inputs.count]\nmain = recipe(inputs = {\"size\": input.int(default = 1, doc = \"S.\")}, steps = [a])\n",
			[]string{"recipes/x.star:3:24: ctx.inputs has no sze", "did you mean size?", "ctx.inputs has no count"}},
		"unknown of ctx": {"def a(ctx):\n    \"\"\"A.\"\"\"\n    return ctx.nme(\"x\")\nmain = recipe(steps = [a])\n", []string{"recipes/x.star:3:16: ctx has no nme", "did you mean name?"}},
		"given input":    {"load(\"v.star\", v = \"main\")\nmain = recipe(steps = [use(\"v\", v, inputs = lambda: {\"sise\": 3})])\n", []string{"recipes/x.star:2:54: sise is no input of v", "did you mean size?"}},
		"used alike":     {"load(\"v.star\", v = \"main\")\nmain = recipe(steps = [use(\"b\", v), use(\"c\", v)])\n", []string{"b and c use the recipe v alike", "give one of them instance"}},
		"unknown arg":    {good + "main = recipe(steps = [step(a, timout = \"1s\")])\n", []string{"step: unknown argument timout", "did you mean timeout?"}},
		"wrong type arg": {good + "main = recipe(steps = [step(a, retries = \"x\")])\n", []string{"step: argument retries: got string, want int"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, "x.star", c.src, "y.star", "load(\"x.star\", \"x\")\ny = 1\n", "w.star", "def f():\n    return 1 // 0\nw = f()\n",
				"v.star", "main = recipe(inputs = {\"size\": input.int(default = 1, doc = \"S.\")}, steps = [])\n")
			e, _, _, err := h.run(t.Context(), effect.Apply, "x.star")
			if err == nil {
				t.Fatal("no error")
			}
			if k := fault.KindOf(err); k != fault.Invalid && k != fault.Limit && k != fault.NotFound {
				t.Errorf("kind %s", k)
			}
			text := e.Explain(err).String()
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("report lacks %q:\n%s", w, text)
				}
			}
		})
	}
}

func TestInputsAllErrorsAtOnce(t *testing.T) {
	h := newHarness(t, "x.star", `
main = recipe(inputs = {
    "cidr": input.cidr(default = "10.0.0.0/24", doc = "Network."),
    "workers": input.int(doc = "Workers.", min = 1),
    "node_flavor": input.string(doc = "Flavor."),
    "tags": input.list(default = [], doc = "Tags."),
}, steps = [])
`)
	r, err := h.engine().Load("x.star")
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.ResolveInputs(map[string]string{"cidr": "banana", "workers": "0", "node_flavr": "x"}, map[string]any{"tags": 3})
	for _, want := range []string{`--cidr: "banana" is no address range such as 10.20.0.0/24`, "--workers: 0 is not at least 1", "--node-flavr is no input of x", "did you mean node-flavor?", "--node-flavor is missing: Flavor.", "site.yaml: inputs: tags: got int, want list"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q: %v", want, err)
		}
	}
	in, err := r.ResolveInputs(map[string]string{"workers": "010", "tags": `[80, 1.5, {"n": 12345678901234567890}]`}, map[string]any{"node_flavor": "m1"})
	if err != nil || fmt.Sprintf("%v %v", in["tags"], in["workers"]) != `[80, 1.5, {"n": 12345678901234567890}] 10` {
		t.Errorf("%v %v", in, err)
	}
	in, err = r.ResolveInputs(map[string]string{"workers": "3", "tags": "a, b"}, map[string]any{"node_flavor": "m1", "cidr": "10.9.0.0/16"})
	if err != nil || fmt.Sprintf("%v %v %v %v", in["tags"], in["workers"], in["cidr"], in["node_flavor"]) != `["a", "b"] 3 "10.9.0.0/16" "m1"` {
		t.Errorf("%v %v", in, err)
	}
}

func TestLayersAndExtend(t *testing.T) {
	h := newHarness(t)
	h.layers = []Layer{
		layer("site", "site/recipes", "gw.star", `
load("@base//gw.star", base = "main")

def nat(ctx, server):
    """Site's NAT."""
    return "site nat on " + server

def audit(nat):
    """Audit."""
    return "audited " + nat

def loud(ctx, original):
    """Loud server."""
    return original().upper()

main = base.extend(replace = [nat], add = [audit], remove = ["drop"], wrap = {"server": loud}, inputs = {"cidr": "10.30.0.0/24"},
    outputs = lambda nat, audit: {"nat": nat, "audit": audit}, of = {"nat": "sha256:0000"})
`, "versions.star", "VERSION = \"site\"\n"),
		layer("tree", "recipes", "gw.star", `
load("versions.star", "VERSION")

def server(ctx):
    """Server."""
    return "gw-" + VERSION + "-" + ctx.inputs.cidr

def nat(ctx, server):
    """NAT."""
    return "nat"

def drop(server):
    """Drop."""
    fail("not dropped")

main = recipe(inputs = {"cidr": input.cidr(default = "10.20.0.0/24", doc = "Net.")}, steps = [server, step(nat, timeout = "3m"), drop], outputs = lambda nat: {"nat": nat})
`, "versions.star", "VERSION = \"tree\"\n", "boot.star", `
load("gw.star", gw = "main")
main = recipe(steps = [use("gateway", gw)], outputs = lambda gateway: {"all": [gateway.nat, gateway.audit]})
`),
	}
	e, _, res, err := h.run(t.Context(), effect.Apply, "boot.star")
	if err != nil {
		t.Fatal(e.Explain(err))
	}
	if got := res.Outputs.String(); got != `struct(all = ["site nat on GW-SITE-10.30.0.0/24", "audited site nat on GW-SITE-10.30.0.0/24"])` {
		t.Errorf("got %s", got)
	}
	r, err := h.engine().Load("gw.star")
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Step("nat"); s.Pos() != "site/recipes/gw.star:4" || s.Layer() != "site" || s.Timeout != 3*time.Minute {
		t.Errorf("nat: %s %s %s", s.Pos(), s.Layer(), s.Timeout)
	}
	if st := r.Stale(); len(st) != 1 || st[0].Step != "nat" || !strings.HasPrefix(st[0].Now, "sha256:") {
		t.Errorf("stale: %+v", st)
	}
	for src, want := range map[string]string{
		"replace = [natt]":                   "replace natt: there is no such step below",
		"remove = [\"server\"]":              "remove server: step nat needs it",
		"remove = [\"nat\"]":                 "remove nat: the outputs need it",
		"replace = [misfit]":                 "step nat needs nobody, which is no step",
		"inputs = {\"cdr\": \"10.0.0.0/8\"}": "inputs: cdr is no input of gw",
		"inputs = {\"cidr\": 3}":             "inputs: cidr: got int, want cidr",
		"wrap = {\"nat\": natt}":             "the function has no parameter original",
		"add = [server]":                     "two steps are called server",
	} {
		h.layers[0] = layer("site", "site/recipes", "gw.star", "load(\"@base//gw.star\", base = \"main\")\ndef natt(ctx):\n    \"\"\"N.\"\"\"\ndef server(ctx):\n    \"\"\"S.\"\"\"\n"+
			"def _m():\n    def nat(nobody):\n        \"\"\"N.\"\"\"\n    return nat\nmisfit = _m()\nmain = base.extend("+src+")\n")
		e := h.engine()
		if _, err := e.Load("gw.star"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(e.Explain(err).String(), "site/recipes/gw.star") {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
}

func TestInstancesNestAndOutputsSeeCtx(t *testing.T) {
	leaf := "def make(ctx):\n    \"\"\"Make.\"\"\"\n    return world.thing(ctx.name(\"x\")).name\nmain = recipe(steps = [make], outputs = lambda make: {\"name\": make})\n"
	middle := "load(\"leaf.star\", leaf = \"main\")\nmain = recipe(steps = [use(\"one\", leaf, instance = \"one\"), use(\"two\", leaf, instance = \"two\")], outputs = lambda one, two: {\"names\": [one.name, two.name]})\n"
	top := "load(\"middle.star\", m = \"main\")\nmain = recipe(inputs = {\"tag\": input.string(default = \"t\", doc = \"T.\")}, steps = [use(\"eu\", m, instance = \"eu\"), use(\"us\", m, instance = \"us\")], outputs = lambda ctx, eu, us: {\"all\": eu.names + us.names + [ctx.inputs.tag]})\n"
	h := newHarness(t, "leaf.star", leaf, "middle.star", middle, "x.star", top)
	_, _, res, err := h.run(t.Context(), effect.Apply, "x.star")
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Outputs.String(); got != `struct(all = ["lab-eu-one-x", "lab-eu-two-x", "lab-us-one-x", "lab-us-two-x", "t"])` {
		t.Errorf("got %s", got)
	}
}

func TestReplacedStepsKeepTheirOptions(t *testing.T) {
	h := newHarness(t)
	base := "def a():\n    \"\"\"A.\"\"\"\nmain = recipe(steps = [step(a, max = 1, retries = 4, timeout = \"1m\")])\n"
	for given, want := range map[string]string{
		"step(a, timeout = \"5m\")": "5m0s 4 1", "step(a, retries = 0)": "1m0s 0 1", "step(a, max = 3)": "1m0s 4 3", "a": "1m0s 4 1",
	} {
		h.layers = []Layer{
			layer("site", "site", "x.star", "load(\"@base//x.star\", base = \"main\")\ndef a():\n    \"\"\"A.\"\"\"\nmain = base.extend(replace = ["+given+"])\n"),
			layer("tree", "recipes", "x.star", base),
		}
		r, err := h.engine().Load("x.star")
		if err != nil {
			t.Fatal(err)
		}
		if s := r.Step("a"); fmt.Sprint(s.Timeout, s.Retries, s.limit()) != want {
			t.Errorf("%s: %v %d %d, want %s", given, s.Timeout, s.Retries, s.limit(), want)
		}
	}
}

func TestParallelLoads(t *testing.T) {
	h := newHarness(t, "x.star", "load(\"y.star\", \"y\")\n"+chain, "y.star", "y = 1\n")
	e := h.engine()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := e.Load("x.star"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func BenchmarkSteps(b *testing.B) {
	var src strings.Builder
	src.WriteString("def s0():\n    \"\"\"S.\"\"\"\n    return 0\n")
	names := []string{"s0"}
	const n = 10000
	for i := 1; i < n; i++ {
		fmt.Fprintf(&src, "def s%d(s%d):\n    \"\"\"S.\"\"\"\n    return s%d + 1\n", i, i/2, i/2)
		names = append(names, fmt.Sprintf("s%d", i))
	}
	fmt.Fprintf(&src, "main = recipe(steps = [%s])\n", strings.Join(names, ", "))
	e := New(Config{Layers: []Layer{layer("tree", "recipes", "x.star", src.String())}})
	r, err := e.Load("x.star")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		door := &effect.Door{Clock: effect.SystemClock{}, Redactor: new(effect.Redactor)}
		if _, err := e.Run(b.Context(), r, Options{Door: door}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/step")
}
