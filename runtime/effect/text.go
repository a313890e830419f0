package effect

import (
	"fmt"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Text is a string argument that may be secret or not yet known. An argument
// that must be plain and known, such as a name, is declared as a string.
type Text struct {
	plain   string
	secret  *Secret
	unknown bool
	of      string
}

// Plain returns s as a Text.
func Plain(s string) Text { return Text{plain: s} }

// Known reports whether the text is known.
func (t Text) Known() bool { return !t.unknown }

// IsSecret reports whether the text is secret.
func (t Text) IsSecret() bool { return t.secret != nil }

// Reveal returns the text itself, for the one call that needs it. It is empty
// if the text isn't known.
func (t Text) Reveal() string {
	if t.secret != nil {
		return t.secret.plain
	}
	return t.plain
}

// Empty reports whether the text is known to be empty.
func (t Text) Empty() bool { return t.Known() && t.Reveal() == "" }

// String returns the text as people may see it.
func (t Text) String() string {
	switch {
	case t.unknown:
		return UnknownText
	case t.secret != nil:
		return Mask
	}
	return t.plain
}

// Format prints what String returns, whatever the verb.
func (t Text) Format(f fmt.State, _ rune) { fmt.Fprint(f, t.String()) }

// Value returns the text as data: a string, an Unknown or a *Secret.
func (t Text) Value() any {
	switch {
	case t.unknown:
		return Unknown{Of: t.of}
	case t.secret != nil:
		return t.secret
	}
	return t.plain
}

// Unpack takes a string, a secret, an Unknown or None (empty).
func (t *Text) Unpack(v starlark.Value) error {
	switch v := v.(type) {
	case starlark.String:
		*t = Text{plain: string(v)}
	case *Secret:
		*t = Text{secret: v}
	case Unknown:
		*t = Text{unknown: true, of: v.Of}
	case starlark.NoneType:
		*t = Text{}
	default:
		return fault.New(fault.Invalid, "got %s, want string", v.Type())
	}
	return nil
}

// A Reference names another resource: by its id, or by the object that a
// primitive returned, whose attribute `id` is taken. It may not be known yet.
type Reference struct {
	ID   Text
	Name string // the object's name, if an object was given and has one
}

// Known reports whether the id is known.
func (r Reference) Known() bool { return r.ID.Known() }

// Empty reports whether nothing was given.
func (r Reference) Empty() bool { return r.ID.Empty() }

// String returns the name if there is one, else the id.
func (r Reference) String() string {
	if r.Name != "" {
		return r.Name
	}
	return r.ID.String()
}

// Unpack takes an id, an object with the attribute `id`, an Unknown or None.
func (r *Reference) Unpack(v starlark.Value) error {
	f, ok := fieldsOf(v)
	if !ok {
		if err := r.ID.Unpack(v); err != nil {
			return fault.New(fault.Invalid, "got %s, want an id or an object with an id", v.Type())
		}
		return nil
	}
	id, err := f.Attr("id")
	if err != nil || id == nil {
		return fault.New(fault.Invalid, "got %s, which has no attribute id", v.Type())
	}
	if name, err := f.Attr("name"); err == nil && name != nil {
		if s, ok := starlark.AsString(name); ok {
			r.Name = s
		}
	}
	return r.ID.Unpack(id)
}
