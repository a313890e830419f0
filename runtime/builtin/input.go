package builtin

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// input is one call: the function and what it was given.
type input struct {
	fn     *Func
	name   string // full name, for messages
	args   starlark.Tuple
	kwargs []starlark.Tuple
}

// unpack sets the fields of a. If a parameter that must be known was given a
// value that isn't, it returns that value.
func (in *input) unpack(a reflect.Value) (*effect.Unknown, error) {
	given := make([]starlark.Value, len(in.fn.Params))
	if err := in.assign(given); err != nil {
		return nil, err
	}
	var unknown *effect.Unknown
	for i, p := range in.fn.Params {
		v := given[i]
		if v == nil {
			if p.Required {
				return nil, in.errorf("missing argument %s: %s", p.Name, p.Doc)
			}
			continue
		}
		if v == starlark.None && !p.Required {
			continue
		}
		// A handle whose data isn't known yet plans by itself what is done with it.
		if _, isHandle := v.(*Handle); !p.unknown && !isHandle {
			if u, ok := effect.FindUnknown(v); ok {
				unknown = &u
				continue
			}
		}
		err := p.admits(v)
		if err == nil {
			err = unpackValue(a.Field(p.index), v)
		}
		if err != nil {
			e := in.errorf("argument %s: %v", p.Name, err)
			e.Err = fmt.Errorf("%s: argument %s: %w", in.name, p.Name, err)
			if hint := fault.HintOf(err); hint != "" {
				e.Hint = hint
			}
			return nil, e
		}
	}
	return unknown, nil
}

// assign maps the arguments to the parameters.
func (in *input) assign(given []starlark.Value) error {
	pos := 0
	for i, p := range in.fn.Params {
		if !p.Positional {
			continue
		}
		if pos < len(in.args) {
			given[i] = in.args[pos]
			pos++
		}
	}
	if pos < len(in.args) {
		return in.errorf("got %d arguments by position, want at most %d; give the rest by name", len(in.args), pos)
	}
	for _, kw := range in.kwargs {
		name := string(kw[0].(starlark.String))
		i := in.index(name)
		if i < 0 {
			return in.unexpected(name)
		}
		if given[i] != nil {
			return in.errorf("argument %s is given twice", name)
		}
		given[i] = kw[1]
	}
	return nil
}

func (in *input) index(name string) int {
	for i, p := range in.fn.Params {
		if p.Name == name {
			return i
		}
	}
	return -1
}

func (in *input) unexpected(name string) error {
	names := make([]string, len(in.fn.Params))
	for i, p := range in.fn.Params {
		names[i] = p.Name
	}
	e := in.errorf("unknown argument %s", name)
	if near := Nearest(name, names); near != "" {
		e.Hint = "did you mean " + near + "?"
	} else {
		e.Hint = "it takes " + strings.Join(names, ", ")
	}
	return e
}

func (in *input) errorf(format string, args ...any) *fault.Error {
	return &fault.Error{Kind: fault.Invalid, Err: fmt.Errorf(in.name+": "+format, args...),
		Hint: fmt.Sprintf("see: gsrun doc %s", in.name)}
}

// later is the result of a call that can't be made yet, for u isn't known.
func (in *input) later(ctx context.Context, u effect.Unknown) (any, error) {
	switch in.fn.Effect {
	case Connect:
		// What would be done through it couldn't be planned, and would be missing.
		return nil, u.Deferred("needed by " + in.name + "()")
	case Changes:
		// All that is known of where the change will be is the module.
		module, _, _ := strings.Cut(in.name, ".")
		// Of a noun's verb it is a target of that noun; else it may be anything there.
		reach := module + "/*"
		if parts := strings.Split(in.name, "."); len(parts) > 3 {
			reach += "/" + parts[len(parts)-2] + "/"
		}
		if _, err := effect.DoLater(ctx, effect.Target{Scope: module, Name: in.name + " of " + u.Of}, reach); err != nil {
			return nil, err
		}
	}
	return effect.Unknown{Of: in.name + "()"}, nil
}

// admits refuses what the parameter's tags rule out.
func (p Param) admits(v starlark.Value) error {
	switch _, text := v.(starlark.String); {
	case p.secret == "never" && effect.FindSecret(v) != nil:
		return fault.New(fault.Invalid, "it can't be a secret: it is shown to everybody who may see what it is part of")
	case p.secret == "only" && text && v.Truth() == starlark.True:
		return fault.Hinted(fault.Invalid, "get it by secret() or crypto.password()", "it is no secret, and would show")
	case p.of == "":
		return nil
	}
	items := []starlark.Value{v}
	if l, ok := v.(*starlark.List); ok {
		items = make([]starlark.Value, l.Len())
		for i := range items {
			items[i] = l.Index(i)
		}
	}
	module, _, _ := strings.Cut(p.of, ".")
	for _, x := range items {
		if kind := x.Type(); kind != p.of && strings.HasPrefix(kind, module+".") {
			return fault.New(fault.Invalid, "got %s, want %s", kind, p.of)
		}
	}
	return nil
}

// unpackValue sets the field dst from v.
func unpackValue(dst reflect.Value, v starlark.Value) error {
	if u, ok := dst.Addr().Interface().(starlark.Unpacker); ok {
		return u.Unpack(v)
	}
	if dst.Type() == reflect.TypeFor[starlark.Value]() {
		dst.Set(reflect.ValueOf(v))
		return nil
	}
	if dst.Type() == reflect.TypeFor[starlark.Callable]() {
		c, ok := v.(starlark.Callable)
		if !ok {
			return wrong(v, "function")
		}
		dst.Set(reflect.ValueOf(c))
		return nil
	}
	if _, ok := v.(*effect.Secret); ok {
		return fault.New(fault.Invalid, "it can't be a secret")
	}
	if dst.Type() == reflect.TypeFor[time.Duration]() {
		return unpackDuration(dst, v)
	}
	switch dst.Kind() {
	case reflect.String:
		s, ok := starlark.AsString(v)
		if !ok {
			return wrong(v, "string")
		}
		dst.SetString(s)
		return nil
	case reflect.Bool:
		b, ok := v.(starlark.Bool)
		if !ok {
			return wrong(v, "bool")
		}
		dst.SetBool(bool(b))
		return nil
	case reflect.Int, reflect.Int64:
		n, ok := v.(starlark.Int)
		if !ok {
			return wrong(v, "int")
		}
		i, ok := n.Int64()
		if !ok || dst.OverflowInt(i) {
			return fault.New(fault.Invalid, "%s is too large", v)
		}
		dst.SetInt(i)
		return nil
	case reflect.Float64:
		f, ok := starlark.AsFloat(v)
		if !ok || math.IsNaN(f) {
			return wrong(v, "number")
		}
		dst.SetFloat(f)
		return nil
	case reflect.Slice:
		return unpackSlice(dst, v)
	case reflect.Map:
		return unpackMap(dst, v)
	case reflect.Pointer:
		if k := dst.Type().Elem().Kind(); k == reflect.Bool || k == reflect.Int {
			p := reflect.New(dst.Type().Elem())
			if err := unpackValue(p.Elem(), v); err != nil {
				return err
			}
			dst.Set(p)
			return nil
		}
	}
	return unpackHandle(dst, v)
}

func unpackDuration(dst reflect.Value, v starlark.Value) error {
	s, ok := starlark.AsString(v)
	if !ok {
		return wrong(v, `duration such as "30s" or "5m"`)
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return fault.New(fault.Invalid, `%q is no duration such as "30s" or "5m"`, s)
	}
	dst.SetInt(int64(d))
	return nil
}

func unpackSlice(dst reflect.Value, v starlark.Value) error {
	if _, isString := v.(starlark.String); isString {
		return wrong(v, "list")
	}
	it, ok := v.(starlark.Iterable)
	if !ok {
		return wrong(v, "list")
	}
	iter := it.Iterate()
	defer iter.Done()
	out := reflect.MakeSlice(dst.Type(), 0, 4)
	var x starlark.Value
	for i := 0; iter.Next(&x); i++ {
		e := reflect.New(dst.Type().Elem()).Elem()
		if err := unpackValue(e, x); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
		out = reflect.Append(out, e)
	}
	dst.Set(out)
	return nil
}

func unpackMap(dst reflect.Value, v starlark.Value) error {
	d, ok := v.(*starlark.Dict)
	if !ok {
		return wrong(v, "dict")
	}
	out := reflect.MakeMap(dst.Type())
	for _, item := range d.Items() {
		k, ok := starlark.AsString(item[0])
		if !ok {
			return fmt.Errorf("key %s: %w", item[0], wrong(item[0], "string"))
		}
		e := reflect.New(dst.Type().Elem()).Elem()
		if err := unpackValue(e, item[1]); err != nil {
			return fmt.Errorf("[%q]: %w", k, err)
		}
		out.SetMapIndex(reflect.ValueOf(k), e)
	}
	dst.Set(out)
	return nil
}

func unpackHandle(dst reflect.Value, v starlark.Value) error {
	if h, ok := v.(*Handle); ok {
		if r := reflect.ValueOf(h.recv); r.Type().AssignableTo(dst.Type()) {
			dst.Set(r)
			return nil
		}
	}
	if r := reflect.ValueOf(v); r.Type().AssignableTo(dst.Type()) {
		dst.Set(r)
		return nil
	}
	return fault.New(fault.Invalid, "got %s, which can't be used here", v.Type())
}

func wrong(v starlark.Value, want string) error {
	return fault.New(fault.Invalid, "got %s, want %s", v.Type(), want)
}
