package log_test

import (
	"reflect"
	"sync"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/log"
)

func TestLog(t *testing.T) {
	for _, tt := range []struct {
		debug bool
		want  []string
	}{
		{false, []string{"plain", "warning: look", "***", "(known after apply)"}},
		{true, []string{"plain", "warning: look", "debug: detail", "***", "(known after apply)"}},
	} {
		var mu sync.Mutex
		var got []string
		door := startest.NewDoor(effect.Apply)
		door.Emit = func(e effect.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Kind == effect.Log {
				got = append(got, e.Message)
			}
		}
		startest.Run(t, "testdata/*.star", startest.Options{Door: door, Modules: []*builtin.Module{log.Module(log.Config{Debug: tt.debug})},
			Globals: starlark.StringDict{"token": effect.SecretOf("tok-5f2a9c77e1d04b", ""), "unknown": effect.Unknown{Of: "x"}}})
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("debug %v: got %q, want %q", tt.debug, got, tt.want)
		}
	}
}
