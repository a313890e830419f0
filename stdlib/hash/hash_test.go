package hash_test

import (
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/hash"
)

func TestModule(t *testing.T) {
	files := map[string]string{"files/abc": "abc", "files/peers.tmpl": "{{range .peers}}peer {{.name}}\n{{end}}"}
	startest.Run(t, "testdata/*.star", startest.Options{Modules: []*builtin.Module{hash.Module()},
		Files: func(name string) ([]byte, error) {
			text, ok := files[name]
			if !ok {
				return nil, fault.New(fault.NotFound, "there is no %s", name)
			}
			return []byte(text), nil
		},
		Globals: starlark.StringDict{"token": effect.SecretOf("tok-5f2a9c77e1d04b", ""), "unknown": effect.Unknown{Of: "x"}}})
}
