package stdlib

import (
	"strings"
	"testing"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// TestPureFunctionsOfUnknowns calls every function that has no effects as its
// example does, with an Unknown in the place of each argument: the result must
// be Unknown, hold one, or be what it is whatever the argument turns out to be.
func TestPureFunctionsOfUnknowns(t *testing.T) {
	opts := startest.Options{Modules: Modules(Env{}), Door: startest.NewDoor(effect.Plan)}
	opts.Globals = starlark.StringDict{"struct": starlark.NewBuiltin("struct", starlarkstruct.Make)}
	tried := 0
	for _, m := range opts.Modules {
		for _, f := range m.Funcs {
			name := m.Name + "." + f.Name
			if f.Effect != builtin.Pure {
				continue
			}
			found := false
			for _, c := range callsOf(t, name, f.Example) {
				for _, code := range c.withUnknown() {
					found = true
					tried++
					askUnknown(t, opts, c.before, code)
				}
			}
			if !found && len(f.Params) > 0 {
				t.Errorf("the example of %s doesn't call it with an argument", name)
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d calls were tried", tried)
	}
}

// A callText is a call in an example: what stands before it, its text, and
// where its arguments are within that.
type callText struct {
	before, text string
	args         [][2]int
}

func callsOf(t *testing.T, name, example string) []callText {
	t.Helper()
	tree, err := (&syntax.FileOptions{TopLevelControl: true}).Parse(name, example, 0)
	if err != nil {
		t.Fatalf("the example of %s: %v", name, err)
	}
	lines := strings.SplitAfter(example, "\n")
	offset := func(p syntax.Position) int {
		return len(strings.Join(lines[:p.Line-1], "")) + len(string([]rune(lines[p.Line-1])[:p.Col-1]))
	}
	var out []callText
	for _, s := range tree.Stmts {
		begin, _ := s.Span()
		syntax.Walk(s, func(n syntax.Node) bool {
			call, ok := n.(*syntax.CallExpr)
			if !ok {
				return true
			}
			from, to := call.Span()
			c := callText{before: example[:offset(begin)], text: example[offset(from):offset(to)]}
			if fn, _, _ := strings.Cut(c.text, "("); fn != name {
				return true
			}
			for _, a := range call.Args {
				if b, named := a.(*syntax.BinaryExpr); named && b.Op == syntax.EQ {
					a = b.Y
				}
				x, y := a.Span()
				c.args = append(c.args, [2]int{offset(x) - offset(from), offset(y) - offset(from)})
			}
			out = append(out, c)
			return true
		})
	}
	return out
}

// withUnknown returns the call with each argument replaced by u, or by what
// holds u.
func (c callText) withUnknown() []string {
	var out []string
	for _, a := range c.args {
		for _, u := range []string{"u", "[u]", "{\"a\": u}", "struct(a = u)"} {
			out = append(out, c.text[:a[0]]+u+c.text[a[1]:])
		}
	}
	return out
}

func askUnknown(t *testing.T, opts startest.Options, before, code string) {
	t.Helper()
	src := "def f(u):\n    " + strings.ReplaceAll(before+"return "+code, "\n", "\n    ") + "\n"
	fn := startest.Load(t, "example.star", src, opts)["f"].(starlark.Callable)
	call := func(u starlark.Value) (starlark.Value, error) {
		return startest.Call(t, starlark.NewBuiltin("f", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return starlark.Call(thread, fn, starlark.Tuple{u}, nil)
		}), opts)
	}
	got, err := call(effect.Unknown{Of: "it"})
	if fault.KindOf(err) == fault.Deferred {
		return
	}
	if _, unknown := effect.FindUnknown(got); err == nil && unknown {
		return
	}
	for _, u := range []any{"", "a", "1", "2031-01-02", "10.0.0.0/8", "{}", "YQ==", int64(1), 2.5, true, []any{"a"}, []any{[]any{"a"}}, map[string]any{"a": "b"}, nil} {
		want, werr := call(effect.ToStarlark(u))
		if werr != nil {
			continue
		}
		if err != nil {
			t.Errorf("%s fails with %v, though with %v it is %v", code, err, u, want)
			return
		}
		if same, err := starlark.Equal(got, want); err != nil || !same {
			t.Errorf("%s says %v, though with %v it is %v", code, got, u, want)
			return
		}
	}
}
