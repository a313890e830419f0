package secret_test

import (
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/secret"
)

// A generated secret can be deleted again, once.
func TestUndo(t *testing.T) {
	s := newSite(t)
	door := startest.NewDoor(effect.Apply)
	var met []effect.Sighting
	door.Met = func(x effect.Sighting) { met = append(met, x) }
	opts := startest.Options{Door: door, Modules: []*builtin.Module{secret.Module(secret.Config{Store: s.store})}}
	fn := startest.Load(t, "undo.star", "def make():\n    secret.generate(\"pw\")\n", opts)["make"].(starlark.Callable)
	if _, err := startest.Call(t, fn, opts); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if len(met) != 1 {
		t.Fatalf("met %v", met)
	}
	o := met[0].Op.(effect.Undoer).Undo(met[0].State)
	if o.Target != met[0].Target || !o.Credential || o.Rank != effect.RankKept {
		t.Errorf("%+v", o)
	}
	ctx := effect.With(t.Context(), effect.NewScope(door, effect.Owner{}, "undo", nil))
	for range 2 {
		if _, err := effect.Do(ctx, o.Delete); err != nil {
			t.Error(err)
		}
	}
	if names, err := s.store.List(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("left: %v %v", names, err)
	}
	if again, ok := secret.Module(secret.Config{Store: s.store}).Recv.(effect.Safe).Kept(o.Target.String()); !ok || again.Target != o.Target || !again.Credential {
		t.Errorf("by its target: %v %+v", ok, again)
	}
	if c := door.Counts(); c.Deleted != 1 || c.Unchanged != 1 {
		t.Errorf("%+v", c)
	}
}
