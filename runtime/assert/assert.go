// Package assert is the value `assert` of tests that are written in Starlark.
package assert

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Value returns `assert`: eq(x, y), true(x, msg), contains(text, part),
// fails(fn, text, kind), secret(x) and unknown(x).
func Value() starlark.Value {
	return &starlarkstruct.Module{Name: "assert", Members: starlark.StringDict{
		"eq":       starlark.NewBuiltin("assert.eq", equal),
		"true":     starlark.NewBuiltin("assert.true", isTrue),
		"contains": starlark.NewBuiltin("assert.contains", contains),
		"fails":    starlark.NewBuiltin("assert.fails", fails),
		"secret":   starlark.NewBuiltin("assert.secret", isSecret),
		"unknown":  starlark.NewBuiltin("assert.unknown", isUnknown),
	}}
}

func equal(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x, y starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &x, &y); err != nil {
		return nil, err
	}
	ok, err := starlark.Equal(x, y)
	if err != nil {
		return nil, fmt.Errorf("comparing %v with %v: %w", x, y, err)
	}
	if !ok {
		return nil, fmt.Errorf("got %v, want %v", x, y)
	}
	return starlark.None, nil
}

func isTrue(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x starlark.Value
	msg := "assertion failed"
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "x", &x, "msg?", &msg); err != nil {
		return nil, err
	}
	if !x.Truth() {
		return nil, fmt.Errorf("%s", msg)
	}
	return starlark.None, nil
}

func contains(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var s, part string
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &s, &part); err != nil {
		return nil, err
	}
	if !strings.Contains(s, part) {
		return nil, fmt.Errorf("%q does not contain %q", s, part)
	}
	return starlark.None, nil
}

func isUnknown(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &x); err != nil {
		return nil, err
	}
	if _, ok := x.(effect.Unknown); !ok {
		return nil, fmt.Errorf("got %v, want a value that isn't known yet", x)
	}
	return starlark.None, nil
}

// isSecret checks that a value is secret, and shows as one.
func isSecret(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x starlark.Value
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &x); err != nil {
		return nil, err
	}
	if s, ok := x.(*effect.Secret); !ok || s.String() != effect.Mask {
		return nil, fmt.Errorf("got %v, want a secret", x)
	}
	return starlark.None, nil
}

// fails calls fn and checks that it fails with an error that contains
// the text and, if given, is of the kind.
func fails(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var fn starlark.Callable
	var text, kind string
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "fn", &fn, "text", &text, "kind?", &kind); err != nil {
		return nil, err
	}
	_, err := starlark.Call(thread, fn, nil, nil)
	if err == nil {
		return nil, fmt.Errorf("no error, want one that contains %q", text)
	}
	if !strings.Contains(err.Error(), text) {
		return nil, fmt.Errorf("error %q does not contain %q", err, text)
	}
	if got := string(fault.KindOf(err)); kind != "" && got != kind {
		return nil, fmt.Errorf("error %q has kind %s, want %s", err, got, kind)
	}
	return starlark.None, nil
}
