package coreutils

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func xargs(ctx context.Context, p *machine.Proc) int {
	o := p.Options("+0|null n|max-args: I|replace: r|no-run-if-empty P|max-procs: t|verbose d|delimiter: L: a|arg-file: x")
	if o == nil {
		return 1
	}
	data, err := io.ReadAll(p.In(ctx))
	if err != nil && ctx.Err() == nil {
		return p.Fail(1, "%s", machine.Strerror(err))
	}
	var items []string
	switch {
	case o.Has("0"):
		items = strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
	case o.Has("d"):
		d := unescape(o.Get("d"))
		items = strings.Split(strings.TrimSuffix(string(data), d), d)
	case o.Has("I") || o.Has("L"):
		for line := range strings.SplitSeq(string(data), "\n") {
			if line = strings.TrimSpace(line); line != "" {
				items = append(items, line)
			}
		}
	default:
		items = machine.Words(string(data))
	}
	if len(data) == 0 {
		items = nil
	}
	base := o.Args
	if len(base) == 0 {
		base = []string{"echo"}
	}
	if len(items) == 0 && (o.Has("r") || o.Has("I")) {
		return 0
	}
	n := len(items)
	if v := cmp.Or(o.Get("n"), o.Get("L")); v != "" {
		if n, err = strconv.Atoi(v); err != nil || n < 1 {
			return p.Fail(1, "invalid number \"%s\" for -n option", v)
		}
	}
	if o.Has("I") {
		n = 1
	}
	code := 0
	for first := true; first || len(items) > 0; first = false {
		some := items[:min(n, len(items))]
		items = items[len(some):]
		args := slices.Clone(base)
		if o.Has("I") {
			for i, a := range args {
				args[i] = strings.ReplaceAll(a, o.Get("I"), some[0])
			}
		} else {
			args = append(args, some...)
		}
		if o.Has("t") {
			fmt.Fprintln(p.Stderr, strings.Join(args, " "))
		}
		status, err := p.Run(ctx, machine.Cmd{Args: args, Stdin: nil})
		switch {
		case err != nil:
			return p.Fail(status, "%s: %v", args[0], err)
		case status == 255:
			return p.Fail(124, "%s: exited with status 255; aborting", args[0])
		case status != 0:
			code = 123
		}
		if ctx.Err() != nil {
			break
		}
	}
	return code
}
