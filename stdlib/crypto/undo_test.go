package crypto_test

import (
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/crypto"
)

// What was made can be deleted again, whole, and only once.
func TestUndo(t *testing.T) {
	now := noon
	store := newStore(t)
	door := startest.NewDoor(effect.Apply)
	var met []effect.Sighting
	door.Met = func(s effect.Sighting) { met = append(met, s) }
	opts := startest.Options{Door: door, Modules: []*builtin.Module{crypto.Module(crypto.Config{Store: store, Now: at(&now)})}}
	fn := startest.Load(t, "undo.star", `
def make():
    crypto.ssh_keypair("a")
    crypto.password("a")
    root = crypto.ca("root")
    crypto.certificate("web", ca = root, hosts = ["web.example.org"])
`, opts)["make"].(starlark.Callable)
	if _, err := startest.Call(t, fn, opts); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if names, err := store.List(t.Context()); err != nil || len(names) < 4 {
		t.Fatalf("stored: %v %v", names, err)
	}
	ctx := effect.With(t.Context(), effect.NewScope(door, effect.Owner{}, "undo", nil))
	undone, safe := met, opts.Modules[0].Recv.(effect.Safe)
	for _, s := range undone {
		o := s.Op.(effect.Undoer).Undo(s.State)
		if o.Target != s.Target || !o.Credential || o.Rank != effect.RankKept {
			t.Errorf("%+v", o)
		}
		// It is found by its target alone, too.
		again, ok := safe.Kept(s.Target.String())
		if !ok || again.Target != s.Target || again.Rank != o.Rank {
			t.Errorf("%v %+v", ok, again)
		}
		for _, op := range []effect.Op{again.Delete, o.Delete} {
			if _, err := effect.Do(ctx, op); err != nil {
				t.Errorf("%s: %v", o.Target, err)
			}
		}
	}
	if names, err := store.List(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("left: %v %v", names, err)
	}
	if c := door.Counts(); c.Deleted != len(undone) || c.Unchanged != len(undone) {
		t.Errorf("%+v for %d things", c, len(undone))
	}
}
