package dialect

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// An oracle tells whether what code does with an Unknown is right, by doing
// the same with values that the Unknown may turn out to be:
//
//   - an answer without an Unknown in it must be the answer for each of them,
//     and one with Unknowns must be theirs everywhere else;
//   - an error that isn't a stop must be one for each of them;
//   - a stop must say the line.
type oracle struct {
	t         *testing.T
	concretes []starlark.Callable // make the values, new each time

	answered, unknown, stopped, refused int
}

// concretes are what an Unknown may turn out to be.
var concretes = []string{
	`""`, `"a"`, `"k"`, `"abc"`, `"12"`, `"%s"`, `"a,b"`, `b"ab"`, `0`, `1`, `2`, `-1`, `16`, `1.5`, `True`, `False`, `None`, `[]`, `[1]`, `["a"]`, `[1, 2]`, `[("k", 1)]`,
	`(1,)`, `(1, 2)`, `("a", "k")`, `{}`, `{"k": 1}`, `{"a": 2}`, `{1: 2}`, `set([1])`, `set(["a"])`, `struct(a = 1)`, `struct(a = 2)`, `range(3)`, `(lambda x: x)`, `len`,
}

func newOracle(t *testing.T) *oracle {
	o := &oracle{t: t}
	for _, c := range concretes {
		v, err := eval(t, "lambda: "+c)
		if err != nil {
			t.Fatal(err)
		}
		o.concretes = append(o.concretes, v.(starlark.Callable))
	}
	return o
}

// oracleLine is where the code stands that an oracle is asked about.
const oracleLine = 3

// compileBody returns the function of u that does code, which sets r or is an
// expression.
func compileBody(t *testing.T, code string) *starlark.Function {
	t.Helper()
	if _, err := options.ParseExpr("t.star", code, 0); err == nil {
		code = "r = " + code
	}
	e := env()
	f, err := Compile("t.star", []byte("def f(u):\n    r = None\n    "+strings.ReplaceAll(code, "\n", "\n    ")+"\n    return r\n"), e.Has)
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	globals, err := f.Init(&starlark.Thread{}, e)
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	return globals["f"].(*starlark.Function)
}

func callWith(f *starlark.Function, u starlark.Value) (starlark.Value, error) {
	thread := &starlark.Thread{Print: func(*starlark.Thread, string) {}}
	thread.SetMaxExecutionSteps(100_000)
	return starlark.Call(thread, f, starlark.Tuple{u}, nil)
}

// ask checks code.
func (o *oracle) ask(code string) {
	o.t.Helper()
	f := compileBody(o.t, code)
	got, err := callWith(f, effect.Unknown{Of: "the id"})
	switch {
	case fault.KindOf(err) == fault.Deferred:
		o.stopped++
		if line := errorLine(err); line != oracleLine+strings.Count(code, "\n") && line != oracleLine {
			o.t.Errorf("%s: stops at line %d, want %d", code, line, oracleLine)
		}
		return
	case err != nil:
		o.refused++
	default:
		if _, ok := effect.FindUnknown(got); ok {
			o.unknown++
		} else {
			o.answered++
		}
	}
	for i, make := range o.concretes {
		c, cerr := starlark.Call(&starlark.Thread{}, make, nil, nil)
		if cerr != nil {
			o.t.Fatal(cerr)
		}
		want, werr := callWith(f, c)
		if err != nil {
			if werr == nil {
				o.t.Errorf("%s: fails with %q, though with %s it is %v", code, err, concretes[i], want)
				return
			}
			continue
		}
		if werr == nil && !strings.HasPrefix(code, "type(") && !sameButUnknown(got, want) {
			o.t.Errorf("%s: says %v, though with %s it is %v", code, got, concretes[i], want)
			return
		}
	}
}

// errorLine returns the line of the code that an error came from.
func errorLine(err error) int {
	var e *starlark.EvalError
	if !errors.As(err, &e) {
		return 0
	}
	for i := len(e.CallStack) - 1; i >= 0; i-- {
		if p := e.CallStack[i].Pos; p.Filename() == "t.star" {
			return int(p.Line)
		}
	}
	return 0
}

// sameButUnknown reports whether got is want wherever got is known.
func sameButUnknown(got, want starlark.Value) bool {
	if _, ok := got.(effect.Unknown); ok {
		return true
	}
	switch got := got.(type) {
	case *starlark.List, starlark.Tuple:
		a, b := got.(starlark.Indexable), starlark.Indexable(nil)
		if b, _ = want.(starlark.Indexable); b == nil || got.Type() != want.Type() || a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !sameButUnknown(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case *starlark.Dict:
		b, ok := want.(*starlark.Dict)
		if !ok || got.Len() != b.Len() {
			return false
		}
		for i, item := range got.Items() {
			other := b.Items()[i]
			if !sameButUnknown(item[0], other[0]) || !sameButUnknown(item[1], other[1]) {
				return false
			}
		}
		return true
	case *starlarkstruct.Struct:
		b, ok := want.(*starlarkstruct.Struct)
		if !ok || fmt.Sprint(got.AttrNames()) != fmt.Sprint(b.AttrNames()) {
			return false
		}
		for _, name := range got.AttrNames() {
			x, _ := got.Attr(name)
			y, _ := b.Attr(name)
			if !sameButUnknown(x, y) {
				return false
			}
		}
		return true
	case starlark.Callable:
		return got.Type() == want.Type()
	}
	if got.Type() != want.Type() {
		return false
	}
	if ok, err := starlark.Equal(got, want); err == nil {
		return ok
	}
	return got.String() == want.String()
}

// A canary is a secret whose text is looked for in what code makes of it.
const canary = "hunter2hunter2"

// askSecret checks that code does with a secret what it does with its text, or
// refuses it, and that nothing shows the text.
func (o *oracle) askSecret(code string) {
	o.t.Helper()
	f := compileBody(o.t, code)
	got, err := callWith(f, effect.SecretOf(canary, "env:S"))
	want, werr := callWith(f, starlark.String(canary))
	if err != nil {
		o.refused++
		if strings.Contains(err.Error(), canary) {
			o.t.Errorf("%s: the error shows the secret: %v", code, err)
		}
		return
	}
	shown := shownText(got)
	for i := 0; i+6 <= len(canary); i++ {
		if piece := canary[i : i+6]; strings.Contains(strings.ToLower(shown), piece) {
			o.t.Errorf("%s: shows a part of the secret: %s", code, shown)
			break
		}
	}
	if effect.FindSecret(got) != nil {
		o.unknown++
	} else {
		o.answered++
	}
	if werr == nil && !strings.HasPrefix(code, "type(") && !sameButUnknown(revealed(got), want) {
		o.t.Errorf("%s: with the secret it is %v, with its text %v", code, revealed(got), want)
	}
}

// shownText returns all text in v.
func shownText(v starlark.Value) string {
	var b strings.Builder
	b.WriteString(v.String())
	if it, ok := v.(starlark.Iterable); ok {
		iter := it.Iterate()
		defer iter.Done()
		var x starlark.Value
		for iter.Next(&x) {
			b.WriteString(x.String())
		}
	}
	return b.String()
}

// revealed returns v with the secrets in it as plain text, at any depth.
func revealed(v starlark.Value) starlark.Value {
	switch v := v.(type) {
	case *effect.Secret:
		return starlark.String(v.Reveal())
	case starlark.Tuple:
		out := make(starlark.Tuple, len(v))
		for i, x := range v {
			out[i] = revealed(x)
		}
		return out
	case *starlark.List:
		out := make([]starlark.Value, v.Len())
		for i := range out {
			out[i] = revealed(v.Index(i))
		}
		return starlark.NewList(out)
	case *starlark.Dict:
		out := starlark.NewDict(v.Len())
		for _, item := range v.Items() {
			_ = out.SetKey(item[0], revealed(item[1])) // a key of one dict fits another
		}
		return out
	case *starlarkstruct.Struct:
		fields := make(starlark.StringDict)
		v.ToStringDict(fields)
		for name, x := range fields {
			fields[name] = revealed(x)
		}
		return effect.NewStruct(fields)
	}
	return v
}
