package yaml_test

import (
	"testing"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/yaml"
)

func TestYAML(t *testing.T) {
	startest.Run(t, "testdata/*.star", startest.Options{Modules: []*builtin.Module{yaml.Module()},
		Globals: starlark.StringDict{"token": effect.SecretOf("tok-5f2a9c77e1d04b", ""), "unknown": effect.Unknown{Of: "x"}}})
}

// functions returns a caller of the module's functions.
func functions(tb testing.TB) func(name string, arg starlark.Value) (starlark.Value, error) {
	m := yaml.Module().Value().(starlark.HasAttrs)
	return func(name string, arg starlark.Value) (starlark.Value, error) {
		f, err := m.Attr(name)
		if err != nil {
			tb.Fatal(err)
		}
		return starlark.Call(new(starlark.Thread), f, starlark.Tuple{arg}, nil)
	}
}

// What can be decoded can be encoded, and comes back the same.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{"a: 1\n", "- x\n- {y: [1, 2.5, ~]}\n", "a: &x [1]\nb: *x\n", "s: |\n  lines\n  more\n", "---\na\n---\nb\n", "<<: {a: b}", "!!binary aGk=", "\"\\u2028\"", "? a\n: b", "0x1f", "1e3"} {
		f.Add(s)
	}
	call := functions(f)
	f.Fuzz(func(t *testing.T, s string) {
		docs, err := call("decode_all", starlark.String(s))
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("an error of kind %s: %v", fault.KindOf(err), err)
			}
			return
		}
		text, err := call("encode_all", docs)
		if err != nil {
			return // bytes, which YAML text can hold but encode doesn't write
		}
		again, err := call("decode_all", text)
		if err != nil {
			t.Fatalf("what was written can't be read: %v\n%s", err, text)
		}
		if same, err := starlark.EqualDepth(docs, again, 1000); err != nil || !same {
			t.Errorf("got %v, want %v (%v); text:\n%s", again, docs, err, text)
		}
	})
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "yes", "a\nb\n", " a\n", "1:20", "\u0085x", "- ", "a\n\n"} {
		f.Add(s)
	}
	call := functions(f)
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		d := starlark.NewDict(1)
		_ = d.SetKey(starlark.String(s), starlark.NewList([]starlark.Value{starlark.String(s)}))
		text, err := call("encode", d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := call("decode", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if same, err := starlark.Equal(d, again); err != nil || !same {
			t.Errorf("got %v, want %v; text:\n%s", again, d, text)
		}
	})
}
