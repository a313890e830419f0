package coreutils

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// A sedAddress picks lines: a number, the last one, or those that match.
type sedAddress struct {
	line int
	last bool
	re   *regexp.Regexp
	plus int // of addr1,+N
}

type sedCommand struct {
	from, to *sedAddress
	not      bool
	verb     byte
	re       *regexp.Regexp
	text     string // replacement, text of a i c, label, file
	global   bool
	print    bool
	nth      int
	target   int // of a branch or a block's end
	inside   bool
	until    int
}

type sedProgram struct {
	extended bool
	commands []*sedCommand
	last     *regexp.Regexp
}

func sed(ctx context.Context, p *machine.Proc) int {
	o := p.Options("n|quiet silent e|expression: f|file: E|regexp-extended r i|in-place? s|separate z u posix follow-symlinks")
	if o == nil {
		return 1
	}
	prog := &sedProgram{extended: o.Has("E") || o.Has("r")}
	scripts := o.All("e")
	for _, file := range o.All("f") {
		all, code := gather(ctx, p, []string{file})
		if code != 0 {
			return 1
		}
		scripts = append(scripts, strings.Join(all, "\n"))
	}
	names := o.Args
	if len(scripts) == 0 {
		if len(names) == 0 {
			fmt.Fprintln(p.Stderr, "Usage: sed [OPTION]... {script-only-if-no-other-script} [input-file]...")
			return 1
		}
		scripts, names = names[:1], names[1:]
	}
	if err := prog.parse(strings.Join(scripts, "\n")); err != nil {
		return p.Fail(1, "-e expression #1, %v", err)
	}
	quiet := o.Has("n") || o.Has("silent")
	if !o.Has("i") {
		var all []string
		ends := true
		code := p.Each(ctx, names, func(_ string, r io.Reader) error {
			return machine.Lines(r, func(line string, last bool) bool { all = append(all, line); ends = !last; return true })
		})
		out, status := prog.run(all, ends, quiet, p)
		p.Printf("%s", out)
		if code != 0 {
			code = 2
		}
		return max(code, status)
	}
	code := 0
	for _, name := range names {
		file := p.Abs(name)
		info, err := p.Machine.FS.Stat(p.Cred, file, true)
		var data []byte
		if err == nil {
			data, err = p.Machine.FS.ReadFile(p.Cred, file)
		}
		if err != nil {
			code = p.Fail(4, "can't read %s: %s", name, machine.Strerror(err))
			continue
		}
		all := strings.Split(string(data), "\n")
		ends := all[len(all)-1] == ""
		if ends {
			all = all[:len(all)-1]
		}
		fresh := *prog
		fresh.commands = nil
		for _, c := range prog.commands {
			n := *c
			fresh.commands = append(fresh.commands, &n)
		}
		out, status := fresh.run(all, ends, quiet, p)
		code = max(code, status)
		if suffix := o.Get("i"); suffix != "" {
			if err := p.Machine.FS.WriteFile(p.Cred, file+suffix, data, info.Mode().Perm()); err != nil {
				code = p.Fail(4, "couldn't open file %s: %s", name+suffix, machine.Strerror(err))
				continue
			}
		}
		// As sed does: a new file beside, renamed over the old one.
		tmp := file + ".sed" + randomText(6)
		if err = p.Machine.FS.WriteFile(p.Cred, tmp, []byte(out), info.Mode().Perm()); err == nil {
			// Only root can keep another's ownership.
			_ = p.Machine.FS.Chown(p.Cred, tmp, info.UID(), info.GID(), true)
			if err = p.Machine.FS.Chmod(p.Cred, tmp, info.Mode()); err == nil {
				err = p.Machine.FS.Rename(p.Cred, tmp, file)
			}
		}
		if err != nil {
			// What is left of it must not stay.
			_ = p.Machine.FS.Remove(p.Cred, tmp)
			code = p.Fail(4, "couldn't edit %s: %s", name, machine.Strerror(err))
		}
	}
	return code
}

// scanner of a sed script.
type sedScan struct {
	s   string
	pos int
}

func (sc *sedScan) peek() byte {
	if sc.pos >= len(sc.s) {
		return 0
	}
	return sc.s[sc.pos]
}

func (sc *sedScan) skip(set string) {
	for sc.pos < len(sc.s) && strings.IndexByte(set, sc.s[sc.pos]) >= 0 {
		sc.pos++
	}
}

// until takes the text up to a delimiter that isn't escaped; an escaped
// delimiter loses its backslash.
func (sc *sedScan) until(delim byte, pattern bool) (string, error) {
	var sb strings.Builder
	for sc.pos < len(sc.s) {
		c := sc.s[sc.pos]
		sc.pos++
		switch {
		case c == '\\' && sc.pos < len(sc.s):
			next := sc.s[sc.pos]
			sc.pos++
			if next == delim {
				sb.WriteByte(delim)
				continue
			}
			sb.WriteByte('\\')
			sb.WriteByte(next)
		case c == '[' && pattern:
			// A delimiter in brackets is a plain character.
			if n := bracket(sc.s[sc.pos-1:]); sc.s[sc.pos-2+n] == ']' && !strings.Contains(sc.s[sc.pos:sc.pos-1+n], "\n") {
				sb.WriteString(sc.s[sc.pos-1 : sc.pos-1+n])
				sc.pos += n - 1
				continue
			}
			sb.WriteByte(c)
		case c == delim:
			return sb.String(), nil
		default:
			sb.WriteByte(c)
		}
	}
	return "", fmt.Errorf("char %d: unterminated `s' command", len(sc.s))
}

func (sp *sedProgram) compile(text, flags string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	expr := basicRegexp(text)
	if sp.extended {
		expr = extendedRegexp(text)
	}
	return regexp.Compile(flags + expr)
}

func (sp *sedProgram) address(sc *sedScan) (*sedAddress, error) {
	switch c := sc.peek(); {
	case c == '$':
		sc.pos++
		return &sedAddress{last: true}, nil
	case c >= '0' && c <= '9':
		start := sc.pos
		sc.skip("0123456789")
		n, err := strconv.Atoi(sc.s[start:sc.pos])
		return &sedAddress{line: n}, err
	case c == '+':
		sc.pos++
		start := sc.pos
		sc.skip("0123456789")
		n, err := strconv.Atoi(sc.s[start:sc.pos])
		return &sedAddress{plus: n}, err
	case c == '/' || c == '\\':
		sc.pos++
		delim := byte('/')
		if c == '\\' {
			delim = sc.peek()
			sc.pos++
		}
		text, err := sc.until(delim, true)
		if err != nil {
			return nil, fmt.Errorf("char %d: unterminated address regex", sc.pos)
		}
		flags := ""
		if sc.peek() == 'I' {
			sc.pos++
			flags = "(?i)"
		}
		re, err := sp.compile(text, flags)
		if err != nil {
			return nil, fmt.Errorf("char %d: %v", sc.pos, err)
		}
		return &sedAddress{re: re}, nil
	}
	return nil, nil
}

func (sp *sedProgram) parse(text string) error {
	sc := &sedScan{s: text}
	var blocks []int
	labels := map[string]int{}
	for {
		sc.skip(" \t\n;")
		if sc.pos >= len(sc.s) {
			break
		}
		if sc.peek() == '#' {
			for sc.pos < len(sc.s) && sc.peek() != '\n' {
				sc.pos++
			}
			continue
		}
		c := &sedCommand{}
		var err error
		if c.from, err = sp.address(sc); err != nil {
			return err
		}
		sc.skip(" \t")
		if c.from != nil && sc.peek() == ',' {
			sc.pos++
			sc.skip(" \t")
			if c.to, err = sp.address(sc); err != nil {
				return err
			}
			if c.to == nil {
				return fmt.Errorf("char %d: unexpected `,'", sc.pos)
			}
		}
		sc.skip(" \t")
		for sc.peek() == '!' {
			c.not = true
			sc.pos++
			sc.skip(" \t")
		}
		c.verb = sc.peek()
		if c.verb == 0 {
			return fmt.Errorf("char %d: missing command", sc.pos)
		}
		sc.pos++
		switch c.verb {
		case '{':
			blocks = append(blocks, len(sp.commands))
		case '}':
			if len(blocks) == 0 {
				return fmt.Errorf("char %d: unexpected `}'", sc.pos)
			}
			sp.commands[blocks[len(blocks)-1]].target = len(sp.commands)
			blocks = blocks[:len(blocks)-1]
		case 's', 'y':
			if err := sp.substitution(sc, c); err != nil {
				return err
			}
		case 'a', 'i', 'c':
			sc.skip(" \t")
			if sc.peek() == '\\' {
				sc.pos++
				sc.skip(" \t")
				if sc.peek() == '\n' {
					sc.pos++
				}
			}
			var sb strings.Builder
			for sc.pos < len(sc.s) && sc.peek() != '\n' {
				if sc.peek() == '\\' && sc.pos+1 < len(sc.s) {
					sc.pos++
				}
				sb.WriteByte(sc.peek())
				sc.pos++
			}
			c.text = sb.String()
		case ':', 'b', 't', 'T':
			sc.skip(" \t")
			start := sc.pos
			for sc.pos < len(sc.s) && strings.IndexByte("\n; }", sc.peek()) < 0 {
				sc.pos++
			}
			c.text = sc.s[start:sc.pos]
			if c.verb == ':' {
				labels[c.text] = len(sp.commands)
			}
		case 'd', 'D', 'p', 'P', 'n', 'N', 'q', 'Q', 'g', 'G', 'h', 'H', 'x', '=', 'l':
			sc.skip(" \t")
			if c.verb == 'q' || c.verb == 'Q' {
				start := sc.pos
				sc.skip("0123456789")
				c.nth, _ = strconv.Atoi(sc.s[start:sc.pos]) // nothing means 0
			}
			if strings.IndexByte("\n;}\x00", sc.peek()) < 0 {
				return fmt.Errorf("char %d: extra characters after command", sc.pos+1)
			}
		default:
			return fmt.Errorf("char %d: unknown command: `%c'", sc.pos, c.verb)
		}
		sp.commands = append(sp.commands, c)
	}
	if len(blocks) > 0 {
		return fmt.Errorf("char 0: unmatched `{'")
	}
	for _, c := range sp.commands {
		if slices.Contains([]byte("btT"), c.verb) {
			c.target = len(sp.commands)
			if c.text != "" {
				at, ok := labels[c.text]
				if !ok {
					return fmt.Errorf("can't find label for jump to `%s'", c.text)
				}
				c.target = at
			}
		}
	}
	return nil
}

func (sp *sedProgram) substitution(sc *sedScan, c *sedCommand) error {
	delim := sc.peek()
	sc.pos++
	pattern, err := sc.until(delim, c.verb == 's')
	if err != nil {
		return err
	}
	if c.text, err = sc.until(delim, false); err != nil {
		return err
	}
	if c.verb == 'y' {
		a, b := []rune(unescape(pattern)), []rune(unescape(c.text))
		if len(a) != len(b) {
			return fmt.Errorf("char %d: strings for `y' command are different lengths", sc.pos)
		}
		c.text = string(a) + string(b)
		return nil
	}
	flags := ""
	for {
		switch f := sc.peek(); {
		case f == 'g':
			c.global = true
		case f == 'p':
			c.print = true
		case f == 'I' || f == 'i':
			flags = "(?i)"
		case f == 'm' || f == 'M':
			flags += "(?m)"
		case f >= '1' && f <= '9':
			start := sc.pos
			sc.skip("0123456789")
			c.nth, _ = strconv.Atoi(sc.s[start:sc.pos]) // digits only
			continue
		case f == 0 || strings.IndexByte("\n; \t}", f) >= 0:
			if c.re, err = sp.compile(pattern, flags); err != nil {
				return fmt.Errorf("char %d: %v", sc.pos, err)
			}
			return nil
		default:
			return fmt.Errorf("char %d: unknown option to `s'", sc.pos+1)
		}
		sc.pos++
	}
}

// expandReplacement fills & and \1 in, and \n and the like.
func expandReplacement(text string, line string, m []int) string {
	var sb strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '&':
			sb.WriteString(line[m[0]:m[1]])
		case c == '\\' && i+1 < len(text):
			i++
			switch d := text[i]; {
			case d >= '0' && d <= '9':
				if n := int(d-'0') * 2; n+1 < len(m) && m[n] >= 0 {
					sb.WriteString(line[m[n]:m[n+1]])
				}
			case d == 'n':
				sb.WriteByte('\n')
			case d == 't':
				sb.WriteByte('\t')
			default:
				sb.WriteByte(d)
			}
		default:
			sb.WriteByte(c)
		}
	}
	return sb.String()
}

// run applies the program to lines and returns the output.
func (sp *sedProgram) run(lines []string, ends, quiet bool, p *machine.Proc) (string, int) {
	var out strings.Builder
	emit := func(s string) { out.WriteString(s + "\n") }
	hold := ""
	n := 0
	matches := func(a *sedAddress, space string) bool {
		switch {
		case a.last:
			return n == len(lines)
		case a.re != nil:
			sp.last = a.re
			return a.re.MatchString(space)
		}
		return a.line == n
	}
	picks := func(c *sedCommand, space string) bool {
		switch {
		case c.from == nil:
			return !c.not
		case c.to == nil:
			return matches(c.from, space) != c.not
		}
		if c.inside {
			end := false
			switch {
			case c.until > 0:
				end = n >= c.until
			default:
				end = matches(c.to, space)
			}
			if end {
				c.inside = false
			}
			return !c.not
		}
		if !matches(c.from, space) && !(c.from.line == 0 && c.from.re == nil && !c.from.last && n == 1) {
			return c.not
		}
		c.inside, c.until = true, 0
		switch {
		case c.to.plus > 0:
			c.until = n + c.to.plus
		case c.to.line > 0:
			c.until = c.to.line
			if c.until <= n {
				c.inside = false
			}
		}
		return !c.not
	}
	for n < len(lines) {
		space := lines[n]
		n++
		var after []string
		deleted, replaced, quit, status := false, false, false, 0
		steps := 0
	commands:
		for i := 0; i < len(sp.commands); i++ {
			if steps++; steps > 1_000_000 {
				return out.String(), p.Fail(1, "the script doesn't end")
			}
			c := sp.commands[i]
			if !picks(c, space) {
				if c.verb == '{' {
					i = c.target
				}
				continue
			}
			switch c.verb {
			case 'd':
				deleted = true
				break commands
			case 'D':
				_, rest, ok := strings.Cut(space, "\n")
				if !ok {
					deleted = true
					break commands
				}
				space = rest
				i = -1
			case 'p':
				emit(space)
			case 'P':
				line, _, _ := strings.Cut(space, "\n")
				emit(line)
			case '=':
				emit(strconv.Itoa(n))
			case 'q', 'Q':
				quit, status, deleted = true, c.nth, c.verb == 'Q'
				break commands
			case 'n':
				if n == len(lines) {
					break commands
				}
				if !quiet {
					emit(space)
				}
				space = lines[n]
				n++
			case 'N':
				if n == len(lines) {
					break commands
				}
				space += "\n" + lines[n]
				n++
			case 'h':
				hold = space
			case 'H':
				hold += "\n" + space
			case 'g':
				space = hold
			case 'G':
				space += "\n" + hold
			case 'x':
				space, hold = hold, space
			case 'a':
				after = append(after, c.text)
			case 'i':
				emit(c.text)
			case 'c':
				deleted = true
				if c.to == nil || !c.inside || c.not {
					emit(c.text)
				}
				break commands
			case 'y':
				runes := []rune(c.text)
				half := len(runes) / 2
				space = strings.Map(func(r rune) rune {
					if j := slices.Index(runes[:half], r); j >= 0 {
						return runes[half+j]
					}
					return r
				}, space)
			case 'b':
				i = c.target
			case 't':
				if replaced {
					replaced = false
					i = c.target
				}
			case 'T':
				if !replaced {
					i = c.target
				}
				replaced = false
			case 's':
				if c.re != nil {
					sp.last = c.re
				}
				if sp.last == nil {
					return out.String(), p.Fail(1, "no previous regular expression")
				}
				if fresh, ok := substitute(sp.last, space, c); ok {
					space, replaced = fresh, true
					if c.print {
						emit(space)
					}
				}
			}
		}
		if !deleted && !quiet {
			emit(space)
		}
		for _, a := range after {
			emit(a)
		}
		if quit {
			return out.String(), status
		}
	}
	text := out.String()
	if !ends {
		text = strings.TrimSuffix(text, "\n")
	}
	return text, 0
}

func substitute(re *regexp.Regexp, space string, c *sedCommand) (string, bool) {
	var sb strings.Builder
	at, count, done := 0, 0, false
	for _, m := range re.FindAllStringSubmatchIndex(space, -1) {
		count++
		if count < max(1, c.nth) || done && !c.global {
			continue
		}
		sb.WriteString(space[at:m[0]])
		sb.WriteString(expandReplacement(c.text, space, m))
		at = m[1]
		done = true
	}
	sb.WriteString(space[at:])
	return sb.String(), done
}
