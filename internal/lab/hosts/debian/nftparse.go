package debian

import (
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

func (p *nftParser) family() string {
	switch f := p.peek(); f {
	case "ip", "ip6", "inet", "arp", "bridge", "netdev":
		p.pos++
		return f
	}
	return "ip"
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
