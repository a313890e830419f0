package coreutils

import (
	"fmt"
	"slices"
	"strings"
)

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
