// Package labtest gives tests in Starlark the value `lab`, which makes the lab
// that they run against go wrong.
package labtest

import (
	"go.starlark.net/lib/json"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab"
)

// Value returns `lab` for tests that run against the lab of in:
//
//	lab.fault.openstack(method = "POST", path = "/networks", reset = "after")
//	lab.fault.list()      # structs with part, id, hits and spec
//	lab.fault.clear(id)   # or all
//
// There is a function for each of lab.Parts, which takes the part's fields by
// name and returns the fault's id. More are further members of it.
func Value(in lab.Injector, more starlark.StringDict) starlark.Value {
	members := starlark.StringDict{"list": list(in), "clear": clearFaults(in)}
	for _, part := range lab.PartNames() {
		members[part] = inject(in, part)
	}
	all := starlark.StringDict{"fault": &starlarkstruct.Module{Name: "lab.fault", Members: members}}
	for name, v := range more {
		all[name] = v
	}
	return &starlarkstruct.Module{Name: "lab", Members: all}
}

func inject(in lab.Injector, part string) starlark.Value {
	return starlark.NewBuiltin("lab.fault."+part, func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if len(args) > 0 {
			return nil, fault.Hinted(fault.Invalid, `write it as in count = 2`, "%s takes the fields of the fault by name", b.Name())
		}
		spec := starlark.NewDict(len(kwargs))
		for _, kv := range kwargs {
			if err := spec.SetKey(kv[0], kv[1]); err != nil {
				return nil, err
			}
		}
		raw, err := starlark.Call(thread, json.Module.Members["encode"], starlark.Tuple{spec}, nil)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s: %v", b.Name(), err)
		}
		id, err := in.Inject(part, []byte(string(raw.(starlark.String))))
		if err != nil {
			return nil, err
		}
		return starlark.String(id), nil
	})
}

func list(in lab.Injector) starlark.Value {
	return starlark.NewBuiltin("lab.fault.list", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if err := starlark.UnpackArgs(b.Name(), args, kwargs); err != nil {
			return nil, err
		}
		all, err := in.Faults()
		if err != nil {
			return nil, err
		}
		out := make([]starlark.Value, len(all))
		for i, f := range all {
			spec := starlark.NewDict(len(f.Spec))
			for name, v := range f.Spec {
				if err := spec.SetKey(starlark.String(name), plain(v)); err != nil {
					return nil, err
				}
			}
			out[i] = starlarkstruct.FromStringDict(starlarkstruct.Default, starlark.StringDict{"part": starlark.String(f.Part),
				"id": starlark.String(f.ID), "hits": starlark.MakeInt(f.Hits), "spec": spec})
		}
		return starlark.NewList(out), nil
	})
}

// plain returns a field of a fault: a text, a whole number, a truth, or texts
// by name.
func plain(v any) starlark.Value {
	switch v := v.(type) {
	case string:
		return starlark.String(v)
	case bool:
		return starlark.Bool(v)
	case float64:
		return starlark.MakeInt(int(v))
	case map[string]any:
		d := starlark.NewDict(len(v))
		for name, x := range v {
			_ = d.SetKey(starlark.String(name), plain(x)) // a text can be a key, and nobody iterates over d
		}
		return d
	}
	return starlark.None
}

func clearFaults(in lab.Injector) starlark.Value {
	return starlark.NewBuiltin("lab.fault.clear", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var id string
		if err := starlark.UnpackArgs(b.Name(), args, kwargs, "id?", &id); err != nil {
			return nil, err
		}
		n, err := in.ClearFaults(id)
		return starlark.MakeInt(n), err
	})
}
