package coreutils

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

func (in *awkRun) block(s *awkStmt) error {
	if s == nil {
		return nil
	}
	if in.steps++; in.steps&1023 == 0 && in.ctx.Err() != nil {
		return errExit
	}
	cond := func() (bool, error) {
		if s.exprs[0] == nil {
			return true, nil
		}
		v, err := in.eval(s.exprs[0])
		return v.truth(), err
	}
	switch s.op {
	case "block":
		for _, one := range s.stmts {
			if err := in.block(one); err != nil {
				return err
			}
		}
	case "expr":
		_, err := in.eval(s.exprs[0])
		return err
	case "print", "printf":
		var vals []awkValue
		for _, e := range s.exprs {
			v, err := in.eval(e)
			if err != nil {
				return err
			}
			vals = append(vals, v)
		}
		if s.op == "printf" {
			if len(vals) == 0 {
				return errors.New("not enough arguments passed to printf")
			}
			in.out.WriteString(awkFormat(vals[0].str(), vals[1:]))
			return nil
		}
		if len(vals) == 0 {
			in.out.WriteString(in.field(0))
		}
		for i, v := range vals {
			if i > 0 {
				in.out.WriteString(in.vars["OFS"].str())
			}
			in.out.WriteString(v.str())
		}
		in.out.WriteString(in.vars["ORS"].str())
	case "next":
		return errNext
	case "break":
		return errBreak
	case "continue":
		return errCont
	case "exit":
		if len(s.exprs) > 0 {
			v, err := in.eval(s.exprs[0])
			if err != nil {
				return err
			}
			in.code = int(v.float())
		}
		return errExit
	case "if":
		yes, err := cond()
		switch {
		case err != nil:
			return err
		case yes:
			return in.block(s.stmts[0])
		case len(s.stmts) > 1:
			return in.block(s.stmts[1])
		}
	case "while", "for", "do":
		body, step := s.stmts[0], (*awkStmt)(nil)
		if s.op == "for" {
			if err := in.block(s.stmts[0]); err != nil {
				return err
			}
			step, body = s.stmts[1], s.stmts[2]
		}
		for first := s.op == "do"; ; first = false {
			if !first {
				if yes, err := cond(); err != nil || !yes {
					return err
				}
			}
			if err := in.block(body); err == errBreak {
				return nil
			} else if err != nil && err != errCont {
				return err
			}
			if err := in.block(step); err != nil {
				return err
			}
		}
	case "in":
		for _, key := range slices.Sorted(maps.Keys(in.array(s.exprs[0].text))) {
			in.vars[s.name] = strnum(key)
			if err := in.block(s.stmts[0]); err == errBreak {
				return nil
			} else if err != nil && err != errCont {
				return err
			}
		}
	case "delete":
		e := s.exprs[0]
		if e.op == "var" {
			clear(in.array(e.text))
			return nil
		}
		key, err := in.key(e.args)
		delete(in.array(e.text), key)
		return err
	}
	return nil
}

func (in *awkRun) field(n int) string {
	if n < 0 || n >= len(in.fields) {
		return ""
	}
	return in.fields[n]
}

// pattern evaluates what stands right of ~: a constant or a text that is a
// regular expression.
func (in *awkRun) pattern(e *awkExpr) (string, error) {
	if e.op == "re" {
		return e.text, nil
	}
	v, err := in.eval(e)
	return v.str(), err
}

func (in *awkRun) eval(e *awkExpr) (awkValue, error) {
	switch e.op {
	case "num":
		return strnum(e.text), nil
	case "str":
		return awkText(e.text), nil
	case "re":
		re, err := in.regexp(e.text)
		if err != nil {
			return awkValue{}, err
		}
		return awkBool(re.MatchString(in.field(0))), nil
	case "var":
		return in.vars[e.text], nil
	case "index":
		key, err := in.key(e.args)
		return in.array(e.text)[key], err
	case "in":
		key, err := in.key(e.args)
		if e.args[0].op == "group" {
			key, err = in.key(e.args[0].args)
		}
		_, ok := in.array(e.text)[key]
		return awkBool(ok), err
	case "call":
		return in.call(e)
	case "~", "!~":
		v, re, err := in.matched(e)
		if err != nil {
			return v, err
		}
		return awkBool(re.MatchString(v.str()) == (e.op == "~")), nil
	case "&&", "||", "cond":
		v, err := in.eval(e.args[0])
		if err != nil {
			return v, err
		}
		switch {
		case e.op == "cond" && v.truth():
			return in.eval(e.args[1])
		case e.op == "cond":
			return in.eval(e.args[2])
		case v.truth() == (e.op == "||"):
			return awkBool(e.op == "||"), nil
		}
		v, err = in.eval(e.args[1])
		return awkBool(v.truth()), err
	case "=", "+=", "-=", "*=", "/=", "%=", "^=":
		v, err := in.eval(e.args[1])
		if err != nil {
			return v, err
		}
		if e.op != "=" {
			old, err := in.eval(e.args[0])
			if err != nil {
				return v, err
			}
			if v, err = arithmetic(e.op[:1], old.float(), v.float()); err != nil {
				return v, err
			}
		}
		return v, in.assign(e.args[0], v)
	case "pre", "post":
		old, err := in.eval(e.args[0])
		if err != nil {
			return old, err
		}
		step := 1.0
		if e.text == "--" {
			step = -1
		}
		fresh := awkNumber(old.float() + step)
		err = in.assign(e.args[0], fresh)
		if e.op == "post" {
			return awkNumber(old.float()), err
		}
		return fresh, err
	}
	var vals []awkValue
	for _, a := range e.args {
		v, err := in.eval(a)
		if err != nil {
			return v, err
		}
		vals = append(vals, v)
	}
	switch e.op {
	case "paren":
		return vals[0], nil
	case "group":
		return vals[len(vals)-1], nil
	case "$":
		return strnum(in.field(int(vals[0].float()))), nil
	case "cat":
		if len(vals[0].str())+len(vals[1].str()) > maxSpace {
			return awkValue{}, errors.New("memory exhausted")
		}
		return awkText(vals[0].str() + vals[1].str()), nil
	case "u!":
		return awkBool(!vals[0].truth()), nil
	case "u-":
		return awkNumber(-vals[0].float()), nil
	case "u+":
		return awkNumber(vals[0].float()), nil
	case "+", "-", "*", "/", "%", "^":
		return arithmetic(e.op, vals[0].float(), vals[1].float())
	case "<", "<=", "==", "!=", ">", ">=":
		a, b := vals[0], vals[1]
		c := strings.Compare(a.str(), b.str())
		// A variable that was never set is a number as well.
		unset := awkValue{}
		if (a.number || a == unset) && (b.number || b == unset) {
			switch x, y := a.float(), b.float(); {
			case x < y:
				c = -1
			case x > y:
				c = 1
			default:
				c = 0
			}
		}
		return awkBool(map[string]bool{"<": c < 0, "<=": c <= 0, "==": c == 0, "!=": c != 0, ">": c > 0, ">=": c >= 0}[e.op]), nil
	}
	return awkValue{}, fmt.Errorf("unknown operator %s", e.op)
}

func arithmetic(op string, a, b float64) (awkValue, error) {
	switch op {
	case "+":
		a += b
	case "-":
		a -= b
	case "*":
		a *= b
	case "^":
		a = math.Pow(a, b)
	default:
		if b == 0 {
			return awkValue{}, fmt.Errorf("division by zero in %s", op)
		}
		if op == "/" {
			a /= b
		} else {
			a = math.Mod(a, b)
		}
	}
	return awkNumber(a), nil
}
