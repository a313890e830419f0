package yaml

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	yamlv3 "go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type encodeArgs struct {
	X starlark.Value `star:"x,required" doc:"None, bool, number, string, list, tuple, dict, struct, or what a primitive returned."`
}

func encode() builtin.Func {
	return builtin.Of(builtin.Spec[any, encodeArgs]{
		Name:    "encode",
		Doc:     "Write a value as a YAML document, indented by 2. Strings that other readers could take for something else are quoted.",
		Returns: "str",
		Example: `text = yaml.encode({"kind": "Cluster", "spec": {"replicas": 3}})`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, _ any, a encodeArgs) (any, error) {
			return write(ctx, []starlark.Value{a.X})
		},
	})
}

type encodeAllArgs struct {
	Docs starlark.Value `star:"docs,required" doc:"List of values, one for each document."`
}

func encodeAll() builtin.Func {
	return builtin.Of(builtin.Spec[any, encodeAllArgs]{
		Name:    "encode_all",
		Doc:     "Write several values as YAML documents, with --- between them.",
		Returns: "str",
		Example: `text = yaml.encode_all([{"kind": "Namespace"}, {"kind": "ConfigMap"}])`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, _ any, a encodeAllArgs) (any, error) {
			if u, ok := a.Docs.(effect.Unknown); ok {
				return u, nil
			}
			seq, ok := a.Docs.(starlark.Sequence)
			if _, isDict := a.Docs.(*starlark.Dict); !ok || isDict {
				return nil, fault.New(fault.Invalid, "yaml.encode_all: got %s, want list", a.Docs.Type())
			}
			var docs []starlark.Value
			it := seq.Iterate()
			defer it.Done()
			var x starlark.Value
			for it.Next(&x) {
				docs = append(docs, x)
			}
			return write(ctx, docs)
		},
	})
}

// write returns the documents as text: a string, a secret or an Unknown.
func write(ctx context.Context, docs []starlark.Value) (any, error) {
	if len(docs) == 0 {
		return "", nil
	}
	e := encoder{}
	var b bytes.Buffer
	out := yamlv3.NewEncoder(&b)
	out.SetIndent(2)
	for i, d := range docs {
		if u, ok := effect.FindUnknown(d); ok {
			return u, nil
		}
		n, err := e.node(d, 0)
		if err == nil {
			err = out.Encode(n)
		}
		if err != nil {
			if len(docs) > 1 {
				err = fmt.Errorf("document %d: %w", i+1, err)
			}
			return nil, &fault.Error{Op: "writing YAML", Kind: fault.Invalid, Err: err}
		}
	}
	if err := out.Close(); err != nil {
		return nil, &fault.Error{Op: "writing YAML", Kind: fault.Internal, Err: err}
	}
	return e.from.Text(ctx, b.String()), nil
}

// encoder makes nodes of values, with their secrets, and remembers that there
// were some.
type encoder struct{ from effect.Origin }

func (e *encoder) node(v starlark.Value, depth int) (*yamlv3.Node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the value is nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case starlark.NoneType:
		return scalar("!!null", "null"), nil
	case starlark.Bool:
		return scalar("!!bool", strconv.FormatBool(bool(v))), nil
	case starlark.Int:
		return scalar("!!int", v.String()), nil
	case starlark.Float:
		return float(float64(v))
	case starlark.String:
		return text(string(v))
	case *effect.Secret:
		return text(e.from.Reveal(v))
	case *starlark.Dict:
		return e.mapping(v.Items(), depth)
	case *starlark.List, starlark.Tuple:
		return e.sequence(v.(starlark.Sequence), depth)
	case *starlarkstruct.Struct:
		return e.fields(v, depth)
	case *effect.Object:
		return e.fields(v, depth)
	case effect.Attributer:
		if d := v.Data(); d != nil {
			return e.fields(d, depth)
		}
	}
	return nil, fmt.Errorf("a %s can't be written as YAML", v.Type())
}

func scalar(tag, value string) *yamlv3.Node {
	return &yamlv3.Node{Kind: yamlv3.ScalarNode, Tag: tag, Value: value}
}

func float(f float64) (*yamlv3.Node, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%v can't be written as YAML", f)
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	if strings.Contains(s, "e") && !strings.Contains(s, ".") {
		s = strings.Replace(s, "e", ".0e", 1) // 1e+06 is a string to readers of YAML 1.1
	}
	return scalar("!!float", s), nil
}

// plainNumber matches strings that begin like a number but can't be one, such
// as versions and addresses with more than one dot; quoting them is noise.
var plainNumber = regexp.MustCompile(`^[0-9]+(\.[0-9]+){2,}[A-Za-z0-9./+-]*$`)

// ambiguous reports whether a reader of YAML 1.1, or another resolver of
// scalars, takes the plain string s for a bool, a number, a date or a sign.
func ambiguous(s string) bool {
	switch c := s[0]; {
	case c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.':
		return !plainNumber.MatchString(s)
	case len(s) > 5:
		return false
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", "nan", "inf", "<<", "=":
		return true
	}
	return false
}

func text(s string) (*yamlv3.Node, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("a string isn't valid UTF-8")
	}
	n := scalar("!!str", s)
	switch {
	case s == "" || ambiguous(s) || !literal(s):
		n.Style = yamlv3.DoubleQuotedStyle
	case strings.Contains(s, "\n"):
		n.Style = yamlv3.LiteralStyle
	}
	return n, nil
}

// literal reports whether s survives as a plain or literal scalar.
func literal(s string) bool {
	for _, r := range s {
		if r < ' ' && r != '\n' || r == 0x7f || r == 0x85 || r == 0xFEFF || r == '\u2028' || r == '\u2029' || r > 0x7f && r < 0xa0 {
			return false
		}
	}
	if !strings.Contains(s, "\n") {
		return true
	}
	// A literal scalar that begins or ends with blanks needs indicators that
	// not every reader gets right.
	if strings.TrimLeft(s, " \n") != s || strings.HasSuffix(s, "\n\n") || s == "\n" {
		return false
	}
	for line := range strings.SplitSeq(s, "\n") {
		if line != strings.TrimRight(line, " ") {
			return false
		}
	}
	return true
}

func (e *encoder) sequence(v starlark.Sequence, depth int) (*yamlv3.Node, error) {
	n := &yamlv3.Node{Kind: yamlv3.SequenceNode, Tag: "!!seq"}
	it := v.Iterate()
	defer it.Done()
	var x starlark.Value
	for i := 0; it.Next(&x); i++ {
		c, err := e.node(x, depth+1)
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		n.Content = append(n.Content, c)
	}
	if len(n.Content) == 0 {
		n.Style = yamlv3.FlowStyle
	}
	return n, nil
}

func (e *encoder) mapping(items []starlark.Tuple, depth int) (*yamlv3.Node, error) {
	n := &yamlv3.Node{Kind: yamlv3.MappingNode, Tag: "!!map"}
	for _, item := range items {
		switch item[0].(type) {
		case starlark.String, starlark.Int, starlark.Bool:
		default:
			return nil, fmt.Errorf("the key %s is a %s, want string, int or bool", item[0], item[0].Type())
		}
		k, err := e.node(item[0], depth+1)
		if err != nil {
			return nil, err
		}
		if k.Style == yamlv3.LiteralStyle {
			k.Style = yamlv3.DoubleQuotedStyle
		}
		v, err := e.node(item[1], depth+1)
		if err != nil {
			return nil, fmt.Errorf("[%s]: %w", item[0], err)
		}
		n.Content = append(n.Content, k, v)
	}
	if len(n.Content) == 0 {
		n.Style = yamlv3.FlowStyle
	}
	return n, nil
}

func (e *encoder) fields(v starlark.HasAttrs, depth int) (*yamlv3.Node, error) {
	var items []starlark.Tuple
	for _, name := range v.AttrNames() {
		x, err := v.Attr(name)
		if err != nil {
			return nil, err
		}
		items = append(items, starlark.Tuple{starlark.String(name), x})
	}
	return e.mapping(items, depth)
}
