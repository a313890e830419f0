package coreutils

import (
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// basicRegexp rewrites a POSIX basic regular expression as an extended one, in
// Go's syntax.
func basicRegexp(s string) string {
	var sb strings.Builder
	start := true // at a place where * is a plain character
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case '(', ')', '{', '}', '|', '+', '?':
				sb.WriteByte(s[i])
				start = s[i] == '(' || s[i] == '|'
				continue
			case '<', '>':
				sb.WriteString(`\b`)
			case 'n':
				sb.WriteString(`\n`)
			case 't':
				sb.WriteString(`\t`)
			default:
				sb.WriteString(`\` + string(s[i]))
			}
		case c == '[':
			n := bracket(s[i:])
			sb.WriteString(bracketText(s[i : i+n]))
			i += n - 1
		case c == '*' && start:
			sb.WriteString(`\*`)
		case strings.IndexByte("(){}|+?", c) >= 0:
			sb.WriteString(`\` + string(c))
		case c == '^' && !start || c == '$' && i+1 < len(s) && !strings.HasPrefix(s[i+1:], `\)`) && !strings.HasPrefix(s[i+1:], `\|`):
			sb.WriteString(`\` + string(c))
		case c == '^':
			sb.WriteByte(c)
			continue
		default:
			sb.WriteByte(c)
		}
		start = false
	}
	return sb.String()
}

// extendedRegexp rewrites a POSIX extended regular expression in Go's syntax.
func extendedRegexp(s string) string {
	var sb strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case '<', '>':
				sb.WriteString(`\b`)
			case '/', '"', '\'', '&', '%', ',', '#', '@', '=', ':', '!', '~', ' ':
				sb.WriteString(regexp.QuoteMeta(string(s[i])))
			default:
				sb.WriteString(`\` + string(s[i]))
			}
		case c == '[':
			n := bracket(s[i:])
			sb.WriteString(bracketText(s[i : i+n]))
			i += n - 1
		default:
			sb.WriteByte(c)
		}
	}
	return sb.String()
}

// bracket returns the length of the bracket expression that s begins with.
func bracket(s string) int {
	i := 1
	if i < len(s) && s[i] == '^' {
		i++
	}
	if i < len(s) && s[i] == ']' {
		i++
	}
	for i < len(s) && s[i] != ']' {
		if strings.HasPrefix(s[i:], "[:") {
			if j := strings.Index(s[i:], ":]"); j > 0 {
				i += j + 1
			}
		}
		i++
	}
	return min(i+1, len(s))
}

// bracketText quotes what Go reads otherwise than POSIX in brackets.
func bracketText(s string) string {
	if len(s) < 2 {
		return regexp.QuoteMeta(s)
	}
	body := s[1 : len(s)-1]
	head := "["
	if strings.HasPrefix(body, "^") {
		head, body = "[^", body[1:]
	}
	if strings.HasPrefix(body, "]") {
		head, body = head+`\]`, body[1:]
	}
	var sb strings.Builder
	for i := 0; i < len(body); i++ {
		switch {
		case strings.HasPrefix(body[i:], "[:"):
			if j := strings.Index(body[i:], ":]"); j > 0 {
				sb.WriteString(body[i : i+j+2])
				i += j + 1
				continue
			}
			sb.WriteString(`\[`)
		case body[i] == '\\' && i+1 < len(body) && strings.IndexByte("nt", body[i+1]) >= 0:
			sb.WriteString(body[i : i+2])
			i++
		case body[i] == '\\' || body[i] == '[':
			sb.WriteString(`\` + string(body[i]))
		default:
			sb.WriteByte(body[i])
		}
	}
	return head + sb.String() + "]"
}

func grep(ctx context.Context, p *machine.Proc) int {
	o := p.Options("q|quiet silent F|fixed-strings E|extended-regexp G|basic-regexp P|perl-regexp x|line-regexp w|word-regexp " +
		"c|count v|invert-match i|ignore-case y n|line-number o|only-matching l|files-with-matches L|files-without-match h|no-filename H|with-filename " +
		"s|no-messages r|recursive R e|regexp: f|file: m|max-count: a|text z A: B: C: color? include: exclude: exclude-dir: I")
	if o == nil {
		return 2
	}
	args := o.Args
	patterns := o.All("e")
	for _, file := range o.All("f") {
		all, code := gather(ctx, p, []string{file})
		if code != 0 {
			return 2
		}
		patterns = append(patterns, all...)
	}
	if len(o.All("e"))+len(o.All("f")) == 0 {
		if len(args) == 0 {
			fmt.Fprintf(p.Stderr, "Usage: grep [OPTION]... PATTERNS [FILE]...\n")
			return 2
		}
		patterns, args = strings.Split(args[0], "\n"), args[1:]
	}
	var alts []string
	for _, pat := range patterns {
		switch {
		case o.Has("F") || p.Name() == "fgrep":
			pat = regexp.QuoteMeta(pat)
		case o.Has("E") || p.Name() == "egrep":
			pat = extendedRegexp(pat)
		case o.Has("P"):
		default:
			pat = basicRegexp(pat)
		}
		alts = append(alts, "(?:"+pat+")")
	}
	expr := strings.Join(alts, "|")
	switch {
	case len(alts) == 0:
		expr = `[^\s\S]`
	case o.Has("x"):
		expr = "^(?:" + expr + ")$"
	case o.Has("w"):
		expr = `\b(?:` + expr + `)\b`
	}
	if o.Has("i") || o.Has("y") {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return p.Fail(2, "Invalid regular expression: %v", err)
	}
	after, before := 0, 0
	for flag, n := range map[string]*int{"A": &after, "B": &before} {
		v := o.Get(flag)
		if v == "" {
			v = o.Get("C")
		}
		if v != "" {
			if *n, err = strconv.Atoi(v); err != nil {
				return p.Fail(2, "%s: invalid context length argument", v)
			}
		}
	}
	limit := -1
	if o.Has("m") {
		if limit, err = strconv.Atoi(o.Get("m")); err != nil {
			return p.Fail(2, "invalid max count")
		}
	}
	recursive := o.Has("r") || o.Has("R")
	names := args
	if recursive {
		if len(names) == 0 {
			names = []string{"."}
		}
		var files []string
		for _, name := range names {
			err := walk(p, p.Abs(name), true, func(file string, info *tree.Info) error {
				if info.Mode().IsRegular() && included(o.All("include"), path.Base(file)) {
					files = append(files, name+strings.TrimPrefix(file, p.Abs(name)))
				}
				return nil
			})
			if err != nil && !o.Has("s") {
				p.Fail(2, "%s: %s", name, machine.Strerror(err))
			}
		}
		names = files
		if len(names) == 0 {
			return 1
		}
	}
	title := (len(names) > 1 || recursive || o.Has("H")) && !o.Has("h")
	found := false
	quiet := o.Has("q") || o.Has("silent")
	stderr := p.Stderr
	if o.Has("s") {
		p.Stderr = io.Discard
	}
	code := p.Each(ctx, names, func(name string, r io.Reader) error {
		label := ""
		if name == "-" {
			name = "(standard input)"
		}
		if title {
			label = name + ":"
		}
		hits, n, show := 0, 0, 0
		var past []string
		err := machine.Lines(r, func(line string, _ bool) bool {
			n++
			if re.MatchString(line) == o.Has("v") {
				if show > 0 && !quiet && !o.Has("c") && !o.Has("l") {
					show--
					p.Printf("%s%s\n", label, line)
				} else if before > 0 {
					past = append(past, line)
					past = past[max(0, len(past)-before):]
				}
				return !p.Broken()
			}
			if limit == 0 {
				return false
			}
			hits++
			found = true
			show = after
			number := ""
			if o.Has("n") {
				number = strconv.Itoa(n) + ":"
			}
			switch {
			case quiet:
				return false
			case o.Has("l") || o.Has("L") || o.Has("c"):
				return !o.Has("l") && !o.Has("L")
			case o.Has("o"):
				for _, m := range re.FindAllString(line, -1) {
					if m != "" {
						p.Printf("%s%s%s\n", label, number, m)
					}
				}
			default:
				for _, l := range past {
					p.Printf("%s%s\n", label, l)
				}
				past = nil
				p.Printf("%s%s%s\n", label, number, line)
			}
			return hits != limit && !p.Broken()
		})
		switch {
		case quiet:
		case o.Has("c"):
			p.Printf("%s%d\n", label, hits)
		case o.Has("l") && hits > 0, o.Has("L") && hits == 0:
			p.Printf("%s\n", name)
		}
		return err
	})
	p.Stderr = stderr
	switch {
	case found && (quiet || code == 0):
		return 0
	case code != 0:
		return 2
	}
	return 1
}

func included(globs []string, name string) bool {
	for _, g := range globs {
		if ok, _ := path.Match(g, name); ok { // a bad pattern matches nothing
			return true
		}
	}
	return len(globs) == 0
}
