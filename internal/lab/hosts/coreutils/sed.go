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

// maxSpace bounds what one run of sed or awk may hold, in bytes: a script that
// doubles its text for ever would take the lab with it.
const maxSpace = 64 << 20

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
			if len(space)+len(hold)+out.Len() > maxSpace {
				return out.String(), p.Fail(4, "memory exhausted")
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
