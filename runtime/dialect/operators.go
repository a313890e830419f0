package dialect

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// operators are the functions that rewritten files call.
var operators = starlark.StringDict{
	"$eq":     comparison("$eq", syntax.EQL),
	"$ne":     comparison("$ne", syntax.NEQ),
	"$lt":     comparison("$lt", syntax.LT),
	"$le":     comparison("$le", syntax.LE),
	"$gt":     comparison("$gt", syntax.GT),
	"$ge":     comparison("$ge", syntax.GE),
	"$in":     membership("$in", syntax.IN),
	"$not_in": membership("$not_in", syntax.NOT_IN),
	"$mod":    operator("$mod", 2, mod),
	"$shl":    operator("$shl", 2, shift(syntax.LTLT)),
	"$shr":    operator("$shr", 2, shift(syntax.GTGT)),
	"$known":  operator("$known", 1, known("tested")),
	"$iter":   operator("$iter", 1, known("iterated over")),
	"$key":    operator("$key", 1, known("used as a key")),
	"$attr":   operator("$attr", 2, attr),
	"$unpack": operator("$unpack", 2, unpack),
	"$each":   operator("$each", 2, each),

	"$assign_index": operator("$assign_index", 4, assignIndex),
	"$assign_field": operator("$assign_field", 3, assignField),
}

func operator(name string, n int, f func(args starlark.Tuple) (starlark.Value, error)) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		if len(args) != n {
			return nil, fmt.Errorf("%s: got %d arguments, want %d", name, len(args), n)
		}
		return f(args)
	})
}

// known returns its argument, which may not be Unknown itself.
func known(how string) func(starlark.Tuple) (starlark.Value, error) {
	return func(args starlark.Tuple) (starlark.Value, error) {
		if u, ok := args[0].(effect.Unknown); ok {
			return nil, u.Deferred(how)
		}
		return args[0], nil
	}
}

// isScalar reports whether v can neither be nor hold an Unknown or a secret.
func isScalar(v starlark.Value) bool {
	switch v.(type) {
	case starlark.String, starlark.Int, starlark.Bool, starlark.NoneType, starlark.Float:
		return true
	}
	return false
}

func comparison(name string, op syntax.Token) *starlark.Builtin {
	return operator(name, 2, func(args starlark.Tuple) (starlark.Value, error) {
		x, y := args[0], args[1]
		if !isScalar(x) || !isScalar(y) {
			for _, v := range args {
				if u, ok := effect.FindUnknown(v); ok {
					return nil, u.Deferred("compared")
				}
			}
			x, y = sameTaint(x, y)
			if op == syntax.EQL || op == syntax.NEQ {
				x, y = opened(x, y)
			}
		}
		ok, err := starlark.Compare(op, x, y)
		return starlark.Bool(ok), err
	})
}

// sameTaint makes a secret comparable with a text.
func sameTaint(x, y starlark.Value) (starlark.Value, starlark.Value) {
	_, xs := x.(*effect.Secret)
	_, ys := y.(*effect.Secret)
	if s, ok := x.(starlark.String); ok && ys {
		return effect.SecretOf(string(s), ""), y
	}
	if s, ok := y.(starlark.String); ok && xs {
		return x, effect.SecretOf(string(s), "")
	}
	return x, y
}

// opened makes collections that hold secrets comparable with those that hold
// texts. Secrets themselves are compared in constant time.
func opened(x, y starlark.Value) (starlark.Value, starlark.Value) {
	if _, ok := x.(*effect.Secret); ok {
		return x, y
	}
	return effect.Open(x), effect.Open(y)
}

func membership(name string, op syntax.Token) *starlark.Builtin {
	return operator(name, 2, func(args starlark.Tuple) (starlark.Value, error) {
		for i, v := range args {
			if isScalar(v) {
				continue
			}
			u, ok := effect.FindUnknown(v)
			if d, isDict := v.(*starlark.Dict); isDict && i == 1 { // only the keys count
				u, ok = effect.FindUnknown(starlark.NewList(d.Keys()))
			}
			if ok {
				return nil, u.Deferred("searched with `in`")
			}
		}
		if effect.FindSecret(args) != nil {
			return amongTexts(op, args[0], args[1])
		}
		return starlark.Binary(op, args[0], args[1])
	})
}

// amongTexts is `in` where secrets are compared with texts.
func amongTexts(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	if _, isSecret := y.(*effect.Secret); isSecret {
		return nil, fault.Hinted(fault.Invalid, "compare it as a whole, with ==, or search in a value that isn't secret",
			"a secret can't be searched with `in`: the answer would tell a part of it")
	}
	it, ok := y.(starlark.Iterable)
	if _, isDict := y.(*starlark.Dict); !ok || isDict {
		return nil, fault.New(fault.Invalid, "a secret can be searched for in a list of texts only")
	}
	iter := it.Iterate()
	defer iter.Done()
	found := false
	var e starlark.Value
	for iter.Next(&e) {
		a, b := opened(sameTaint(x, e))
		same, err := starlark.Equal(a, b)
		if err != nil {
			return nil, err
		}
		found = found || same
	}
	return starlark.Bool(found == (op == syntax.IN)), nil
}

// mod is the operator %: formatting keeps what it is given unknown or secret.
func mod(args starlark.Tuple) (starlark.Value, error) {
	secret, _ := args[0].(*effect.Secret)
	format, ok := args[0].(starlark.String)
	if secret != nil {
		format, ok = starlark.String(secret.Reveal()), true
	}
	if !ok {
		return starlark.Binary(syntax.PERCENT, args[0], args[1])
	}
	operands := args[1]
	v, err := tainted(operands, func(plain func(starlark.Value) starlark.Value) (starlark.Value, error) {
		return starlark.Binary(syntax.PERCENT, format, plain(operands))
	})
	return ofSecret(secret, "%", v, err)
}

// ofSecret makes what became of a secret by the operator or method called name
// secret. An error may quote the secret, so it isn't told.
func ofSecret(secret *effect.Secret, name string, v starlark.Value, err error) (starlark.Value, error) {
	if secret == nil {
		return v, err
	}
	if err != nil {
		if kind := fault.KindOf(err); kind != fault.Internal {
			return nil, err // it is one of this package
		}
		return nil, fault.Hinted(fault.Invalid, "the reason could hold a part of it", "a secret can't be used so with %s", name)
	}
	return secret.Taint(v), nil
}

// shift is << and >>, which look at what is on their right before they ask it.
func shift(op syntax.Token) func(starlark.Tuple) (starlark.Value, error) {
	return func(args starlark.Tuple) (starlark.Value, error) {
		if u, ok := args[1].(effect.Unknown); ok {
			return u, nil
		}
		return starlark.Binary(op, args[0], args[1])
	}
}

// tainted makes text from operands: it is Unknown if one of them is, and
// secret if one of them is. A secret deeper within an operand is refused,
// since the text would hold the mask in its place.
func tainted(operands starlark.Value, text func(plain func(starlark.Value) starlark.Value) (starlark.Value, error)) (starlark.Value, error) {
	if u, ok := effect.FindUnknown(operands); ok {
		return u, nil
	}
	secret := effect.FindSecret(operands)
	if secret == nil {
		return text(func(v starlark.Value) starlark.Value { return v })
	}
	if deepSecret(operands) {
		return nil, fault.Hinted(fault.Invalid, "put the secret itself into the text, not what holds it",
			"a value that holds a secret was put into text")
	}
	v, err := text(reveal)
	return ofSecret(secret, "text", v, err)
}

// deepSecret reports whether a secret lies deeper in v than v itself, or than
// the elements of v if it is a tuple or a dict of operands.
func deepSecret(v starlark.Value) bool {
	top := func(x starlark.Value) bool {
		_, ok := x.(*effect.Secret)
		return !ok && effect.FindSecret(x) != nil
	}
	switch v := v.(type) {
	case starlark.Tuple:
		for _, x := range v {
			if top(x) {
				return true
			}
		}
		return false
	case *starlark.Dict:
		for _, item := range v.Items() {
			if top(item[1]) {
				return true
			}
		}
		return false
	}
	return top(v)
}

// reveal returns v with the secrets at its top level as plain text.
func reveal(v starlark.Value) starlark.Value {
	switch v := v.(type) {
	case *effect.Secret:
		return starlark.String(v.Reveal())
	case starlark.Tuple:
		out := make(starlark.Tuple, len(v))
		for i, x := range v {
			out[i] = reveal(x)
		}
		return out
	case *starlark.List:
		out := make([]starlark.Value, v.Len())
		for i := range out {
			out[i] = reveal(v.Index(i))
		}
		return starlark.NewList(out)
	case *starlark.Dict:
		out := starlark.NewDict(v.Len())
		for _, item := range v.Items() {
			_ = out.SetKey(item[0], reveal(item[1])) // a key of one dict fits another
		}
		return out
	}
	return v
}
