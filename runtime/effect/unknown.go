package effect

import (
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// UnknownText is how an Unknown shows in text that people read.
const UnknownText = "(known after apply)"

// Unknown stands for a value that a planned change would produce. It may be
// passed on, indexed, called and put into text; whatever is made from it is
// Unknown too. Deciding on it is an error of kind fault.Deferred.
type Unknown struct {
	Of string // what isn't known, for messages: "openstack/lab/network/mgmt id"
}

var (
	_ starlark.HasAttrs  = Unknown{}
	_ starlark.HasBinary = Unknown{}
	_ starlark.HasUnary  = Unknown{}
	_ starlark.Callable  = Unknown{}
	_ starlark.Mapping   = Unknown{}
)

func (u Unknown) String() string        { return UnknownText }
func (u Unknown) Type() string          { return "unknown" }
func (u Unknown) Freeze()               {}
func (u Unknown) Truth() starlark.Bool  { return false } // conditions are checked by the dialect before they get here
func (u Unknown) Hash() (uint32, error) { return 0, u.Deferred("used as a key") }
func (u Unknown) Name() string          { return u.Of }
func (u Unknown) AttrNames() []string   { return nil }

// Attr returns the Unknown attribute of that name.
func (u Unknown) Attr(name string) (starlark.Value, error) {
	return u.part("." + name), nil
}

// Get returns the Unknown element at key.
func (u Unknown) Get(key starlark.Value) (starlark.Value, bool, error) {
	return u.part("[" + key.String() + "]"), true, nil
}

// Binary makes any arithmetic on an Unknown an Unknown.
func (u Unknown) Binary(op syntax.Token, _ starlark.Value, _ starlark.Side) (starlark.Value, error) {
	if op == syntax.IN || op == syntax.NOT_IN {
		return nil, u.Deferred("searched with `in`")
	}
	return u, nil
}

// Unary makes the negation of an Unknown an Unknown.
func (u Unknown) Unary(op syntax.Token) (starlark.Value, error) { return u, nil }

// CallInternal returns an Unknown: the result of a method of something that
// doesn't exist yet.
func (u Unknown) CallInternal(*starlark.Thread, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return u.part("()"), nil
}

// Deferred returns the error that ends a step's plan where a decision needs u.
func (u Unknown) Deferred(how string) error {
	of := u.Of
	if of == "" {
		of = "a value"
	}
	return fault.Hinted(fault.Deferred, "apply what is known first, or keep the decision out of the recipe's path",
		"%s is not known before it is applied, and is %s here", of, how)
}

func (u Unknown) part(s string) Unknown {
	if u.Of == "" || len(u.Of) > 200 {
		return u
	}
	return Unknown{Of: u.Of + s}
}

// FindUnknown returns the first Unknown within v, looking into lists, tuples,
// dicts, structs and objects.
func FindUnknown(v starlark.Value) (Unknown, bool) {
	var u Unknown
	found := false
	walk(v, 0, func(x starlark.Value) bool {
		if !found {
			u, found = x.(Unknown)
		}
		return !found
	})
	return u, found
}
