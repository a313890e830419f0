package dialect

import (
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// methodsOfSecret has, for each method of strings, what it makes of the secret
// s and what it makes of a text and s: an expression, and the texts in the
// result, which must all be secret. A result without texts has none.
var methodsOfSecret = map[string][]struct{ expr, texts string }{
	"capitalize":     {{"s.capitalize()", "Hunter2hunter2"}},
	"count":          {{"s.count('hunter')", ""}, {"'x'.count(s)", ""}},
	"endswith":       {{"s.endswith('2')", ""}, {"'x'.endswith(s)", ""}},
	"find":           {{"s.find('2')", ""}, {"'x'.find(s)", ""}},
	"format":         {{"('{}:' + s).format('a')", "a:hunter2hunter2"}, {"'{}'.format(s)", "hunter2hunter2"}, {"'{0}{0}'.format(s)", "hunter2hunter2hunter2hunter2"}, {"'{k!r}'.format(k = s)", `"hunter2hunter2"`}, {"'{}{}'.format(1, s)", "1hunter2hunter2"}},
	"index":          {{"s.index('2')", ""}, {"('x' + 'hunter2hunter2').index(s)", ""}},
	"isalnum":        {{"s.isalnum()", ""}},
	"isalpha":        {{"s.isalpha()", ""}},
	"isdigit":        {{"s.isdigit()", ""}},
	"islower":        {{"s.islower()", ""}},
	"isspace":        {{"s.isspace()", ""}},
	"istitle":        {{"s.istitle()", ""}},
	"isupper":        {{"s.isupper()", ""}},
	"join":           {{"s.join(['a', 'b'])", "ahunter2hunter2b"}, {"'-'.join([s, 'b'])", "hunter2hunter2-b"}, {"'-'.join([x for x in (s, 'b')])", "hunter2hunter2-b"}},
	"lower":          {{"s.lower()", "hunter2hunter2"}},
	"lstrip":         {{"s.lstrip('h')", "unter2hunter2"}, {"'hx'.lstrip(s)", "x"}},
	"partition":      {{"s.partition('2')", "hunter|2|hunter2"}, {"'a:b'.partition(s)", "a:b||"}},
	"removeprefix":   {{"s.removeprefix('hunter2')", "hunter2"}, {"('hunter2hunter2' + 'x').removeprefix(s)", "x"}},
	"removesuffix":   {{"s.removesuffix('2')", "hunter2hunter"}, {"('x' + 'hunter2hunter2').removesuffix(s)", "x"}},
	"replace":        {{"s.replace('2', '3')", "hunter3hunter3"}, {"'a'.replace('a', s)", "hunter2hunter2"}, {"'a'.replace(s, 'b')", "a"}},
	"rfind":          {{"s.rfind('2')", ""}, {"'x'.rfind(s)", ""}},
	"rindex":         {{"s.rindex('2')", ""}},
	"rpartition":     {{"s.rpartition('2')", "hunter2hunter|2|"}},
	"rsplit":         {{"s.rsplit('2', 1)", "hunter2hunter|"}, {"'a'.rsplit(s)", "a"}},
	"rstrip":         {{"s.rstrip('2')", "hunter2hunter"}, {"'x2'.rstrip(s)", "x"}},
	"split":          {{"s.split('2')", "hunter|hunter|"}, {"'a'.split(s)", "a"}},
	"splitlines":     {{"(s + '\\nb').splitlines()", "hunter2hunter2|b"}},
	"startswith":     {{"s.startswith('h')", ""}, {"'x'.startswith(s)", ""}},
	"strip":          {{"s.strip('h2')", "unter2hunter"}, {"'x2'.strip(s)", "x"}},
	"title":          {{"s.title()", "Hunter2Hunter2"}},
	"upper":          {{"s.upper()", "HUNTER2HUNTER2"}},
	"elems":          nil, // refused, see TestRefusedOfSecrets
	"elem_ords":      nil,
	"codepoints":     nil,
	"codepoint_ords": nil,
}

// texts returns the texts in v, and whether one of them isn't secret.
func texts(v starlark.Value) (all []string, shown bool) {
	switch v := v.(type) {
	case *effect.Secret:
		return []string{v.Reveal()}, false
	case starlark.String:
		return []string{string(v)}, true
	case starlark.Iterable:
		iter := v.Iterate()
		defer iter.Done()
		var x starlark.Value
		for iter.Next(&x) {
			more, open := texts(x)
			all, shown = append(all, more...), shown || open
		}
	}
	return all, shown
}

func TestStringMethodsOfSecrets(t *testing.T) {
	for _, name := range starlark.String("").AttrNames() {
		cases, ok := methodsOfSecret[name]
		if !ok {
			t.Errorf("no case for %s()", name)
		}
		for _, c := range cases {
			v, err := eval(t, c.expr)
			if err != nil {
				t.Errorf("%s: %v", c.expr, err)
				continue
			}
			if got, shown := texts(v); shown || strings.Join(got, "|") != c.texts {
				t.Errorf("%s: got %q, want %q; some text isn't secret: %t", c.expr, got, c.texts, shown)
			}
			if via, err := eval(t, strings.Replace(c.expr, "s."+name+"(", "getattr(s, '"+name+"')(", 1)); err != nil || via.String() != v.String() {
				t.Errorf("%s by getattr: %v, %v", c.expr, via, err)
			}
		}
	}
}

// TestOperatorsOnSecrets goes through what else makes text of a secret.
func TestOperatorsOnSecrets(t *testing.T) {
	for expr, want := range map[string]string{
		"s + s": "hunter2hunter2hunter2hunter2", "'a' + s + 'b'": "ahunter2hunter2b", "[s][0] + 'a'": "hunter2hunter2a",
		"('%s:' + s) % 'a'": "a:hunter2hunter2", "'%s' % s": "hunter2hunter2", "'%r' % s": `"hunter2hunter2"`, "'%s' % (s,)": "hunter2hunter2", "'%(k)s' % {'k': s}": "hunter2hunter2", "'%s%%' % s": "hunter2hunter2%",
		"str(s)": "hunter2hunter2", "repr(s)": `"hunter2hunter2"`, "{'k': s}['k']": "hunter2hunter2", "[x for x in [s]][0]": "hunter2hunter2", "{k: v for k, v in [('a', s)]}['a']": "hunter2hunter2",
		"(s or 'x')": "hunter2hunter2", "(s if s else 'x')": "hunter2hunter2", "('x' and s)": "hunter2hunter2", "(lambda x: x)(s)": "hunter2hunter2", "(lambda *a: a)(*[s])[0]": "hunter2hunter2",
		"(lambda **k: k)(**{'a': s})['a']": "hunter2hunter2", "[s][0:1][0]": "hunter2hunter2", "([s] * 2)[1]": "hunter2hunter2", "([s] + [1])[0]": "hunter2hunter2", "({'a': 1} | {'b': s})['b']": "hunter2hunter2",
		"struct(a = s).a": "hunter2hunter2", "list((s,))[0]": "hunter2hunter2", "reversed([1, s])[0]": "hunter2hunter2", "zip([s], [1])[0][0]": "hunter2hunter2", "enumerate([s])[0][1]": "hunter2hunter2",
		"{'a': s}.values()[0]": "hunter2hunter2", "{'a': s}.items()[0][1]": "hunter2hunter2", "{'a': s}.get('a')": "hunter2hunter2", "{'a': s}.pop('a')": "hunter2hunter2", "{}.setdefault('a', s)": "hunter2hunter2",
		"getattr(struct(a = s), 'a')": "hunter2hunter2", "sorted([s], key = lambda x: 1)[0]": "hunter2hunter2", "max([s, s], key = lambda x: 1)": "hunter2hunter2",
	} {
		v, err := eval(t, expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if got, shown := texts(v); shown || strings.Join(got, "|") != want {
			t.Errorf("%s: got %q (%s), want the secret %q", expr, got, v.Type(), want)
		}
	}
	for expr, want := range map[string]starlark.Bool{
		"s == 'hunter2hunter2'": true, "'hunter2hunter2' == s": true, "s != 'x'": true, "s == s": true, "s == 1": false,
		"[s] == ['hunter2hunter2']": true, "[1, (s, 2)] == [1, ('hunter2hunter2', 2)]": true, "{'a': s} == {'a': 'hunter2hunter2'}": true, "{'a': s} != {'a': 'x'}": true,
		"struct(a = s) == struct(a = 'hunter2hunter2')": true, "struct(a = s) == struct(a = 'x')": false, "[s] == [s]": true, "[s] == ['x']": false, "(s,) != ('x',)": true,
		"s in ['hunter2hunter2']": true, "[s] in [['hunter2hunter2']]": true, "s not in ['x', s]": false, "any([s])": true, "all([s, 1])": true, "bool(s)": true, "not s": false,
	} {
		if v, err := eval(t, expr); err != nil || v != want {
			t.Errorf("%s: got %v, %v, want %v", expr, v, err, want)
		}
	}
}

// TestRefusedOfSecrets goes through what would show a secret or a part of it:
// it is an error that doesn't hold it.
func TestRefusedOfSecrets(t *testing.T) {
	for _, expr := range []string{
		"s.elems()", "s.elem_ords()", "s.codepoints()", "s.codepoint_ords()", "getattr(s, 'elems')()", "list(s)", "[c for c in s]", "s[0]", "s[1:3]", "s[::-1]", "tuple(s)", "enumerate(s)", "zip(s)", "reversed(s)", "sorted(s)",
		"sorted([s, 'x'])", "s < 'x'", "[s] < ['x']", "max(s, 'x')", "min([s, 'x'])", "'a' in s", "s in 'hunter2hunter2'", "s in {}", "{s: 1}", "{}.get(s)", "{'a': 1}[s]", "set([s])", "dict([(s, 1)])",
		"int(s)", "float(s)", "ord(s)", "bytes(s)", "hash(s)", "dir(s)", "'%d' % s", "'%s' % [s]", "'{}'.format([s])", "'{a.b}'.format(a = struct(b = s))", "str([s])", "repr({'a': s})", "str(struct(a = s))", "', '.join([[s]])",
		"[s].index('hunter2hunter2')", "['x'].index(s)", "[s].remove('x')", "s * 2", "-s", "s - 'x'", "(s + '{hunter2hunter2}').format()", "(s + '%(hunter2hunter2)s') % {}", "s.index('x')", "s.nope()", "s.nope",
	} {
		v, err := eval(t, expr)
		if err == nil {
			t.Errorf("%s: got %v, want an error", expr, v)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the secret: %v", expr, err)
		}
	}
	for _, expr := range []string{"'a' in s", "'a' not in s"} {
		_, err := eval(t, expr)
		if err == nil || !strings.Contains(err.Error(), "can't be searched") || !strings.Contains(fault.HintOf(err), "compare it as a whole") {
			t.Errorf("%s: %v, hint %q", expr, err, fault.HintOf(err))
		}
	}
	for _, call := range []string{"fail(s)", "fail('x', [s])", "fail(struct(a = s))", "print(s)"} {
		var said string
		e := env()
		f, err := Compile("t.star", []byte(call+"\n"), e.Has)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Init(&starlark.Thread{Print: func(_ *starlark.Thread, msg string) { said = msg }}, e)
		if err != nil {
			said += err.Error()
		}
		if strings.Contains(said, "hunter2") || !strings.Contains(said, effect.Mask) {
			t.Errorf("%s says %q", call, said)
		}
	}
}
