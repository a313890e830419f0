package dialect

import (
	"context"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func env() starlark.StringDict {
	return starlark.StringDict{
		"u":      effect.Unknown{Of: "the id"},
		"s":      effect.SecretOf("hunter2hunter2", "env:S"),
		"struct": starlark.NewBuiltin("struct", makeStruct),
	}
}

func makeStruct(_ *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	d := make(starlark.StringDict)
	for _, kw := range kwargs {
		d[string(kw[0].(starlark.String))] = kw[1]
	}
	return effect.NewStruct(d), nil
}

func eval(t *testing.T, expr string) (starlark.Value, error) {
	t.Helper()
	e := env()
	f, err := Compile("test.star", []byte("def f():\n    return "+expr+"\nx = f()\n"), e.Has)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	globals, err := f.Init(&starlark.Thread{}, e)
	if err != nil {
		return nil, err
	}
	return globals["x"], nil
}

// TestDecidingOnUnknown goes through every operator, condition, method and
// builtin that would have to know the value.
func TestDecidingOnUnknown(t *testing.T) {
	exprs := []string{
		"u == 1", "1 == u", "u != 1", "u < 1", "1 <= u", "u > 1", "u >= 1", "u == u",
		"[u] == [1]", "{'a': u} == {'a': 1}", "struct(a = u) == struct(a = 1)", "(1, (2, u)) == (1, (2, 3))",
		"u in [1]", "1 in [u]", "u in {}", "'a' in u", "u not in [1]", "1 not in [u]", "u in {'a': 1}",
		"1 if u else 2", "not u", "u and 1", "u or 1", "[x for x in [1] if u]", "[x for x in u]", "{x: 1 for x in u}",
		"{u: 1}", "{'a': 1}[u]", "[1, 2][u]", "'abc'[u]", "u[1:2]", "[1, 2][u:]",
		"len(u)", "int(u)", "float(u)", "bool(u)", "type(u)", "hasattr(u, 'x')", "dir(u)", "hash(u)", "list(u)", "tuple(u)", "dict(u)",
		"set(u)", "enumerate(u)", "zip(u, [1])", "reversed(u)", "range(u)", "any([u])", "all([u])", "sorted([u, 1])", "min(u, 1)", "max([1, u])",
		"abs(u)", "chr(u)", "ord(u)",
		"'abc'.startswith(u)", "'abc'.endswith(u)", "'abc'.find(u)", "'abc'.rfind(u)", "'abc'.index(u)", "'abc'.count(u)",
		"'a,b'.split(u)", "'a,b'.rsplit(u)", "'a,b'.partition(u)", "'a,b'.rpartition(u)",
		"[x for x, y in [u]]", "[x for x, (y, z) in [(1, u)]]", "[1].extend(u)", "{}.update(u)", "set([1]).union(u)", "{}.get((1, u))",
		"getattr('abc', 'startswith')(u)",
		"[1, 2].index(u)", "[u].index(1)", "{'a': 1}.get(u)", "(lambda *a: a)(*u)", "(lambda **a: a)(**u)",
	}
	for _, expr := range exprs {
		v, err := eval(t, expr)
		if err == nil {
			t.Errorf("%s: got %v, want an error", expr, v)
			continue
		}
		if fault.KindOf(err) != fault.Deferred {
			t.Errorf("%s: got kind %s (%v), want deferred", expr, fault.KindOf(err), err)
		}
	}
}

func TestDecidingStatements(t *testing.T) {
	for _, body := range []string{
		"if u: pass", "for x in u: pass", "a, b = u", "[a, b] = u", "x = [1]; x.remove(u)", "for x, y in [u]: pass", "x = [1]; x[u] = 2", "(a, (b, c)) = (1, u)",
	} {
		e := env()
		f, err := Compile("t.star", []byte("def f():\n    "+strings.ReplaceAll(body, "; ", "\n    ")+"\nf()\n"), e.Has)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Init(&starlark.Thread{}, e); fault.KindOf(err) != fault.Deferred {
			t.Errorf("%s: got %v, want deferred", body, err)
		}
	}
}

// TestMakingUnknown goes through what an Unknown may be put into.
func TestMakingUnknown(t *testing.T) {
	for _, expr := range []string{
		"dict(a = u)['a']", "getattr('{} x', 'format')(u)", "[x for x in [u]][0]", "u.name", "u['a']", "u[0]", "u + 1", "1 + u", "'a' + u", "u + 'a'", "[1] + u", "u * 2", "2 * u", "-u", "u - 1", "u // 2", "u / 2", "u % 2",
		"'%s' % u", "'%s %s' % (1, u)", "'%(a)s' % {'a': u}", "'{}'.format(u)", "'{a}'.format(a = u)", "','.join(['a', u])", "'a'.replace('a', u)",
		"str(u)", "repr(u)", "u.method(1)", "u | {}", "str([u])", "'%s' % struct(a = u)",
	} {
		v, err := eval(t, expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if _, ok := v.(effect.Unknown); !ok {
			t.Errorf("%s: got %v (%s), want unknown", expr, v, v.Type())
		}
	}
}

func TestSecretsStaySecret(t *testing.T) {
	for expr, want := range map[string]string{
		"s":                           "hunter2hunter2",
		"'a' + s":                     "ahunter2hunter2",
		"s + 'a'":                     "hunter2hunter2a",
		"'%s!' % s":                   "hunter2hunter2!",
		"'%s %d' % (s, 1)":            "hunter2hunter2 1",
		"'{}-{x}'.format(s, x = s)":   "hunter2hunter2-hunter2hunter2",
		"','.join(['a', s])":          "a,hunter2hunter2",
		"'Xb'.replace('X', s)":        "hunter2hunter2b",
		"s.replace('hunter', 'h')":    "h2h2",
		"s.upper()":                   "HUNTER2HUNTER2",
		"str(s)":                      "hunter2hunter2",
		"s.removeprefix('hunter2')":   "hunter2",
		"(s + s).split('2hunter')[0]": "hunter",
	} {
		v, err := eval(t, expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		got, ok := v.(*effect.Secret)
		if !ok || got.Reveal() != want {
			t.Errorf("%s: got %v (%s), want the secret %q", expr, v, v.Type(), want)
		}
		if v.String() != effect.Mask {
			t.Errorf("%s: shows as %q", expr, v.String())
		}
	}
	for _, expr := range []string{"'%s' % [s]", "str({'a': s})", "'{}'.format(struct(a = s))", "{s: 1}", "int(s)", "'a' in s"} {
		if v, err := eval(t, expr); err == nil {
			t.Errorf("%s: got %v, want an error", expr, v)
		}
	}
	for _, expr := range []string{"s.elems()", "s.codepoints()", "s in 'hunter2hunter2'", "s in {}"} {
		if v, err := eval(t, expr); err == nil {
			t.Errorf("%s: got %v, want an error", expr, v)
		}
	}
	for _, expr := range []string{"s in ['x', 'hunter2hunter2']", "'hunter2hunter2' in [s]", "s not in ['x']", "dict(a = s)['a'] == s"} {
		if v, err := eval(t, expr); err != nil || v != starlark.True {
			t.Errorf("%s: %v, %v", expr, v, err)
		}
	}
	if v, err := eval(t, "s == 'hunter2hunter2' and s != 'x' and len(s) == 14"); err != nil || v != starlark.True {
		t.Errorf("comparing a secret: %v, %v", v, err)
	}
}

// TestUnchangedLanguage checks that rewriting changes nothing else.
func TestUnchangedLanguage(t *testing.T) {
	for expr, want := range map[string]string{
		"[x % 3 for x in range(4) if x != 2]":        "[0, 1, 0]",
		"1 < 2 and not 3 in [1] or False":            "True",
		"'%d-%s' % (3, 'x')":                         `"3-x"`,
		"{'a': 1}['a'] + [5, 6][1]":                  "7",
		"'a b'.split()":                              `["a", "b"]`,
		"'x'.join(['1', '2'])":                       `"1x2"`,
		"sorted([3, 1], reverse = True)":             "[3, 1]",
		"{k: v for k, v in [('a', 1)]}":              `{"a": 1}`,
		"(lambda a, b = 2 % 2: a == b)(0)":           "True",
		"[1, 2, 3][1:]":                              "[2, 3]",
		"max([1, 4, 2], key = lambda x: -x)":         "1",
		"struct(a = 1) == struct(a = 1)":             "True",
		"[1, 2].index(2)":                            "1",
		"(lambda *a, **k: [a, k])(*[1], **{'b': 2})": `[(1,), {"b": 2}]`,
		"'yes' if 1 in {1: 2} else 'no'":             `"yes"`,
		"dict([('a', 1)]) | {'b': 2}":                `{"a": 1, "b": 2}`,
		"[y for x in [[1, 2], [3]] for y in x]":      "[1, 2, 3]",
	} {
		v, err := eval(t, expr)
		if err != nil || v.String() != want {
			t.Errorf("%s: got %v, %v, want %s", expr, v, err, want)
		}
	}
	src := "def f(l):\n    \"\"\"Doc.\"\"\"\n    x = 7\n    x %= 4\n    l[0] += x\n    return l\ny = f([1])\n"
	f, err := Compile("t.star", []byte(src), env().Has)
	if err != nil {
		t.Fatal(err)
	}
	g, err := f.Init(&starlark.Thread{}, env())
	if err != nil || g["y"].String() != "[4]" {
		t.Errorf("got %v, %v", g["y"], err)
	}
	if fn := g["f"].(*starlark.Function); fn.Doc() != "Doc." || fn.Position().Line != 1 {
		t.Errorf("docstring or position lost: %q %v", fn.Doc(), fn.Position())
	}
}

func TestErrorsHavePositions(t *testing.T) {
	_, err := Compile("bad.star", []byte("x = 1\ny = (\n"), env().Has)
	if err == nil || !strings.Contains(err.Error(), "bad.star:3") || fault.KindOf(err) != fault.Invalid {
		t.Errorf("syntax error: %v", err)
	}
	_, err = Compile("bad.star", []byte("x = nope\ny = nada\n"), env().Has)
	if err == nil || !strings.Contains(err.Error(), "bad.star:1:5: undefined: nope") || !strings.Contains(err.Error(), "bad.star:2:5: undefined: nada") {
		t.Errorf("all resolver errors: %v", err)
	}
	if _, err := NewSecretInStep(t); err != nil {
		t.Error(err)
	}
}

// NewSecretInStep checks that a declared secret reaches the run's redactor.
func NewSecretInStep(t *testing.T) (*effect.Secret, error) {
	d := &effect.Door{Clock: effect.SystemClock{}, Redactor: new(effect.Redactor)}
	ctx := effect.With(context.Background(), effect.NewScope(d, effect.Owner{}, "s", nil))
	s, err := effect.NewSecret(ctx, "correct horse", "env:H")
	if got := d.Redactor.String("x correct horse y"); got != "x *** y" {
		t.Errorf("redacted: %q", got)
	}
	return s, err
}

func BenchmarkComparisons(b *testing.B) {
	src := []byte("def f():\n    n = 0\n    for i in range(1000000):\n        if i == 5:\n            n += 1\n    return n\nf()\n")
	f, err := Compile("b.star", src, env().Has)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := f.Init(&starlark.Thread{}, env()); err != nil {
			b.Fatal(err)
		}
	}
}
