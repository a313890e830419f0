package runtime

import (
	"strings"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// TestAllFailuresAreTold: what fails beside or after the first failure is told
// too.
func TestAllFailuresAreTold(t *testing.T) {
	h := newHarness(t, "x.star", `
def main_and_cleanup(ctx):
    """Main."""
    ctx.defer(lambda: fail("CLEANUP-1"))
    ctx.defer(lambda: fail("CLEANUP-2"))
    fail("MAIN")

main = recipe(steps = [main_and_cleanup])
`)
	e, _, _, err := h.run(t.Context(), effect.Apply, "x.star")
	if fault.KindOf(err) != fault.Failed {
		t.Errorf("kind %s", fault.KindOf(err))
	}
	for _, want := range []string{"MAIN", "CLEANUP-1", "CLEANUP-2", "running what was deferred by step main_and_cleanup"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s: %v", want, err)
		}
	}
	if text := e.Explain(err).String(); !strings.Contains(text, "recipes/x.star:6: in main_and_cleanup") {
		t.Errorf("report:\n%s", text)
	}
	logged := false
	for _, ev := range h.events {
		logged = logged || ev.Kind == effect.Log && strings.Contains(ev.Message, "CLEANUP-1")
	}
	if !logged {
		t.Error("the failed cleanup isn't in the log")
	}
}

func TestOtherFailedStepsAreNamed(t *testing.T) {
	h := newHarness(t, "inner.star", `
def one():
    """One."""
    world.thing("one")

main = recipe(steps = [one])
`, "x.star", `
load("inner.star", inner = "main")

def x():
    """X."""
    world.thing("x")

def fine():
    """Fine."""

def after(x):
    """After."""

main = recipe(steps = [x, fine, after, use("sub", inner)])
`)
	var both sync.WaitGroup
	both.Add(2)
	h.w.fail = func(name string) error {
		both.Done()
		both.Wait()
		return fault.New(fault.Denied, "%s is broken", name)
	}
	_, _, res, err := h.run(t.Context(), effect.Apply, "x.star")
	if fault.KindOf(err) != fault.Denied {
		t.Errorf("kind %s", fault.KindOf(err))
	}
	first, other := "x", "sub/one"
	if err != nil && strings.HasPrefix(err.Error(), "step sub/one:") {
		first, other = other, first
	}
	if err == nil || !strings.HasPrefix(err.Error(), "step "+first+": ") || !strings.HasSuffix(err.Error(), "\n1 more step failed: "+other) {
		t.Errorf("%v (%+v)", err, res)
	}
}
