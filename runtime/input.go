package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// An Input declares one input of a recipe: its type, default and text.
type Input struct {
	Kind     string // "string", "int", "bool", "cidr", "address", "duration", "list", "dict", "secret"
	Doc      string
	Default  starlark.Value // nil if it must be given
	Choices  []string
	Pattern  *regexp.Regexp
	Min, Max *int

	pos   syntax.Position // where it was declared, or given another default
	below *Input          // what it took the place of
}

// Pos returns the file and line that the input, or its default, comes from.
func (in *Input) Pos() string { return line(in.pos) }

// Below returns the input that an override took the place of, or nil.
func (in *Input) Below() *Input { return in.below }

func (in *Input) String() string       { return "<input." + in.Kind + ">" }
func (in *Input) Type() string         { return "input" }
func (in *Input) Freeze()              {}
func (in *Input) Truth() starlark.Bool { return true }
func (in *Input) Hash() (uint32, error) {
	return 0, fault.New(fault.Invalid, "an input can't be a key")
}

// Parse returns the value of the input for the text given on a command line.
func (in *Input) Parse(text string) (starlark.Value, error) {
	switch in.Kind {
	case "int":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%q is no whole number", text)
		}
		return in.Check(starlark.MakeInt64(n))
	case "bool":
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%q is neither true nor false", text)
		}
		return starlark.Bool(b), nil
	case "list":
		return in.parseList(text)
	case "dict":
		v, err := parseJSON(text)
		if _, ok := v.(*starlark.Dict); err != nil || !ok {
			return nil, fault.New(fault.Invalid, "%q is no JSON object", text)
		}
		return in.Check(v)
	}
	return in.Check(starlark.String(text))
}

func (in *Input) parseList(text string) (starlark.Value, error) {
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		v, err := parseJSON(text)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%q is no JSON list", text)
		}
		return in.Check(v)
	}
	var items []starlark.Value
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			items = append(items, starlark.String(part))
		}
	}
	return in.Check(starlark.NewList(items))
}

// parseJSON reads a JSON text; whole numbers stay whole, and keys in order.
func parseJSON(text string) (starlark.Value, error) {
	if !json.Valid([]byte(text)) {
		return nil, fault.New(fault.Invalid, "it is no JSON")
	}
	return effect.Codec{}.Decode(context.Background(), []byte(text))
}

// Check returns v if it is of the input's type. A value that isn't known yet
// is of any type.
func (in *Input) Check(v starlark.Value) (starlark.Value, error) {
	if _, ok := v.(effect.Unknown); ok {
		return v, nil
	}
	if err := in.checkType(v); err != nil {
		return nil, err
	}
	if s, ok := starlark.AsString(v); ok {
		if len(in.Choices) > 0 && !slices.Contains(in.Choices, s) {
			return nil, fault.New(fault.Invalid, "%q is none of %s", s, strings.Join(in.Choices, ", "))
		}
		if in.Pattern != nil && !in.Pattern.MatchString(s) {
			return nil, fault.New(fault.Invalid, "%q doesn't match %s", s, in.Pattern)
		}
	}
	if n, ok := v.(starlark.Int); ok {
		i, _ := n.Int64()
		if in.Min != nil && i < int64(*in.Min) || in.Max != nil && i > int64(*in.Max) {
			return nil, fault.New(fault.Invalid, "%d is not %s", i, in.bounds())
		}
	}
	return v, nil
}

func (in *Input) bounds() string {
	switch {
	case in.Min == nil:
		return fmt.Sprintf("at most %d", *in.Max)
	case in.Max == nil:
		return fmt.Sprintf("at least %d", *in.Min)
	}
	return fmt.Sprintf("between %d and %d", *in.Min, *in.Max)
}

func (in *Input) checkType(v starlark.Value) error {
	s, isString := starlark.AsString(v)
	ok := isString
	switch in.Kind {
	case "string", kindSecret:
		_, secret := v.(*effect.Secret)
		ok = isString || secret
	case "int":
		_, ok = v.(starlark.Int)
	case "bool":
		_, ok = v.(starlark.Bool)
	case "list":
		_, ok = v.(*starlark.List)
	case "dict":
		_, ok = v.(*starlark.Dict)
	}
	if !ok {
		return fault.New(fault.Invalid, "got %s, want %s", v.Type(), in.Kind)
	}
	switch in.Kind {
	case "cidr":
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return fault.New(fault.Invalid, "%q is no address range such as 10.20.0.0/24", s)
		}
		if p.Masked() != p {
			return fault.New(fault.Invalid, "%q has host bits set; the range is %s", s, p.Masked())
		}
	case "address":
		if _, err := netip.ParseAddr(s); err != nil {
			return fault.New(fault.Invalid, "%q is no IP address", s)
		}
	case "duration":
		if _, err := time.ParseDuration(s); err != nil {
			return fault.New(fault.Invalid, `%q is no duration such as "30s" or "5m"`, s)
		}
	}
	return nil
}

type inputArgs struct {
	Default starlark.Value `star:"default" doc:"Value if none is given; without it the input must be given."`
	Doc     string         `star:"doc,required" doc:"What the input is, for the command's help."`
	Choices []string       `star:"choices" doc:"The only texts allowed."`
	Pattern string         `star:"pattern" doc:"Regular expression (RE2) that a text must match."`
	Min     *int           `star:"min" doc:"Smallest number allowed."`
	Max     *int           `star:"max" doc:"Largest number allowed."`
}

// inputModule declares the functions input.string and so on.
func inputModule() *builtin.Module {
	m := builtin.Module{Name: "input", Doc: "Typed inputs of a recipe. Each becomes a flag of the command, and is checked before anything is touched."}
	for _, k := range []struct{ name, doc, example string }{
		{"string", "A text.", `input.string(default = "public", doc = "External network.")`},
		{"int", "A whole number.", `input.int(default = 3, min = 1, max = 9, doc = "Workers.")`},
		{"bool", "True or False.", `input.bool(default = False, doc = "Write the console log.")`},
		{"cidr", "An address range without host bits.", `input.cidr(default = "10.20.0.0/24", doc = "Management network.")`},
		{"address", "An IPv4 or IPv6 address.", `input.address(doc = "Address of the mirror.")`},
		{"duration", "A duration such as 90s or 5m.", `input.duration(default = "5m", doc = "How long to wait.")`},
		{"list", "A list; on the command line its items are separated by commas, or it is JSON.", `input.list(default = [], doc = "DNS servers.")`},
		{kindSecret, "A secret, given by where it is: the name of a secret of the site, or env:NAME, file:PATH and so on. It is never given itself, " +
			"since others see it in the list of processes. A recipe that uses this one gives a secret, or such a name.",
			`input.secret(default = "registry_token", doc = "Token of the registry.")`},
		{"dict", "A dict with string keys; on the command line it is JSON.", `input.dict(default = {}, doc = "Labels.")`},
	} {
		m.Funcs = append(m.Funcs, builtin.Of(builtin.Spec[any, inputArgs]{
			Name: k.name, Doc: k.doc, Returns: "input", Example: k.example, Effect: builtin.Pure, Errors: []fault.Kind{fault.Invalid},
			Run: newInput(k.name),
		}))
	}
	return builtin.NewModule(m)
}
