package coreutils

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// gather reads the lines of all files.
func gather(ctx context.Context, p *machine.Proc, names []string) ([]string, int) {
	var all []string
	code := p.Each(ctx, names, func(_ string, r io.Reader) error {
		return machine.Lines(r, func(line string, _ bool) bool { all = append(all, line); return true })
	})
	return all, code
}

func sortLines(ctx context.Context, p *machine.Proc) int {
	o := p.Options("r|reverse n|numeric-sort u|unique k|key: t|field-separator: f|ignore-case V|version-sort h b s|stable o|output: c|check z")
	if o == nil {
		return 2
	}
	all, code := gather(ctx, p, o.Args)
	if code != 0 {
		return 2
	}
	key := func(line string) string {
		spec := o.Get("k")
		if spec == "" {
			return line
		}
		from, to, both := strings.Cut(spec, ",")
		strip := func(s string) string { return strings.TrimRight(s, "nrVfbh") }
		a, _ := strconv.Atoi(strip(strings.SplitN(from, ".", 2)[0])) // 0 means the whole line
		var fields []string
		sep := o.Get("t")
		if sep != "" {
			fields = strings.Split(line, sep)
		} else {
			fields = strings.Fields(line)
			sep = " "
		}
		z := len(fields)
		if both {
			z, _ = strconv.Atoi(strip(strings.SplitN(to, ".", 2)[0]))
		}
		if a < 1 || a > len(fields) {
			return ""
		}
		return strings.Join(fields[a-1:max(a, min(z, len(fields)))], sep)
	}
	flags := o.Get("k")
	numeric := o.Has("n") || o.Has("h") || strings.ContainsAny(flags, "nh")
	reverse := o.Has("r") || strings.Contains(flags, "r")
	compare := func(a, b string) int {
		x, y := key(a), key(b)
		c := 0
		switch {
		case numeric:
			c = cmp.Compare(leading(x), leading(y))
		case o.Has("V") || strings.Contains(flags, "V"):
			c = versions(x, y)
		case o.Has("f"):
			c = strings.Compare(strings.ToLower(x), strings.ToLower(y))
		default:
			c = strings.Compare(x, y)
		}
		if c == 0 && !o.Has("s") && !o.Has("u") {
			c = strings.Compare(a, b)
		}
		if reverse {
			c = -c
		}
		return c
	}
	if o.Has("c") {
		if !slices.IsSortedFunc(all, compare) {
			return p.Fail(1, "-: disorder")
		}
		return 0
	}
	slices.SortStableFunc(all, compare)
	if o.Has("u") {
		all = slices.CompactFunc(all, func(a, b string) bool { return compare(a, b) == 0 })
	}
	text := strings.Join(all, "\n")
	if len(all) > 0 {
		text += "\n"
	}
	if out := o.Get("o"); out != "" {
		if err := p.Machine.FS.WriteFile(p.Cred, p.Abs(out), []byte(text), 0o666&^p.Umask); err != nil {
			return p.Fail(2, "open failed: %s: %s", out, machine.Strerror(err))
		}
		return 0
	}
	p.Printf("%s", text)
	return 0
}

func leading(s string) float64 {
	s = strings.TrimLeft(s, " \t")
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || s[end] == '.' || end == 0 && s[end] == '-') {
		end++
	}
	n, err := strconv.ParseFloat(s[:end], 64)
	if err != nil {
		return 0
	}
	return n
}

// versions compares runs of digits by their value.
func versions(a, b string) int {
	digits := func(s string) int {
		i := 0
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i
	}
	for a != "" && b != "" {
		i, j := digits(a), digits(b)
		if i > 0 && j > 0 {
			x, y := strings.TrimLeft(a[:i], "0"), strings.TrimLeft(b[:j], "0")
			if c := cmp.Or(cmp.Compare(len(x), len(y)), strings.Compare(x, y)); c != 0 {
				return c
			}
			a, b = a[i:], b[j:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func uniq(ctx context.Context, p *machine.Proc) int {
	o := p.Options("c|count d|repeated u|unique i|ignore-case")
	if o == nil {
		return 1
	}
	all, code := gather(ctx, p, o.Args[:min(1, len(o.Args))])
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && (all[j] == all[i] || o.Has("i") && strings.EqualFold(all[j], all[i])) {
			j++
		}
		switch {
		case o.Has("d") && j-i < 2, o.Has("u") && j-i > 1:
		case o.Has("c"):
			p.Printf("%7d %s\n", j-i, all[i])
		default:
			p.Printf("%s\n", all[i])
		}
		i = j
	}
	return code
}

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

func expr(_ context.Context, p *machine.Proc) int {
	a := p.Args[1:]
	if len(a) == 0 {
		return p.Fail(2, "missing operand")
	}
	result := a[0]
	for rest := a[1:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 {
			return p.Fail(2, "syntax error: missing argument after '%s'", rest[0])
		}
		x, err1 := strconv.Atoi(result)
		y, err2 := strconv.Atoi(rest[1])
		numbers := err1 == nil && err2 == nil
		order := strings.Compare(result, rest[1])
		if numbers {
			order = cmp.Compare(x, y)
		}
		truth := func(b bool) string {
			if b {
				return "1"
			}
			return "0"
		}
		switch op := rest[0]; op {
		case "=":
			result = truth(order == 0)
		case "!=":
			result = truth(order != 0)
		case "<":
			result = truth(order < 0)
		case "<=":
			result = truth(order <= 0)
		case ">":
			result = truth(order > 0)
		case ">=":
			result = truth(order >= 0)
		case ":":
			re, err := regexp.Compile("^(?:" + basicRegexp(rest[1]) + ")")
			if err != nil {
				return p.Fail(2, "invalid regular expression")
			}
			m := re.FindStringSubmatch(result)
			switch {
			case len(m) > 1:
				result = m[1]
			case m != nil:
				result = strconv.Itoa(len(m[0]))
			default:
				result = "0"
			}
		case "+", "-", "*", "/", "%":
			if !numbers {
				return p.Fail(2, "non-integer argument")
			}
			if y == 0 && (op == "/" || op == "%") {
				return p.Fail(2, "division by zero")
			}
			switch op {
			case "+":
				x += y
			case "-":
				x -= y
			case "*":
				x *= y
			case "/":
				x /= y
			case "%":
				x %= y
			}
			result = strconv.Itoa(x)
		default:
			return p.Fail(2, "syntax error: unexpected argument '%s'", op)
		}
	}
	p.Printf("%s\n", result)
	if result == "" || result == "0" {
		return 1
	}
	return 0
}

func od(ctx context.Context, p *machine.Proc) int {
	o := p.Options("A: t: v N: c x")
	if o == nil {
		return 1
	}
	limit := int64(-1)
	if o.Has("N") {
		n, err := count(o.Get("N"))
		if err != nil {
			return p.Fail(1, "invalid number of bytes")
		}
		limit = n
	}
	var data []byte
	code := p.Each(ctx, o.Args, func(_ string, r io.Reader) error {
		if limit >= 0 {
			r = io.LimitReader(r, limit-int64(len(data)))
		}
		b, err := io.ReadAll(r)
		data = append(data, b...)
		return err
	})
	for off := 0; off < len(data); off += 16 {
		if o.Get("A") != "n" {
			p.Printf("%07o", off)
		}
		for _, b := range data[off:min(off+16, len(data))] {
			p.Printf(" %02x", b)
		}
		p.Printf("\n")
	}
	if o.Get("A") != "n" {
		p.Printf("%07o\n", len(data))
	}
	return code
}
