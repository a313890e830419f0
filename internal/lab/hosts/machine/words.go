package machine

import "strings"

// Words splits text at blanks and line ends, as xargs and the command lines of
// units have it: quotes keep blanks in a word, and a backslash outside of them
// keeps the next character.
func Words(text string) []string {
	var out []string
	var cur strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				cur.WriteByte(c)
			}
		case c == '\'' || c == '"':
			in, quote = true, c
		case c == '\\' && i+1 < len(text):
			i++
			in = true
			cur.WriteByte(text[i])
		case c == ' ' || c == '\t' || c == '\n':
			if in {
				out = append(out, cur.String())
				cur.Reset()
				in = false
			}
		default:
			in = true
			cur.WriteByte(c)
		}
	}
	if in {
		out = append(out, cur.String())
	}
	return out
}
