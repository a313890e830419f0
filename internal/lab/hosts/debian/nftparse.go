package debian

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// nftParser reads nft's language and applies it to a ruleset.
type nftParser struct {
	rules   *ruleset
	name    string
	defines map[string][]string
	list    func(format string, args ...any)
	read    func(file string) (string, error)
	glob    func(pattern string) []string
	changed bool
	depth   int

	toks []token
	pos  int
}

// A token is a word, or one of { } ; , = and the end of a line, which is "\n".
type token struct {
	text   string
	line   int
	quoted bool
}

// An nftError names file and line, as nft does.
type nftError struct {
	file string
	line int
	text string
}

func (e *nftError) Error() string { return fmt.Sprintf("%s:%d:1-1: Error: %s", e.file, e.line, e.text) }

func (p *nftParser) scan(text string) error {
	line := 1
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case c == '\n':
			p.toks = append(p.toks, token{text: "\n", line: line})
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '\\' && i+1 < len(text) && text[i+1] == '\n':
			line++
			i += 2
		case c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '"':
			end := strings.IndexAny(text[i+1:], "\"\n")
			if end < 0 || text[i+1+end] == '\n' {
				return &nftError{p.name, line, "syntax error, unexpected junk"}
			}
			p.toks = append(p.toks, token{text: text[i+1 : i+1+end], line: line, quoted: true})
			i += end + 2
		case strings.IndexByte("{};,()", c) >= 0:
			p.toks = append(p.toks, token{text: string(c), line: line})
			i++
		case strings.HasPrefix(text[i:], "!=") || strings.HasPrefix(text[i:], "==") || strings.HasPrefix(text[i:], "<=") || strings.HasPrefix(text[i:], ">="):
			p.toks = append(p.toks, token{text: text[i : i+2], line: line})
			i += 2
		case c == '=' || c == '<' || c == '>' || c == '&' || c == '|':
			p.toks = append(p.toks, token{text: string(c), line: line})
			i++
		default:
			j := i
			for j < len(text) && strings.IndexByte(" \t\r\n{};,()=\"#!<>&|", text[j]) < 0 {
				j++
			}
			if j == i {
				return &nftError{p.name, line, "syntax error, unexpected junk"}
			}
			p.toks = append(p.toks, token{text: text[i:j], line: line})
			i = j
		}
	}
	p.toks = append(p.toks, token{text: "\n", line: line})
	return nil
}

func (p *nftParser) run(text string) error {
	if p.depth++; p.depth > 16 {
		return &nftError{p.name, 1, "Maximum include depth reached"}
	}
	defer func() { p.depth-- }()
	savedToks, savedPos := p.toks, p.pos
	p.toks, p.pos = nil, 0
	defer func() { p.toks, p.pos = savedToks, savedPos }()
	if err := p.scan(text); err != nil {
		return err
	}
	for {
		p.blank()
		if p.pos >= len(p.toks) {
			return nil
		}
		if err := p.statement(); err != nil {
			return err
		}
	}
}

func (p *nftParser) blank() {
	for p.pos < len(p.toks) && (p.toks[p.pos].text == "\n" || p.toks[p.pos].text == ";") && !p.toks[p.pos].quoted {
		p.pos++
	}
}

func (p *nftParser) peek() string {
	if p.pos >= len(p.toks) {
		return ""
	}
	return p.toks[p.pos].text
}

func (p *nftParser) line() int {
	if p.pos < len(p.toks) {
		return p.toks[p.pos].line
	}
	if len(p.toks) > 0 {
		return p.toks[len(p.toks)-1].line
	}
	return 1
}

func (p *nftParser) errorf(format string, args ...any) error {
	return &nftError{p.name, p.line(), fmt.Sprintf(format, args...)}
}

func (p *nftParser) unexpected() error {
	switch t := p.peek(); t {
	case "":
		return p.errorf("syntax error, unexpected end of file")
	case "\n":
		return p.errorf("syntax error, unexpected newline")
	default:
		return p.errorf("syntax error, unexpected %s", t)
	}
}

// word takes the next word of the line.
func (p *nftParser) word() (string, error) {
	t := p.peek()
	if t == "" || !p.toks[p.pos].quoted && strings.Contains("\n{};,()=", t) {
		return "", p.unexpected()
	}
	p.pos++
	return t, nil
}

func (p *nftParser) expect(text string) error {
	if p.peek() != text {
		return p.unexpected()
	}
	p.pos++
	return nil
}

func (p *nftParser) family() string {
	switch f := p.peek(); f {
	case "ip", "ip6", "inet", "arp", "bridge", "netdev":
		p.pos++
		return f
	}
	return "ip"
}

// restOfLine takes the words up to the end of the line or a semicolon, braces
// over several lines included, with variables replaced.
func (p *nftParser) restOfLine() ([]string, error) {
	var out []string
	depth := 0
	for p.pos < len(p.toks) {
		t := p.toks[p.pos]
		if !t.quoted {
			switch t.text {
			case "\n":
				if depth == 0 {
					return out, nil
				}
				p.pos++
				continue
			case ";":
				if depth == 0 {
					return out, nil
				}
			case "{":
				depth++
			case "}":
				if depth == 0 {
					return out, nil
				}
				depth--
			}
		}
		p.pos++
		switch {
		case t.quoted:
			out = append(out, `"`+t.text+`"`)
		case strings.HasPrefix(t.text, "$"):
			value, ok := p.defines[t.text[1:]]
			if !ok {
				p.pos--
				return nil, p.errorf("unknown identifier '%s'", t.text[1:])
			}
			out = append(out, value...)
		default:
			out = append(out, t.text)
		}
	}
	if depth > 0 {
		return nil, p.errorf("syntax error, unexpected end of file")
	}
	return out, nil
}

func (p *nftParser) statement() error {
	verb, err := p.word()
	if err != nil {
		return err
	}
	switch verb {
	case "define", "redefine":
		name, err := p.word()
		if err != nil {
			return err
		}
		if err := p.expect("="); err != nil {
			return err
		}
		value, err := p.restOfLine()
		if err == nil && len(value) == 0 {
			err = p.unexpected()
		}
		p.defines[name] = value
		return err
	case "undefine":
		name, err := p.word()
		delete(p.defines, name)
		return err
	case "include":
		file, err := p.word()
		if err != nil {
			return err
		}
		files := []string{file}
		if strings.ContainsAny(file, "*?[") {
			files = p.glob(file)
		}
		for _, f := range files {
			text, err := p.read(f)
			if err != nil {
				return p.errorf("Could not open file \"%s\": No such file or directory", f)
			}
			outer := p.name
			p.name = f
			err = p.run(text)
			p.name = outer
			if err != nil {
				return err
			}
		}
		return nil
	case "flush":
		return p.flush()
	case "list":
		return p.show()
	case "add", "create", "insert", "delete", "destroy", "replace":
		kind, err := p.word()
		if err != nil {
			return err
		}
		p.changed = true
		return p.change(verb, kind)
	case "table", "chain", "rule", "set", "map", "element":
		p.changed = true
		return p.change("add", verb)
	}
	p.pos--
	return p.unexpected()
}

func (p *nftParser) end() error {
	if t := p.peek(); t != "" && t != "\n" && t != ";" && t != "}" {
		return p.unexpected()
	}
	return nil
}

func (p *nftParser) body(t *table) error {
	if err := p.expect("{"); err != nil {
		return err
	}
	for {
		p.blank()
		switch word := p.peek(); word {
		case "}":
			p.pos++
			return nil
		case "chain", "set", "map":
			p.pos++
			name, err := p.word()
			if err != nil {
				return err
			}
			if word == "chain" {
				err = p.chainBody(t, name)
			} else {
				err = p.setBody(t, word, name)
			}
			if err != nil {
				return err
			}
		case "flags", "comment":
			if _, err := p.restOfLine(); err != nil {
				return err
			}
		case "flowtable", "counter", "quota", "limit", "ct":
			if _, err := p.restOfLine(); err != nil {
				return err
			}
		default:
			return p.unexpected()
		}
	}
}

func (p *nftParser) chainBody(t *table, name string) error {
	c := t.chain(name)
	if c == nil {
		c = &chain{name: name}
		t.chains = append(t.chains, c)
	}
	if p.peek() != "{" {
		return p.end()
	}
	p.pos++
	for {
		p.blank()
		switch p.peek() {
		case "}":
			p.pos++
			return nil
		case "type":
			if err := p.hook(c); err != nil {
				return err
			}
		case "policy":
			p.pos++
			policy, err := p.word()
			if err != nil {
				return err
			}
			if policy != "accept" && policy != "drop" {
				p.pos--
				return p.unexpected()
			}
			c.policy = policy
		case "comment":
			if _, err := p.restOfLine(); err != nil {
				return err
			}
		case "":
			return p.unexpected()
		default:
			if err := p.rule(t, c, false); err != nil {
				return err
			}
		}
	}
}

func (p *nftParser) hook(c *chain) error {
	words, err := p.restOfLine()
	if err != nil {
		return err
	}
	// type KIND hook HOOK [device DEV] priority PRIO
	at := func(key string) string {
		if i := slices.Index(words, key); i >= 0 && i+1 < len(words) {
			return words[i+1]
		}
		return ""
	}
	kind, hook, prio := at("type"), at("hook"), at("priority")
	if !slices.Contains([]string{"filter", "nat", "route"}, kind) {
		return p.errorf("unknown chain type")
	}
	if !slices.Contains([]string{"prerouting", "input", "forward", "output", "postrouting", "ingress", "egress"}, hook) {
		return p.errorf("unknown chain hook")
	}
	if i := slices.Index(words, "priority"); i >= 0 {
		prio = strings.Join(words[i+1:], " ")
	}
	if !validPriority(prio) {
		return p.errorf("invalid priority expression value in this context.")
	}
	c.kind, c.hook, c.prio = kind, hook, prio
	if c.policy == "" {
		c.policy = "accept"
	}
	return nil
}

// validPriority accepts a number, or a name with an offset: filter - 5.
func validPriority(prio string) bool {
	if _, err := strconv.Atoi(prio); err == nil {
		return true
	}
	f := strings.Fields(strings.NewReplacer("+", " + ", "-", " - ").Replace(prio))
	if len(f) == 0 || !slices.Contains([]string{"raw", "mangle", "dstnat", "filter", "security", "srcnat", "out"}, f[0]) {
		return false
	}
	if len(f) == 1 {
		return true
	}
	_, err := strconv.Atoi(f[len(f)-1])
	return len(f) == 3 && err == nil
}

func (p *nftParser) elements() ([]string, error) {
	if err := p.expect("{"); err != nil {
		return nil, err
	}
	p.pos--
	words, err := p.restOfLine()
	if err != nil {
		return nil, err
	}
	var out []string
	for part := range strings.SplitSeq(strings.Trim(strings.Join(words, " "), "{} "), ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out, nil
}

func (p *nftParser) setBody(t *table, word, name string) error {
	s := t.set(name)
	if s == nil {
		s = &set{word: word, name: name}
		t.sets = append(t.sets, s)
	}
	if err := p.expect("{"); err != nil {
		return err
	}
	for {
		p.blank()
		switch p.peek() {
		case "}":
			p.pos++
			if len(s.props) == 0 {
				return p.errorf("set definition does not specify key")
			}
			return nil
		case "elements":
			p.pos++
			if err := p.expect("="); err != nil {
				return err
			}
			elements, err := p.elements()
			if err != nil {
				return err
			}
			s.elements = append(s.elements, elements...)
		case "type", "typeof", "flags", "timeout", "gc-interval", "size", "policy", "auto-merge", "counter", "comment":
			words, err := p.restOfLine()
			if err != nil {
				return err
			}
			if prop := strings.Join(words, " "); !slices.Contains(s.props, prop) {
				s.props = append(s.props, prop)
			}
		default:
			return p.unexpected()
		}
	}
}
