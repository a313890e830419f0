package effect

import (
	"slices"
	"sort"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// maxDepth bounds walks through nested data.
const maxDepth = 100

// An Object is what a primitive returns: named, read-only attributes. Recipes
// read them with a dot, as those of a struct.
type Object struct {
	kind    string
	attrs   starlark.StringDict
	missing func(name string) error // nil for what Starlark says
}

// NewObject returns an object of the named kind ("openstack.network") with the
// given attributes, converted by ToStarlark.
func NewObject(kind string, attrs map[string]any) *Object {
	d := make(starlark.StringDict, len(attrs))
	for k, v := range attrs {
		d[k] = ToStarlark(v)
	}
	d.Freeze()
	return &Object{kind: kind, attrs: d}
}

// WithMissing returns o with an error of its own for an attribute that isn't
// there.
func (o *Object) WithMissing(missing func(name string) error) *Object {
	return &Object{kind: o.kind, attrs: o.attrs, missing: missing}
}

func (o *Object) String() string {
	var b strings.Builder
	b.WriteString(o.kind + "(")
	for i, name := range o.AttrNames() {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(name + " = " + o.attrs[name].String())
	}
	b.WriteString(")")
	return b.String()
}

func (o *Object) Type() string         { return o.kind }
func (o *Object) Freeze()              {}
func (o *Object) Truth() starlark.Bool { return true }
func (o *Object) Hash() (uint32, error) {
	return starlarkstruct.FromStringDict(starlark.String(o.kind), o.attrs).Hash()
}

// Attr returns the attribute. If there is none, it returns nil, or the error
// that WithMissing gave.
func (o *Object) Attr(name string) (starlark.Value, error) {
	v, ok := o.attrs[name]
	if !ok && o.missing != nil {
		return nil, o.missing(name)
	}
	return v, nil
}

// AttrNames returns the names of the attributes, sorted.
func (o *Object) AttrNames() []string {
	names := make([]string, 0, len(o.attrs))
	for n := range o.attrs {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// fieldsOf returns v as a fielder if its attributes are data.
func fieldsOf(v starlark.Value) (starlark.HasAttrs, bool) {
	switch v := v.(type) {
	case *Object:
		return v, true
	case *starlarkstruct.Struct:
		return v, true
	case Attributer:
		if d := v.Data(); d != nil {
			return d, true
		}
	}
	return nil, false
}

// An Attributer is a value with methods that may also have data.
type Attributer interface {
	starlark.HasAttrs
	// Data returns the value's data as an Object, which is what remains of it
	// when it leaves its step; nil if it has none.
	Data() *Object
}

// sortedKeys returns the keys of m in order.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
