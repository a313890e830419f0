// Package json is the module that encodes and decodes JSON.
package json

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// maxDepth bounds nested values.
const maxDepth = 100

// Module returns the module.
func Module() *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "json",
		Doc: "JSON. Dicts keep their order, in both directions. Text made from a secret is secret, and text made from a value that isn't known yet isn't known either; " +
			"what is decoded from a secret has its texts secret.",
		Funcs: []builtin.Func{encode(), decode(), indent()},
	})
}

type encodeArgs struct {
	X      starlark.Value `star:"x,required" doc:"None, bool, number, string, list, tuple, dict with string keys, struct, or what a primitive returned."`
	Indent string         `star:"indent" doc:"What to indent nested lines by; empty for one line."`
}

func encode() builtin.Func {
	return builtin.Of(builtin.Spec[any, encodeArgs]{
		Name:    "encode",
		Doc:     "Write a value as JSON.",
		Returns: "str",
		Example: `text = json.encode({"name": "eu-1", "replicas": 3}, indent = "  ")`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, _ any, a encodeArgs) (any, error) {
			if u, ok := effect.FindUnknown(a.X); ok {
				return u, nil
			}
			if strings.Trim(a.Indent, " \t") != "" {
				return nil, fault.New(fault.Invalid, "json.encode: indent is %q, want spaces or tabs", a.Indent)
			}
			e := encoder{}
			if err := e.encode(a.X, 0); err != nil {
				return nil, &fault.Error{Op: "writing JSON", Kind: fault.Invalid, Err: err}
			}
			out := e.b.Bytes()
			if a.Indent != "" {
				var b bytes.Buffer
				if err := json.Indent(&b, out, "", a.Indent); err != nil {
					return nil, &fault.Error{Op: "indenting JSON", Kind: fault.Internal, Err: err}
				}
				out = b.Bytes()
			}
			return e.from.Text(ctx, string(out)), nil
		},
	})
}

// encoder writes a value, with its secrets, and remembers that there were some.
type encoder struct {
	b    bytes.Buffer
	from effect.Origin
}

func (e *encoder) encode(v starlark.Value, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("the value is nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case starlark.NoneType:
		e.b.WriteString("null")
	case starlark.Bool:
		e.b.WriteString(strconv.FormatBool(bool(v)))
	case starlark.Int:
		e.b.WriteString(v.String())
	case starlark.Float:
		return e.float(float64(v))
	case starlark.String:
		return e.text(string(v))
	case *effect.Secret:
		return e.text(e.from.Reveal(v))
	case *starlark.Dict:
		return e.object(v.Items(), depth)
	case *starlark.List, starlark.Tuple:
		return e.list(v.(starlark.Sequence), depth)
	case *starlarkstruct.Struct:
		return e.fields(v, depth)
	case *effect.Object:
		return e.fields(v, depth)
	case effect.Attributer:
		if d := v.Data(); d != nil {
			return e.fields(d, depth)
		}
		return fmt.Errorf("a %s isn't data", v.Type())
	default:
		return fmt.Errorf("a %s can't be written as JSON", v.Type())
	}
	return nil
}

func (e *encoder) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("%v can't be written as JSON", f)
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	e.b.WriteString(s)
	return nil
}

func (e *encoder) text(s string) error {
	if !utf8.ValidString(s) {
		return errors.New("a string isn't valid UTF-8")
	}
	enc := json.NewEncoder(&e.b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return err
	}
	e.b.Truncate(e.b.Len() - 1) // the newline that Encode adds
	return nil
}

func (e *encoder) list(v starlark.Sequence, depth int) error {
	e.b.WriteByte('[')
	it := v.Iterate()
	defer it.Done()
	var x starlark.Value
	for i := 0; it.Next(&x); i++ {
		if i > 0 {
			e.b.WriteByte(',')
		}
		if err := e.encode(x, depth+1); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	e.b.WriteByte(']')
	return nil
}

func (e *encoder) object(items []starlark.Tuple, depth int) error {
	e.b.WriteByte('{')
	for i, item := range items {
		k, ok := starlark.AsString(item[0])
		if !ok {
			return fmt.Errorf("the key %s is a %s, want string", item[0], item[0].Type())
		}
		if i > 0 {
			e.b.WriteByte(',')
		}
		if err := e.text(k); err != nil {
			return err
		}
		e.b.WriteByte(':')
		if err := e.encode(item[1], depth+1); err != nil {
			return fmt.Errorf("[%q]: %w", k, err)
		}
	}
	e.b.WriteByte('}')
	return nil
}

func (e *encoder) fields(v starlark.HasAttrs, depth int) error {
	var items []starlark.Tuple
	for _, name := range v.AttrNames() {
		x, err := v.Attr(name)
		if err != nil {
			return err
		}
		items = append(items, starlark.Tuple{starlark.String(name), x})
	}
	return e.object(items, depth)
}

type decodeArgs struct {
	S effect.Text `star:"s,required" doc:"JSON text: one value."`
}

func decode() builtin.Func {
	return builtin.Of(builtin.Spec[any, decodeArgs]{
		Name:    "decode",
		Doc:     "Read JSON. Objects become dicts; a key that occurs twice is an error. Numbers without a fraction or exponent become ints.",
		Returns: "the value",
		Example: `replicas = json.decode('{"replicas": 3}')["replicas"]`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, _ any, a decodeArgs) (any, error) {
			if !a.S.Known() {
				return a.S.Value(), nil
			}
			from := effect.OriginOf(a.S)
			d := decoder{
				d:    json.NewDecoder(strings.NewReader(a.S.Reveal())),
				text: func(s string) starlark.Value { return from.Text(ctx, s) },
			}
			d.d.UseNumber()
			v, err := d.value(0)
			if err == nil {
				if _, err = d.d.Token(); errors.Is(err, io.EOF) {
					return v, nil
				}
				err = errors.New("there is more after the value")
			}
			if a.S.IsSecret() { // the message may quote the text
				return nil, fault.New(fault.Invalid, "the secret isn't JSON: an error at byte %d", d.d.InputOffset())
			}
			return nil, &fault.Error{Op: "reading JSON", Kind: fault.Invalid, Err: fmt.Errorf("at byte %d: %w", d.d.InputOffset(), err)}
		},
	})
}

type decoder struct {
	d    *json.Decoder
	text func(string) starlark.Value
}

func (d *decoder) value(depth int) (starlark.Value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	tok, err := d.d.Token()
	if errors.Is(err, io.EOF) {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case bool:
		return starlark.Bool(tok), nil
	case string:
		return d.text(tok), nil
	case json.Number:
		return number(string(tok))
	case json.Delim:
		if tok == '[' {
			return d.list(depth)
		}
		return d.dict(depth)
	}
	return starlark.None, nil
}

func number(s string) (starlark.Value, error) {
	if !strings.ContainsAny(s, ".eE") {
		if i, ok := new(big.Int).SetString(s, 10); ok {
			return starlark.MakeBigInt(i), nil
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("the number %s is too large", s)
	}
	return starlark.Float(f), nil
}

func (d *decoder) list(depth int) (starlark.Value, error) {
	items := []starlark.Value{}
	for d.d.More() {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	_, err := d.d.Token()
	return starlark.NewList(items), err
}

func (d *decoder) dict(depth int) (starlark.Value, error) {
	dict := starlark.NewDict(4)
	for d.d.More() {
		tok, err := d.d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := tok.(string)
		if !ok {
			return nil, fmt.Errorf("%v isn't a key", tok)
		}
		if _, twice, _ := dict.Get(starlark.String(key)); twice {
			return nil, fmt.Errorf("the key %q occurs twice", key)
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if err := dict.SetKey(starlark.String(key), v); err != nil {
			return nil, err
		}
	}
	_, err := d.d.Token()
	return dict, err
}

type indentArgs struct {
	S      effect.Text `star:"s,required" doc:"JSON text."`
	Prefix string      `star:"prefix" doc:"What each line but the first begins with."`
	Indent string      `star:"indent" doc:"What nested lines are indented by."`
}

func indent() builtin.Func {
	return builtin.Of(builtin.Spec[any, indentArgs]{
		Name:     "indent",
		Doc:      "Write JSON text on several lines, for people.",
		Returns:  "str",
		Example:  `text = json.indent('{"replicas":3}', indent = "  ")`,
		Effect:   builtin.Pure,
		Errors:   []fault.Kind{fault.Invalid},
		Defaults: indentArgs{Indent: "\t"},
		Run: func(ctx context.Context, _ any, a indentArgs) (any, error) {
			if !a.S.Known() {
				return a.S.Value(), nil
			}
			var b bytes.Buffer
			if err := json.Indent(&b, []byte(a.S.Reveal()), a.Prefix, a.Indent); err != nil {
				if a.S.IsSecret() {
					return nil, fault.New(fault.Invalid, "the secret isn't JSON")
				}
				return nil, &fault.Error{Op: "reading JSON", Kind: fault.Invalid, Err: err}
			}
			return effect.OriginOf(a.S).Text(ctx, b.String()), nil
		},
	})
}
