package view

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/fstest"

	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// shelf is a world of texts by name, for a recipe to change.
type shelf struct {
	mu    sync.Mutex
	texts map[string]string
}

type textArgs struct {
	Name string      `star:"name,required" doc:"Its name."`
	Text effect.Text `star:"text,required" doc:"What it says."`
}

func (s *shelf) module() *builtin.Module {
	return builtin.NewModule(builtin.Module{Name: "shelf", Doc: "Texts.", Recv: s, Funcs: []builtin.Func{
		builtin.Of(builtin.Spec[*shelf, textArgs]{Name: "put", Doc: "Ensure a text.", Returns: "text", Example: `shelf.put("a", "b")`, Effect: builtin.Changes,
			Run: func(ctx context.Context, s *shelf, a textArgs) (any, error) {
				st, err := effect.Do(ctx, &putOp{shelf: s, textArgs: a})
				return effect.NewObject("shelf.text", st.Attrs), err
			}}),
	}})
}

type putOp struct {
	textArgs
	shelf *shelf
}

func (o *putOp) Target() effect.Target {
	return effect.Target{Scope: "shelf", Kind: "text", Name: o.Name}
}

func (o *putOp) Observe(context.Context) (effect.State, error) {
	o.shelf.mu.Lock()
	defer o.shelf.mu.Unlock()
	text, ok := o.shelf.texts[o.Name]
	return effect.State{Exists: ok, Attrs: map[string]any{"id": "id-" + o.Name, "text": text}}, nil
}

func (o *putOp) Diff(s effect.State) (effect.Change, error) {
	want := map[string]any{"text": o.Text.Value()}
	if !s.Exists {
		want["id"] = effect.Unknown{Of: o.Target().String() + " id"}
		return effect.Change{Kind: effect.Create, After: want}, nil
	}
	fields := effect.Compare(want, s.Attrs)
	if len(fields) == 0 {
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Update, Fields: fields, After: s.Attrs}, nil
}

func (o *putOp) Apply(ctx context.Context, _ effect.Change) (effect.State, error) {
	o.shelf.mu.Lock()
	o.shelf.texts[o.Name] = o.Text.Reveal()
	o.shelf.mu.Unlock()
	return o.Observe(ctx)
}

const recipeText = `"""A recipe in which a plan stops."""

def first(ctx):
    """Put two texts."""
    shelf.put("old", "1\n2\nthree\n4\n")
    return shelf.put("new", "hello")

def second(ctx, first):
    """Decide on what isn't known in a plan."""
    ctx.log("deciding")
    if first.id == "id-new":
        shelf.put("found", "it")

def third(ctx, second):
    """Go on."""
    shelf.put("last", "one")

main = recipe(steps = [first, second, third], outputs = lambda first: {"id": first.id})
`

// What the engine itself emits and returns is shown: a plan that stops, and a
// run.
func TestRealRun(t *testing.T) {
	world := &shelf{texts: map[string]string{"old": "1\n2\n3\n4\n"}}
	engine := runtime.New(runtime.Config{Modules: []*builtin.Module{world.module()},
		Layers: []runtime.Layer{{Name: "tree", Prefix: "recipes", Recipes: fstest.MapFS{"a.star": {Data: []byte(recipeText)}}}}})
	recipe, err := engine.Load("a.star")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, mode := range []effect.Mode{effect.Plan, effect.Apply} {
		verb := map[effect.Mode]Verb{effect.Plan: Planning, effect.Apply: Running}[mode]
		v := New(Config{Kind: Plain, Err: &out, Verb: verb})
		var stops Stops
		door := &effect.Door{Mode: mode, Clock: newHandClock(), Redactor: new(effect.Redactor)}
		door.Emit = func(e effect.Event) { v.Event(e); stops.Event(e) }
		res, err := engine.Run(context.Background(), recipe, runtime.Options{ID: "r1", Site: runtime.Site{Name: "lab"}, Door: door})
		if cerr := v.Close(); err != nil || cerr != nil {
			t.Fatal(err, cerr)
		}
		out.WriteString("---\n")
		if mode == effect.Plan {
			err = Plan(&out, PlanData{Recipe: recipe.Path, Changes: door.Planned(), Steps: res.Steps, Stops: stops.All(), Unchanged: door.Counts().Unchanged}, PlanOptions{})
		} else {
			err = Summary(&out, SummaryData{Run: "r1", Recipe: recipe.Path, Steps: res.Steps, Counts: door.Counts(), Outputs: res.Outputs}, SummaryOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
	}
	golden(t, "real.txt", out.Bytes())
}
