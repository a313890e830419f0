package debian

import (
	"fmt"
	"slices"
	"strings"
)

func (p *nftParser) flush() error {
	what, err := p.word()
	if err != nil {
		return err
	}
	p.changed = true
	switch what {
	case "ruleset":
		family := p.family()
		if p.pos > 0 && p.toks[p.pos-1].text == "ruleset" {
			p.rules.tables = nil
			return nil
		}
		p.rules.tables = slices.DeleteFunc(p.rules.tables, func(t *table) bool { return t.family == family })
		return nil
	case "table", "chain", "set", "map":
		t, err := p.findTable()
		if err != nil {
			return err
		}
		if what == "table" {
			for _, c := range t.chains {
				c.rules = nil
			}
			return nil
		}
		name, err := p.word()
		if err != nil {
			return err
		}
		if what == "chain" {
			if c := t.chain(name); c != nil {
				c.rules = nil
				return nil
			}
		} else if s := t.set(name); s != nil {
			s.elements = nil
			return nil
		}
		return p.errorf("Could not process rule: No such file or directory")
	}
	p.pos--
	return p.unexpected()
}

func (p *nftParser) findTable() (*table, error) {
	family := p.family()
	name, err := p.word()
	if err != nil {
		return nil, err
	}
	t := p.rules.table(family, name)
	if t == nil {
		p.pos--
		return nil, p.errorf("Could not process rule: No such file or directory")
	}
	return t, nil
}

func (p *nftParser) show() error {
	what, err := p.word()
	if err != nil {
		return err
	}
	var sb strings.Builder
	switch what {
	case "ruleset":
		for _, t := range p.rules.tables {
			t.print(&sb)
		}
		_, err = p.restOfLine()
	case "tables":
		for _, t := range p.rules.tables {
			fmt.Fprintf(&sb, "table %s %s\n", t.family, t.name)
		}
		_, err = p.restOfLine()
	case "chains":
		for _, t := range p.rules.tables {
			only := &table{family: t.family, name: t.name}
			for _, c := range t.chains {
				bare := *c
				bare.rules = nil
				only.chains = append(only.chains, &bare)
			}
			only.print(&sb)
		}
		_, err = p.restOfLine()
	case "table", "chain", "set", "map":
		t, terr := p.findTable()
		if terr != nil {
			return terr
		}
		only := t
		if what != "table" {
			name, werr := p.word()
			if werr != nil {
				return werr
			}
			only = &table{family: t.family, name: t.name}
			if c := t.chain(name); what == "chain" && c != nil {
				only.chains = []*chain{c}
			} else if s := t.set(name); what != "chain" && s != nil {
				only.sets = []*set{s}
			} else {
				return p.errorf("No such file or directory")
			}
		}
		only.print(&sb)
	default:
		p.pos--
		return p.unexpected()
	}
	if err == nil {
		p.list("%s", sb.String())
	}
	return err
}

func (p *nftParser) change(verb, kind string) error {
	remove := verb == "delete" || verb == "destroy"
	switch kind {
	case "table":
		family := p.family()
		name, err := p.word()
		if err != nil {
			return err
		}
		t := p.rules.table(family, name)
		if remove {
			if t == nil && verb == "delete" {
				return p.errorf("Could not process rule: No such file or directory")
			}
			p.rules.tables = slices.DeleteFunc(p.rules.tables, func(o *table) bool { return o == t })
			return nil
		}
		if t == nil {
			t = &table{family: family, name: name}
			p.rules.tables = append(p.rules.tables, t)
		} else if verb == "create" {
			return p.errorf("Could not process rule: File exists")
		}
		if p.peek() == "{" {
			return p.body(t)
		}
		return p.end()
	case "chain", "rule", "set", "map", "element":
	default:
		p.pos--
		return p.unexpected()
	}
	t, err := p.findTable()
	if err != nil {
		return err
	}
	name, err := p.word()
	if err != nil {
		return err
	}
	switch kind {
	case "chain":
		if remove {
			t.chains = slices.DeleteFunc(t.chains, func(c *chain) bool { return c.name == name })
			return nil
		}
		return p.chainBody(t, name)
	case "rule":
		c := t.chain(name)
		if c == nil {
			return p.errorf("Could not process rule: No such file or directory")
		}
		if remove {
			_, err := p.restOfLine() // a handle; rules are told apart by their text here
			return err
		}
		return p.rule(t, c, verb == "insert")
	case "set", "map":
		if remove {
			t.sets = slices.DeleteFunc(t.sets, func(s *set) bool { return s.name == name })
			return nil
		}
		return p.setBody(t, kind, name)
	}
	s := t.set(name)
	if s == nil {
		return p.errorf("Could not process rule: No such file or directory")
	}
	elements, err := p.elements()
	for _, e := range elements {
		had := slices.Contains(s.elements, e)
		if remove {
			s.elements = slices.DeleteFunc(s.elements, func(o string) bool { return o == e })
		} else if !had {
			s.elements = append(s.elements, e)
		}
	}
	return err
}
