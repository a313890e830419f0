package view

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// isUTF8 reports whether a locale, such as "de_DE.UTF-8", has that encoding.
func isUTF8(locale string) bool {
	l := strings.ToLower(locale)
	return strings.Contains(l, "utf-8") || strings.Contains(l, "utf8")
}

// clean returns s as one line that can't move the cursor, change a terminal's
// state or reorder what stands beside it: control characters, separators,
// marks that turn the direction of writing and bytes that aren't UTF-8 become
// escapes, as in "\n" and "\x1b".
func clean(s string) string {
	i := strings.IndexFunc(s, hostile)
	if i < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80 && hostile(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case hostile(r) && r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		case hostile(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// oneLine returns a message of several lines as one clean line: "a; b". A line
// that ends with punctuation needs no more of it.
func oneLine(s string) string {
	if !strings.Contains(s, "\n") {
		return clean(s)
	}
	var b strings.Builder
	for l := range strings.SplitSeq(s, "\n") {
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		if b.Len() > 0 {
			if last := b.String()[b.Len()-1]; !strings.ContainsRune(".,:;!?([{", rune(last)) && !strings.ContainsRune(")]}", rune(l[0])) {
				b.WriteByte(';')
			}
			b.WriteByte(' ')
		}
		b.WriteString(l)
	}
	return clean(b.String())
}

// hostile reports whether r is more than a sign to be seen: a control
// character, a separator of lines, or one that formats what stands beside it
// without being seen. The joiners that some scripts need are none.
func hostile(r rune) bool {
	if r < 0x80 {
		return r < 0x20 || r == 0x7f
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != '\u200c' && r != '\u200d'
}

// lines splits s into lines that are clean. One newline at the end is no line
// of its own. It returns one line for an empty text.
func lines(s string) []string {
	out := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, l := range out {
		out[i] = clean(strings.TrimSuffix(l, "\r"))
	}
	return out
}

// runeWidth returns the number of cells that r takes on a terminal.
func runeWidth(r rune) int {
	switch {
	case r < 0x20 || r == 0x7f:
		return 0
	case r < 0x300, r == '\ufe0f': // which widens the sign before it on some terminals
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// textWidth returns the number of cells that a clean text takes. Colours that
// a palette put in take none.
func textWidth(s string) int {
	n := 0
	for s != "" {
		if rest, ok := skipColor(s); ok {
			s = rest
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		n += runeWidth(r)
		s = s[size:]
	}
	return n
}

// cut returns s shortened to at most the given number of cells, with an
// ellipsis where something is left out. Colours stay whole, and end.
func cut(s string, cells int, ellipsis string) string {
	if textWidth(s) <= cells {
		return s
	}
	if cells <= 0 {
		return ""
	}
	room := cells - textWidth(ellipsis)
	if room < 0 {
		return strings.Repeat(".", cells)
	}
	var b strings.Builder
	colored := false
	for s != "" {
		if rest, ok := skipColor(s); ok {
			b.WriteString(s[:len(s)-len(rest)])
			s, colored = rest, true
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		if room -= runeWidth(r); room < 0 {
			break
		}
		b.WriteString(s[:size])
		s = s[size:]
	}
	b.WriteString(ellipsis)
	if colored {
		b.WriteString(reset)
	}
	return b.String()
}

// skipColor returns what follows the colour that s begins with.
func skipColor(s string) (string, bool) {
	if !strings.HasPrefix(s, "\x1b[") {
		return s, false
	}
	if i := strings.IndexByte(s, 'm'); i > 0 {
		return s[i+1:], true
	}
	return s, false
}

// pad returns s filled up with spaces to the given number of cells.
func pad(s string, cells int) string {
	if n := cells - textWidth(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}
