package coreutils

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func readBoth(ctx context.Context, p *machine.Proc, a, b string) ([]byte, []byte, int) {
	var data [2][]byte
	for i, name := range []string{a, b} {
		in, err := p.Input(ctx, name)
		if err == nil {
			data[i], err = io.ReadAll(in)
			in.Close()
		}
		if err != nil {
			return nil, nil, p.Fail(2, "%s: %s", name, machine.Strerror(err))
		}
	}
	return data[0], data[1], 0
}

func compare(ctx context.Context, p *machine.Proc) int {
	o := p.Options("s|silent|quiet l b n:")
	if o == nil || len(o.Args) == 0 {
		return 2
	}
	other := "-"
	if len(o.Args) > 1 {
		other = o.Args[1]
	}
	if o.Has("s") {
		p.Stderr = io.Discard
	}
	a, b, code := readBoth(ctx, p, o.Args[0], other)
	if code != 0 {
		return code
	}
	if bytes.Equal(a, b) {
		return 0
	}
	if o.Has("s") {
		return 1
	}
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	line := bytes.Count(a[:at], []byte("\n")) + 1
	if at == min(len(a), len(b)) {
		short := o.Args[0]
		if len(b) < len(a) {
			short = other
		}
		fmt.Fprintf(p.Stderr, "cmp: EOF on %s after byte %d, line %d\n", short, at, line)
		return 1
	}
	p.Printf("%s %s differ: byte %d, line %d\n", o.Args[0], other, at+1, line)
	return 1
}

func diff(ctx context.Context, p *machine.Proc) int {
	o := p.Options("u U|unified? q|brief s r|recursive N|new-file a|text L|label: w b B i strip-trailing-cr c")
	if o == nil {
		return 2
	}
	if len(o.Args) != 2 {
		return p.Fail(2, "missing operand after '%s'", p.Args[len(p.Args)-1])
	}
	return diffFiles(ctx, p, o, o.Args[0], o.Args[1])
}

func diffFiles(ctx context.Context, p *machine.Proc, o *machine.Options, from, to string) int {
	infoA, errA := p.Machine.FS.Stat(p.Cred, p.Abs(from), true)
	infoB, errB := p.Machine.FS.Stat(p.Cred, p.Abs(to), true)
	switch {
	case errA == nil && errB == nil && infoA.IsDir() && infoB.IsDir():
		return diffDirs(ctx, p, o, from, to)
	case errA == nil && errB == nil && infoA.IsDir():
		from = from + "/" + path.Base(to)
	case errA == nil && errB == nil && infoB.IsDir():
		to = to + "/" + path.Base(from)
	}
	read := func(name string) ([]byte, int) {
		if o.Has("N") && name != "-" {
			if _, err := p.Machine.FS.Stat(p.Cred, p.Abs(name), true); err != nil {
				return nil, 0
			}
		}
		in, err := p.Input(ctx, name)
		var data []byte
		if err == nil {
			data, err = io.ReadAll(in)
			in.Close()
		}
		if err != nil {
			return nil, p.Fail(2, "%s: %s", name, machine.Strerror(err))
		}
		return data, 0
	}
	a, code1 := read(from)
	b, code2 := read(to)
	switch {
	case code1+code2 > 0:
		return 2
	case bytes.Equal(a, b):
		if o.Has("s") {
			p.Printf("Files %s and %s are identical\n", from, to)
		}
		return 0
	case o.Has("q"):
		p.Printf("Files %s and %s differ\n", from, to)
		return 1
	}
	labels := o.All("L")
	nameA, nameB := from, to
	if len(labels) > 0 {
		nameA = labels[0]
	}
	if len(labels) > 1 {
		nameB = labels[1]
	}
	p.Printf("%s", unified(nameA, nameB, splitLines(string(a)), splitLines(string(b)), o.Has("u") || o.Has("U")))
	return 1
}

func diffDirs(ctx context.Context, p *machine.Proc, o *machine.Options, from, to string) int {
	names := map[string]int{}
	var order []string
	for bit, dir := range []string{from, to} {
		kids, err := p.Machine.FS.ReadDir(p.Cred, p.Abs(dir))
		if err != nil {
			return p.Fail(2, "%s: %s", dir, machine.Strerror(err))
		}
		for _, k := range kids {
			if names[k.Name()] == 0 {
				order = append(order, k.Name())
			}
			names[k.Name()] |= bit + 1
		}
	}
	code := 0
	for _, name := range order {
		if names[name] != 3 && !o.Has("N") {
			p.Printf("Only in %s: %s\n", []string{"", from, to}[names[name]], name)
			code = 1
			continue
		}
		if info, err := p.Machine.FS.Stat(p.Cred, p.Abs(from)+"/"+name, true); err == nil && info.IsDir() && !o.Has("r") {
			p.Printf("Common subdirectories: %s/%s and %s/%[2]s\n", from, name, to)
			continue
		}
		code = max(code, diffFiles(ctx, p, o, from+"/"+name, to+"/"+name))
	}
	return code
}

func splitLines(s string) []string {
	if s == "" {
		return nil
	}
	lines := strings.SplitAfter(s, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// An edit is one line of a diff: kept (' '), removed ('-') or added ('+').
type edit struct {
	op   byte
	line string
}

// edits finds a shortest script from a to b, by the greedy algorithm of Myers.
func edits(a, b []string) []edit {
	// What is equal at both ends needn't be searched.
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	x, y := a[head:len(a)-tail], b[head:len(b)-tail]
	n, m := len(x), len(y)
	size := n + m + 1
	v := make([]int, 2*size+1)
	var trace [][]int
search:
	for d := 0; d <= n+m; d++ {
		trace = append(trace, append([]int{}, v...))
		for k := -d; k <= d; k += 2 {
			i := v[size+k-1] + 1
			if k == -d || k != d && v[size+k-1] < v[size+k+1] {
				i = v[size+k+1]
			}
			j := i - k
			for i < n && j < m && x[i] == y[j] {
				i++
				j++
			}
			v[size+k] = i
			if i >= n && j >= m {
				break search
			}
		}
	}
	var back []edit
	i, j := n, m
	for d := len(trace) - 1; d >= 0; d-- {
		v := trace[d]
		k := i - j
		prev := k - 1
		if k == -d || k != d && v[size+k-1] < v[size+k+1] {
			prev = k + 1
		}
		pi := v[size+prev]
		pj := pi - prev
		for i > pi && j > pj && i > 0 && j > 0 {
			i--
			j--
			back = append(back, edit{' ', x[i]})
		}
		if d == 0 {
			break
		}
		if i == pi {
			j--
			back = append(back, edit{'+', y[j]})
		} else {
			i--
			back = append(back, edit{'-', x[i]})
		}
	}
	var out []edit
	for _, line := range a[:head] {
		out = append(out, edit{' ', line})
	}
	for i := len(back) - 1; i >= 0; i-- {
		out = append(out, back[i])
	}
	for _, line := range a[len(a)-tail:] {
		out = append(out, edit{' ', line})
	}
	return out
}

// unified prints a diff with three lines of context, or, when plain is wanted,
// the old format with its < and >.
func unified(nameA, nameB string, a, b []string, context bool) string {
	all := edits(a, b)
	var sb strings.Builder
	if context {
		fmt.Fprintf(&sb, "--- %s\n+++ %s\n", nameA, nameB)
	}
	around := 0
	if context {
		around = 3
	}
	lineA, lineB := 0, 0
	for i := 0; i < len(all); {
		if all[i].op == ' ' {
			lineA++
			lineB++
			i++
			continue
		}
		start := i
		for start > 0 && i-start < around && all[start-1].op == ' ' {
			start--
		}
		end, same := i, 0
		for end < len(all) && same <= 2*around {
			if all[end].op == ' ' {
				same++
			} else {
				same = 0
			}
			end++
		}
		end -= max(0, same-around)
		hunk := all[start:end]
		fromA, fromB := lineA-(i-start)+1, lineB-(i-start)+1
		countA, countB := 0, 0
		for _, e := range hunk {
			if e.op != '+' {
				countA++
			}
			if e.op != '-' {
				countB++
			}
		}
		if context {
			fmt.Fprintf(&sb, "@@ -%s +%s @@\n", span(fromA, countA), span(fromB, countB))
		} else {
			verb := "c"
			switch {
			case countA == 0:
				verb = "a"
				fromA--
			case countB == 0:
				verb = "d"
				fromB--
			}
			fmt.Fprintf(&sb, "%s%s%s\n", lineRange(fromA, countA), verb, lineRange(fromB, countB))
		}
		wroteA := false
		for _, e := range hunk {
			mark := string(e.op)
			if !context {
				mark = map[byte]string{'-': "< ", '+': "> "}[e.op]
				if e.op == '+' && wroteA && countA > 0 {
					sb.WriteString("---\n")
					wroteA = false
				}
				wroteA = wroteA || e.op == '-'
			}
			sb.WriteString(mark + e.line)
			if !strings.HasSuffix(e.line, "\n") {
				sb.WriteString("\n\\ No newline at end of file\n")
			}
		}
		for ; i < end; i++ {
			if all[i].op != '+' {
				lineA++
			}
			if all[i].op != '-' {
				lineB++
			}
		}
	}
	return sb.String()
}

func span(from, n int) string {
	switch n {
	case 0:
		return fmt.Sprintf("%d,0", from-1)
	case 1:
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d,%d", from, n)
}

func lineRange(from, n int) string {
	if n < 2 {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d,%d", from, from+n-1)
}
