package coreutils

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

func (in *awkRun) call(e *awkExpr) (awkValue, error) {
	name := e.text
	if name == "length" && len(e.args) == 1 && e.args[0].op == "var" {
		if array := in.arrays[e.args[0].text]; array != nil {
			return awkNumber(float64(len(array))), nil
		}
	}
	switch name {
	case "split", "sub", "gsub", "match":
		return in.special(e)
	}
	var vals []awkValue
	for _, a := range e.args {
		v, err := in.eval(a)
		if err != nil {
			return v, err
		}
		vals = append(vals, v)
	}
	need := map[string]int{"substr": 2, "index": 2, "tolower": 1, "toupper": 1, "sprintf": 1, "int": 1, "sqrt": 1, "exp": 1, "log": 1}[name]
	if len(vals) < need {
		return awkValue{}, fmt.Errorf("not enough arguments to %s", name)
	}
	switch name {
	case "length":
		if len(vals) == 0 {
			return awkNumber(float64(len([]rune(in.field(0))))), nil
		}
		return awkNumber(float64(len([]rune(vals[0].str())))), nil
	case "substr":
		r := []rune(vals[0].str())
		from, to := int(vals[1].float())-1, len(r)
		if len(vals) > 2 {
			to = from + int(vals[2].float())
		}
		from, to = max(0, from), min(len(r), to)
		if from >= to {
			return awkText(""), nil
		}
		return awkText(string(r[from:to])), nil
	case "index":
		return awkNumber(float64(strings.Index(vals[0].str(), vals[1].str()) + 1)), nil
	case "tolower":
		return awkText(strings.ToLower(vals[0].str())), nil
	case "toupper":
		return awkText(strings.ToUpper(vals[0].str())), nil
	case "sprintf":
		return awkText(awkFormat(vals[0].str(), vals[1:])), nil
	case "int":
		return awkNumber(math.Trunc(vals[0].float())), nil
	case "sqrt":
		return awkNumber(math.Sqrt(vals[0].float())), nil
	case "exp":
		return awkNumber(math.Exp(vals[0].float())), nil
	case "log":
		return awkNumber(math.Log(vals[0].float())), nil
	}
	return awkNumber(0), nil // rand and srand: the same every time
}

// special are the functions that change a variable or take a pattern.
func (in *awkRun) special(e *awkExpr) (awkValue, error) {
	if len(e.args) < 2 {
		return awkValue{}, fmt.Errorf("not enough arguments to %s", e.text)
	}
	if e.text == "split" {
		v, err := in.eval(e.args[0])
		if err != nil {
			return v, err
		}
		fs := in.vars["FS"].str()
		if len(e.args) > 2 {
			if fs, err = in.pattern(e.args[2]); err != nil {
				return v, err
			}
		}
		array := in.array(e.args[1].text)
		clear(array)
		parts := in.cut(v.str(), fs)
		for i, part := range parts {
			array[strconv.Itoa(i+1)] = strnum(part)
		}
		return awkNumber(float64(len(parts))), nil
	}
	if e.text == "match" {
		v, re, err := in.matched(e)
		if err != nil {
			return v, err
		}
		start, length := 0, -1
		if m := re.FindStringIndex(v.str()); m != nil {
			start, length = m[0]+1, m[1]-m[0]
		}
		in.vars["RSTART"], in.vars["RLENGTH"] = awkNumber(float64(start)), awkNumber(float64(length))
		return awkNumber(float64(start)), nil
	}
	pat, err := in.pattern(e.args[0])
	if err != nil {
		return awkValue{}, err
	}
	re, err := in.regexp(pat)
	if err != nil {
		return awkValue{}, err
	}
	with, err := in.eval(e.args[1])
	if err != nil {
		return with, err
	}
	target := &awkExpr{op: "$", args: []*awkExpr{{op: "num", text: "0"}}}
	if len(e.args) > 2 {
		target = e.args[2]
	}
	old, err := in.eval(target)
	if err != nil {
		return old, err
	}
	text, n := old.str(), 0
	var sb strings.Builder
	at := 0
	for _, m := range re.FindAllStringIndex(text, -1) {
		if n > 0 && e.text == "sub" {
			break
		}
		n++
		sb.WriteString(text[at:m[0]])
		sb.WriteString(strings.NewReplacer(`\\&`, "&", `\&`, "&", "&", text[m[0]:m[1]]).Replace(with.str()))
		at = m[1]
	}
	sb.WriteString(text[at:])
	if n > 0 {
		err = in.assign(target, awkText(sb.String()))
	}
	return awkNumber(float64(n)), err
}

// awkFormat is printf.
func awkFormat(format string, args []awkValue) string {
	var sb strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			sb.WriteByte(format[i])
			continue
		}
		j := i + 1
		for j < len(format) && strings.IndexByte("-+ #0123456789.*", format[j]) >= 0 {
			j++
		}
		if j == len(format) {
			sb.WriteString(format[i:])
			break
		}
		spec := format[i:j]
		i = j
		if format[j] == '%' {
			sb.WriteByte('%')
			continue
		}
		take := func() awkValue {
			if len(args) == 0 {
				return awkValue{}
			}
			v := args[0]
			args = args[1:]
			return v
		}
		for strings.Contains(spec, "*") {
			spec = strings.Replace(spec, "*", strconv.Itoa(int(take().float())), 1)
		}
		v := take()
		switch c := format[j]; c {
		case 'd', 'i', 'u':
			fmt.Fprintf(&sb, spec+"d", int64(v.float()))
		case 'x', 'X', 'o':
			fmt.Fprintf(&sb, spec+string(c), int64(v.float()))
		case 'f', 'F', 'e', 'E', 'g', 'G':
			fmt.Fprintf(&sb, spec+string(c), v.float())
		case 'c':
			if v.number {
				sb.WriteString(string(rune(int(v.num))))
			} else if v.text != "" {
				sb.WriteString(v.text[:1])
			}
		case 's':
			fmt.Fprintf(&sb, spec+"s", v.str())
		default:
			sb.WriteString(spec + string(c))
		}
	}
	return sb.String()
}

// matched evaluates the operands of a match: a text, and what it is matched against.
func (in *awkRun) matched(e *awkExpr) (awkValue, *regexp.Regexp, error) {
	v, err := in.eval(e.args[0])
	if err != nil {
		return v, nil, err
	}
	pat, err := in.pattern(e.args[1])
	if err != nil {
		return v, nil, err
	}
	re, err := in.regexp(pat)
	return v, re, err
}
