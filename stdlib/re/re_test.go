package re_test

import (
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/re"
)

func TestModule(t *testing.T) {
	startest.Run(t, "testdata/*.star", startest.Options{Modules: []*builtin.Module{re.Module()},
		Globals: starlark.StringDict{"token": effect.SecretOf("tok-5f2a9c77e1d04b", ""), "unknown": effect.Unknown{Of: "x"}}})
}
