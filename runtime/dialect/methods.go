package dialect

import (
	"strings"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// guarded are the names of methods that decide on their arguments, or put them
// into text.
var guarded = func() map[string]bool {
	m := make(map[string]bool)
	for _, v := range []starlark.HasAttrs{starlark.String(""), new(starlark.List), new(starlark.Dict), new(starlark.Set)} {
		for _, name := range v.AttrNames() {
			m[name] = true
		}
	}
	for _, name := range []string{"append", "clear", "items", "keys", "values", "popitem"} {
		delete(m, name) // they look at nothing
	}
	return m
}()

// textual are the methods of strings that make text of their arguments.
var textual = map[string]bool{"format": true, "join": true, "replace": true, "removeprefix": true, "removesuffix": true,
	"strip": true, "lstrip": true, "rstrip": true}

// attr returns x.name, where name is that of a guarded method.
func attr(args starlark.Tuple) (starlark.Value, error) {
	name := string(args[1].(starlark.String))
	switch x := args[0].(type) {
	case starlark.String:
		return method(x, name, nil)
	case *effect.Secret:
		if strings.HasPrefix(name, "elem") || strings.HasPrefix(name, "codepoint") {
			return nil, fault.New(fault.Invalid, "a secret can't be taken apart with %s()", name)
		}
		return method(starlark.String(x.Reveal()), name, x)
	case *starlark.List, *starlark.Dict, *starlark.Set:
		m, err := x.(starlark.HasAttrs).Attr(name)
		if m == nil || err != nil {
			return nil, orMissing(x, name, err)
		}
		return collected(m.(*starlark.Builtin), x), nil
	case starlark.HasAttrs:
		m, err := x.Attr(name)
		if m == nil || err != nil {
			return nil, orMissing(x, name, err)
		}
		return m, nil
	}
	return nil, orMissing(args[0], name, nil)
}

func orMissing(x starlark.Value, name string, err error) error {
	if err != nil {
		return err
	}
	return fault.New(fault.Invalid, "%s has no .%s field or method", x.Type(), name)
}

// method returns the method of the string x, which is the text of the secret if
// there is one; the result is secret then.
func method(x starlark.String, name string, secret *effect.Secret) (starlark.Value, error) {
	m, err := x.Attr(name)
	if m == nil || err != nil {
		return nil, orMissing(x, name, err)
	}
	b := m.(*starlark.Builtin)
	return starlark.NewBuiltin(b.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		all := operandsOf(args, kwargs)
		if !textual[name] {
			if u, ok := effect.FindUnknown(all); ok {
				return nil, u.Deferred("passed to " + name + "()")
			}
		}
		v, err := tainted(flatten(all, name), func(plain func(starlark.Value) starlark.Value) (starlark.Value, error) {
			kw := make([]starlark.Tuple, len(kwargs))
			for i, pair := range kwargs {
				kw[i] = starlark.Tuple{pair[0], plain(pair[1])}
			}
			return b.CallInternal(thread, plain(args).(starlark.Tuple), kw)
		})
		return ofSecret(secret, name+"()", v, err)
	}), nil
}

func operandsOf(args starlark.Tuple, kwargs []starlark.Tuple) starlark.Tuple {
	all := append(starlark.Tuple(nil), args...)
	for _, pair := range kwargs {
		all = append(all, pair[1])
	}
	return all
}

// flatten makes the elements that join is given operands of their own.
func flatten(all starlark.Tuple, name string) starlark.Value {
	if name != "join" || len(all) != 1 {
		return all
	}
	it, ok := all[0].(starlark.Iterable)
	if !ok {
		return all
	}
	var out starlark.Tuple
	iter := it.Iterate()
	defer iter.Done()
	var x starlark.Value
	for iter.Next(&x) {
		out = append(out, x)
	}
	return out
}

// collected returns the method m of a list, dict or set, which may decide on
// its arguments.
func collected(m *starlark.Builtin, recv starlark.Value) starlark.Value {
	return starlark.NewBuiltin(m.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		for _, v := range decidedOn(m.Name(), recv, args, kwargs) {
			if u, ok := effect.FindUnknown(v); ok {
				return nil, u.Deferred("passed to " + m.Name() + "()")
			}
			if effect.FindSecret(v) != nil {
				return nil, fault.New(fault.Invalid, "a secret can't be searched for with %s()", m.Name())
			}
		}
		if _, isSet := recv.(*starlark.Set); isSet && len(args) == 0 && relations[m.Name()] {
			return nil, fault.New(fault.Invalid, "%s: missing argument", m.Name()) // Starlark's own panics
		}
		return m.CallInternal(thread, args, kwargs)
	})
}

// relations are the methods of sets that take one other collection.
var relations = map[string]bool{"difference": true, "intersection": true, "issubset": true, "issuperset": true, "symmetric_difference": true}

// decidedOn returns what the method of a collection has to know to do its
// work; that can be less than its arguments.
func decidedOn(method string, recv starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) starlark.Tuple {
	if len(args) == 0 {
		return operandsOf(args, kwargs)
	}
	_, isDict := recv.(*starlark.Dict)
	switch method {
	case "index", "remove":
		return append(operandsOf(args, kwargs), recv)
	case "insert": // the other is only put in
		return args[:1]
	case "extend":
		return itself(args[0])
	}
	if !isDict {
		return operandsOf(args, kwargs)
	}
	switch method {
	case "get", "pop", "setdefault":
		return args[:1] // the other is only put in, or returned
	case "update":
		return keysOf(args[0])
	}
	return operandsOf(args, kwargs)
}

// itself returns v if it is Unknown itself.
func itself(v starlark.Value) starlark.Tuple {
	if _, ok := v.(effect.Unknown); ok {
		return starlark.Tuple{v}
	}
	return nil
}

// keysOf returns what has to be known of a dict, or of a sequence of pairs,
// to make a dict of it.
func keysOf(v starlark.Value) starlark.Tuple {
	if _, isDict := v.(starlark.IterableMapping); isDict {
		return nil
	}
	it, ok := v.(starlark.Iterable)
	if !ok {
		return itself(v)
	}
	var out starlark.Tuple
	iter := it.Iterate()
	defer iter.Done()
	var pair starlark.Value
	for iter.Next(&pair) {
		if seq, ok := pair.(starlark.Indexable); ok && seq.Len() > 0 {
			out = append(out, seq.Index(0))
		} else {
			out = append(out, itself(pair)...)
		}
	}
	return out
}
