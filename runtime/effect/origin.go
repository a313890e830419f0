package effect

import (
	"context"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// An Origin is what a text is made from. What is made from a secret is secret,
// and what is made from a value that isn't known yet isn't known either. The
// zero Origin is plain text.
type Origin struct {
	secret  bool
	unknown bool
	of      string // what isn't known
}

// OriginOf returns the origin of what is made from all of texts.
func OriginOf(texts ...Text) Origin {
	var o Origin
	for _, t := range texts {
		o.secret = o.secret || t.IsSecret()
		if !t.Known() {
			o.Lack(Unknown{Of: t.of})
		}
	}
	return o
}

// Reveal returns the text of s, and makes what comes from o secret.
func (o *Origin) Reveal(s *Secret) string {
	o.secret = true
	return s.plain
}

// Lack makes what comes from o unknown. The first Unknown is the one that
// messages name.
func (o *Origin) Lack(u Unknown) {
	if !o.unknown {
		o.unknown, o.of = true, u.Of
	}
}

// Known reports whether all of o is known.
func (o Origin) Known() bool { return !o.unknown }

// IsSecret reports whether some of o is secret.
func (o Origin) IsSecret() bool { return o.secret }

// Text returns plain, which was made from o: an Unknown, a *Secret that the
// run's outputs don't show, or a string.
func (o Origin) Text(ctx context.Context, plain string) starlark.Value {
	switch {
	case o.unknown:
		return Unknown{Of: o.of}
	case o.secret:
		// What holds secrets that the outputs don't show needs nothing more, and
		// the rest of it may show.
		if s := From(ctx); s != nil && s.Door != nil && s.Door.Redactor.String(plain) != plain {
			return &Secret{plain: plain, redactor: s.Door.Redactor}
		}
		return Derived(ctx, plain)
	}
	return starlark.String(plain)
}

// Derived returns plain, which was made from a secret, as a secret of the run
// that ctx belongs to. Unlike NewSecret it takes any length: a text that is too
// short to be kept out of every output still shows as stars itself.
func Derived(ctx context.Context, plain string) *Secret {
	s, err := NewSecret(ctx, plain, "")
	if err != nil {
		return SecretOf(plain, "")
	}
	return s
}

// TextOrBytes returns v as a Text, also where it is bytes, whose content need
// not be UTF-8 then. Other values are errors of kind Invalid.
func TextOrBytes(v starlark.Value) (Text, error) {
	var t Text
	switch v := v.(type) {
	case starlark.Bytes:
		return Plain(string(v)), nil
	case starlark.String, *Secret, Unknown:
		return t, t.Unpack(v)
	}
	return t, fault.New(fault.Invalid, "got %s, want string or bytes", v.Type())
}
