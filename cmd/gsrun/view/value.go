package view

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// masked stands for a secret. The digest only tells whether two differ; it is
// zero where the text itself isn't known. It is never shown.
type masked struct{ sum [sha256.Size]byte }

func mask(plain string) masked { return masked{sha256.Sum256([]byte(plain))} }

// opaque stands for a value that isn't data; its text is what to show.
type opaque string

// maxDepth bounds walks through nested values.
const maxDepth = 100

// normal returns x as one of: nil, bool, json.Number, string, []any,
// map[string]any, effect.Unknown, masked, opaque. Secrets are gone from it.
func normal(x any, r *effect.Redactor) any { return normalAt(x, r, 0) }

func normalAt(x any, r *effect.Redactor, depth int) any {
	if depth > maxDepth {
		return opaque("...")
	}
	switch x := x.(type) {
	case nil:
		return nil
	case masked, opaque, json.Number, bool:
		return x
	case effect.Unknown:
		return effect.Unknown{Of: r.String(x.Of)}
	case *effect.Secret:
		return mask(x.Reveal())
	case effect.Text:
		return normalAt(x.Value(), r, depth+1)
	case effect.Reference:
		return normalAt(x.ID, r, depth+1)
	case effect.Data:
		return normalAt(x.V, r, depth+1)
	case starlark.Value:
		data, err := effect.FromStarlark(x)
		if err != nil {
			return opaque(x.Type())
		}
		return normalAt(data, r, depth+1)
	case string:
		return text(x, r)
	case []byte:
		if utf8.Valid(x) {
			return text(string(x), r)
		}
		return text(base64.StdEncoding.EncodeToString(x), r)
	case time.Duration:
		return x.String()
	case time.Time:
		return x.Format(time.RFC3339Nano)
	case *big.Int:
		return json.Number(x.String())
	}
	return normalReflect(reflect.ValueOf(x), r, depth)
}

// text removes secrets from s. A text that was nothing but a secret is one.
func text(s string, r *effect.Redactor) any {
	if s == effect.Mask {
		return masked{}
	}
	shown := r.String(s)
	if shown == effect.Mask {
		return mask(s)
	}
	return shown
}

func normalReflect(v reflect.Value, r *effect.Redactor, depth int) any {
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return json.Number(strconv.FormatInt(v.Int(), 10))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return json.Number(strconv.FormatUint(v.Uint(), 10))
	case reflect.Float32, reflect.Float64:
		f := v.Float()
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return opaque(strconv.FormatFloat(f, 'g', -1, 64))
		}
		format := byte('f')
		if math.Abs(f) >= 1e15 || f != 0 && math.Abs(f) < 1e-6 {
			format = 'g'
		}
		return json.Number(strconv.FormatFloat(f, format, -1, 64))
	case reflect.Bool:
		return v.Bool()
	case reflect.String:
		return text(v.String(), r)
	case reflect.Slice, reflect.Array:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = normalAt(v.Index(i).Interface(), r, depth+1)
		}
		return out
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			out[r.String(fmt.Sprint(normalAt(it.Key().Interface(), nil, depth+1)))] = normalAt(it.Value().Interface(), r, depth+1)
		}
		return out
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return normalAt(v.Elem().Interface(), r, depth+1)
	}
	return opaque(v.Type().String())
}

// A pair is a difference made ready to be shown.
type pair struct {
	path     string
	old, new any
	// hidden says that both sides look alike, because a secret differs.
	hidden bool
}

// pairOf returns a field without secrets. Where one side has a secret, the
// other has one as well, even if it was observed as plain text.
func pairOf(f effect.Field, r *effect.Redactor) pair {
	p := pair{path: r.String(f.Path), old: normal(f.Old, r), new: normal(f.New, r)}
	spots := make(map[string]bool)
	secretSpots(p.old, "", spots)
	secretSpots(p.new, "", spots)
	if len(spots) == 0 {
		return p
	}
	p.old, p.new = hide(p.old, "", spots), hide(p.new, "", spots)
	p.hidden = alike(p.old, p.new)
	return p
}

// alike reports whether two values with secrets look the same.
func alike(old, new any) bool {
	return old != nil && new != nil && reflect.DeepEqual(forJSON(old), forJSON(new))
}

// secretSpots collects where x has secrets. The elements of a list are one spot:
// they may have moved.
func secretSpots(x any, at string, spots map[string]bool) {
	switch x := x.(type) {
	case masked:
		spots[at] = true
	case []any:
		for _, e := range x {
			secretSpots(e, at+"[]", spots)
		}
	case map[string]any:
		for k, e := range x {
			secretSpots(e, at+"."+k, spots)
		}
	}
}

// hide returns x with what lies at the spots masked.
func hide(x any, at string, spots map[string]bool) any {
	if spots[at] {
		switch x := x.(type) {
		case nil, effect.Unknown, masked:
			return x
		case string:
			return mask(x)
		}
		return masked{}
	}
	switch x := x.(type) {
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = hide(e, at+"[]", spots)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[k] = hide(e, at+"."+k, spots)
		}
		return out
	}
	return x
}

// forJSON returns a normal value as encoding/json writes it: a secret as
// "***", an Unknown as {"unknown": of}.
func forJSON(x any) any {
	switch x := x.(type) {
	case masked:
		return effect.Mask
	case opaque:
		return string(x)
	case effect.Unknown:
		return map[string]any{"unknown": x.Of}
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = forJSON(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[k] = forJSON(e)
		}
		return out
	}
	return x
}

// empty reports whether a normal value says nothing.
func empty(x any) bool {
	switch x := x.(type) {
	case nil:
		return true
	case string:
		return x == ""
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return false
}

// keysOf returns the keys of m in order.
func keysOf[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
