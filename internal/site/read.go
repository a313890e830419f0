package site

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// least is the hint of a site.yaml that says too little.
const least = "the least it says is `name: NAME`"

// names are those that fit every system that they become part of.
var names = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$`)

// leastInterval is the shortest pause between two looks at a cloud.
const leastInterval = 100 * time.Millisecond

// A reader reads one site.yaml.
type reader struct {
	path  string
	lines map[string]int // of what it says: "inputs.gateway.cidr"

	shallow map[string]bool // "inputs", and the recipes in it: what must be a mapping
}

func (r *reader) wrong(line int, hint, format string, args ...any) error {
	return fault.Hinted(fault.Invalid, hint, "%s:%d: %s", r.path, line, fmt.Sprintf(format, args...))
}

// read fills s with what data says.
func (r *reader) read(data []byte, s *Site) error {
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) || err == nil && doc.Content[0].Tag == "!!null" {
		return fault.Hinted(fault.Invalid, least, "%s is empty", r.path)
	}
	if err == nil {
		if err = d.Decode(&more); err == nil {
			return r.wrong(more.Line, "a site is one document", "a second YAML document begins here")
		}
	}
	if !errors.Is(err, io.EOF) {
		return r.syntax(err)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return r.wrong(root.Line, least, "the file is %s, not names with values", what(root))
	}
	if err := r.walk(root, ""); err != nil {
		return err
	}
	d = yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(s); err != nil {
		return r.syntax(err)
	}
	if i := s.Limits.Interval; i != 0 && i < leastInterval {
		return r.wrong(r.lines["limits.interval"], "leave it out for 2s", "limits.interval is %s; the least is %s", i, leastInterval)
	}
	if s.Limits.Patience < 0 {
		return r.wrong(r.lines["limits.patience"], "leave it out for 6s", "limits.patience is %s", s.Limits.Patience)
	}
	line := r.lines["name"]
	switch {
	case line == 0 || s.Name == "":
		return fault.Hinted(fault.Invalid, least, "%s: name is missing", r.path)
	case child(root, "name").Tag != "!!str":
		return r.wrong(line, "a name begins with a letter; what is meant as text stands in quotes", "name is %s", what(child(root, "name")))
	case !names.MatchString(s.Name):
		return r.wrong(line, "use lower-case letters, digits and dashes, at most 32", "name %q %s", s.Name, misfit(s.Name))
	}
	return nil
}

// misfit says what is wrong with a name.
func misfit(name string) string {
	for _, c := range name {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-", c) {
			return fmt.Sprintf("holds %q", c)
		}
	}
	switch {
	case len(name) > 32:
		return fmt.Sprintf("has %d characters", len(name))
	case name[0] < 'a':
		return fmt.Sprintf("begins with %q, which is no letter", name[0])
	}
	return "ends with a dash"
}

// child returns the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// what says what a node is.
func what(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.Tag {
	case "!!int", "!!float":
		return n.Value + ", a number"
	case "!!bool":
		return n.Value + ", a truth value"
	case "!!timestamp":
		return n.Value + ", a date"
	case "!!null":
		return "empty"
	}
	return "a text"
}

// walk notes the lines of what stands below n, and refuses what no recipe could
// have.
func (r *reader) walk(n *yaml.Node, path string) error {
	data := path == "values" || path == "inputs" || strings.HasPrefix(path, "values.") || strings.HasPrefix(path, "inputs.")
	switch n.Kind {
	case yaml.MappingNode:
		seen := make(map[string]int)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			at := strings.TrimPrefix(path+"."+key.Value, ".")
			if first := seen[key.Value]; first != 0 {
				return r.wrong(key.Line, "keep one of the two", "%s is said twice, first at line %d", at, first)
			}
			seen[key.Value] = key.Line
			r.lines[at] = key.Line
			if path == "inputs" {
				r.shallow[at] = true
			}
			if data && key.Tag != "!!str" && key.Tag != "!!merge" {
				return r.wrong(key.Line, "write it in quotes", "%s has a key that is no text: %s", path, key.Value)
			}
			if err := r.walk(value, at); err != nil {
				return err
			}
		}
	case yaml.SequenceNode:
		for i, x := range n.Content {
			if err := r.walk(x, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	}
	switch {
	case data && n.Tag == "!!timestamp":
		return r.wrong(n.Line, "write it in quotes", "%s is a date", path)
	case data && n.Tag == "!!binary":
		return r.wrong(n.Line, "write it as text", "%s is binary", path)
	case path == "values" && n.Kind != yaml.MappingNode && n.Kind != yaml.AliasNode && n.Tag != "!!null":
		return r.wrong(n.Line, "write values: {NAME: VALUE}", "values is %s", what(n))
	case r.shallow[path] && n.Kind != yaml.MappingNode && n.Kind != yaml.AliasNode && n.Tag != "!!null":
		return r.wrong(n.Line, "write inputs: {RECIPE: {INPUT: VALUE}}", "%s is %s", path, what(n))
	}
	return nil
}

var (
	lineOf     = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	unknown    = regexp.MustCompile(`^field (\S+) not found in type \S+$`)
	mistyped   = regexp.MustCompile("^cannot unmarshal (\\S+)(?: `([^`]*)`)? into (.*)$")
	kindOfTag  = map[string]string{"!!seq": "a list", "!!map": "a mapping", "!!str": "a text", "!!int": "a number", "!!float": "a number", "!!bool": "a truth value"}
	kindOfType = map[string]string{"string": "a text", "int": "a whole number", "uint64": "a whole number from 0", "[]string": "a list of texts",
		"time.Duration": "a time with its unit, such as 5s"}
)

// syntax is an error of the YAML library in the words of the file.
func (r *reader) syntax(err error) error {
	texts := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	var typed *yaml.TypeError
	if errors.As(err, &typed) {
		texts = typed.Errors
	}
	hint := ""
	for i, text := range texts {
		at := r.path
		if m := lineOf.FindStringSubmatch(text); m != nil {
			at, text = r.path+":"+m[1], m[2]
		}
		if m := unknown.FindStringSubmatch(text); m != nil {
			text = fmt.Sprintf("field %s not found", m[1])
			hint = "it may say name, state, clouds, values, inputs, secrets, artifacts and limits; README.md says what stands in each"
		} else if m := mistyped.FindStringSubmatch(text); m != nil {
			got, want := kindOfTag[m[1]], kindOfType[m[3]]
			if got == "" {
				got = "something else"
			}
			if want == "" {
				want = "a mapping"
			}
			if m[2] != "" {
				got += fmt.Sprintf(" (%s)", m[2])
			}
			text = "got " + got + ", want " + want
		}
		texts[i] = at + ": " + text
	}
	return fault.Hinted(fault.Invalid, hint, "%s", strings.Join(texts, "\n"))
}
