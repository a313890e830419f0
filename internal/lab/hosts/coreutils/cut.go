package coreutils

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// ranges reads a list of cut: "1,3-5,7-".
func ranges(list string) (func(int) bool, bool) {
	type span struct{ from, to int }
	var spans []span
	for part := range strings.SplitSeq(list, ",") {
		from, to, dash := strings.Cut(part, "-")
		s := span{1, 1 << 30}
		var err1, err2 error
		if from != "" {
			s.from, err1 = strconv.Atoi(from)
		}
		if !dash {
			s.to = s.from
		} else if to != "" {
			s.to, err2 = strconv.Atoi(to)
		}
		if err1 != nil || err2 != nil || s.from < 1 || from == "" && to == "" {
			return nil, false
		}
		spans = append(spans, s)
	}
	return func(i int) bool {
		return slices.ContainsFunc(spans, func(s span) bool { return i >= s.from && i <= s.to })
	}, true
}

func cut(ctx context.Context, p *machine.Proc) int {
	o := p.Options("d|delimiter: f|fields: c|characters: b|bytes: s|only-delimited output-delimiter: complement z")
	if o == nil {
		return 1
	}
	list := cmp.Or(o.Get("f"), o.Get("c"), o.Get("b"))
	if list == "" {
		return p.Fail(1, "you must specify a list of bytes, characters, or fields")
	}
	want, ok := ranges(list)
	if !ok {
		return p.Fail(1, "invalid field value '%s'", list)
	}
	keep := func(i int) bool { return want(i) != o.Has("complement") }
	delim := cmp.Or(o.Get("d"), "\t")
	return p.Each(ctx, o.Args, func(_ string, r io.Reader) error {
		return machine.Lines(r, func(line string, _ bool) bool {
			if !o.Has("f") {
				var sb strings.Builder
				for i, c := range []byte(line) {
					if keep(i + 1) {
						sb.WriteByte(c)
					}
				}
				p.Printf("%s\n", sb.String())
				return !p.Broken()
			}
			if !strings.Contains(line, delim) {
				if !o.Has("s") {
					p.Printf("%s\n", line)
				}
				return !p.Broken()
			}
			var out []string
			for i, f := range strings.Split(line, delim) {
				if keep(i + 1) {
					out = append(out, f)
				}
			}
			p.Printf("%s\n", strings.Join(out, cmp.Or(o.Get("output-delimiter"), delim)))
			return !p.Broken()
		})
	})
}

// charset expands a set of tr: ranges, classes and escapes.
func charset(s string) []rune {
	classes := map[string]func(rune) bool{
		"alpha": unicode.IsLetter, "digit": unicode.IsDigit, "space": unicode.IsSpace, "upper": unicode.IsUpper,
		"lower": unicode.IsLower, "punct": unicode.IsPunct, "alnum": func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) },
		"blank": func(r rune) bool { return r == ' ' || r == '\t' }, "cntrl": unicode.IsControl, "print": unicode.IsPrint,
	}
	in := []rune(unescape(s))
	var out []rune
	for i := 0; i < len(in); i++ {
		if rest := string(in[i:]); strings.HasPrefix(rest, "[:") {
			if name, _, ok := strings.Cut(rest[2:], ":]"); ok && classes[name] != nil {
				for c := rune(0); c < 128; c++ {
					if classes[name](c) {
						out = append(out, c)
					}
				}
				i += len(name) + 3
				continue
			}
		}
		if i+2 < len(in) && in[i+1] == '-' {
			for c := in[i]; c <= in[i+2]; c++ {
				out = append(out, c)
			}
			i += 2
			continue
		}
		out = append(out, in[i])
	}
	return out
}

func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var sb strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			sb.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 'n':
			sb.WriteByte('\n')
		case 't':
			sb.WriteByte('\t')
		case 'r':
			sb.WriteByte('\r')
		case '0', '1', '2', '3', '4', '5', '6', '7':
			j := i
			for j < len(s) && j < i+3 && s[j] >= '0' && s[j] <= '7' {
				j++
			}
			n, _ := strconv.ParseUint(s[i:j], 8, 8) // the digits were checked
			sb.WriteByte(byte(n))
			i = j - 1
		default:
			sb.WriteByte(s[i])
		}
	}
	return sb.String()
}

func tr(ctx context.Context, p *machine.Proc) int {
	o := p.Options("d|delete s|squeeze-repeats c|complement C t")
	if o == nil {
		return 1
	}
	if len(o.Args) == 0 || len(o.Args) == 1 && !o.Has("d") && !o.Has("s") {
		return p.Fail(1, "missing operand")
	}
	set1 := charset(o.Args[0])
	var set2 []rune
	if len(o.Args) > 1 {
		set2 = charset(o.Args[1])
	}
	in := func(r rune) bool { return slices.Contains(set1, r) != (o.Has("c") || o.Has("C")) }
	squeeze := func(r rune) bool {
		if len(set2) > 0 {
			return slices.Contains(set2, r)
		}
		return in(r)
	}
	data, err := io.ReadAll(p.In(ctx))
	if err != nil && ctx.Err() == nil {
		return p.Fail(1, "read error: %s", machine.Strerror(err))
	}
	var sb strings.Builder
	last := rune(-1)
	for _, c := range string(data) {
		if in(c) {
			if o.Has("d") {
				continue
			}
			if len(set2) > 0 {
				i := len(set2) - 1
				if !o.Has("c") {
					i = min(slices.Index(set1, c), len(set2)-1)
				}
				c = set2[i]
			}
		}
		if o.Has("s") && c == last && squeeze(c) {
			continue
		}
		last = c
		sb.WriteRune(c)
	}
	p.Printf("%s", sb.String())
	return 0
}
