package dialect

import (
	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// universe are Starlark's own functions, where they would decide on a value
// that isn't known yet, or lose that a text is secret.
var universe = func() starlark.StringDict {
	d := make(starlark.StringDict)
	// These look at the value itself.
	for _, name := range []string{"len", "int", "float", "bool", "type", "hasattr", "dir", "hash", "ord", "chr", "range", "list", "tuple",
		"enumerate", "zip", "reversed", "abs"} {
		d[name] = checked(name, unknownItself)
	}
	d["dict"] = checked("dict", func(v starlark.Value) (effect.Unknown, bool) { return effect.FindUnknown(keysOf(v)) })
	// These look at the elements.
	for _, name := range []string{"any", "all", "sorted", "min", "max", "set", "bytes"} {
		d[name] = checked(name, effect.FindUnknown)
	}
	d["getattr"] = starlark.NewBuiltin("getattr", getattr)
	for _, name := range []string{"str", "repr"} {
		d[name] = textFunction(name)
	}
	return d
}()

func unknownItself(v starlark.Value) (effect.Unknown, bool) {
	u, ok := v.(effect.Unknown)
	return u, ok
}

func checked(name string, find func(starlark.Value) (effect.Unknown, bool)) *starlark.Builtin {
	b := starlark.Universe[name].(*starlark.Builtin)
	return starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		operands := operandsOf(args, kwargs)
		if name == "dict" {
			operands = args // what is given by name becomes a value
		}
		for _, v := range operands {
			if isScalar(v) {
				continue
			}
			if u, ok := find(v); ok {
				return nil, u.Deferred("passed to " + name + "()")
			}
			if _, ok := v.(*effect.Secret); ok && name != "type" && name != "bool" && name != "hasattr" && name != "len" {
				return nil, fault.New(fault.Invalid, "a secret can't be passed to %s()", name)
			}
		}
		if name == "len" && len(args) == 1 {
			if s, ok := args[0].(*effect.Secret); ok {
				return starlark.MakeInt(len(s.Reveal())), nil
			}
		}
		if name == "hasattr" && len(args) == 2 {
			if _, ok := args[0].(*effect.Secret); ok {
				args = starlark.Tuple{starlark.String(""), args[1]}
			}
		}
		return b.CallInternal(thread, args, knownKeys(name, kwargs))
	})
}

// knownKeys returns the arguments with the function that they name as the key
// of an order guarded: what it returns is compared.
func knownKeys(name string, kwargs []starlark.Tuple) []starlark.Tuple {
	if name != "sorted" && name != "min" && name != "max" {
		return kwargs
	}
	out := make([]starlark.Tuple, len(kwargs))
	for i, pair := range kwargs {
		out[i] = pair
		key, ok := pair[1].(starlark.Callable)
		if pair[0] != starlark.String("key") || !ok {
			continue
		}
		out[i] = starlark.Tuple{pair[0], starlark.NewBuiltin(key.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			v, err := starlark.Call(thread, key, args, kwargs)
			if err != nil {
				return nil, err
			}
			if u, ok := effect.FindUnknown(v); ok {
				return nil, u.Deferred("the key of " + name + "()")
			}
			if effect.FindSecret(v) != nil {
				return nil, fault.New(fault.Invalid, "a secret can't be the key of %s()", name)
			}
			return v, nil
		})}
	}
	return out
}

func textFunction(name string) *starlark.Builtin {
	b := starlark.Universe[name].(*starlark.Builtin)
	return starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if len(args) != 1 {
			return b.CallInternal(thread, args, kwargs)
		}
		return tainted(args, func(plain func(starlark.Value) starlark.Value) (starlark.Value, error) {
			return b.CallInternal(thread, plain(args).(starlark.Tuple), kwargs)
		})
	})
}

// getattr is Starlark's, which guards the same methods as x.name does.
func getattr(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	if len(args) >= 2 {
		if u, ok := args[1].(effect.Unknown); ok {
			return nil, u.Deferred("the name of an attribute")
		}
		if name, ok := starlark.AsString(args[1]); ok && guarded[name] {
			v, err := attr(args[:2])
			if err != nil && len(args) == 3 {
				return args[2], nil
			}
			return v, err
		}
	}
	return starlark.Universe["getattr"].(*starlark.Builtin).CallInternal(thread, args, kwargs)
}
