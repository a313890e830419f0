package secret

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// maxNesting bounds how deep a file may be nested.
const maxNesting = 100

// eachValue calls fn for each scalar in a tree but nulls, in order. Its path is
// that of the keys: SOPS leaves out the indexes of lists.
func eachValue(n *yaml.Node, path []string, depth int, fn func(n *yaml.Node, path []string) error) error {
	if depth > maxNesting {
		return fault.New(fault.Invalid, "it is nested more than %d deep", maxNesting)
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			key.HeadComment, key.LineComment, key.FootComment = "", "", ""
			if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
				return fault.New(fault.Invalid, "line %d: a key is no text", key.Line)
			}
			if err := eachValue(n.Content[i+1], append(path[:len(path):len(path)], key.Value), depth+1, fn); err != nil {
				return err
			}
		}
	case yaml.SequenceNode:
		for _, x := range n.Content {
			if err := eachValue(x, path, depth+1, fn); err != nil {
				return err
			}
		}
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return nil
		}
		return fn(n, path)
	default:
		return fault.New(fault.Invalid, "line %d: an alias in a file that SOPS encrypted", n.Line)
	}
	return nil
}

// plainText returns the text of a value that isn't encrypted, as it counts for
// the MAC.
func plainText(n *yaml.Node) (string, error) {
	var v any
	if err := n.Decode(&v); err != nil {
		return "", fault.New(fault.Invalid, "line %d: %v", n.Line, err)
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		if v {
			return "True", nil
		}
		return "False", nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case time.Time:
		text, err := v.MarshalText()
		return string(text), err
	}
	return fmt.Sprint(v), nil // whole numbers
}

// value returns the value called key.
func (f *sopsFile) value(key string) ([]byte, error) {
	for _, doc := range f.docs {
		if n := find(doc, key); n != nil {
			switch {
			case n.Kind != yaml.ScalarNode:
				return nil, fault.Hinted(fault.Invalid, "name one of "+strings.Join(keysOf(n), ", ")+" of it", "%s is no text", key)
			case f.open[n]:
				return nil, fault.Hinted(fault.Invalid, "see unencrypted_suffix and encrypted_regex in .sops.yaml", "%s isn't encrypted, so it is no secret", key)
			}
			return []byte(n.Value), nil
		}
	}
	return nil, fault.Hinted(fault.NotFound, "it has "+strings.Join(keysOf(f.docs[0]), ", "), "it has no value %s", key)
}

// find returns the node that key names, or nil. A key of the file may hold dots
// itself.
func find(n *yaml.Node, key string) *yaml.Node {
	if key == "" {
		return n
	}
	match := func(name string) (rest string, ok bool) {
		rest, ok = strings.CutPrefix(key, name)
		if ok && rest != "" {
			return strings.CutPrefix(rest, ".")
		}
		return rest, ok
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if rest, ok := match(n.Content[i].Value); ok {
				if found := find(n.Content[i+1], rest); found != nil {
					return found
				}
			}
		}
	case yaml.SequenceNode:
		for i, x := range n.Content {
			if rest, ok := match(strconv.Itoa(i)); ok {
				return find(x, rest)
			}
		}
	}
	return nil
}

// keysOf returns the keys of a mapping, or the indexes of a list.
func keysOf(n *yaml.Node) []string {
	var out []string
	for i := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			out = append(out, strconv.Itoa(i))
		case i%2 == 0:
			out = append(out, n.Content[i].Value)
		}
	}
	return out
}
