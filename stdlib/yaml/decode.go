package yaml

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"go.starlark.net/starlark"
	yamlv3 "go.yaml.in/yaml/v3"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// maxNodes bounds what a text may become: aliases can multiply it.
const maxNodes = 5_000_000

type decodeArgs struct {
	S effect.Text `star:"s,required" doc:"YAML text of one document."`
}

func decode() builtin.Func {
	return builtin.Of(builtin.Spec[any, decodeArgs]{
		Name: "decode",
		Doc: "Read a YAML document. A key that occurs twice, and more than one document, are errors. Dates are strings. " +
			"An empty text is None.",
		Returns: "the value",
		Example: `replicas = yaml.decode("spec:\n  replicas: 3\n")["spec"]["replicas"]`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, _ any, a decodeArgs) (any, error) {
			if !a.S.Known() {
				return a.S.Value(), nil
			}
			docs, err := read(ctx, a.S)
			if err != nil {
				return nil, err
			}
			switch len(docs) {
			case 0:
				return nil, nil
			case 1:
				return docs[0], nil
			}
			return nil, fault.Hinted(fault.Invalid, "use yaml.decode_all", "the text has %d YAML documents, want one", len(docs))
		},
	})
}

type decodeAllArgs struct {
	S effect.Text `star:"s,required" doc:"YAML text of any number of documents."`
}

func decodeAll() builtin.Func {
	return builtin.Of(builtin.Spec[any, decodeAllArgs]{
		Name:    "decode_all",
		Doc:     "Read all documents of a YAML text, such as a manifest. Empty documents are left out.",
		Returns: "list: the values",
		Example: `kinds = [doc["kind"] for doc in yaml.decode_all("kind: Namespace\n---\nkind: ConfigMap\n")]`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, _ any, a decodeAllArgs) (any, error) {
			if !a.S.Known() {
				return a.S.Value(), nil
			}
			docs, err := read(ctx, a.S)
			if err != nil {
				return nil, err
			}
			kept := []starlark.Value{}
			for _, d := range docs {
				if d != starlark.None {
					kept = append(kept, d)
				}
			}
			return starlark.NewList(kept), nil
		},
	})
}

func read(ctx context.Context, s effect.Text) ([]starlark.Value, error) {
	from := effect.OriginOf(s)
	d := decoder{secret: from.IsSecret(), text: func(s string) starlark.Value { return from.Text(ctx, s) }}
	docs, err := d.documents(s.Reveal())
	if err != nil {
		if s.IsSecret() { // the message may quote the text
			return nil, fault.New(fault.Invalid, "the secret isn't YAML, or a kind of it that isn't read")
		}
		return nil, &fault.Error{Op: "reading YAML", Kind: fault.Invalid, Err: err}
	}
	return docs, nil
}

type decoder struct {
	text   func(string) starlark.Value
	secret bool
	nodes  int
}

func (d *decoder) documents(s string) ([]starlark.Value, error) {
	in := yamlv3.NewDecoder(strings.NewReader(s))
	var docs []starlark.Value
	for {
		var n yamlv3.Node
		err := in.Decode(&n)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
		}
		v, err := d.value(&n, 0)
		if err != nil {
			return nil, err
		}
		docs = append(docs, v)
	}
}

func (d *decoder) value(n *yamlv3.Node, depth int) (starlark.Value, error) {
	d.nodes++
	switch {
	case depth > maxDepth:
		return nil, fmt.Errorf("line %d: nested more than %d deep", n.Line, maxDepth)
	case d.nodes > maxNodes:
		return nil, fmt.Errorf("line %d: the text becomes more than %d values", n.Line, maxNodes)
	}
	switch n.Kind {
	case yamlv3.DocumentNode:
		if len(n.Content) == 0 {
			return starlark.None, nil
		}
		return d.value(n.Content[0], depth)
	case yamlv3.AliasNode:
		return d.value(n.Alias, depth+1)
	case yamlv3.SequenceNode:
		return d.sequence(n, depth)
	case yamlv3.MappingNode:
		return d.mapping(n, depth)
	case yamlv3.ScalarNode:
		return d.scalar(n)
	}
	return starlark.None, nil
}

func (d *decoder) scalar(n *yamlv3.Node) (starlark.Value, error) {
	switch tag := n.ShortTag(); tag {
	case "!!null":
		return starlark.None, nil
	case "!!str", "!!timestamp", "!!merge":
		return d.text(n.Value), nil
	case "!!binary":
		raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil {
			return nil, fmt.Errorf("line %d: !!binary: %w", n.Line, err)
		}
		if d.secret {
			return d.text(string(raw)), nil
		}
		return starlark.Bytes(raw), nil
	case "!!bool", "!!int", "!!float":
		return number(n)
	default:
		return nil, fmt.Errorf("line %d: the tag %s isn't known", n.Line, tag)
	}
}

func number(n *yamlv3.Node) (starlark.Value, error) {
	var x any
	if err := n.Decode(&x); err != nil {
		return nil, fmt.Errorf("line %d: %q is no %s", n.Line, n.Value, n.ShortTag())
	}
	switch x := x.(type) {
	case bool:
		return starlark.Bool(x), nil
	case int:
		return starlark.MakeInt(x), nil
	case int64:
		return starlark.MakeInt64(x), nil
	case uint64:
		return starlark.MakeUint64(x), nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("line %d: %s isn't a number that a recipe can have", n.Line, n.Value)
		}
		return starlark.Float(x), nil
	}
	return nil, fmt.Errorf("line %d: %q is no %s", n.Line, n.Value, n.ShortTag())
}

func (d *decoder) sequence(n *yamlv3.Node, depth int) (starlark.Value, error) {
	items := make([]starlark.Value, 0, len(n.Content))
	for _, c := range n.Content {
		v, err := d.value(c, depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	return starlark.NewList(items), nil
}

func (d *decoder) mapping(n *yamlv3.Node, depth int) (starlark.Value, error) {
	dict := starlark.NewDict(len(n.Content) / 2)
	var merges []*yamlv3.Node
	plain := decoder{text: func(s string) starlark.Value { return starlark.String(s) }} // keys of a secret stay readable
	for i := 0; i+1 < len(n.Content); i += 2 {
		kn, vn := n.Content[i], n.Content[i+1]
		if kn.ShortTag() == "!!merge" {
			merges = append(merges, vn)
			continue
		}
		k, err := plain.value(kn, depth+1)
		if err != nil {
			return nil, err
		}
		switch k.(type) {
		case starlark.String, starlark.Int, starlark.Bool:
		default:
			return nil, fmt.Errorf("line %d: a %s can't be a key", kn.Line, k.Type())
		}
		if _, twice, _ := dict.Get(k); twice {
			return nil, fmt.Errorf("line %d: the key %s occurs twice", kn.Line, k)
		}
		v, err := d.value(vn, depth+1)
		if err != nil {
			return nil, err
		}
		if err := dict.SetKey(k, v); err != nil {
			return nil, err
		}
	}
	for _, m := range merges {
		if err := d.merge(dict, m, depth+1); err != nil {
			return nil, err
		}
	}
	return dict, nil
}

// merge adds the keys of a mapping, or of several, that dict doesn't have.
func (d *decoder) merge(dict *starlark.Dict, n *yamlv3.Node, depth int) error {
	v, err := d.value(n, depth)
	if err != nil {
		return err
	}
	from := []starlark.Value{v}
	if l, ok := v.(*starlark.List); ok {
		from = from[:0]
		for i := range l.Len() {
			from = append(from, l.Index(i))
		}
	}
	for _, f := range from {
		m, ok := f.(*starlark.Dict)
		if !ok {
			return fmt.Errorf("line %d: << takes mappings, not a %s", n.Line, f.Type())
		}
		for _, item := range m.Items() {
			if _, has, _ := dict.Get(item[0]); has {
				continue
			}
			if err := dict.SetKey(item[0], item[1]); err != nil {
				return err
			}
		}
	}
	return nil
}
