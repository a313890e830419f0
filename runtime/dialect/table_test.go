package dialect

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// fixtures has a value of each of Starlark's types.
var fixtures = map[string]string{
	"string": `"abc"`, "format": `"%s"`, "template": `"a{}b{k}"`, "bytes": `b"ab"`, "int": `1`, "float": `1.5`, "bool": `True`, "NoneType": `None`,
	"list": `[2, 1]`, "texts": `["k", "a"]`, "pairs": `[("k", 1)]`, "tuple": `(1, 2)`, "dict": `{"k": 1}`, "set": `set([1, 2])`, "range": `range(3)`, "struct": `struct(a = 1)`, "function": `(lambda x: x)`,
}

// holders are the ways in which a value is given: itself, and within others.
// The first few are tried together with all kinds of other values.
var holders = []string{"u", "[1, u]", "[(u, 1)]", "struct(a = u)", "{'k': u}", "[u]", "(u,)", "(u, 1)", "[('k', u)]", "[[u, 1]]", "[struct(a = u)]"}

const few = 3

// operatorsOf returns the interpreter's operators that make of text, with the
// operator in place of %s, a syntax tree of the kind that is accepts.
func operatorsOf(text string, is func(syntax.Stmt, syntax.Token) bool) []string {
	var ops []string
	for tok := syntax.Token(0); ; tok++ {
		op, ok := tokenText(tok)
		if !ok {
			return ops
		}
		if tree, err := options.Parse("x", fmt.Sprintf(text, op), 0); err == nil && len(tree.Stmts) == 1 && is(tree.Stmts[0], tok) {
			ops = append(ops, op)
		}
	}
}

func isBinary(s syntax.Stmt, tok syntax.Token) bool {
	x, _ := s.(*syntax.ExprStmt)
	if x == nil {
		return false
	}
	e, ok := x.X.(*syntax.BinaryExpr)
	return ok && e.Op == tok
}

func isUnary(s syntax.Stmt, tok syntax.Token) bool {
	x, _ := s.(*syntax.ExprStmt)
	if x == nil {
		return false
	}
	e, ok := x.X.(*syntax.UnaryExpr)
	return ok && e.Op == tok
}

func isAugmented(s syntax.Stmt, tok syntax.Token) bool {
	a, ok := s.(*syntax.AssignStmt)
	return ok && a.Op == tok && tok != syntax.EQ
}

// tokenText returns how a token is written, and whether there is one of that
// number.
func tokenText(tok syntax.Token) (text string, ok bool) {
	defer func() { ok = recover() == nil }()
	return tok.String(), true
}

// codes calls ask with every use of a value u that the interpreter's own lists
// of operators, methods and functions give.
func codes(t *testing.T, ask func(code string)) {
	t.Helper()
	binary, unary, augmented := operatorsOf("a %s b", isBinary), operatorsOf("%s b", isUnary), operatorsOf("a %s b", isAugmented)
	if len(binary) < 20 || len(unary) < 4 || len(augmented) < 11 {
		t.Fatalf("the operators weren't found: %q %q %q", binary, unary, augmented)
	}
	for i, h := range holders {
		for _, op := range unary {
			ask(op + " " + h)
		}
		statements(h, ask)
		if i > few {
			continue
		}
		for _, name := range namesOf(fixtures) {
			x := fixtures[name]
			for _, op := range binary {
				ask(h + " " + op + " " + x)
				ask(x + " " + op + " " + h)
			}
			for _, op := range augmented {
				ask("r = " + x + "; r " + op + " " + h)
				ask("r = " + h + "; r " + op + " " + x)
				ask("r = {'k': " + x + "}; r['k'] " + op + " " + h)
				ask("r = [" + h + "]; r[0] " + op + " " + x)
			}
			ask(x + "[" + h + "]")
			ask(h + "[" + x + "]")
			ask(x + "[" + h + ":]")
			ask(x + "[:" + h + "]")
			ask(x + "[0:2:" + h + "]")
			ask("r = " + x + "; r[" + h + "] = 1")
			ask("r = " + x + "; r[0] = " + h)
			ask("r = {1: 1}; r[1] %= " + h)
		}
	}
	methods(t, ask)
	functions(t, ask)
}

func namesOf(m map[string]string) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// statements asks about what isn't an operator or a call of a builtin.
func statements(h string, ask func(string)) {
	for _, code := range []string{
		"1 if H else 2", "[1 for x in [1] if H]", "[1 for x in [1, 2] if x == 1 if H]", "[x for x in H]", "[y for x in [H] for y in x]", "{x: 1 for x in H}", "{1: x for x in H}",
		"[x for x, y in H]", "[x for x, y in [H]]", "[x for x, (y, z) in [(1, H)]]", "{H: 1}", "{'a': H}", "(lambda *a: a)(*H)", "(lambda **a: a)(**H)", "(lambda a, *b: [a, b])(*H)",
		"(lambda a = H: a)()", "H.a", "H.k", "H(1)", "H.a(1)", "[x if x else 0 for x in [H]]", "[x for x in [1, 2] if x in H]", "(1, 2) if H == 1 else (3,)", "[H][0]", "{'k': H}['k']",
		"(H)[0:1]", "[1, 2, 3][0] if len([H]) == 1 else 0", "'%s' % (H,)", "'%s %s' % (1, H)", "'%(k)s' % {'k': H}", "'%d' % H", "'%r' % H", "'%s%%' % H",
		"if H: r = 1", "if not H: r = 1", "for x in H: r = x", "for x, y in H: r = x", "for x, (y, z) in [(1, H)]: r = x", "r = [0]\nfor r[0] in [H]: pass", "r = {}\nfor r[H] in [1]: pass",
		"r = {}\nfor x, r[H] in [(1, 2)]: pass", "a, r = H", "[a, r] = H", "(a, (b, r)) = (1, H)", "a, r = [H, 1]", "r = [1]; r[H] = 2", "r = {}; r['k'] = H", "r = {}; r[H] = 1", "r = [0]; r[0] %= H", "r = {'k': 7}; r['k'] %= H",
		"r = []; r += H", "r = {}; r |= H", "r = 1 if True or H else 2", "r = 1 if False and H else 2", "r = H or 1", "r = H and 1", "r = 1 and H", "r = 0 or H", "r = [H or 1]",
	} {
		ask(strings.ReplaceAll(code, "H", h))
	}
}

// methods asks about every method of every type, with u as the receiver, in
// the receiver, and as each argument.
func methods(t *testing.T, ask func(string)) {
	t.Helper()
	receivers := []struct {
		make  []string // with u in it, where the type can hold one
		value starlark.HasAttrs
	}{
		{[]string{`"a,b k"`, `"%s {} {k}"`}, starlark.String("")},
		{[]string{`b"abc"`}, starlark.Bytes("")},
		{[]string{`[1, 2]`, `[u, 1]`, `["k", u]`}, new(starlark.List)},
		{[]string{`{"k": 1}`, `{"k": u}`, `{"k": [u]}`}, new(starlark.Dict)},
		{[]string{`set([1, 2])`}, new(starlark.Set)},
		{[]string{`u`}, starlark.String("")}, {[]string{`u`}, new(starlark.List)}, {[]string{`u`}, new(starlark.Dict)}, {[]string{`u`}, new(starlark.Set)},
	}
	seen := 0
	for _, recv := range receivers {
		names := recv.value.AttrNames()
		seen += len(names)
		for _, name := range names {
			for _, x := range recv.make {
				call := func(args string) {
					ask("x = " + x + "; v = x." + name + "(" + args + "); r = (v, x)")
				}
				call("")
				call(`"k"`)
				call("0")
				call("1, 2")
				call("k = u")
				call("*u")
				call("**u")
				call("*[u]")
				call("**{'k': u}")
				for i, h := range holders {
					call(h)
					if i > few {
						continue
					}
					for _, other := range []string{`"k"`, "1", "None", "[1]"} {
						call(h + ", " + other)
						call(other + ", " + h)
					}
					call(`"k", "a", ` + h)
					call(`0, 1, ` + h)
				}
				ask("x = " + x + "; v = getattr(x, '" + name + "')(u); r = (v, x)")
				ask("x = " + x + "; m = x." + name + "; v = m(u); r = (v, x)")
				ask("hasattr(" + x + ", '" + name + "')")
			}
		}
	}
	if seen < 100 {
		t.Fatalf("only %d methods were found", seen)
	}
}

// functions asks about every builtin function, with u as each argument.
func functions(t *testing.T, ask func(string)) {
	t.Helper()
	seen := 0
	for _, name := range starlark.Universe.Keys() {
		if _, ok := starlark.Universe[name].(*starlark.Builtin); !ok {
			continue
		}
		if name == "fail" { // the runtime has its own, which takes any text
			continue
		}
		seen++
		call := func(args string) { ask(name + "(" + args + ")") }
		call("*u")
		call("**u")
		call("*[u]")
		call("k = u")
		call("[1], key = u")
		call("[2, 1], key = lambda x: u")
		call("[2, 1], key = lambda x: [u, x]")
		call("2, 1, key = lambda x: u")
		call("[2, 1], reverse = u")
		call("'1', base = u")
		call("[1], start = u")
		call("x = u")
		call("default = u")
		call("[u], [1]")
		for i, h := range holders {
			call(h)
			if i > few {
				continue
			}
			for _, f := range namesOf(fixtures) {
				call(h + ", " + fixtures[f])
				call(fixtures[f] + ", " + h)
			}
			call("0, 5, " + h)
			call("struct(a = 1), 'a', " + h)
			call("struct(a = 1), 'b', " + h)
			call("'abc', 'upper', " + h)
		}
	}
	if seen < 28 {
		t.Fatalf("only %d functions were found", seen)
	}
}

// TestUnknownEverywhere uses an Unknown in every operator, statement, method
// and function of the interpreter, and compares with what it may turn out to
// be.
func TestUnknownEverywhere(t *testing.T) {
	o := newOracle(t)
	codes(t, o.ask)
	t.Logf("%d uses of an Unknown stop, %d give an Unknown, %d know the answer, %d are errors whatever it is", o.stopped, o.unknown, o.answered, o.refused)
	if o.stopped < 500 || o.unknown < 500 || o.answered < 50 {
		t.Error("too few uses were looked at")
	}
}

// TestSecretEverywhere does the same with a secret.
func TestSecretEverywhere(t *testing.T) {
	o := &oracle{t: t}
	codes(t, o.askSecret)
	t.Logf("%d uses of a secret give a secret, %d another answer, %d are refused", o.unknown, o.answered, o.refused)
	if o.unknown < 200 {
		t.Error("too few uses were looked at")
	}
}
