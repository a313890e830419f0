package coreutils

import (
	"cmp"
	"context"
	"io"
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
