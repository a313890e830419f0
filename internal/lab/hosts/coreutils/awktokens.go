package coreutils

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

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
