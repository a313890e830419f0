package coreutils

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// printf is the program, and the shells' builtin.
func printf(_ context.Context, p *machine.Proc) int {
	args := p.Args[1:]
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(p.Stderr, "printf: usage: printf format [arguments]")
		return 2
	}
	format, args := args[0], args[1:]
	var sb strings.Builder
	code := 0
	for {
		n, stop, err := printOnce(&sb, format, args)
		if err != nil {
			code = p.Fail(1, "%v", err)
		}
		args = args[min(n, len(args)):]
		if stop || n == 0 || len(args) == 0 {
			break
		}
	}
	p.Printf("%s", sb.String())
	return code
}

// octals reads up to three octal digits.
func octals(s string) (b byte, n int) {
	v := 0
	for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
		v = v*8 + int(s[n]-'0')
		n++
	}
	return byte(v), n
}

// escape writes the escape that s begins with, after its backslash, and
// returns its length; stop is \c.
func escape(sb *strings.Builder, s string) (n int, stop bool) {
	if s == "" {
		sb.WriteByte('\\')
		return 0, false
	}
	simple := map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'a': 7, 'b': 8, 'f': 12, 'v': 11, '\\': '\\', 'e': 27, '"': '"', '\'': '\''}
	switch c := s[0]; {
	case c == 'c':
		return 1, true
	case c >= '0' && c <= '7':
		b, n := octals(s)
		sb.WriteByte(b)
		return n, false
	case c == 'x' && len(s) > 1:
		end := 1
		for end < 3 && end < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[end]) >= 0 {
			end++
		}
		v, err := strconv.ParseUint(s[1:end], 16, 8)
		if err != nil {
			sb.WriteString(`\x`)
			return 1, false
		}
		sb.WriteByte(byte(v))
		return end, false
	case simple[c] != 0:
		sb.WriteByte(simple[c])
		return 1, false
	}
	sb.WriteByte('\\')
	sb.WriteByte(s[0])
	return 1, false
}

// printOnce writes the format once and returns how many arguments it took.
func printOnce(sb *strings.Builder, format string, args []string) (used int, stop bool, bad error) {
	take := func() string {
		used++
		if used > len(args) {
			return ""
		}
		return args[used-1]
	}
	number := func(s string) int64 {
		if s == "" {
			return 0
		}
		if s[0] == '\'' || s[0] == '"' {
			for _, r := range s[1:] {
				return int64(r)
			}
			return 0
		}
		n, err := strconv.ParseInt(strings.TrimSpace(s), 0, 64)
		if err != nil {
			bad = fmt.Errorf("%s: invalid number", s)
		}
		return n
	}
	for i := 0; i < len(format); i++ {
		switch c := format[i]; {
		case c == '\\':
			n, end := escape(sb, format[i+1:])
			if end {
				return used, true, bad
			}
			i += n
			continue
		case c != '%':
			sb.WriteByte(c)
			continue
		}
		j := i + 1
		for j < len(format) && strings.IndexByte("-+ #0123456789.*", format[j]) >= 0 {
			j++
		}
		if j == len(format) {
			return used, true, fmt.Errorf("`%s': missing format character", format[i:])
		}
		spec := format[i:j]
		i = j
		if format[j] == '%' {
			sb.WriteByte('%')
			continue
		}
		for strings.Contains(spec, "*") {
			spec = strings.Replace(spec, "*", strconv.FormatInt(number(take()), 10), 1)
		}
		switch verb := format[j]; verb {
		case 's':
			fmt.Fprintf(sb, spec+"s", take())
		case 'b':
			arg := take()
			var out strings.Builder
			for k := 0; k < len(arg); k++ {
				if arg[k] != '\\' {
					out.WriteByte(arg[k])
					continue
				}
				n, end := escape(&out, arg[k+1:])
				if end {
					sb.WriteString(out.String())
					return used, true, bad
				}
				k += n
			}
			fmt.Fprintf(sb, spec+"s", out.String())
		case 'q':
			fmt.Fprintf(sb, spec+"s", shellQuote(take()))
		case 'c':
			if arg := take(); arg != "" {
				fmt.Fprintf(sb, spec+"s", arg[:1])
			}
		case 'd', 'i', 'u':
			fmt.Fprintf(sb, spec+"d", number(take()))
		case 'x', 'X', 'o':
			fmt.Fprintf(sb, spec+string(verb), number(take()))
		case 'f', 'F', 'e', 'E', 'g', 'G':
			arg := take()
			f, err := strconv.ParseFloat(strings.TrimSpace(arg), 64)
			if err != nil && arg != "" {
				bad = fmt.Errorf("%s: invalid number", arg)
			}
			fmt.Fprintf(sb, spec+string(verb), f)
		default:
			return used, true, fmt.Errorf("`%c': invalid format character", verb)
		}
	}
	return used, false, bad
}

// shellQuote writes a word so that a shell reads it back.
func shellQuote(s string) string {
	if s == "" {
		return "''"
	}
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
