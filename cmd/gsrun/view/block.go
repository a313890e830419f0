package view

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// ambiguous are texts that would read as something else than a text: numbers,
// truth values, nothing.
var ambiguous = regexp.MustCompile(`^(?i:[-+]?[0-9][0-9_]*(\.[0-9]*)?(e[-+]?[0-9]+)?|true|false|null|~|yes|no|on|off)$`)

// quotable are texts that need quotes where they stand within data.
var quotable = regexp.MustCompile(`^$|^[\s\-?:,\[\]{}#&*!|>'"%@` + "`" + `]|\s$|: |:$| #|[,\[\]{}]`)

// scalar returns a value that has no parts as one clean line. Within data
// (strict) a text that would read as something else is quoted.
func scalar(x any, strict bool) string {
	switch x := x.(type) {
	case nil:
		return "none"
	case masked:
		return effect.Mask
	case effect.Unknown:
		return effect.UnknownText
	case opaque:
		return "<" + clean(string(x)) + ">"
	case bool:
		return strconv.FormatBool(x)
	case json.Number:
		return x.String()
	case string:
		switch {
		case x == "" || strings.TrimSpace(x) != x || strict && (ambiguous.MatchString(x) || quotable.MatchString(x)):
			return `"` + clean(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(x)) + `"`
		}
		return clean(x)
	case []any:
		return "[]"
	case map[string]any:
		return "{}"
	}
	return fmt.Sprintf("<%T>", x)
}

// inline returns a value in one line: [a, b], {k: v}.
func inline(x any) string { return inlineAt(x, false) }

func inlineAt(x any, strict bool) string {
	switch x := x.(type) {
	case []any:
		parts := make([]string, len(x))
		for i, e := range x {
			parts[i] = inlineAt(e, true)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		parts := make([]string, 0, len(x))
		for _, k := range keysOf(x) {
			parts = append(parts, scalar(k, true)+": "+inlineAt(x[k], true))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return scalar(x, strict)
}

// maxInline is the length up to which a value stands in one line.
const maxInline = 60

// short reports whether a value fits in the line of its name.
func short(x any) bool {
	if s, ok := x.(string); ok {
		return !strings.Contains(strings.TrimSuffix(s, "\n"), "\n")
	}
	return flat(x) && len(inline(x)) <= maxInline
}

// flat reports whether a value holds no text of several lines, and no data
// within data.
func flat(x any) bool {
	within := func(e any) bool {
		switch e := e.(type) {
		case []any:
			return len(e) == 0
		case map[string]any:
			return len(e) == 0
		case string:
			return !strings.Contains(e, "\n")
		}
		return true
	}
	switch x := x.(type) {
	case []any:
		for _, e := range x {
			if !within(e) {
				return false
			}
		}
	case map[string]any:
		for _, e := range x {
			if !within(e) {
				return false
			}
		}
	}
	return true
}

// block returns a value as lines in the manner of YAML.
func block(x any) []string {
	switch x := x.(type) {
	case string:
		if short(x) {
			return []string{scalar(x, true)}
		}
		return lines(strings.ReplaceAll(x, "\t", tab))
	case []any:
		if len(x) == 0 {
			return []string{"[]"}
		}
		var out []string
		for _, e := range x {
			out = append(out, nested("-", e)...)
		}
		return out
	case map[string]any:
		if len(x) == 0 {
			return []string{"{}"}
		}
		var out []string
		for _, k := range keysOf(x) {
			out = append(out, nested(scalar(k, true)+":", x[k])...)
		}
		return out
	}
	return []string{scalar(x, true)}
}

// tab is how a tab shows in a text of several lines.
const tab = "    "

// nested returns the lines of a value under its head, "- " or "key:".
func nested(head string, x any) []string {
	if s, ok := x.(string); ok && !short(s) {
		out := []string{head + " |"}
		for _, l := range block(s) {
			out = append(out, "  "+l)
		}
		return out
	}
	body := block(x)
	if len(body) == 1 && isScalar(x) {
		return []string{head + " " + body[0]}
	}
	if head == "-" {
		out := []string{"- " + body[0]}
		for _, l := range body[1:] {
			out = append(out, "  "+l)
		}
		return out
	}
	out := []string{head}
	for _, l := range body {
		out = append(out, "  "+l)
	}
	return out
}

func isScalar(x any) bool {
	switch x := x.(type) {
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	}
	return true
}
