// Package base64 is the module that encodes and decodes base64.
package base64

import (
	"context"
	"encoding/base64"
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
		Name:  "base64",
		Doc:   "Base64. What is made from a secret is secret, and what is made from a value that isn't known yet isn't known either.",
		Funcs: []builtin.Func{encode(), decode()},
	})
}

type encodeArgs struct {
	X   starlark.Value `star:"x,required" doc:"String or bytes."`
	URL bool           `star:"url" doc:"Use the alphabet for URLs and file names, without padding."`
}

func encode() builtin.Func {
	return builtin.Of(builtin.Spec[any, encodeArgs]{
		Name:    "encode",
		Doc:     "Write a string, in UTF-8, or bytes as base64.",
		Returns: "str",
		Example: `text = base64.encode("user:password")`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, _ any, a encodeArgs) (any, error) {
			enc := base64.StdEncoding
			if a.URL {
				enc = base64.RawURLEncoding
			}
			x, err := effect.TextOrBytes(a.X)
			if err != nil {
				return nil, fault.New(fault.Invalid, "base64.encode: %w", err)
			}
			return effect.OriginOf(x).Text(ctx, enc.EncodeToString([]byte(x.Reveal()))), nil
		},
	})
}

type decodeArgs struct {
	S     effect.Text `star:"s,required" doc:"Base64 text, of either alphabet, with or without padding and line ends."`
	Bytes bool        `star:"bytes" doc:"Return bytes instead of a string."`
}

func decode() builtin.Func {
	return builtin.Of(builtin.Spec[any, decodeArgs]{
		Name:    "decode",
		Doc:     "Read base64.",
		Returns: "str, or bytes",
		Example: `text = base64.decode("dXNlcjpwYXNzd29yZA==")`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, _ any, a decodeArgs) (any, error) {
			if !a.S.Known() {
				return a.S.Value(), nil
			}
			s := strings.TrimRight(strings.Join(strings.Fields(a.S.Reveal()), ""), "=")
			s = strings.NewReplacer("-", "+", "_", "/").Replace(s)
			raw, err := base64.RawStdEncoding.DecodeString(s)
			if err != nil {
				return nil, fault.New(fault.Invalid, "base64.decode: %v", err)
			}
			if a.S.IsSecret() {
				return effect.Derived(ctx, string(raw)), nil
			}
			if a.Bytes {
				return starlark.Bytes(raw), nil
			}
			if !utf8.Valid(raw) {
				return nil, fault.Hinted(fault.Invalid, "decode it with bytes = True", "base64.decode: the content is not UTF-8 text")
			}
			return string(raw), nil
		},
	})
}
