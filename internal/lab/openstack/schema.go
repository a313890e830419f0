package openstack

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// schema is what a value of a request's body must look like: what Nova and
// Cinder check of a body before they do anything, with the texts that they
// answer. A zero field doesn't check.
type schema struct {
	types    []string // of Python's jsonschema: object, array, string, integer, boolean, null
	props    []prop   // of an object, in the order in which they are checked
	required []string
	closed   bool    // there may be no other properties
	keys     string  // pattern of the names of the other properties
	each     *schema // items of an array, or the other properties of an object
	any      []*schema
	enum     []any
	pattern  string
	format   string // uuid, ipv4, ipv6, base64, name
	min      *int   // of a number, also of one that comes as text
	above    bool   // it has to be more than 0
	minLen   int    // of a string
	maxLen   int
	maxItems int
	minItems int
	unique   bool
}

type prop struct {
	name string
	schema
}

func bound(n int) *int { return &n }

// with returns a copy of an object's schema with more properties.
func (s schema) with(more ...prop) schema {
	s.props = append(slices.Clone(s.props), more...)
	return s
}

// check returns the refusal of the first thing in v that isn't as it must be.
// Name is what v is called; the body as a whole has none.
func (s *schema) check(name string, v any) error {
	why := s.fault(v)
	switch {
	case why == "":
	case s.format == "name" && strings.HasPrefix(why, "An invalid"), name == "":
		return refuse(400, "%s", why)
	default:
		return refuse(400, "Invalid input for field/attribute %s. Value: %s. %s", name, pythonText(v), why)
	}
	switch v := v.(type) {
	case doc:
		for i := range s.props {
			if x, given := v[s.props[i].name]; given {
				if err := s.props[i].check(s.props[i].name, x); err != nil {
					return err
				}
			}
		}
		if s.each != nil {
			for _, k := range sortedKeys(v) {
				if err := s.each.check(k, v[k]); err != nil {
					return err
				}
			}
		}
		if why := s.membersFault(v); why != "" {
			if name == "" {
				return refuse(400, "%s", why)
			}
			return refuse(400, "Invalid input for field/attribute %s. Value: %s. %s", name, pythonText(v), why)
		}
	case []any:
		if s.each != nil {
			for i, x := range v {
				if err := s.each.check(strconv.Itoa(i), x); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// membersFault says what is wrong with the set of an object's properties.
func (s *schema) membersFault(v doc) string {
	for _, k := range s.required {
		if !has(v, k) {
			return pythonRepr(k) + " is a required property"
		}
	}
	var extra []string
	for _, k := range sortedKeys(v) {
		if !slices.ContainsFunc(s.props, func(p prop) bool { return p.name == k }) {
			extra = append(extra, pythonRepr(k))
		}
	}
	if s.keys != "" {
		for _, k := range sortedKeys(v) {
			if !matchesPattern(s.keys, k) {
				return fmt.Sprintf("%s does not match any of the regexes: %s", pythonRepr(k), pythonRepr(s.keys))
			}
		}
		return ""
	}
	if !s.closed || len(extra) == 0 {
		return ""
	}
	verb := "was"
	if len(extra) > 1 {
		verb = "were"
	}
	return fmt.Sprintf("Additional properties are not allowed (%s %s unexpected)", strings.Join(extra, ", "), verb)
}

// fault says what is wrong with v itself.
func (s *schema) fault(v any) string {
	if len(s.types) > 0 && !slices.ContainsFunc(s.types, func(t string) bool { return isType(v, t) }) {
		var names []string
		for _, t := range s.types {
			names = append(names, pythonRepr(t))
		}
		return pythonRepr(v) + " is not of type " + strings.Join(names, ", ")
	}
	if len(s.any) > 0 && !slices.ContainsFunc(s.any, func(o *schema) bool { return o.check("x", v) == nil }) {
		return pythonRepr(v) + " is not valid under any of the given schemas"
	}
	if s.enum != nil && !slices.Contains(s.enum, v) {
		return pythonRepr(v) + " is not one of " + pythonRepr(s.enum)
	}
	if text, isText := v.(string); isText {
		if why := s.textFault(text); why != "" {
			return why
		}
	}
	if n, isNumber := integer(v); isNumber && s.min != nil && n < *s.min {
		return fmt.Sprintf("%s is less than the minimum of %d", pythonText(v), *s.min)
	}
	if x, err := strconv.ParseFloat(text(v), 64); s.above && err == nil && x <= 0 {
		return pythonText(v) + " is less than or equal to the minimum of 0"
	}
	if l, isList := v.([]any); isList {
		switch {
		case len(l) < s.minItems:
			return pythonRepr(v) + " is too short"
		case s.maxItems > 0 && len(l) > s.maxItems:
			return pythonRepr(v) + " is too long"
		case s.unique && repeats(l):
			return pythonRepr(v) + " has non-unique elements"
		}
	}
	return ""
}

func (s *schema) textFault(text string) string {
	switch n := len([]rune(text)); {
	case n < s.minLen:
		return pythonRepr(text) + " is too short"
	case s.maxLen > 0 && n > s.maxLen:
		return pythonRepr(text) + " is too long"
	case s.pattern != "" && !matchesPattern(s.pattern, text):
		return pythonRepr(text) + " does not match " + pythonRepr(s.pattern)
	case !hasFormat(s.format, text):
		if s.format == "name" {
			return "An invalid 'name' value was provided. The name must be: printable characters. Can not start or end with whitespace."
		}
		return pythonRepr(text) + " is not a " + pythonRepr(s.format)
	}
	return ""
}

// matchesPattern finds a pattern of Python's. Go takes a hyphen in the middle
// of a class differently, and doesn't look around.
func matchesPattern(pattern, text string) bool {
	pattern = strings.ReplaceAll(pattern, `9-_`, `9\-_`)
	if plain := strings.NewReplacer(`(?! )`, ``, `(?<! )`, ``).Replace(pattern); plain != pattern {
		return strings.TrimSpace(text) == text && regexp.MustCompile(plain).MatchString(text)
	}
	return regexp.MustCompile(pattern).MatchString(text)
}

func repeats(l []any) bool {
	seen := map[string]bool{}
	for _, x := range l {
		if r := pythonRepr(x); seen[r] {
			return true
		} else {
			seen[r] = true
		}
	}
	return false
}

var uuidPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$`)

func hasFormat(format, text string) bool {
	switch format {
	case "uuid":
		return uuidPattern.MatchString(text)
	case "ipv4", "ipv6":
		a, err := netip.ParseAddr(text)
		return err == nil && a.Is4() == (format == "ipv4")
	case "name":
		return strings.TrimSpace(text) == text
	case "base64":
		_, ok := lenientBase64(text)
		return ok
	}
	return true
}

func isType(v any, t string) bool {
	switch v := v.(type) {
	case nil:
		return t == "null"
	case string:
		return t == "string"
	case bool:
		return t == "boolean"
	case float64:
		return t == "number" || t == "integer" && v == float64(int64(v))
	case []any:
		return t == "array"
	case doc:
		return t == "object"
	}
	return false
}

// pythonText is what Python's str() makes of a JSON value, pythonRepr what
// repr() does.
func pythonText(v any) string {
	if s, isText := v.(string); isText {
		return s
	}
	return pythonRepr(v)
}

func pythonRepr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		quote := "'"
		if strings.Contains(v, "'") && !strings.Contains(v, `"`) {
			quote = `"`
		}
		r := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`, "\r", `\r`, quote, `\`+quote)
		return quote + r.Replace(v) + quote
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = pythonRepr(x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case doc:
		var parts []string
		for _, k := range sortedKeys(v) {
			parts = append(parts, pythonRepr(k)+": "+pythonRepr(v[k]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return text(v)
}
