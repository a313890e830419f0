package builtin

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type garden struct{ planted []string }

type bed struct{ name string }

func (b *bed) Attrs() map[string]any { return map[string]any{"name": b.name, "id": "bed-" + b.name} }

type plantArgs struct {
	Name   string                 `star:"name,required" doc:"What to plant."`
	Depth  int                    `star:"depth,positional" doc:"How deep, in centimetres."`
	Water  time.Duration          `star:"water" doc:"How long to water."`
	Tags   []string               `star:"tags" doc:"Labels."`
	Note   effect.Text            `star:"note" doc:"A note; it may be secret."`
	Beside effect.Reference       `star:"beside" doc:"Another bed."`
	Sun    *bool                  `star:"sun" doc:"Whether it wants sun."`
	Extra  map[string]effect.Text `star:"extra" doc:"More."`
	Label  []effect.Text          `star:"label" secret:"never" doc:"What everybody sees."`
	Code   effect.Text            `star:"code" secret:"only" doc:"What nobody sees."`
	Near   []effect.Reference     `star:"near" of:"garden.bed" doc:"Beds."`
	Bed    *bed                   `star:"bed" type:"garden.bed" doc:"The bed to use."`
}

func module(g *garden) *Module {
	return NewModule(Module{Name: "garden", Doc: "A garden.", Recv: g,
		Funcs: []Func{Of(Spec[*garden, plantArgs]{Name: "plant", Doc: "Plant something.", Returns: "garden.bed", Example: `garden.plant("rose")`,
			Effect: Changes, Errors: []fault.Kind{fault.Invalid}, Defaults: plantArgs{Depth: 5, Water: 5 * time.Minute},
			Run: func(_ context.Context, g *garden, a plantArgs) (any, error) {
				g.planted = append(g.planted, a.Name+"@"+time.Duration(a.Depth).String()+" "+a.Water.String()+" "+strings.Join(a.Tags, ",")+" "+a.Note.Reveal()+" "+a.Beside.ID.Reveal())
				return &bed{name: a.Name}, nil
			}})},
		Types: []*Type{{Name: "garden.bed", Doc: "A bed.", Of: TypeOf[*bed](), Attrs: []Attr{{"name", "str", "Its name."}},
			Methods: []Func{Of(Spec[*bed, struct{}]{Name: "water", Doc: "Water it.", Returns: "str", Example: "b.water()", Effect: Reads,
				Run: func(_ context.Context, b *bed, _ struct{}) (any, error) { return "wet " + b.name, nil }})}}},
	})
}

func call(t *testing.T, g *garden, mode effect.Mode, expr string) (starlark.Value, error) {
	t.Helper()
	door := &effect.Door{Mode: mode, Clock: effect.SystemClock{}, Redactor: new(effect.Redactor)}
	thread := &starlark.Thread{}
	SetContext(thread, effect.With(t.Context(), effect.NewScope(door, effect.Owner{}, "s", nil)))
	env := starlark.StringDict{"garden": module(g).Value(), "u": effect.Unknown{Of: "x"}, "s": effect.SecretOf("hidden words", ""),
		"o": effect.NewObject("garden.gate", map[string]any{"id": "g"})}
	return starlark.EvalOptions(&syntax.FileOptions{}, thread, "t.star", expr, env)
}

func TestCall(t *testing.T) {
	g := &garden{}
	v, err := call(t, g, effect.Apply, `garden.plant("rose", 7, water = "90s", tags = ["a", "b"], note = s, beside = garden.plant("oak"), sun = True, extra = {"k": "v"}, bed = garden.plant("fern"))`)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(g.planted, "|"); got != "oak@5ns 5m0s   |fern@5ns 5m0s   |rose@7ns 1m30s a,b hidden words bed-oak" {
		t.Errorf("planted %s", got)
	}
	if v.Type() != "garden.bed" {
		t.Errorf("type %s", v.Type())
	}
	for expr, want := range map[string]string{`garden.plant("x").name`: `"x"`, `garden.plant("x").water()`: `"wet x"`, `dir(garden.plant("x"))`: `["id", "name", "water"]`} {
		if v, err := call(t, g, effect.Apply, expr); err != nil || v.String() != want {
			t.Errorf("%s: %v %v", expr, v, err)
		}
	}
}

func TestWrongCalls(t *testing.T) {
	for expr, want := range map[string]string{
		`garden.plant()`:                      "missing argument name: What to plant.",
		`garden.plant(3)`:                     "argument name: got int, want string",
		`garden.plant("x", deepth = 1)`:       "unknown argument deepth",
		`garden.plant("x", 1, "2s")`:          "got 3 arguments by position, want at most 2",
		`garden.plant("x", water = "soon")`:   `"soon" is no duration`,
		`garden.plant("x", water = 5)`:        "want duration",
		`garden.plant("x", tags = "ab")`:      "got string, want list",
		`garden.plant("x", tags = [1])`:       "[0]: got int, want string",
		`garden.plant(s)`:                     "it can't be a secret",
		`garden.plant("x", label = ["a", s])`: "argument label: it can't be a secret",
		`garden.plant("x", code = "1234")`:    "argument code: it is no secret, and would show",
		`garden.plant("x", near = ["a", o])`:  "argument near: got garden.gate, want garden.bed",
		`garden.plant("x", name = "y")`:       "argument name is given twice",
		`garden.plant("x", beside = 3)`:       "want an id or an object with an id",
		`garden.plant("x", bed = "y")`:        "got string, which can't be used here",
		`garden.plant("x", depth = 1 << 70)`:  "is too large",
		`garden.plant("x", extra = {1: "a"})`: "key 1: got int, want string",
	} {
		_, err := call(t, &garden{}, effect.Apply, expr)
		if err == nil || !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v (%s), want %q", expr, err, fault.KindOf(err), want)
		}
	}
	_, err := call(t, &garden{}, effect.Apply, `garden.plant("x", deepth = 1)`)
	if fault.HintOf(err) != "did you mean depth?" {
		t.Errorf("hint %q", fault.HintOf(err))
	}
}

func TestUnknownArguments(t *testing.T) {
	g := &garden{}
	v, err := call(t, g, effect.Plan, `garden.plant(u)`)
	if _, ok := v.(effect.Unknown); !ok || err != nil || len(g.planted) != 0 {
		t.Errorf("what identifies the target must be known: %v %v %v", v, err, g.planted)
	}
	if _, err := call(t, g, effect.Plan, `garden.plant("x", note = u, beside = u, extra = {"a": u})`); err != nil || len(g.planted) != 1 {
		t.Errorf("the rest needn't be: %v %v", err, g.planted)
	}
}

func TestTopLevel(t *testing.T) {
	_, err := starlark.EvalOptions(&syntax.FileOptions{}, &starlark.Thread{}, "t.star", `garden.plant("x")`, starlark.StringDict{"garden": module(&garden{}).Value()})
	if err == nil || !strings.Contains(err.Error(), "garden.plant was called at top level") {
		t.Errorf("%v", err)
	}
}

func TestTexts(t *testing.T) {
	m := module(nil)
	for what, text := range map[string]string{"page": m.Markdown(), "stub": m.Stub(), "doc": m.Funcs[0].Text("garden.plant")} {
		for _, want := range []string{"What to plant.", "5m", "garden.bed"} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s lacks %q:\n%s", what, want, text)
			}
		}
	}
}

func TestIncompleteDeclarationsPanic(t *testing.T) {
	panics := func(name string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", name)
			}
		}()
		f()
	}
	run := func(context.Context, any, struct{}) (any, error) { return nil, nil }
	panics("no doc", func() { Of(Spec[any, struct{}]{Name: "f", Returns: "x", Example: "x", Effect: Pure, Run: run}) })
	panics("no example", func() { Of(Spec[any, struct{}]{Name: "f", Doc: "F.", Returns: "x", Effect: Pure, Run: run}) })
	type bad struct{ X string }
	panics("no tags", func() {
		Of(Spec[any, bad]{Name: "f", Doc: "F.", Returns: "x", Example: "x", Effect: Pure, Run: func(context.Context, any, bad) (any, error) { return nil, nil }})
	})
	panics("no module doc", func() { NewModule(Module{Name: "m"}) })
}

func TestNearest(t *testing.T) {
	for name, want := range map[string]string{"nta": "nat", "Server": "server", "netwrk": "network", "zzz": ""} {
		if got := Nearest(name, []string{"server", "nat", "network"}); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
