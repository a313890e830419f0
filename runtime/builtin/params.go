package builtin

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// params reads the parameters from the fields of the argument struct t.
func params(fn string, t reflect.Type, defaults reflect.Value) []Param {
	var out []Param
	for i := range t.NumField() {
		sf := t.Field(i)
		name, opt, _ := strings.Cut(sf.Tag.Get("star"), ",")
		p := Param{Name: name, Doc: sf.Tag.Get("doc"), Required: opt == "required", Positional: opt == "required" || opt == "positional", index: i}
		if p.Name == "" || p.Doc == "" {
			panic(fmt.Sprintf("builtin %s: field %s needs the tags star and doc", fn, sf.Name))
		}
		if opt != "" && opt != "required" && opt != "positional" {
			panic(fmt.Sprintf("builtin %s: field %s: unknown option %q", fn, sf.Name, opt))
		}
		p.Type, p.unknown = typeName(fn, sf)
		p.secret, p.of = sf.Tag.Get("secret"), sf.Tag.Get("of")
		if p.secret != "" && p.secret != "never" && p.secret != "only" {
			panic(fmt.Sprintf("builtin %s: field %s: unknown rule for secrets %q", fn, sf.Name, p.secret))
		}
		if !p.Required {
			p.Default = literal(defaults.Field(i).Interface())
		}
		out = append(out, p)
	}
	return out
}

// typeName returns how a parameter's type is written in the reference, and
// whether its Go type can hold a value that isn't known yet.
func typeName(fn string, sf reflect.StructField) (name string, unknown bool) {
	switch sf.Type {
	case reflect.TypeFor[effect.Text]():
		return "str", true
	case reflect.TypeFor[effect.Reference]():
		return "id or object", true
	case reflect.TypeFor[effect.LocalFile]():
		return "fetched file", false
	case reflect.TypeFor[effect.Data]():
		return "any", true
	case reflect.TypeFor[[]effect.Text]():
		return "list[str]", true
	case reflect.TypeFor[[]effect.Reference]():
		return "list[id or object]", true
	case reflect.TypeFor[map[string]effect.Text]():
		return "dict[str, str]", true
	case reflect.TypeFor[starlark.Value]():
		return "any", true
	case reflect.TypeFor[starlark.Callable]():
		return "function", false
	case reflect.TypeFor[time.Duration]():
		return "duration", false
	}
	switch sf.Type.Kind() {
	case reflect.String:
		return "str", false
	case reflect.Bool:
		return "bool", false
	case reflect.Int, reflect.Int64:
		return "int", false
	case reflect.Float64:
		return "float", false
	case reflect.Interface:
		return handleName(sf), false
	case reflect.Pointer:
		switch sf.Type.Elem().Kind() {
		case reflect.Bool:
			return "bool", false
		case reflect.Int:
			return "int", false
		case reflect.Struct:
			return handleName(sf), false
		}
	case reflect.Slice:
		switch sf.Type.Elem().Kind() {
		case reflect.String:
			return "list[str]", false
		case reflect.Pointer, reflect.Interface:
			return "list[" + handleName(sf) + "]", false
		}
	case reflect.Map:
		if sf.Type.Key().Kind() == reflect.String && sf.Type.Elem().Kind() == reflect.String {
			return "dict[str, str]", false
		}
	}
	panic(fmt.Sprintf("builtin %s: field %s: no parameter can have type %v", fn, sf.Name, sf.Type))
}

// handleName is the tag `type` of a field that takes a handle, else "handle".
func handleName(sf reflect.StructField) string {
	if n := sf.Tag.Get("type"); n != "" {
		return n
	}
	return "handle"
}

// literal writes a default as it would stand in a recipe.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case time.Duration:
		if v == 0 {
			return "None"
		}
		return strconv.Quote(shortDuration(v))
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return strconv.Quote(v)
	case effect.Text:
		if v.Empty() {
			return "None"
		}
		return strconv.Quote(v.String())
	case effect.Reference, effect.Data, effect.LocalFile, starlark.Value:
		return "None"
	case []string:
		quoted := make([]string, len(v))
		for i, s := range v {
			quoted[i] = strconv.Quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case map[string]string:
		var pairs []string
		for k, s := range v {
			pairs = append(pairs, strconv.Quote(k)+": "+strconv.Quote(s))
		}
		sort.Strings(pairs)
		return "{" + strings.Join(pairs, ", ") + "}"
	}
	switch rv := reflect.ValueOf(v); rv.Kind() {
	case reflect.Slice:
		return "[]"
	case reflect.Map:
		return "{}"
	case reflect.Pointer:
		if rv.IsNil() {
			return "None"
		}
		return literal(rv.Elem().Interface())
	}
	return fmt.Sprint(v)
}

// shortDuration writes 5m instead of 5m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
