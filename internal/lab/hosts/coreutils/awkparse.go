package coreutils

import (
	"fmt"
	"slices"
)

type awkProgram struct {
	begin, end []*awkStmt
	rules      []*awkRule
}

type awkRule struct {
	from, to *awkExpr
	body     *awkStmt
	inside   bool
}

// An awkStmt is a statement; op says which.
type awkStmt struct {
	op    string // block, expr, print, printf, if, while, do, for, in, next, exit, break, continue, delete
	exprs []*awkExpr
	stmts []*awkStmt
	name  string
}

// An awkExpr is an expression; op is an operator, or: num, str, re, var, $,
// index, call, cond, cat, in, pre, post.
type awkExpr struct {
	op   string
	text string
	args []*awkExpr
}

type awkParser struct {
	toks []awkToken
	pos  int

	noGt bool // in print's list
}

func parseAwk(src string) (*awkProgram, error) {
	toks, err := awkTokens(src)
	if err != nil {
		return nil, err
	}
	p := &awkParser{toks: toks}
	prog := &awkProgram{}
	for p.skip(); p.pos < len(p.toks); p.skip() {
		switch p.peek() {
		case "BEGIN", "END":
			which := p.next().text
			body, err := p.block()
			if err != nil {
				return nil, err
			}
			if which == "BEGIN" {
				prog.begin = append(prog.begin, body)
			} else {
				prog.end = append(prog.end, body)
			}
			continue
		}
		r := &awkRule{}
		if p.peek() != "{" {
			if r.from, err = p.expr(); err != nil {
				return nil, err
			}
			if p.peek() == "," {
				p.next()
				if r.to, err = p.expr(); err != nil {
					return nil, err
				}
			}
		}
		if p.peek() == "{" {
			if r.body, err = p.block(); err != nil {
				return nil, err
			}
		} else {
			r.body = &awkStmt{op: "print"}
		}
		prog.rules = append(prog.rules, r)
	}
	return prog, nil
}

func (p *awkParser) skip() {
	for p.pos < len(p.toks) && (p.toks[p.pos].kind == "nl" || p.toks[p.pos].kind == "op" && p.toks[p.pos].text == ";") {
		p.pos++
	}
}

func (p *awkParser) lines() {
	for p.pos < len(p.toks) && p.toks[p.pos].kind == "nl" {
		p.pos++
	}
}

// peek is the next token's text; a constant's is hidden.
func (p *awkParser) peek() string {
	if p.pos >= len(p.toks) {
		return ""
	}
	if t := p.toks[p.pos]; t.kind != "str" && t.kind != "re" {
		return t.text
	}
	return "constant"
}

func (p *awkParser) next() awkToken {
	t := p.toks[p.pos]
	p.pos++
	return t
}

func (p *awkParser) expect(text string) error {
	if p.peek() != text {
		return fmt.Errorf("syntax error at or near %s", p.peek())
	}
	p.pos++
	return nil
}

func (p *awkParser) block() (*awkStmt, error) {
	p.lines()
	if err := p.expect("{"); err != nil {
		return nil, err
	}
	b := &awkStmt{op: "block"}
	for {
		p.skip()
		if p.peek() == "}" {
			p.next()
			return b, nil
		}
		if p.pos >= len(p.toks) {
			return nil, fmt.Errorf("syntax error at or near end of program")
		}
		s, err := p.stmt()
		if err != nil {
			return nil, err
		}
		b.stmts = append(b.stmts, s)
	}
}

func (p *awkParser) simple() (*awkStmt, error) {
	switch word := p.peek(); word {
	case "print", "printf":
		p.next()
		s := &awkStmt{op: word}
		p.noGt = true
		defer func() { p.noGt = false }()
		for !slices.Contains([]string{"\n", ";", "}", ">", "|", ""}, p.peek()) {
			e, err := p.expr()
			if err != nil {
				return nil, err
			}
			if e.op == "group" && len(s.exprs) == 0 && slices.Contains([]string{"\n", ";", "}", ""}, p.peek()) {
				s.exprs = e.args
				break
			}
			s.exprs = append(s.exprs, e)
			if p.peek() != "," {
				break
			}
			p.next()
			p.lines()
		}
		if p.peek() == ">" || p.peek() == "|" {
			return nil, fmt.Errorf("output to files and commands is beyond this awk")
		}
		return s, nil
	case "delete":
		p.next()
		e, err := p.primary()
		return &awkStmt{op: "delete", exprs: []*awkExpr{e}}, err
	}
	e, err := p.expr()
	return &awkStmt{op: "expr", exprs: []*awkExpr{e}}, err
}

func (p *awkParser) condition() (*awkExpr, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	e, err := p.expr()
	if err == nil {
		err = p.expect(")")
	}
	return e, err
}

func (p *awkParser) body() (*awkStmt, error) {
	p.lines()
	if p.peek() == ";" {
		p.next()
		return &awkStmt{op: "block"}, nil
	}
	return p.stmt()
}

func (p *awkParser) stmt() (*awkStmt, error) {
	switch word := p.peek(); word {
	case "{":
		return p.block()
	case "next", "break", "continue":
		p.next()
		return &awkStmt{op: word}, nil
	case "exit":
		p.next()
		s := &awkStmt{op: "exit"}
		if !slices.Contains([]string{"\n", ";", "}", ""}, p.peek()) {
			e, err := p.expr()
			if err != nil {
				return nil, err
			}
			s.exprs = []*awkExpr{e}
		}
		return s, nil
	case "if", "while":
		p.next()
		cond, err := p.condition()
		if err != nil {
			return nil, err
		}
		then, err := p.body()
		if err != nil {
			return nil, err
		}
		s := &awkStmt{op: word, exprs: []*awkExpr{cond}, stmts: []*awkStmt{then}}
		if word == "if" {
			at := p.pos
			p.skip()
			if p.peek() != "else" {
				p.pos = at
				return s, nil
			}
			p.next()
			other, err := p.body()
			if err != nil {
				return nil, err
			}
			s.stmts = append(s.stmts, other)
		}
		return s, nil
	case "do":
		p.next()
		body, err := p.body()
		if err != nil {
			return nil, err
		}
		p.skip()
		if err := p.expect("while"); err != nil {
			return nil, err
		}
		cond, err := p.condition()
		return &awkStmt{op: "do", exprs: []*awkExpr{cond}, stmts: []*awkStmt{body}}, err
	case "for":
		return p.loop()
	}
	return p.simple()
}

func (p *awkParser) loop() (*awkStmt, error) {
	p.next()
	if err := p.expect("("); err != nil {
		return nil, err
	}
	if p.pos+3 < len(p.toks) && p.toks[p.pos].kind == "name" && p.toks[p.pos+1].text == "in" && p.toks[p.pos+3].text == ")" {
		s := &awkStmt{op: "in", name: p.next().text}
		p.next()
		s.exprs = []*awkExpr{{op: "var", text: p.next().text}}
		p.next()
		body, err := p.body()
		s.stmts = []*awkStmt{body}
		return s, err
	}
	s := &awkStmt{op: "for", exprs: []*awkExpr{nil}, stmts: []*awkStmt{nil, nil, nil}}
	var err error
	if p.peek() != ";" {
		if s.stmts[0], err = p.simple(); err != nil {
			return nil, err
		}
	}
	if err := p.expect(";"); err != nil {
		return nil, err
	}
	if p.peek() != ";" {
		if s.exprs[0], err = p.expr(); err != nil {
			return nil, err
		}
	}
	if err := p.expect(";"); err != nil {
		return nil, err
	}
	if p.peek() != ")" {
		if s.stmts[1], err = p.simple(); err != nil {
			return nil, err
		}
	}
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	s.stmts[2], err = p.body()
	return s, err
}
