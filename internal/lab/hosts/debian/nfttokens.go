package debian

import (
	"fmt"
	"strings"
)

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
