// Package csv is the module that reads and writes comma-separated values.
package csv

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Module returns the module.
func Module() *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "csv",
		Doc: "Comma-separated values (RFC 4180). Text made from a secret is secret, and text made from a value that isn't known yet isn't known either; " +
			"what is decoded from a secret is secret.",
		Funcs: []builtin.Func{decode(), encode()},
	})
}

func separator(s string) (rune, error) {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 || n != len(s) || strings.ContainsRune("\"\r\n", r) || r == utf8.RuneError {
		return 0, fault.New(fault.Invalid, "csv: the separator must be one character, not %q", s)
	}
	return r, nil
}

type decodeArgs struct {
	S         effect.Text `star:"s,required" doc:"The text."`
	Header    bool        `star:"header" doc:"The first row names the columns: return dicts."`
	Separator string      `star:"separator" doc:"The character between fields."`
}

func decode() builtin.Func {
	return builtin.Of(builtin.Spec[any, decodeArgs]{
		Name:     "decode",
		Doc:      "Read rows. All must have the same number of fields.",
		Returns:  "list[list[str]], or list[dict[str, str]] with a header",
		Example:  `hosts = csv.decode("name,address\ngw,10.20.0.1\n", header = True)`,
		Effect:   builtin.Pure,
		Errors:   []fault.Kind{fault.Invalid},
		Defaults: decodeArgs{Separator: ","},
		Run: func(ctx context.Context, _ any, a decodeArgs) (any, error) {
			sep, err := separator(a.Separator)
			if err != nil || !a.S.Known() {
				return a.S.Value(), err
			}
			r := csv.NewReader(strings.NewReader(a.S.Reveal()))
			r.Comma = sep
			rows, err := r.ReadAll()
			if err != nil {
				return nil, &fault.Error{Op: "reading CSV", Kind: fault.Invalid, Err: err} // it names the line, not the text
			}
			from := effect.OriginOf(a.S)
			keep := func(s string) starlark.Value { return from.Text(ctx, s) }
			if !a.Header {
				return lists(rows, keep), nil
			}
			return dicts(rows, keep)
		},
	})
}

func lists(rows [][]string, keep func(string) starlark.Value) *starlark.List {
	out := make([]starlark.Value, len(rows))
	for i, row := range rows {
		fields := make([]starlark.Value, len(row))
		for j, f := range row {
			fields[j] = keep(f)
		}
		out[i] = starlark.NewList(fields)
	}
	return starlark.NewList(out)
}

func dicts(rows [][]string, keep func(string) starlark.Value) (any, error) {
	out := []starlark.Value{}
	if len(rows) == 0 {
		return starlark.NewList(out), nil
	}
	for i, name := range rows[0] {
		if slices.Contains(rows[0][:i], name) {
			return nil, fault.New(fault.Invalid, "reading CSV: two columns have the same name")
		}
	}
	for _, row := range rows[1:] {
		d := starlark.NewDict(len(row))
		for j, f := range row {
			if err := d.SetKey(starlark.String(rows[0][j]), keep(f)); err != nil {
				return nil, err
			}
		}
		out = append(out, d)
	}
	return starlark.NewList(out), nil
}

type encodeArgs struct {
	Rows      effect.Data `star:"rows,required" doc:"List of lists of strings, numbers, bools or None (empty); or list of dicts, with columns."`
	Columns   []string    `star:"columns" doc:"Names of the columns: they become the first row, and say which keys of dicts to write."`
	Separator string      `star:"separator" doc:"The character between fields."`
}

func encode() builtin.Func {
	return builtin.Of(builtin.Spec[any, encodeArgs]{
		Name:     "encode",
		Doc:      "Write rows.",
		Returns:  "str",
		Example:  `text = csv.encode([{"name": "gw", "address": "10.20.0.1"}], columns = ["name", "address"])`,
		Effect:   builtin.Pure,
		Errors:   []fault.Kind{fault.Invalid},
		Defaults: encodeArgs{Separator: ","},
		Run: func(ctx context.Context, _ any, a encodeArgs) (any, error) {
			sep, err := separator(a.Separator)
			if err != nil {
				return nil, err
			}
			if u, ok := a.Rows.V.(effect.Unknown); ok {
				return u, nil
			}
			rows, ok := a.Rows.V.([]any)
			if !ok {
				return nil, fault.New(fault.Invalid, "csv.encode: rows must be a list")
			}
			w := writer{columns: a.Columns}
			var out [][]string
			if len(a.Columns) > 0 {
				out = append(out, a.Columns)
			}
			for i, row := range rows {
				fields, err := w.row(row)
				if err != nil {
					return nil, fault.New(fault.Invalid, "csv.encode: row %d: %w", i, err)
				}
				out = append(out, fields)
			}
			var b bytes.Buffer
			cw := csv.NewWriter(&b)
			cw.Comma = sep
			if err := cw.WriteAll(out); err != nil {
				return nil, &fault.Error{Op: "writing CSV", Kind: fault.Invalid, Err: err}
			}
			return w.from.Text(ctx, b.String()), nil
		},
	})
}

// writer makes fields of data, and remembers what they came from.
type writer struct {
	columns []string
	from    effect.Origin
}

func (w *writer) row(row any) ([]string, error) {
	var values []any
	switch row := row.(type) {
	case []any:
		values = row
		if len(w.columns) > 0 && len(row) != len(w.columns) {
			return nil, fmt.Errorf("it has %d fields, but there are %d columns", len(row), len(w.columns))
		}
	case map[string]any:
		if len(w.columns) == 0 {
			return nil, fmt.Errorf("it is a dict: name the columns")
		}
		for _, c := range w.columns {
			v, ok := row[c]
			if !ok {
				return nil, fmt.Errorf("it has no %q", c)
			}
			values = append(values, v)
		}
	case effect.Unknown:
		w.from.Lack(row)
	default:
		return nil, fmt.Errorf("it is neither a list nor a dict")
	}
	fields := make([]string, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
		case effect.Unknown:
			w.from.Lack(v)
		case *effect.Secret:
			fields[i] = w.from.Reveal(v)
		case string:
			fields[i] = v
		case bool, int64, float64, fmt.Stringer:
			fields[i] = fmt.Sprint(v)
		default:
			return nil, fmt.Errorf("field %d is neither text nor a number", i)
		}
	}
	return fields, nil
}
