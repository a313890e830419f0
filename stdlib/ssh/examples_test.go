package ssh_test

import (
	"os"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// Every example can be planned as it stands.
func TestExamples(t *testing.T) {
	l := newLab(t)
	l.recipe(t, nil, `gw.package.ensure(["nftables", "wireguard-tools"])`)
	l.module.Functions(func(name string, fn builtin.Func) {
		t.Run(name, func(t *testing.T) {
			src := t.TempDir() + "/example.star"
			text := strings.Replace(connectText, "def test_it():\n", "", 1) + "def test_example():\n    host = connect()\n    " +
				strings.ReplaceAll(fn.Example, "\n", "\n    ") + "\n"
			if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			opts := l.options(t, startest.NewDoor(effect.Plan))
			opts.Globals["secret"] = starlark.NewBuiltin("secret", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
				return effect.SecretOf(l.key.Private, "test:key"), nil
			})
			opts.Globals["artifact"] = effect.NewObject("artifact", map[string]any{"fetch": function("fetch", func(string) starlark.Value {
				file, err := starlark.Call(&starlark.Thread{}, fetched(t), starlark.Tuple{starlark.String("tools.tar.gz")}, nil)
				if err != nil {
					t.Fatal(err)
				}
				return file
			})})
			opts.Globals["log"] = effect.NewObject("log", map[string]any{"info": function("info", func(string) starlark.Value { return starlark.None })})
			startest.Run(t, src, opts)
		})
	})
}
