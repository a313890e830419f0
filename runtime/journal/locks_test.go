package journal

import (
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A run of a recipe keeps others from the recipes that it uses, and is kept
// from changing what is theirs once one of them was taken over.
func TestLocksOfUsedRecipes(t *testing.T) {
	s := open(t)
	root, gateway, eu := effect.Owner{Site: "lab", Recipe: "bootstrap"}, effect.Owner{Site: "lab", Recipe: "gateway"}, effect.Owner{Site: "lab", Recipe: "gateway", Instance: "eu"}
	take := func(run string, owners ...effect.Owner) (*Locks, error) {
		l, err := s.LockAll(Holder{Site: "lab", Run: run, Who: "a@b", Since: time.Now(), TTL: time.Minute}, owners)
		if err == nil {
			t.Cleanup(l.Release)
		}
		return l, err
	}
	all, err := take("r1", root, gateway)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := take("r2", gateway); fault.KindOf(err) != fault.Locked || !strings.Contains(err.Error(), "recipe gateway of site lab is being run by a@b (run r1") {
		t.Errorf("gateway alone: %v", err)
	}
	other := effect.Owner{Site: "lab", Recipe: "other"}
	if _, err := take("r3", other, gateway); fault.KindOf(err) != fault.Locked {
		t.Errorf("another recipe that uses gateway: %v", err)
	}
	// It took none, and an instance is something else.
	if _, err := take("r4", other, eu); err != nil {
		t.Errorf("another recipe: %v", err)
	}
	ctx, cancel := all.Context(t.Context())
	defer cancel()
	door := &effect.Door{Clock: effect.SystemClock{}}
	guard := func(o effect.Owner) error {
		leave, err := all.Guard(effect.With(t.Context(), effect.NewScope(door, o, "step", nil)))
		if err == nil {
			leave()
		}
		return err
	}
	for _, o := range []effect.Owner{root, gateway, {Site: "lab", Recipe: "nothing"}} {
		if err := guard(o); err != nil {
			t.Errorf("a change of %v: %v", o, err)
		}
	}
	age(t, all.of[gateway], 2*time.Minute)
	if _, err := take("r5", gateway); err != nil {
		t.Fatal(err)
	}
	if err := guard(gateway); fault.KindOf(err) != fault.Locked {
		t.Errorf("a change of what was taken over: %v", err)
	}
	<-ctx.Done()
	if err := fault.FromContext(ctx); fault.KindOf(err) != fault.Locked || !strings.Contains(err.Error(), "run r5") {
		t.Errorf("the run ended with %v", err)
	}
	all.Release()
	if _, err := take("r6", root); err != nil {
		t.Errorf("after it: %v", err)
	}
}
