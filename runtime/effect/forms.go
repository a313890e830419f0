package effect

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// forms returns the texts that plain shows as: as it is; escaped for JSON, Go,
// URLs, HTML, YAML and the shell; in base64, also where it is a part of what
// was encoded, escaped for JSON before, or encoded twice; and in hexadecimal.
func forms(plain string) []form {
	var out []form
	add := func(pieces bool, texts ...string) {
		for _, t := range texts {
			out = append(out, form{t, pieces && len(t) >= minSplit})
		}
	}
	token := !strings.ContainsAny(plain, " \t\r\n") // a piece of a text of words says little
	escaped, bare := jsonEscaped(plain)
	add(token, plain, escaped, bare)
	for _, s := range asJSONElsewhere(escaped, bare) {
		add(token, s)
	}
	for _, s := range []string{escaped, bare} { // JSON within JSON
		twice, bareTwice := jsonEscaped(s)
		add(token, twice, bareTwice)
	}
	quoted := unquoted(strconv.Quote(plain))
	add(token, quoted, unquoted(strconv.Quote(quoted)))
	for _, s := range []string{url.QueryEscape(plain), url.PathEscape(plain), strings.ReplaceAll(url.QueryEscape(plain), "+", "%20"), strings.ReplaceAll(plain, " ", "%20"), userInfo(plain)} {
		add(token, s, lowerHex(s), url.QueryEscape(s))
	}
	for _, r := range htmlQuotes {
		add(token, r.Replace(html.EscapeString(plain)))
	}
	for _, s := range shellSpecial {
		add(token, backslashed(plain, s))
	}
	add(token, html.EscapeString(plain), strings.ReplaceAll(plain, "'", "''"), strings.ReplaceAll(plain, "'", `'\''`), strings.ReplaceAll(plain, "'", `'"'"'`))
	for _, s := range []string{plain, escaped, bare} {
		for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			add(false, e.EncodeToString([]byte(s)), e.WithPadding(base64.NoPadding).EncodeToString([]byte(s)))
			add(true, within(e, s)...)
		}
	}
	for _, s := range within(base64.StdEncoding, plain) {
		add(true, within(base64.StdEncoding, s)...)
	}
	add(true, hex.EncodeToString([]byte(plain)), strings.ToUpper(hex.EncodeToString([]byte(plain))))
	for _, format := range []string{"% x", "% X"} { // as od, hexdump and fingerprints have it
		spaced := fmt.Sprintf(format, []byte(plain))
		add(true, spaced, strings.ReplaceAll(spaced, " ", ":"))
	}
	return out
}

// asJSONElsewhere returns what others than Go write in a JSON string: all but
// ASCII escaped, as Python does, or slashes.
func asJSONElsewhere(texts ...string) []string {
	var out []string
	for _, s := range texts {
		ascii := asciiOnly(s, `\u%04x`)
		for _, t := range []string{s, ascii, asciiOnly(s, `\u%04X`)} {
			out = append(out, t, strings.ReplaceAll(t, "/", `\/`))
		}
		if ascii != s { // within JSON once more
			out = append(out, strings.ReplaceAll(ascii, `\`, `\\`))
		}
	}
	return out
}

// asciiOnly returns s with the UTF-16 units of what isn't ASCII in a format.
func asciiOnly(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, format, unit)
		}
	}
	return b.String()
}

// htmlQuotes turn what html.EscapeString writes into what others do.
var htmlQuotes = []*strings.Replacer{
	strings.NewReplacer("&#34;", "&quot;"),
	strings.NewReplacer("&#34;", "&quot;", "&#39;", "&apos;"),
	strings.NewReplacer("&#34;", "&quot;", "&#39;", "&#x27;"),
	strings.NewReplacer("&#34;", "&quot;", "&#39;", "'"),
	strings.NewReplacer("&#34;", `"`, "&#39;", "'"),
}

// shellSpecial are the characters that a shell or its user puts a backslash
// before: all that bash does, without those that need it at the beginning only,
// and what is special within double quotes.
var shellSpecial = []string{
	" \t!\"#$&'()*,;<>?[\\]^`{|}~", " \t!\"$&'()*,;<>?[\\]^`{|}", " \t!\"$&'()*;<>?[\\]^`{|}", " \t\"$&'()*;<>?[\\`|", " ", "\"$\\`",
}

func backslashed(s, special string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(special, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// within returns the characters that surely stand in the base64 of any text
// that s is a part of: they depend on how many bytes come before it, modulo
// three, and the first and last may hold bits of its neighbours.
func within(e *base64.Encoding, s string) []string {
	e = e.WithPadding(base64.NoPadding)
	out := make([]string, 3)
	for before := range out {
		first := []int{0, 2, 3}[before]
		last := (before + len(s)) * 8 / 6
		out[before] = e.EncodeToString(append(make([]byte, before), s...))[first:last]
	}
	return out
}

// jsonEscaped returns s as in a JSON string: as Go writes it, which escapes <,
// > and & for HTML, and as others do.
func jsonEscaped(s string) (escaped, bare string) {
	quoted, _ := json.Marshal(s) // a string always marshals
	escaped = unquoted(string(quoted))
	return escaped, strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(escaped)
}

func unquoted(s string) string { return s[1 : len(s)-1] }

// userInfo returns s as the password in a URL.
func userInfo(s string) string { return strings.TrimPrefix(url.UserPassword("", s).String(), ":") }

var percents = regexp.MustCompile(`%[0-9A-F]{2}`)

func lowerHex(s string) string { return percents.ReplaceAllStringFunc(s, strings.ToLower) }

// minLine is the length from which a line of a secret of several lines that
// consists of words is removed on its own.
const minLine = 16

// parts returns what of plain is to be removed: the whole, and what is secret
// in each line of a text of several, since an output may indent, fold or cut
// it. A text of certificates has no such parts.
func parts(plain string) []string {
	trimmed := strings.TrimSpace(plain)
	var out []string
	for _, m := range jsonPair.FindAllStringSubmatch(plain, -1) { // as in JSON on one line
		if value := m[2]; secretKey.MatchString(m[1]) && !publicKey.MatchString(m[1]) && !isCommon(value) {
			out = append(out, value)
		}
	}
	if !strings.Contains(trimmed, "\n") {
		return append(out, plain, trimmed)
	}
	certificate, all := false, true
	for line := range strings.SplitSeq(trimmed, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "-----"):
			certificate = line == "-----BEGIN CERTIFICATE-----" || line == "-----BEGIN PUBLIC KEY-----"
			all = all && (certificate || strings.HasPrefix(line, "-----END"))
		case certificate || line == "":
		default:
			all = false
			if s := secretOfLine(line); s != "" {
				out = append(out, s)
			}
		}
	}
	if all {
		return nil
	}
	return append(out, plain, trimmed)
}

var (
	pair       = regexp.MustCompile(`^(?:- |export )?["']?([\w.-]+)["']?\s*(: |=)\s*([^=\s].*)$`)
	jsonPair   = regexp.MustCompile(`"([\w.-]+)"\s*:\s*"([^"\\]+)"`)
	secretKey  = regexp.MustCompile(`(?i)pass|token|secret|credential|key`)
	publicKey  = regexp.MustCompile(`(?i)(name|file|path|url|ref|id|certificate|certificate-data|authority-data|public-?_?key)$`)
	structural = regexp.MustCompile(`^[#;\[]|[:{\[(,]$`)
)

// secretOfLine returns what is secret in one line of a secret of several lines
// (a private key, a kubeconfig, a configuration), or "". Without the exceptions
// every server address of a kubeconfig would vanish from the outputs.
func secretOfLine(line string) string {
	if m := pair.FindStringSubmatch(line); m != nil {
		key, value := m[1], strings.Trim(strings.TrimSuffix(strings.TrimSpace(m[3]), ","), `"'`)
		switch {
		case publicKey.MatchString(key), isCommon(value):
			return ""
		case len(value) >= 64, secretKey.MatchString(key) && !strings.HasPrefix(value, "/"):
			return value
		case m[2] == ": ":
			return ""
		}
	}
	if isCommon(line) || structural.MatchString(line) || len(line) < minLine && strings.Contains(line, " ") {
		return ""
	}
	return line
}
