package effect

import (
	"fmt"
	"math/big"
	"reflect"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// Data is an argument of any JSON shape: nil, bool, int64, *big.Int, float64,
// string, []any, map[string]any, with Unknown and *Secret as leaves.
type Data struct{ V any }

// Unpack takes any value that FromStarlark takes.
func (d *Data) Unpack(v starlark.Value) error {
	x, err := FromStarlark(v)
	d.V = x
	return err
}

// FromStarlark returns v as Go data of the shapes that Data lists. Structs and
// objects become maps.
func FromStarlark(v starlark.Value) (any, error) { return fromStarlark(v, 0) }

func fromStarlark(v starlark.Value, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fault.New(fault.Invalid, "value is nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case nil, starlark.NoneType:
		return nil, nil
	case starlark.Bool:
		return bool(v), nil
	case starlark.Int:
		if i, ok := v.Int64(); ok {
			return i, nil
		}
		return v.BigInt(), nil
	case starlark.Float:
		return float64(v), nil
	case starlark.String:
		return string(v), nil
	case starlark.Bytes:
		return []byte(v), nil
	case Unknown, *Secret:
		return v, nil
	case *starlark.Dict:
		m := make(map[string]any, v.Len())
		for _, item := range v.Items() {
			k, ok := starlark.AsString(item[0])
			if !ok {
				return nil, fault.New(fault.Invalid, "dict key %s is a %s, want string", item[0], item[0].Type())
			}
			x, err := fromStarlark(item[1], depth+1)
			if err != nil {
				return nil, fmt.Errorf("[%q]: %w", k, err)
			}
			m[k] = x
		}
		return m, nil
	case *starlark.List, starlark.Tuple:
		seq := v.(starlark.Sequence)
		out := make([]any, 0, seq.Len())
		it := seq.Iterate()
		defer it.Done()
		var e starlark.Value
		for i := 0; it.Next(&e); i++ {
			x, err := fromStarlark(e, depth+1)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			out = append(out, x)
		}
		return out, nil
	}
	if f, ok := fieldsOf(v); ok {
		m := make(map[string]any)
		for _, name := range f.AttrNames() {
			e, err := f.Attr(name)
			if err != nil {
				return nil, err
			}
			if m[name], err = fromStarlark(e, depth+1); err != nil {
				return nil, fmt.Errorf(".%s: %w", name, err)
			}
		}
		return m, nil
	}
	return nil, fault.New(fault.Invalid, "a %s isn't data", v.Type())
}

// ToStarlark returns Go data as a Starlark value; maps become dicts with their
// keys in order. It panics on a type that isn't data, which is a defect of the
// primitive that made it.
func ToStarlark(x any) starlark.Value {
	switch x := x.(type) {
	case nil:
		return starlark.None
	case starlark.Value:
		return x
	case Text:
		return ToStarlark(x.Value())
	case Reference:
		return ToStarlark(x.ID)
	case Data:
		return ToStarlark(x.V)
	case bool:
		return starlark.Bool(x)
	case string:
		return starlark.String(x)
	case []byte:
		return starlark.Bytes(x)
	case int:
		return starlark.MakeInt(x)
	case int64:
		return starlark.MakeInt64(x)
	case *big.Int:
		return starlark.MakeBigInt(x)
	case float64:
		return starlark.Float(x)
	case time.Duration:
		return starlark.String(x.String())
	case []string:
		l := make([]starlark.Value, len(x))
		for i, e := range x {
			l[i] = starlark.String(e)
		}
		return starlark.NewList(l)
	case []any:
		l := make([]starlark.Value, len(x))
		for i, e := range x {
			l[i] = ToStarlark(e)
		}
		return starlark.NewList(l)
	case map[string]string:
		d := starlark.NewDict(len(x))
		for _, k := range sortedKeys(x) {
			_ = d.SetKey(starlark.String(k), starlark.String(x[k])) // a new dict takes any string key
		}
		return d
	case map[string]any:
		d := starlark.NewDict(len(x))
		for _, k := range sortedKeys(x) {
			_ = d.SetKey(starlark.String(k), ToStarlark(x[k])) // a new dict takes any string key
		}
		return d
	}
	switch v := reflect.ValueOf(x); v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return starlark.MakeInt64(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return starlark.MakeUint64(v.Uint())
	case reflect.Float32:
		return starlark.Float(v.Float())
	case reflect.String:
		return starlark.String(v.String())
	case reflect.Slice:
		l := make([]starlark.Value, v.Len())
		for i := range v.Len() {
			l[i] = ToStarlark(v.Index(i).Interface())
		}
		return starlark.NewList(l)
	}
	panic(fmt.Sprintf("effect: %T is not data", x))
}

// walk calls f on v and on all data within it until f returns false.
func walk(v starlark.Value, depth int, f func(starlark.Value) bool) bool {
	if v == nil || depth > maxDepth {
		return true
	}
	if !f(v) {
		return false
	}
	switch v := v.(type) {
	case starlark.String, starlark.Bytes, Unknown, *Secret:
	case *starlark.Dict:
		for _, item := range v.Items() {
			if !walk(item[0], depth+1, f) || !walk(item[1], depth+1, f) {
				return false
			}
		}
	case starlark.Sequence:
		it := v.Iterate()
		defer it.Done()
		var x starlark.Value
		for it.Next(&x) {
			if !walk(x, depth+1, f) {
				return false
			}
		}
	default:
		fs, ok := fieldsOf(v)
		if !ok {
			break
		}
		for _, name := range fs.AttrNames() {
			if x, err := fs.Attr(name); err == nil && !walk(x, depth+1, f) {
				return false
			}
		}
	}
	return true
}

// NewStruct returns a Starlark struct of the given fields.
func NewStruct(fields starlark.StringDict) *starlarkstruct.Struct {
	return starlarkstruct.FromStringDict(starlarkstruct.Default, fields)
}
