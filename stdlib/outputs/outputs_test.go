package outputs_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/outputs"
)

const told = "a-value-that-is-secret-0"

// begin returns a module over a folder, the folder, and a door that knows a
// secret.
func begin(t *testing.T, mode effect.Mode) (*builtin.Module, string, *effect.Door) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	door := startest.NewDoor(mode)
	door.Redactor = new(effect.Redactor)
	door.Redactor.Add(told)
	return outputs.Module(outputs.Config{Dir: dir}), dir, door
}

func TestOutputs(t *testing.T) {
	m, dir, door := begin(t, effect.Apply)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "half.json"), []byte(`{"a": `), 0o600); err != nil {
		t.Fatal(err)
	}
	startest.Run(t, "testdata/outputs.star", startest.Options{Door: door, Modules: []*builtin.Module{m},
		Globals: starlark.StringDict{"SECRET": effect.SecretOf("another-secret-value", ""), "TOLD": starlark.String("x" + told)}})
	text, err := os.ReadFile(filepath.Join(dir, "facts.json"))
	if want := "{\n  \"ids\": []\n}\n"; err != nil || string(text) != want {
		t.Errorf("the file holds %q (%v), want %q", text, err, want)
	}
	text, err = os.ReadFile(filepath.Join(dir, "parts.json"))
	if want := "{\n  \"a\": {\n    \"x\": \"<1>\"\n  },\n  \"b\": {}\n}\n"; err != nil || string(text) != want {
		t.Errorf("the parts are %q (%v), want %q", text, err, want)
	}
	if c := door.Counts(); c.Created != 4 || c.Updated != 3 || c.Unchanged != 3 {
		t.Errorf("%+v", c)
	}
}

// TestPlan: a plan shows each fact, those that aren't known included, and
// writes nothing.
func TestPlan(t *testing.T) {
	m, dir, door := begin(t, effect.Plan)
	startest.Run(t, "testdata/plan.star", startest.Options{Door: door, Modules: []*builtin.Module{m},
		Globals: starlark.StringDict{"LATER": effect.Unknown{Of: "network lab"}}})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("a plan wrote: %v", err)
	}
	planned := door.Planned()
	if len(planned) != 1 || planned[0].Target.String() != "outputs/facts.json" || len(planned[0].Change.Fields) != 2 {
		t.Errorf("planned %+v", planned)
	}
}

// TestUndo deletes parts of a file that journals name; the last takes it along.
func TestUndo(t *testing.T) {
	m, dir, door := begin(t, effect.Apply)
	door.Deletes = 2
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "facts.json")
	if err := os.WriteFile(file, []byte(`{"a": {}, "b": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	safe := m.Recv.(effect.Safe)
	if _, ok := safe.Kept("secret/facts.json"); ok {
		t.Error("it keeps what is another module's")
	}
	if _, ok := safe.Kept("outputs/facts"); ok {
		t.Error("it keeps what is no file of its own")
	}
	ctx := effect.With(context.Background(), effect.NewScope(door, effect.Owner{Site: "test", Recipe: "test"}, "undo", nil))
	for _, step := range []struct{ target, left string }{
		{"outputs/facts.json/b", "{\n  \"a\": {}\n}\n"}, {"outputs/facts.json/b", "{\n  \"a\": {}\n}\n"}, {"outputs/facts.json/a", ""}, {"outputs/facts.json", ""},
	} {
		o, ok := safe.Kept(step.target)
		if !ok {
			t.Fatalf("%s isn't kept", step.target)
		}
		if _, err := effect.Do(ctx, o.Delete); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if string(text) != step.left || (err != nil) != (step.left == "") {
			t.Errorf("without %s: %q (%v), want %q", step.target, text, err, step.left)
		}
	}
}

// TestInstance: two uses of one recipe don't write one file.
func TestInstance(t *testing.T) {
	m, dir, door := begin(t, effect.Apply)
	startest.Run(t, "testdata/instance.star", startest.Options{Door: door, Modules: []*builtin.Module{m}, Owner: effect.Owner{Site: "lab", Recipe: "gateway", Instance: "eu"}})
	if _, err := os.Stat(filepath.Join(dir, "eu", "facts.json")); err != nil {
		t.Error(err)
	}
}
