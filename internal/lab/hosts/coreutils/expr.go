package coreutils

import (
	"cmp"
	"context"
	"io"
	"regexp"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func expr(_ context.Context, p *machine.Proc) int {
	a := p.Args[1:]
	if len(a) == 0 {
		return p.Fail(2, "missing operand")
	}
	result := a[0]
	for rest := a[1:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) < 2 {
			return p.Fail(2, "syntax error: missing argument after '%s'", rest[0])
		}
		x, err1 := strconv.Atoi(result)
		y, err2 := strconv.Atoi(rest[1])
		numbers := err1 == nil && err2 == nil
		order := strings.Compare(result, rest[1])
		if numbers {
			order = cmp.Compare(x, y)
		}
		truth := func(b bool) string {
			if b {
				return "1"
			}
			return "0"
		}
		switch op := rest[0]; op {
		case "=":
			result = truth(order == 0)
		case "!=":
			result = truth(order != 0)
		case "<":
			result = truth(order < 0)
		case "<=":
			result = truth(order <= 0)
		case ">":
			result = truth(order > 0)
		case ">=":
			result = truth(order >= 0)
		case ":":
			re, err := regexp.Compile("^(?:" + basicRegexp(rest[1]) + ")")
			if err != nil {
				return p.Fail(2, "invalid regular expression")
			}
			m := re.FindStringSubmatch(result)
			switch {
			case len(m) > 1:
				result = m[1]
			case m != nil:
				result = strconv.Itoa(len(m[0]))
			default:
				result = "0"
			}
		case "+", "-", "*", "/", "%":
			if !numbers {
				return p.Fail(2, "non-integer argument")
			}
			if y == 0 && (op == "/" || op == "%") {
				return p.Fail(2, "division by zero")
			}
			switch op {
			case "+":
				x += y
			case "-":
				x -= y
			case "*":
				x *= y
			case "/":
				x /= y
			case "%":
				x %= y
			}
			result = strconv.Itoa(x)
		default:
			return p.Fail(2, "syntax error: unexpected argument '%s'", op)
		}
	}
	p.Printf("%s\n", result)
	if result == "" || result == "0" {
		return 1
	}
	return 0
}

func od(ctx context.Context, p *machine.Proc) int {
	o := p.Options("A: t: v N: c x")
	if o == nil {
		return 1
	}
	limit := int64(-1)
	if o.Has("N") {
		n, err := count(o.Get("N"))
		if err != nil {
			return p.Fail(1, "invalid number of bytes")
		}
		limit = n
	}
	var data []byte
	code := p.Each(ctx, o.Args, func(_ string, r io.Reader) error {
		if limit >= 0 {
			r = io.LimitReader(r, limit-int64(len(data)))
		}
		b, err := io.ReadAll(r)
		data = append(data, b...)
		return err
	})
	for off := 0; off < len(data); off += 16 {
		if o.Get("A") != "n" {
			p.Printf("%07o", off)
		}
		for _, b := range data[off:min(off+16, len(data))] {
			p.Printf(" %02x", b)
		}
		p.Printf("\n")
	}
	if o.Get("A") != "n" {
		p.Printf("%07o\n", len(data))
	}
	return code
}
