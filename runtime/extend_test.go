package runtime

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// gateway is a recipe to be overridden.
const gateway = `
def server(ctx):
    """Server."""
    return "gw-" + ctx.inputs.cidr

def nat(ctx, server):
    """NAT."""
    world.thing("nat")
    return helper(server)

def report(nat):
    """Report."""
    return nat

def helper(x):
    return x

main = recipe(
    inputs = {"cidr": input.cidr(default = "10.20.0.0/24", doc = "Net.")},
    steps = [server, step(nat, timeout = "3m", after = []), report],
    outputs = lambda report: {"report": report},
)
`

// overridden returns a harness whose site's gw.star consists of the given
// functions and of one call of extend.
func overridden(t *testing.T, functions, extend string) *harness {
	h := newHarness(t)
	h.layers = []Layer{
		layer("site", "site/recipes", "gw.star", "load(\"@base//gw.star\", \"helper\", base = \"main\")\n"+functions+"\nmain = base.extend("+extend+")\n"),
		layer("tree", "recipes", "gw.star", gateway),
	}
	return h
}

// functions are what a site may override steps by.
const functions = `
def nat(ctx, server):
    """Site's NAT."""
    return "site " + server

def audit():
    """Audit."""
    world.thing("audit")
    return world.look("z")

def loud(ctx, original, server):
    """Loud."""
    return original().upper() + server

def server(ctx):
    """S."""
    return "s"

def lost(servre):
    """Lost."""
`

func TestAfterAndBefore(t *testing.T) {
	for given, want := range map[string]string{
		`add = [step(audit, after = ["nat"])]`:                                           "server nat report audit",
		`add = [step(audit, before = ["server"])]`:                                       "audit server nat report",
		`add = [step(audit, after = ["server"], before = ["nat"])]`:                      "server audit nat report",
		`add = [step(audit, after = ["report"])], replace = [nat]`:                       "server nat report audit",
		`replace = [step(nat, after = ["audit"])], add = [audit]`:                        "server audit nat report",
		`add = [step(audit, before = ["server", "nat"]), step(lone, after = ["audit"])]`: "audit server nat report lone",
	} {
		h := overridden(t, functions+"def lone():\n    \"\"\"L.\"\"\"\n", given)
		_, _, res, err := h.run(t.Context(), effect.Apply, "gw.star")
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		r, err := h.engine().Load("gw.star")
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, s := range r.Order() {
			order = append(order, s.Name)
		}
		if got := strings.Join(order, " "); got != want {
			t.Errorf("%s: order %s, want %s", given, got, want)
		}
		ended := make(map[string]int)
		for i, s := range res.Steps {
			ended[s.Path] = i
		}
		for _, s := range r.Steps {
			for _, first := range r.first(s) {
				if ended[first] > ended[s.Name] {
					t.Errorf("%s: %s ended after %s", given, first, s.Name)
				}
			}
		}
	}
}

// TestOrderHoldsInAPlan: a read in a step that only comes after another may
// see what that one changes, so a plan doesn't know it.
func TestOrderHoldsInAPlan(t *testing.T) {
	for given, want := range map[string]string{`step(audit, after = ["nat"])`: "(known after apply)", `audit`: "0"} {
		h := overridden(t, "def audit():\n    \"\"\"A.\"\"\"\n    return world.look(\"z\")\n", "add = ["+given+"], outputs = lambda audit: {\"a\": audit}")
		_, _, res, err := h.run(t.Context(), effect.Plan, "gw.star")
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Outputs.String(); got != "struct(a = "+want+")" {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

// TestAfterInARecipe: recipe() and use() know the order, too.
func TestAfterInARecipe(t *testing.T) {
	h := newHarness(t, "leaf.star", "def l():\n    \"\"\"L.\"\"\"\n    return world.thing(\"leaf\").size\nmain = recipe(steps = [l], outputs = lambda l: {\"l\": l})\n", "x.star", `
load("leaf.star", leaf = "main")

def first():
    """First."""

def last():
    """Last."""
    return world.look("leaf")

main = recipe(steps = [step(last, after = ["leaf"]), use("leaf", leaf, after = ["first"]), step(first, before = ["last"])], outputs = lambda last: {"n": last})
`)
	_, _, res, err := h.run(t.Context(), effect.Apply, "x.star")
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, s := range res.Steps {
		paths = append(paths, s.Path)
	}
	if got := strings.Join(paths, " "); got != "first leaf/l leaf last" {
		t.Errorf("got %s", got)
	}
}

func TestMisusedOverrides(t *testing.T) {
	for given, want := range map[string][]string{
		`replace = [step(lost)]`:                                 {"replace lost: there is no such step below", "the steps are"},
		`replace = [audt]`:                                       {"undefined: audt"},
		`add = [lost]`:                                           {"site/recipes/gw.star:20:1: step lost needs servre, which is no step", "did you mean server?"},
		`remove = ["nta"]`:                                       {"remove nta: there is no such step below", "did you mean nat?"},
		`wrap = {"nta": loud}`:                                   {"wrap nta: there is no such step below", "did you mean nat?"},
		`wrap = {"nat": nat}`:                                    {"site/recipes/gw.star:3:1", "wrap nat: the function has no parameter original", "use replace"},
		`wrap = {"nat": "x"}`:                                    {"wrap nat: got string, want a function"},
		`add = [loud]`:                                           {"step loud takes `original`, but wraps nothing", "extend(wrap = {...})"},
		`remove = ["server"]`:                                    {"remove server: step nat needs it", "replace nat too, or remove it"},
		`remove = ["report"]`:                                    {"remove report: the outputs need it", "give extend new outputs"},
		`remove = ["nat"], replace = [nat]`:                      {"step nat is overridden twice: by replace and by remove"},
		`replace = [nat, nat]`:                                   {"step nat is overridden twice: by replace and by replace"},
		`replace = [nat], wrap = {"nat": loud}`:                  {"step nat is overridden twice: by replace and by wrap"},
		`remove = ["nat"], wrap = {"nat": loud}`:                 {"step nat is overridden twice: by wrap and by remove"},
		`add = [nat]`:                                            {"add nat: two steps are called nat; the other is at recipes/gw.star:6", "replace it"},
		`add = [step(audit, after = ["nta"])]`:                   {"site/recipes/gw.star:7:1: step audit comes after nta, which is no step", "did you mean nat?"},
		`add = [step(audit, before = ["nta"])]`:                  {"step audit comes before nta, which is no step", "did you mean nat?"},
		`add = [step(audit, after = ["nat"], before = ["nat"])]`: {"cycle of steps: nat -> audit -> nat", `audit says before = ["nat"] (site/recipes/gw.star:7), audit says after = ["nat"]`},
		`replace = [step(server, after = ["report"])]`:           {"cycle of steps: server -> report -> nat -> server", `server says after = ["report"] (site/recipes/gw.star:16)`},
		`add = [step(audit, after = ["audit"])]`:                 {"cycle of steps: audit -> audit"},
		`of = {"nat": "sha256:00"}`:                              {"of nat: the step isn't overridden"},
		`add = [audit], of = {"audit": "sha256:00"}`:             {"of audit: the step isn't overridden"},
		`replace = [nat], of = {"nta": "sha256:00"}`:             {"of nta: there is no such step below", "did you mean nat?"},
		`replace = [nat], of = {"nat": "9f2c"}`:                  {"of nat: got \"9f2c\", want a digest", "gsrun override writes it"},
		`inputs = {"cidr": 3}`:                                   {"inputs: cidr: got int, want cidr"},
		`inputs = {"cdr": "10.0.0.0/8"}`:                         {"inputs: cdr is no input of gw", "did you mean cidr?"},
		`replce = [nat]`:                                         {"unknown argument replce", "did you mean replace?"},
	} {
		h := overridden(t, functions, given)
		e := h.engine()
		_, err := e.Load("gw.star")
		if err == nil {
			t.Errorf("%s: no error", given)
			continue
		}
		text := e.Explain(err).String()
		for _, w := range append(want, "site/recipes/gw.star:") {
			if !strings.Contains(text, w) {
				t.Errorf("%s: lacks %q:\n%s", given, w, text)
			}
		}
		if k := fault.KindOf(err); k != fault.Invalid {
			t.Errorf("%s: kind %s", given, k)
		}
	}
}

// TestOrderAndRemoval: a step that another comes after can't just go.
func TestOrderAndRemoval(t *testing.T) {
	base := "def a():\n    \"\"\"A.\"\"\"\ndef b():\n    \"\"\"B.\"\"\"\nmain = recipe(steps = [a, step(b, ORDER = [\"a\"])])\n"
	for _, order := range []string{"after", "before"} {
		h := newHarness(t)
		h.layers = []Layer{
			layer("site", "site", "x.star", "load(\"@base//x.star\", base = \"main\")\nmain = base.extend(remove = [\"a\"])\n"),
			layer("tree", "recipes", "x.star", strings.Replace(base, "ORDER", order, 1)),
		}
		_, err := h.engine().Load("x.star")
		if err == nil || !strings.Contains(err.Error(), "remove a: step b comes "+order+" it") || !strings.Contains(fault.HintOf(err), "replace b by step(b, "+order+" = [...]) without it") {
			t.Errorf("%s: %v (%s)", order, err, fault.HintOf(err))
		}
	}
}

func TestBaseWithoutALowerLayer(t *testing.T) {
	h := newHarness(t, "x.star", "load(\"@base//x.star\", base = \"main\")\nmain = base\n")
	e := h.engine()
	_, err := e.Load("x.star")
	if err == nil {
		t.Fatal("no error")
	}
	text := e.Explain(err).String()
	for _, want := range []string{"no file x.star in any lower layer: there is none", "recipes/x.star:1", "hint: @base// is what a site's file calls"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}

// TestThreeLayers: a site extends what a tree extends of the binary's, and all
// that was overridden on the way stays told.
func TestThreeLayers(t *testing.T) {
	h := overridden(t, functions, `wrap = {"nat": step(loud, timeout = "9m")}, inputs = {"cidr": "10.40.0.0/24"}`)
	h.layers = []Layer{h.layers[0], layer("tree", "tree", "gw.star", `
load("@base//gw.star", base = "main")

def helper(x):
    return x

def nat(ctx, server):
    """The tree's NAT."""
    return "tree " + server

def extra():
    """Extra."""

main = base.extend(replace = [nat], add = [extra], remove = ["report"], inputs = {"cidr": "10.30.0.0/24"}, outputs = lambda nat: {"nat": nat})
`), layer("embedded", "(embedded)", "gw.star", gateway)}
	e, _, res, err := h.run(t.Context(), effect.Apply, "gw.star")
	if err != nil {
		t.Fatal(e.Explain(err))
	}
	if got := res.Outputs.String(); got != `struct(nat = "TREE GW-10.40.0.0/24gw-10.40.0.0/24")` {
		t.Errorf("got %s", got)
	}
	r, err := h.engine().Load("gw.star")
	if err != nil {
		t.Fatal(err)
	}
	var chain []string
	for s := r.Step("nat"); s != nil; s = s.Below() {
		chain = append(chain, fmt.Sprintf("%s %s %s %s", s.Layer(), s.Pos(), s.Change(), s.Timeout))
	}
	if got := strings.Join(chain, "; "); got != "site site/recipes/gw.star:12 wraps 9m0s; tree tree/gw.star:7 replaces 3m0s; embedded (embedded)/gw.star:6  3m0s" {
		t.Errorf("nat: %s", got)
	}
	if s := r.Step("extra"); s.Change() != Added || s.Layer() != "tree" {
		t.Errorf("extra: %s %s", s.Change(), s.Layer())
	}
	if gone := r.Removed(); len(gone) != 1 || gone[0].Step.Pos() != "(embedded)/gw.star:11" || gone[0].Pos != "tree/gw.star:14" || gone[0].Layer != "tree" {
		t.Errorf("removed: %+v", gone)
	}
	in := r.Inputs[0]
	if in.Pos() != "site/recipes/gw.star:23" || in.Below().Pos() != "tree/gw.star:14" || in.Below().Below().Pos() != "(embedded)/gw.star:19" {
		t.Errorf("cidr: %s %s %s", in.Pos(), in.Below().Pos(), in.Below().Below().Pos())
	}
	h.layers[0] = layer("site", "site", "gw.star", "load(\"@base//gw.star\", base = \"main\")\nmain = base.extend(remove = [\"report\"])\n")
	if _, err := h.engine().Load("gw.star"); err == nil || !strings.Contains(err.Error(), "remove report: there is no such step below") || fault.HintOf(err) != "it was removed at tree/gw.star:14" {
		t.Errorf("removed twice: %v (%s)", err, fault.HintOf(err))
	}
}

// TestStaleOverrides: a pin holds as long as the step below is the same with
// all that it reaches; then the difference is found by the copy that is kept.
func TestStaleOverrides(t *testing.T) {
	h := overridden(t, functions, `replace = [nat]`)
	e := h.engine()
	r, err := e.Load("gw.star")
	if err != nil {
		t.Fatal(err)
	}
	digest, code, err := e.Code(r, "nat")
	if err != nil || !strings.HasPrefix(code, "# gw.star\ndef nat(ctx, server):") || !strings.Contains(code, "def helper(x):\n    return x\n") {
		t.Fatalf("%v, %s", err, code)
	}
	load := func(base, kept string) []Stale {
		t.Helper()
		h := overridden(t, functions, `replace = [nat], of = {"nat": "`+digest+`"}`)
		h.layers[1] = layer("tree", "recipes", "gw.star", base)
		if kept != "" {
			h.layers[0].Recipes.(fstest.MapFS)[CopyOf("gw", "nat")] = &fstest.MapFile{Data: []byte(kept)}
		}
		r, err := h.engine().Load("gw.star")
		if err != nil {
			t.Fatal(err)
		}
		return r.Stale()
	}
	if st := load(gateway, ""); len(st) != 0 {
		t.Errorf("nothing changed: %+v", st)
	}
	changed := strings.Replace(gateway, "return x\n", "return x.strip()\n", 1) // a helper
	st := load(changed, Copy("gw", "nat", digest, code))
	if len(st) != 1 || st[0].Kept != code || !strings.Contains(st[0].Code, "x.strip()") || st[0].Copy != ".shipped/gw/nat.txt" || st[0].Now == digest {
		t.Errorf("a changed helper: %+v", st)
	}
	for name, kept := range map[string]string{"no copy": "", "a copy of another pin": Copy("gw", "nat", "sha256:00", code), "something else": "x"} {
		if st := load(changed, kept); len(st) != 1 || st[0].Kept != "" {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// TestFilesThroughLayers: the site's file wins over the shipped one of that
// name, whoever asks for it.
func TestFilesThroughLayers(t *testing.T) {
	h := overridden(t, "", "")
	h.layers[1].Recipes.(fstest.MapFS)["gw.star"].Data = []byte("def nat():\n    \"\"\"N.\"\"\"\n    return name()\ndef name():\n    return \"files/a/x.tmpl\"\ndef helper():\n    pass\nmain = recipe(steps = [nat])\n")
	h.layers[0].Files = fstest.MapFS{"a/x.tmpl": {Data: []byte("site")}}
	h.layers[0].FilesAt = "site/files"
	h.layers[1].Files = fstest.MapFS{"a/x.tmpl": {Data: []byte("shipped")}, "a/y.tmpl": {Data: []byte("y")}}
	h.layers[1].FilesAt = "recipes/files"
	e := h.engine()
	for name, want := range map[string]string{"files/a/x.tmpl": "site", "files/a/y.tmpl": "y"} {
		if b, err := readFile(h.layers, name); err != nil || string(b) != want {
			t.Errorf("%s: %s %v", name, b, err)
		}
	}
	r, err := e.Load("gw.star")
	if err != nil {
		t.Fatal(err)
	}
	files := e.Files(r.Step("nat"))
	if len(files) != 1 || files[0].Name != "files/a/x.tmpl" || files[0].Pos.Line != 5 {
		t.Fatalf("files: %+v", files)
	}
	var at []string
	for _, l := range e.Holders(files[0].Name) {
		at = append(at, l.FilePath(files[0].Name))
	}
	if got := strings.Join(at, " "); got != "site/files/a/x.tmpl recipes/files/a/x.tmpl" {
		t.Errorf("held by %s", got)
	}
}
