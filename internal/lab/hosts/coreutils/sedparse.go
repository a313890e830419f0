package coreutils

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

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
