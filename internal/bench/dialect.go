package main

import (
	"context"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
)

// language measures a million comparisons as recipes make them, each of which
// asks whether its operands are known, beside the interpreter's own.
func language(context.Context, string) ([]figure, error) {
	src := []byte("def f():\n    n = 0\n    for i in range(1000000):\n        if i == 5:\n            n += 1\n    return n\n\nf()\n")
	f, err := dialect.Compile("bench.star", src, func(string) bool { return false })
	if err != nil {
		return nil, err
	}
	_, plain, err := starlark.SourceProgramOptions(new(syntax.FileOptions), "bench.star", src, func(string) bool { return false })
	if err != nil {
		return nil, err
	}
	ours := func() error {
		_, err := f.Init(new(starlark.Thread), nil)
		return err
	}
	theirs := func() error {
		_, err := plain.Init(new(starlark.Thread), nil)
		return err
	}
	var times [2]time.Duration
	for i, run := range []func() error{ours, theirs} {
		if times[i], err = median(9, run); err != nil {
			return nil, err
		}
	}
	return []figure{{"dialect/million-comparisons", ms(times[0]), "ms", "starlark-go", ms(times[1]), "3x"}}, nil
}
