package coreutils

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
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

type awkToken struct {
	kind, text string // kind: num str re name op nl
	space      bool   // white space before it
}

// awkTokens splits a program.
func awkTokens(src string) ([]awkToken, error) {
	var out []awkToken
	number := regexp.MustCompile(`^(\d+\.?\d*([eE][+-]?\d+)?|\.\d+)`)
	name := regexp.MustCompile(`^[A-Za-z_]\w*`)
	ops := []string{"&&", "||", "==", "!=", "<=", ">=", "++", "--", "+=", "-=", "*=", "/=", "%=", "^=", "!~", "{", "}", "(", ")", "[", "]", ";", ",", "+", "-", "*", "/", "%", "^", "!", "<", ">", "~", "?", ":", "=", "$", "|"}
	space := false
	for i := 0; i < len(src); {
		c := src[i]
		rest := src[i:]
		add := func(kind, text string, n int) {
			out = append(out, awkToken{kind, text, space})
			i += n
			space = false
		}
		value := len(out) > 0 && (slices.Contains([]string{"num", "str", "name", "re"}, out[len(out)-1].kind) || slices.Contains([]string{")", "]", "$", "++", "--"}, out[len(out)-1].text))
		switch {
		case c == '\n':
			add("nl", "\n", 1)
		case c == ' ' || c == '\t' || c == '\r':
			space = true
			i++
		case c == '\\' && strings.HasPrefix(rest, "\\\n"):
			i += 2
		case c == '#':
			for i < len(src) && src[i] != '\n' {
				i++
			}
		case c == '"':
			j := 1
			for j < len(rest) && rest[j] != '"' {
				if rest[j] == '\\' {
					j++
				}
				j++
			}
			if j >= len(rest) {
				return nil, fmt.Errorf("runaway string constant %s", rest)
			}
			add("str", awkEscape(rest[1:j]), j+1)
		case c == '/' && !value:
			j := 1
			for j < len(rest) && rest[j] != '/' {
				if rest[j] == '\\' {
					j++
				}
				j++
			}
			if j >= len(rest) {
				return nil, fmt.Errorf("runaway regular expression %s", rest)
			}
			add("re", strings.ReplaceAll(rest[1:j], `\/`, "/"), j+1)
		case number.MatchString(rest):
			t := number.FindString(rest)
			add("num", t, len(t))
		case name.MatchString(rest):
			t := name.FindString(rest)
			add("name", t, len(t))
		default:
			i2 := slices.IndexFunc(ops, func(op string) bool { return strings.HasPrefix(rest, op) })
			if i2 < 0 {
				return nil, fmt.Errorf("unexpected character '%c'", c)
			}
			add("op", ops[i2], len(ops[i2]))
		}
	}
	return append(out, awkToken{kind: "nl", text: "\n"}), nil
}

func awkEscape(s string) string {
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`, `\"`, `"`, `\/`, "/", `\033`, "\033", `\r`, "\r").Replace(s)
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

func (p *awkParser) expr() (*awkExpr, error) { return p.ternary() }

func (p *awkParser) ternary() (*awkExpr, error) {
	cond, err := p.binary(0)
	if err != nil {
		return nil, err
	}
	switch op := p.peek(); op {
	case "?":
		p.next()
		a, err := p.ternary()
		if err != nil {
			return nil, err
		}
		if err := p.expect(":"); err != nil {
			return nil, err
		}
		b, err := p.ternary()
		return &awkExpr{op: "cond", args: []*awkExpr{cond, a, b}}, err
	case "=", "+=", "-=", "*=", "/=", "%=", "^=":
		p.next()
		value, err := p.ternary()
		return &awkExpr{op: op, args: []*awkExpr{cond, value}}, err
	}
	return cond, nil
}

// awkLevels are the binary operators, the weakest first; "" is concatenation.
func awkLevels() [][]string {
	return [][]string{{"||"}, {"&&"}, {"in"}, {"~", "!~"}, {"<", "<=", "==", "!=", ">", ">="}, {""}, {"+", "-"}, {"*", "/", "%"}}
}

func (p *awkParser) binary(level int) (*awkExpr, error) {
	levels := awkLevels()
	if level == len(levels) {
		return p.unary()
	}
	left, err := p.binary(level + 1)
	for err == nil {
		op := p.peek()
		if levels[level][0] == "" {
			if !p.startsOperand() {
				return left, nil
			}
			var right *awkExpr
			right, err = p.binary(level + 1)
			left = &awkExpr{op: "cat", args: []*awkExpr{left, right}}
			continue
		}
		if !slices.Contains(levels[level], op) || op == ">" && p.noGt || p.toks[p.pos].kind == "str" {
			return left, nil
		}
		p.next()
		if op == "in" {
			left = &awkExpr{op: "in", text: p.next().text, args: []*awkExpr{left}}
			continue
		}
		p.lines()
		var right *awkExpr
		right, err = p.binary(level + 1)
		left = &awkExpr{op: op, args: []*awkExpr{left, right}}
	}
	return left, err
}

// startsOperand reports whether the next token begins an operand, so that what
// stands here is a concatenation.
func (p *awkParser) startsOperand() bool {
	if p.pos >= len(p.toks) {
		return false
	}
	switch t := p.toks[p.pos]; t.kind {
	case "num", "str":
		return true
	case "name":
		return t.text != "in" && t.text != "else"
	case "op":
		return t.text == "$" || t.text == "("
	}
	return false
}

func (p *awkParser) unary() (*awkExpr, error) {
	switch op := p.peek(); op {
	case "!", "-", "+":
		p.next()
		e, err := p.unary()
		return &awkExpr{op: "u" + op, args: []*awkExpr{e}}, err
	}
	base, err := p.postfix()
	if err == nil && p.peek() == "^" {
		p.next()
		var exp *awkExpr
		exp, err = p.unary()
		base = &awkExpr{op: "^", args: []*awkExpr{base, exp}}
	}
	return base, err
}

func (p *awkParser) postfix() (*awkExpr, error) {
	if op := p.peek(); op == "++" || op == "--" {
		p.next()
		e, err := p.primary()
		return &awkExpr{op: "pre", text: op, args: []*awkExpr{e}}, err
	}
	e, err := p.primary()
	if op := p.peek(); err == nil && (op == "++" || op == "--") && slices.Contains([]string{"var", "$", "index"}, e.op) {
		p.next()
		e = &awkExpr{op: "post", text: op, args: []*awkExpr{e}}
	}
	return e, err
}

func (p *awkParser) list(end string) ([]*awkExpr, error) {
	saved := p.noGt
	p.noGt = false
	defer func() { p.noGt = saved }()
	var out []*awkExpr
	for p.peek() != end {
		p.lines()
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		if p.peek() != "," {
			break
		}
		p.next()
	}
	return out, p.expect(end)
}

func (p *awkParser) primary() (*awkExpr, error) {
	if p.pos >= len(p.toks) {
		return nil, fmt.Errorf("syntax error at or near end of program")
	}
	t := p.next()
	switch t.kind {
	case "num", "str", "re":
		return &awkExpr{op: t.kind, text: t.text}, nil
	case "name":
		switch {
		case p.peek() == "(" && (!p.toks[p.pos].space || slices.Contains(awkFunctions(), t.text)):
			p.next()
			args, err := p.list(")")
			if err == nil && !slices.Contains(awkFunctions(), t.text) {
				err = fmt.Errorf("function %s never defined", t.text)
			}
			return &awkExpr{op: "call", text: t.text, args: args}, err
		case t.text == "length":
			return &awkExpr{op: "call", text: "length"}, nil
		case p.peek() == "[":
			p.next()
			args, err := p.list("]")
			return &awkExpr{op: "index", text: t.text, args: args}, err
		case t.text == "getline" || t.text == "function":
			return nil, fmt.Errorf("%s is beyond this awk", t.text)
		}
		return &awkExpr{op: "var", text: t.text}, nil
	}
	switch t.text {
	case "(":
		args, err := p.list(")")
		if err != nil {
			return nil, err
		}
		if len(args) == 1 {
			return &awkExpr{op: "paren", args: args}, nil
		}
		return &awkExpr{op: "group", args: args}, nil
	case "$":
		e, err := p.postfixOperand()
		return &awkExpr{op: "$", args: []*awkExpr{e}}, err
	}
	return nil, fmt.Errorf("syntax error at or near %s", strings.TrimSpace(t.text))
}

// postfixOperand is what may follow $.
func (p *awkParser) postfixOperand() (*awkExpr, error) {
	if op := p.peek(); op == "++" || op == "--" || op == "-" {
		return p.unary()
	}
	return p.primary()
}

func awkFunctions() []string {
	return []string{"length", "substr", "index", "split", "sub", "gsub", "match", "tolower", "toupper", "sprintf", "int", "rand", "srand", "sqrt", "exp", "log"}
}
