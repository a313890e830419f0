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

func seq(ctx context.Context, p *machine.Proc) int {
	o := p.Options("s|separator: w|equal-width f|format:")
	if o == nil {
		return 1
	}
	var n []int
	for _, a := range o.Args {
		v, err := strconv.Atoi(a)
		if err != nil {
			return p.Fail(1, "invalid floating point argument: '%s'", a)
		}
		n = append(n, v)
	}
	from, step := 1, 1
	switch len(n) {
	case 1:
	case 2:
		from = n[0]
	case 3:
		from, step = n[0], n[1]
	default:
		return p.Fail(1, "missing operand")
	}
	if step == 0 {
		return p.Fail(1, "invalid Zero increment value: '0'")
	}
	to := n[len(n)-1]
	width := 0
	if o.Has("w") {
		width = max(len(strconv.Itoa(from)), len(strconv.Itoa(to)))
	}
	sep := "\n"
	if o.Has("s") {
		sep = o.Get("s")
	}
	w := newBatch(p)
	first := true
	for i := from; (step > 0 && i <= to || step < 0 && i >= to) && !p.Broken() && ctx.Err() == nil; i += step {
		if !first {
			w.add(sep)
		}
		first = false
		w.add(fmt.Sprintf("%0*d", width, i))
	}
	if !first {
		w.add("\n")
	}
	w.flush()
	return 0
}

// batch collects small writes.
type batch struct {
	p   *machine.Proc
	buf []byte
}

func newBatch(p *machine.Proc) *batch { return &batch{p: p} }

func (b *batch) add(s string) {
	b.buf = append(b.buf, s...)
	if len(b.buf) > 32<<10 {
		b.flush()
	}
}

func (b *batch) flush() {
	if len(b.buf) > 0 {
		_, _ = b.p.Write(b.buf) // Broken tells
		b.buf = b.buf[:0]
	}
}

func yes(ctx context.Context, p *machine.Proc) int {
	line := "y\n"
	if len(p.Args) > 1 {
		line = strings.Join(p.Args[1:], " ") + "\n"
	}
	w := newBatch(p)
	for ctx.Err() == nil && !p.Broken() {
		w.add(line)
	}
	return 1
}

func nl(ctx context.Context, p *machine.Proc) int {
	o := p.Options("b: w: s: v:")
	if o == nil {
		return 1
	}
	n := 0
	return p.Each(ctx, o.Args, func(_ string, r io.Reader) error {
		return machine.Lines(r, func(line string, _ bool) bool {
			if line == "" && o.Get("b") != "a" {
				p.Printf("\n")
				return true
			}
			n++
			p.Printf("%6d\t%s\n", n, line)
			return !p.Broken()
		})
	})
}

func tac(ctx context.Context, p *machine.Proc) int {
	all, code := gather(ctx, p, p.Args[1:])
	for _, line := range slices.Backward(all) {
		p.Printf("%s\n", line)
	}
	return code
}

func rev(ctx context.Context, p *machine.Proc) int {
	all, code := gather(ctx, p, p.Args[1:])
	for _, line := range all {
		r := []rune(line)
		slices.Reverse(r)
		p.Printf("%s\n", string(r))
	}
	return code
}

func paste(ctx context.Context, p *machine.Proc) int {
	o := p.Options("s|serial d|delimiters:")
	if o == nil {
		return 1
	}
	delim := unescape(cmp.Or(o.Get("d"), "\t"))
	var cols [][]string
	names := o.Args
	if len(names) == 0 {
		names = []string{"-"}
	}
	rows := 0
	for _, name := range names {
		all, code := gather(ctx, p, []string{name})
		if code != 0 {
			return code
		}
		if o.Has("s") {
			p.Printf("%s\n", strings.Join(all, delim))
			continue
		}
		cols = append(cols, all)
		rows = max(rows, len(all))
	}
	for i := range rows {
		line := make([]string, len(cols))
		for j, col := range cols {
			if i < len(col) {
				line[j] = col[i]
			}
		}
		p.Printf("%s\n", strings.Join(line, delim))
	}
	return 0
}

func fold(ctx context.Context, p *machine.Proc) int {
	o := p.Options("w|width: s b")
	if o == nil {
		return 1
	}
	width, err := strconv.Atoi(cmp.Or(o.Get("w"), "80"))
	if err != nil || width < 1 {
		return p.Fail(1, "invalid number of columns: '%s'", o.Get("w"))
	}
	return p.Each(ctx, o.Args, func(_ string, r io.Reader) error {
		return machine.Lines(r, func(line string, last bool) bool {
			for len(line) > width {
				p.Printf("%s\n", line[:width])
				line = line[width:]
			}
			p.Printf("%s%s", line, newline(last))
			return !p.Broken()
		})
	})
}

func comm(ctx context.Context, p *machine.Proc) int {
	o := p.Options("1 2 3")
	if o == nil || len(o.Args) != 2 {
		return p.Fail(1, "missing operand")
	}
	a, code1 := gather(ctx, p, o.Args[:1])
	b, code2 := gather(ctx, p, o.Args[1:])
	if code1+code2 > 0 {
		return 1
	}
	show := func(col int, line string) {
		if o.Has(strconv.Itoa(col)) {
			return
		}
		indent := 0
		for c := 1; c < col; c++ {
			if !o.Has(strconv.Itoa(c)) {
				indent++
			}
		}
		p.Printf("%s%s\n", strings.Repeat("\t", indent), line)
	}
	for len(a)+len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			show(1, a[0])
			a = a[1:]
		case len(a) == 0 || b[0] < a[0]:
			show(2, b[0])
			b = b[1:]
		default:
			show(3, a[0])
			a, b = a[1:], b[1:]
		}
	}
	return 0
}

func split(ctx context.Context, p *machine.Proc) int {
	o := p.Options("l: b: d a:")
	if o == nil {
		return 1
	}
	size, err := count(cmp.Or(o.Get("b"), o.Get("l"), "1000"))
	if err != nil || size < 1 {
		return p.Fail(1, "invalid number")
	}
	name, prefix := "-", "x"
	if len(o.Args) > 0 {
		name = o.Args[0]
	}
	if len(o.Args) > 1 {
		prefix = o.Args[1]
	}
	in, err := p.Input(ctx, name)
	if err != nil {
		return p.Fail(1, "cannot open '%s' for reading: %s", name, machine.Strerror(err))
	}
	defer in.Close()
	data, err := io.ReadAll(in)
	if err != nil {
		return p.Fail(1, "%s: %s", name, machine.Strerror(err))
	}
	for i := 0; len(data) > 0; i++ {
		end := min(int64(len(data)), size)
		if !o.Has("b") {
			end = 0
			for n := int64(0); n < size && end < int64(len(data)); n++ {
				j := strings.IndexByte(string(data[end:]), '\n')
				if j < 0 {
					end = int64(len(data))
					break
				}
				end += int64(j) + 1
			}
		}
		suffix := string(rune('a'+i/26)) + string(rune('a'+i%26))
		if o.Has("d") {
			suffix = fmt.Sprintf("%02d", i)
		}
		if err := p.Machine.FS.WriteFile(p.Cred, p.Abs(prefix+suffix), data[:end], 0o666&^p.Umask); err != nil {
			return p.Fail(1, "%s: %s", prefix+suffix, machine.Strerror(err))
		}
		data = data[end:]
	}
	return 0
}
