package effect

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Vault turns secrets into text that may be stored, and back.
type Vault interface {
	// Seal returns what to store in place of s: a reference to its source, or
	// its text encrypted.
	Seal(s *Secret) (string, error)
	// Open returns the secret that Seal gave this text for.
	Open(ctx context.Context, sealed string) (*Secret, error)
}

// A Codec turns values into the form that the journal keeps, and back: JSON,
// in which an object with one key that begins with a dollar sign stands for
// what JSON lacks:
//
//	{"$struct": {...}}           a struct
//	{"$object": [kind, {...}]}   what a primitive returned
//	{"$dict": [[key, value]]}    a dict with keys that aren't strings, or that begin with $
//	{"$bytes": "base64"}         bytes
//	{"$secret": "sealed"}        a secret
//	{"$sealed": "sealed"}        a text that isn't declared secret, but holds one
//	{"$unknown": "of what"}      a value not known before it is applied
//
// Tuples become lists. Dicts keep their order.
type Codec struct {
	Vault    Vault
	Redactor *Redactor // finds the texts that hold a secret; nil finds none
}

// Encode returns the journal's form of v.
func (c Codec) Encode(v starlark.Value) ([]byte, error) {
	var b bytes.Buffer
	if err := c.encode(&b, v, 0); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (c Codec) encode(b *bytes.Buffer, v starlark.Value, depth int) error {
	if depth > maxDepth {
		return fault.New(fault.Invalid, "value is nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case nil, starlark.NoneType:
		b.WriteString("null")
	case starlark.Bool:
		b.WriteString(strconv.FormatBool(bool(v)))
	case starlark.Int:
		b.WriteString(v.String())
	case starlark.Float:
		return encodeFloat(b, float64(v))
	case starlark.String:
		if !utf8.ValidString(string(v)) {
			return fault.Hinted(fault.Invalid, "use bytes", "a string isn't valid UTF-8")
		}
		if c.Redactor.String(string(v)) != string(v) {
			return c.seal(b, "$sealed", SecretOf(string(v), ""))
		}
		encodeString(b, string(v))
	case starlark.Bytes:
		b.WriteString(`{"$bytes":"` + base64.StdEncoding.EncodeToString([]byte(v)) + `"}`)
	case Unknown:
		b.WriteString(`{"$unknown":`)
		encodeString(b, v.Of)
		b.WriteByte('}')
	case *Secret:
		return c.seal(b, "$secret", v)
	case *starlark.Dict:
		return c.encodeDict(b, v, depth)
	case *starlark.List, starlark.Tuple:
		return c.encodeList(b, v.(starlark.Iterable), depth)
	default:
		return c.encodeFields(b, v, depth)
	}
	return nil
}

// seal writes a secret under the given key.
func (c Codec) seal(b *bytes.Buffer, key string, s *Secret) error {
	if c.Vault == nil {
		return fault.New(fault.Invalid, "a secret can't be kept here")
	}
	sealed, err := c.Vault.Seal(s)
	if err != nil {
		return err
	}
	b.WriteString(`{"` + key + `":`)
	encodeString(b, sealed)
	b.WriteByte('}')
	return nil
}

func encodeFloat(b *bytes.Buffer, f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fault.New(fault.Invalid, "%v can't be kept as JSON", f)
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	b.WriteString(s)
	return nil
}

func encodeString(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)         // a string into memory always encodes
	b.Truncate(b.Len() - 1) // the newline that Encode adds
}

func (c Codec) encodeList(b *bytes.Buffer, v starlark.Iterable, depth int) error {
	b.WriteByte('[')
	it := v.Iterate()
	defer it.Done()
	var x starlark.Value
	for i := 0; it.Next(&x); i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := c.encode(b, x, depth+1); err != nil {
			return fmt.Errorf("[%d]: %w", i, err)
		}
	}
	b.WriteByte(']')
	return nil
}

func (c Codec) encodeDict(b *bytes.Buffer, d *starlark.Dict, depth int) error {
	plain := true
	for _, k := range d.Keys() {
		s, ok := starlark.AsString(k)
		plain = plain && ok && !strings.HasPrefix(s, "$") && utf8.ValidString(s) && c.Redactor.String(s) == s
	}
	open, sep, end := "{", ":", "}"
	if !plain {
		b.WriteString(`{"$dict":[`)
		open, sep, end = "[", ",", "]"
	} else {
		b.WriteByte('{')
	}
	for i, item := range d.Items() {
		if i > 0 {
			b.WriteByte(',')
		}
		if !plain {
			b.WriteString(open)
		}
		if err := c.encode(b, item[0], depth+1); err != nil {
			return err
		}
		b.WriteString(sep)
		if err := c.encode(b, item[1], depth+1); err != nil {
			return fmt.Errorf("[%s]: %w", item[0], err)
		}
		if !plain {
			b.WriteString(end)
		}
	}
	if !plain {
		b.WriteString(`]}`)
	} else {
		b.WriteByte('}')
	}
	return nil
}

func (c Codec) encodeFields(b *bytes.Buffer, v starlark.Value, depth int) error {
	var f starlark.HasAttrs
	end := "}}"
	switch v := v.(type) {
	case *starlarkstruct.Struct:
		f = v
		b.WriteString(`{"$struct":{`)
	case Attributer:
		if d := v.Data(); d != nil {
			return c.encodeFields(b, d, depth)
		}
		return notData(v)
	case *Object:
		f = v
		b.WriteString(`{"$object":[`)
		encodeString(b, v.kind)
		b.WriteString(",{")
		end = "}]}"
	default:
		return notData(v)
	}
	for i, name := range f.AttrNames() {
		if i > 0 {
			b.WriteByte(',')
		}
		encodeString(b, name)
		b.WriteByte(':')
		x, err := f.Attr(name)
		if err != nil {
			return err
		}
		if err := c.encode(b, x, depth+1); err != nil {
			return fmt.Errorf(".%s: %w", name, err)
		}
	}
	b.WriteString(end)
	return nil
}

func notData(v starlark.Value) error {
	return fault.Hinted(fault.Invalid, "return data: its attributes, a struct, a list, a dict, a text or a number",
		"a %s can't leave its step", v.Type())
}

// Decode returns the value that Encode gave the form of, frozen.
func (c Codec) Decode(ctx context.Context, form []byte) (starlark.Value, error) {
	d := json.NewDecoder(bytes.NewReader(form))
	d.UseNumber()
	v, err := c.decode(ctx, d)
	if err != nil {
		return nil, fault.Wrap("reading", "a stored value", err)
	}
	v.Freeze()
	return v, nil
}

func (c Codec) decode(ctx context.Context, d *json.Decoder) (starlark.Value, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case nil:
		return starlark.None, nil
	case bool:
		return starlark.Bool(tok), nil
	case string:
		return starlark.String(tok), nil
	case json.Number:
		return decodeNumber(string(tok))
	case json.Delim:
		if tok == '[' {
			items, err := c.decodeItems(ctx, d)
			return starlark.NewList(items), err
		}
	}
	return c.decodeObject(ctx, d)
}

func decodeNumber(s string) (starlark.Value, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		return starlark.Float(f), err
	}
	i, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, fmt.Errorf("bad number %q", s)
	}
	return starlark.MakeBigInt(i), nil
}

// decodeItems reads values up to the closing bracket.
func (c Codec) decodeItems(ctx context.Context, d *json.Decoder) ([]starlark.Value, error) {
	var items []starlark.Value
	for d.More() {
		v, err := c.decode(ctx, d)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	_, err := d.Token()
	return items, err
}

// decodeObject reads an object after its opening brace.
func (c Codec) decodeObject(ctx context.Context, d *json.Decoder) (starlark.Value, error) {
	dict := starlark.NewDict(4)
	for first := true; d.More(); first = false {
		tok, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := tok.(string)
		if first && strings.HasPrefix(key, "$") {
			v, err := c.decodeSpecial(ctx, d, key)
			if err != nil {
				return nil, err
			}
			_, err = d.Token() // the closing brace
			return v, err
		}
		v, err := c.decode(ctx, d)
		if err != nil {
			return nil, err
		}
		if err := dict.SetKey(starlark.String(key), v); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return dict, err
}

func (c Codec) decodeSpecial(ctx context.Context, d *json.Decoder, key string) (starlark.Value, error) {
	v, err := c.decode(ctx, d)
	if err != nil {
		return nil, err
	}
	text, _ := starlark.AsString(v)
	switch key {
	case "$struct":
		if m, ok := v.(*starlark.Dict); ok {
			return NewStruct(attrsOf(m)), nil
		}
	case "$object":
		if l, ok := v.(*starlark.List); ok && l.Len() == 2 {
			kind, _ := starlark.AsString(l.Index(0))
			if m, ok := l.Index(1).(*starlark.Dict); ok {
				attrs := attrsOf(m)
				attrs.Freeze()
				return &Object{kind: kind, attrs: attrs}, nil
			}
		}
	case "$dict":
		if l, ok := v.(*starlark.List); ok {
			return decodePairs(l)
		}
	case "$bytes":
		raw, err := base64.StdEncoding.DecodeString(text)
		return starlark.Bytes(raw), err
	case "$unknown":
		return Unknown{Of: text}, nil
	case "$secret", "$sealed":
		if c.Vault == nil {
			return nil, fault.New(fault.Invalid, "a stored secret can't be opened here")
		}
		s, err := c.Vault.Open(ctx, text)
		if err != nil {
			return nil, err
		}
		if key == "$sealed" {
			return starlark.String(s.plain), nil
		}
		return s, nil
	}
	return nil, fault.New(fault.Invalid, "unknown form %q", key)
}

func decodePairs(l *starlark.List) (starlark.Value, error) {
	dict := starlark.NewDict(l.Len())
	for i := range l.Len() {
		pair, ok := l.Index(i).(*starlark.List)
		if !ok || pair.Len() != 2 {
			return nil, fault.New(fault.Invalid, "bad pair in a stored dict")
		}
		key := pair.Index(0)
		if l, ok := key.(*starlark.List); ok { // keys can't be lists: it was a tuple
			parts := make(starlark.Tuple, l.Len())
			for i := range parts {
				parts[i] = l.Index(i)
			}
			key = parts
		}
		if err := dict.SetKey(key, pair.Index(1)); err != nil {
			return nil, err
		}
	}
	return dict, nil
}

func attrsOf(m *starlark.Dict) starlark.StringDict {
	attrs := make(starlark.StringDict, m.Len())
	for _, item := range m.Items() {
		name, _ := starlark.AsString(item[0])
		attrs[name] = item[1]
	}
	return attrs
}
