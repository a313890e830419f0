package runtime

import (
	"slices"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A survey tells of all that a recipe is about, whatever state it is in, and
// changes nothing. A step that fails doesn't end the others.
func TestSurvey(t *testing.T) {
	h := newHarness(t, "x.star", `
load("used.star", used = "main")

def there():
    """Differs from what is wanted."""
    return world.thing("there", size = 2)

def broken(there):
    """Fail."""
    fail("no luck")

def beside(there):
    """Do without the broken one."""
    world.thing("beside", size = there.size)

def after(broken):
    """Need the broken one."""
    world.thing("after")
    world.thing(broken.name)

def fans(ctx):
    """Fail for one item."""
    if ctx.item == 1:
        fail("not this one")
    world.thing("item-%d" % ctx.item)

main = recipe(steps = [there, step(broken, retries = 5), beside, after, step(fans, each = lambda: [0, 1, 2]), use("eu", used, instance = "eu")])
`, "used.star", `
def a():
    """One thing."""
    world.thing("a")

main = recipe(steps = [a])
`)
	h.w.things["there"] = 1
	e := h.engine()
	r, err := e.Load("x.star")
	if err != nil {
		t.Fatal(err)
	}
	var met []string
	door := &effect.Door{Mode: effect.Plan, Survey: true, Clock: effect.SystemClock{}, Redactor: new(effect.Redactor)}
	door.Met = func(s effect.Sighting) {
		h.mu.Lock()
		defer h.mu.Unlock()
		text := s.Owner.Mark(s.Target.Name)
		if s.Target.Unknown {
			text = "unknown"
		}
		if s.State.Exists {
			text += " is there"
		}
		met = append(met, text)
	}
	res, err := e.Run(t.Context(), r, Options{ID: "s", Site: Site{Name: "lab"}, Door: door})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(met)
	want := []string{"gsrun:lab/used@eu/a", "gsrun:lab/x/after", "gsrun:lab/x/beside", "gsrun:lab/x/item-0", "gsrun:lab/x/item-2", "gsrun:lab/x/there is there", "unknown"}
	if !slices.Equal(met, want) {
		t.Errorf("met %q, want %q", met, want)
	}
	if h.w.writes != 0 || len(door.Planned()) != 0 {
		t.Errorf("%d writes, planned %v", h.w.writes, door.Planned())
	}
	for _, s := range res.Steps {
		if s.Path == "broken" && (s.Status != Deferred || !strings.Contains(s.Err.Error(), "no luck")) {
			t.Errorf("the step that fails: %+v", s)
		}
	}
	var owners []string
	for _, o := range r.Owners("lab") {
		owners = append(owners, o.Prefix())
	}
	if !slices.Equal(owners, []string{"gsrun:lab/x/", "gsrun:lab/used@eu/"}) {
		t.Errorf("owners %q", owners)
	}
}

// What can't be reached is tried once, not for each thing that is on it.
func TestSurveyOfWhatIsLost(t *testing.T) {
	h := newHarness(t, "x.star", `
def a():
    """Reach for one."""
    world.thing("a")

def b(a):
    """Reach for more."""
    world.thing("b")

main = recipe(steps = [a, b])
`)
	h.w.lost = fault.New(fault.Unreachable, "nobody answers")
	e := h.engine()
	r, err := e.Load("x.star")
	if err != nil {
		t.Fatal(err)
	}
	door := &effect.Door{Mode: effect.Plan, Survey: true, Clock: effect.SystemClock{}, Redactor: new(effect.Redactor), Retry: effect.Retry{Tries: 1}}
	res, err := e.Run(t.Context(), r, Options{ID: "s", Site: Site{Name: "lab"}, Door: door})
	if err != nil || len(res.Steps) != 2 || h.w.looks != 1 {
		t.Errorf("%v, %d steps, looked %d times", err, len(res.Steps), h.w.looks)
	}
	for _, s := range res.Steps {
		if fault.KindOf(s.Err) != fault.Unreachable {
			t.Errorf("%s: %v", s.Path, s.Err)
		}
	}
}
