package dialect

import (
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// unpack returns its first argument, which is about to be taken apart by the
// pattern that the second describes: a dot for a variable, brackets around a
// pattern within.
func unpack(args starlark.Tuple) (starlark.Value, error) {
	_, err := unpackable(args[0], string(args[1].(starlark.String)))
	return args[0], err
}

func unpackable(v starlark.Value, pattern string) (rest string, err error) {
	if u, ok := v.(effect.Unknown); ok {
		return "", u.Deferred("taken apart")
	}
	seq, ok := v.(starlark.Indexable)
	rest = pattern[1:] // the opening bracket
	for i := 0; rest[0] != ')'; i++ {
		if rest[0] == '.' {
			rest = rest[1:]
			continue
		}
		var part starlark.Value = starlark.None
		if ok && i < seq.Len() {
			part = seq.Index(i)
		}
		if rest, err = unpackable(part, rest); err != nil {
			return "", err
		}
	}
	return rest[1:], nil
}

// each returns its first argument, which a loop is about to go through while
// it takes each element apart by a pattern.
func each(args starlark.Tuple) (starlark.Value, error) {
	if u, ok := args[0].(effect.Unknown); ok {
		return nil, u.Deferred("iterated over")
	}
	it, ok := args[0].(starlark.Iterable)
	if !ok {
		return args[0], nil
	}
	iter := it.Iterate()
	defer iter.Done()
	var x starlark.Value
	for iter.Next(&x) {
		if _, err := unpackable(x, string(args[1].(starlark.String))); err != nil {
			return nil, err
		}
	}
	return args[0], nil
}

// replaced are the functions that take the place of operators which an
// augmented assignment names by their function.
var replaced = map[string]func(starlark.Tuple) (starlark.Value, error){"$mod": mod, "$shl": shift(syntax.LTLT), "$shr": shift(syntax.GTGT)}

// assignIndex is x[i] %= y, for the operator that the fourth argument names.
func assignIndex(args starlark.Tuple) (starlark.Value, error) {
	x, i, op := args[0], args[1], replaced[string(args[3].(starlark.String))]
	if _, err := known("assigned to")(args[:1]); err != nil {
		return nil, err
	}
	if u, ok := effect.FindUnknown(i); ok {
		return nil, u.Deferred("used as a key")
	}
	if d, ok := x.(starlark.HasSetKey); ok {
		old, found, err := d.Get(i)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, fault.New(fault.Invalid, "key %v not in %s", i, x.Type())
		}
		v, err := op(starlark.Tuple{old, args[2]})
		if err != nil {
			return nil, err
		}
		return starlark.None, d.SetKey(i, v)
	}
	l, ok := x.(starlark.HasSetIndex)
	if !ok {
		return nil, fault.New(fault.Invalid, "%s value does not support item assignment", x.Type())
	}
	n, err := starlark.AsInt32(i)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s index: got %s, want int", x.Type(), i.Type())
	}
	if n < 0 {
		n += l.Len()
	}
	if n < 0 || n >= l.Len() {
		return nil, fault.New(fault.Invalid, "%s index %v out of range", x.Type(), i)
	}
	v, err := op(starlark.Tuple{l.Index(n), args[2]})
	if err != nil {
		return nil, err
	}
	return starlark.None, l.SetIndex(n, v)
}

// assignField is x.name %= y, of which no value of recipes is capable.
func assignField(args starlark.Tuple) (starlark.Value, error) {
	if _, err := known("assigned to")(args[:1]); err != nil {
		return nil, err
	}
	return nil, fault.New(fault.Invalid, "can't assign to .%s field of %s", string(args[1].(starlark.String)), args[0].Type())
}
