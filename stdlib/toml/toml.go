// Package toml is the module that encodes and decodes TOML.
package toml

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	tomlv2 "github.com/pelletier/go-toml/v2"
	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Module returns the module.
func Module() *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "toml",
		Doc: "TOML 1.0. Keys are written in alphabetical order. Text made from a secret is secret, and text made from a value that isn't known yet isn't known either; " +
			"what is decoded from a secret has its texts secret.",
		Funcs: []builtin.Func{encode(), decode()},
	})
}

type encodeArgs struct {
	X effect.Data `star:"x,required" doc:"Dict with string keys, struct, or what a primitive returned. TOML has no None."`
}

func encode() builtin.Func {
	return builtin.Of(builtin.Spec[any, encodeArgs]{
		Name:    "encode",
		Doc:     "Write a dict as TOML.",
		Returns: "str",
		Example: `text = toml.encode({"version": 3, "plugins": {"sandbox": "registry.k8s.io/pause:3.10"}})`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, _ any, a encodeArgs) (any, error) {
			p := plain{}
			x, err := p.of(a.X.V)
			if !p.from.Known() {
				return p.from.Text(ctx, ""), nil
			}
			if err != nil {
				return nil, &fault.Error{Op: "writing TOML", Kind: fault.Invalid, Err: err}
			}
			if _, ok := x.(map[string]any); !ok {
				return nil, fault.New(fault.Invalid, "toml.encode: a TOML text is a dict or struct")
			}
			var b bytes.Buffer
			if err := tomlv2.NewEncoder(&b).Encode(x); err != nil {
				return nil, &fault.Error{Op: "writing TOML", Kind: fault.Invalid, Err: err}
			}
			return p.from.Text(ctx, b.String()), nil
		},
	})
}

// plain reveals the secrets in data, and remembers that there were some.
type plain struct{ from effect.Origin }

func (p *plain) of(x any) (any, error) {
	switch x := x.(type) {
	case effect.Unknown:
		p.from.Lack(x)
		return "", nil
	case *effect.Secret:
		return p.from.Reveal(x), nil
	case nil:
		return nil, errors.New("TOML has no None: leave the key out")
	case []byte:
		return nil, errors.New("TOML has no bytes")
	case *big.Int:
		return nil, fmt.Errorf("%s is too large for TOML", x)
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%v isn't a number that other readers take", x)
		}
	case map[string]any:
		m := make(map[string]any, len(x))
		var first error
		for k, v := range x {
			y, err := p.of(v)
			if err != nil && first == nil {
				first = fmt.Errorf("[%q]: %w", k, err)
			}
			m[k] = y
		}
		return m, first
	case []any:
		l := make([]any, len(x))
		var first error
		for i, v := range x {
			y, err := p.of(v)
			if err != nil && first == nil {
				first = fmt.Errorf("[%d]: %w", i, err)
			}
			l[i] = y
		}
		return l, first
	}
	return x, nil
}

type decodeArgs struct {
	S effect.Text `star:"s,required" doc:"TOML text."`
}

func decode() builtin.Func {
	return builtin.Of(builtin.Spec[any, decodeArgs]{
		Name:    "decode",
		Doc:     "Read TOML. Dates and times become strings; keys come in alphabetical order.",
		Returns: "dict",
		Example: `version = toml.decode("version = 3\n")["version"]`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, _ any, a decodeArgs) (any, error) {
			if !a.S.Known() {
				return a.S.Value(), nil
			}
			m := make(map[string]any)
			if err := tomlv2.Unmarshal([]byte(a.S.Reveal()), &m); err != nil {
				if a.S.IsSecret() { // the message may quote the text
					return nil, fault.New(fault.Invalid, "the secret isn't TOML")
				}
				var where *tomlv2.DecodeError
				if errors.As(err, &where) {
					row, _ := where.Position()
					err = fmt.Errorf("line %d: %w", row, err)
				}
				return nil, &fault.Error{Op: "reading TOML", Kind: fault.Invalid, Err: err}
			}
			from := effect.OriginOf(a.S)
			text := func(s string) any { return from.Text(ctx, s) }
			return effect.ToStarlark(data(m, text)), nil
		},
	})
}

// data returns what the library made as data.
func data(x any, text func(string) any) any {
	switch x := x.(type) {
	case map[string]any:
		m := make(map[string]any, len(x))
		for k, v := range x {
			m[k] = data(v, text)
		}
		return m
	case []any:
		l := make([]any, len(x))
		for i, v := range x {
			l[i] = data(v, text)
		}
		return l
	case string:
		return text(x)
	case time.Time:
		return text(x.Format(time.RFC3339Nano))
	case fmt.Stringer: // the library's local dates and times
		return text(x.String())
	case float64:
		return starlark.Float(x)
	}
	return x
}
