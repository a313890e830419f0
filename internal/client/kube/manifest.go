package kube

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Manifest is an object and where it was written.
type Manifest struct {
	Object *Object
	// Origin says where, for messages: "document 3 (line 41)", "objects[2]".
	Origin string
}

// ParseManifests returns the objects of a text of YAML or JSON documents, in
// their order, with Lists taken apart. Documents without content are skipped.
// Its errors are of kind Invalid, and name every document that is wrong by its
// number and line.
func ParseManifests(text string) ([]Manifest, error) {
	var out []Manifest
	var wrong []string
	for i, d := range documents(text) {
		origin := fmt.Sprintf("document %d (line %d)", i+1, d.line)
		body, err := yaml.YAMLToJSONStrict([]byte(d.text))
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("document %d: %s", i+1, shifted(err, d.start)))
			continue
		}
		var data any
		if err := json.Unmarshal(body, &data); err != nil {
			wrong = append(wrong, origin+": "+err.Error())
			continue
		}
		found, err := Flatten(data, origin)
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		out = append(out, found...)
	}
	if len(wrong) > 0 {
		return nil, &fault.Error{Op: "reading manifests", Kind: fault.Invalid, Err: fmt.Errorf("%s", strings.Join(wrong, "; "))}
	}
	return out, nil
}

// Flatten returns the object that data is, or the objects of the List that it
// is, or nothing for nil. origin says where it was written.
func Flatten(data any, origin string) ([]Manifest, error) {
	if data == nil {
		return nil, nil
	}
	m, ok := data.(map[string]any)
	if !ok {
		return nil, fault.New(fault.Invalid, "%s: it is a %T, not an object", origin, data)
	}
	o := &Object{Object: m}
	if items, ok := m["items"].([]any); ok && strings.HasSuffix(o.GetKind(), "List") {
		var out []Manifest
		for i, item := range items {
			found, err := Flatten(item, fmt.Sprintf("%s, items[%d]", origin, i))
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
		return out, nil
	}
	for _, field := range []string{"apiVersion", "kind"} {
		if s, ok := m[field].(string); !ok || s == "" {
			return nil, fault.New(fault.Invalid, "%s: %s is missing", origin, field)
		}
	}
	if name := o.GetName(); name == "" {
		hint := ""
		if o.GetGenerateName() != "" {
			hint = "an object with generateName would be another one each time: give it a name"
		}
		return nil, fault.Hinted(fault.Invalid, hint, "%s: %s has no metadata.name", origin, o.GetKind())
	}
	return []Manifest{{Object: o, Origin: origin}}, nil
}

// A document is one of several in a text.
type document struct {
	text  string
	start int // the line that text begins at, counted from 1
	line  int // the line of the first content
}

// documents splits a text at the lines that begin with three dashes, and leaves
// out what has no content.
func documents(text string) []document {
	var out []document
	d := document{start: 1}
	var b strings.Builder
	flush := func(next int) {
		d.text = b.String()
		if d.line > 0 {
			out = append(out, d)
		}
		b.Reset()
		d = document{start: next}
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		content := strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "---"); ok && (strings.TrimSpace(rest) == "" || rest[0] == ' ' || rest[0] == '\t') {
			flush(n)
			content = strings.TrimSpace(rest)
		}
		if d.line == 0 && content != "" && content[0] != '#' {
			d.line = n
		}
		b.WriteString(line)
	}
	flush(n)
	return out
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// shifted returns the text of an error about a document that begins at line
// start, with the lines of the whole text.
func shifted(err error, start int) string {
	return yamlLine.ReplaceAllStringFunc(err.Error(), func(s string) string {
		n, err := strconv.Atoi(s[len("line "):])
		if err != nil {
			return s
		}
		return fmt.Sprintf("line %d", n+start-1)
	})
}
