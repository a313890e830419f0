package time_test

import (
	"context"
	"testing"
	gotime "time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/time"
)

func TestModule(t *testing.T) {
	m := time.Module(time.Config{Now: func(ctx context.Context) (gotime.Time, error) {
		if effect.From(ctx) == nil {
			t.Error("the clock isn't told which step asks")
		}
		return gotime.Date(2026, 11, 30, 20, 18, 35, 123456, gotime.FixedZone("", 3600)), nil
	}})
	startest.Run(t, "testdata/*.star", startest.Options{Modules: []*builtin.Module{m}, Globals: starlark.StringDict{"unknown": effect.Unknown{Of: "x"}}})
}

// Asking for the time is refused where nothing records the answer.
func TestNowAtTopLevel(t *testing.T) {
	now, err := time.Module(time.Config{}).Value().(starlark.HasAttrs).Attr("now")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := starlark.Call(new(starlark.Thread), now, nil, nil); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
}
