package effect

import (
	"context"
	"crypto/subtle"
	"fmt"
	"strconv"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// Mask is how a secret shows.
const Mask = "***"

// MinSecret is the length in bytes below which a text can't be declared a
// secret: removing a shorter one from every output would turn it into stars.
const MinSecret = 8

// A Ref names the source that a secret can be read from again, for example
// "env:GATEWAY_KEY" or "store:gateway". The zero Ref is a secret without one.
type Ref string

// A Secret is a text that shows as *** everywhere. Only Reveal gives it out,
// for the one call that needs it.
type Secret struct {
	plain    string
	ref      Ref
	redactor *Redactor // of the run that it was declared in; nil for none
}

var (
	_ starlark.HasBinary  = (*Secret)(nil)
	_ starlark.Comparable = (*Secret)(nil)
)

// NewSecret returns plain as a secret of the run that ctx belongs to: from now
// on none of that run's outputs shows it. What can't be kept out of them is
// refused, see Maskable.
func NewSecret(ctx context.Context, plain string, ref Ref) (*Secret, error) {
	if err := Maskable(ctx, plain); err != nil {
		return nil, fault.Wrap("", secretName(ref), err)
	}
	out := &Secret{plain: plain, ref: ref}
	if s := From(ctx); s != nil && s.Door != nil && s.Door.Redactor != nil {
		out.redactor = s.Door.Redactor
		out.redactor.Add(plain)
	}
	return out, nil
}

func secretName(ref Ref) string {
	if ref == "" {
		return "a secret"
	}
	return "secret " + strconv.Quote(string(ref))
}

// SecretOf returns plain as a secret that is already kept out of the outputs,
// such as one that was made from others.
func SecretOf(plain string, ref Ref) *Secret { return &Secret{plain: plain, ref: ref} }

// Reveal returns the text itself.
func (s *Secret) Reveal() string { return s.plain }

// Ref returns the secret's source.
func (s *Secret) Ref() Ref { return s.ref }

func (s *Secret) String() string               { return Mask }
func (s *Secret) GoString() string             { return Mask }
func (s *Secret) Format(f fmt.State, _ rune)   { fmt.Fprint(f, Mask) }
func (s *Secret) MarshalText() ([]byte, error) { return []byte(Mask), nil }
func (s *Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + Mask + `"`), nil }
func (s *Secret) Type() string                 { return "secret" }
func (s *Secret) Freeze()                      {}
func (s *Secret) Truth() starlark.Bool         { return s.plain != "" }

// Hash refuses: a secret used as a key would show up as one.
func (s *Secret) Hash() (uint32, error) {
	return 0, fault.New(fault.Invalid, "a secret can't be a key")
}

// CompareSameType compares two secrets in constant time; only == and != work.
func (s *Secret) CompareSameType(op syntax.Token, y starlark.Value, _ int) (bool, error) {
	same := subtle.ConstantTimeCompare([]byte(s.plain), []byte(y.(*Secret).plain)) == 1
	switch op {
	case syntax.EQL:
		return same, nil
	case syntax.NEQ:
		return !same, nil
	}
	return false, fault.New(fault.Invalid, "secrets can't be ordered")
}

// Binary keeps text that a secret is part of secret.
func (s *Secret) Binary(op syntax.Token, y starlark.Value, side starlark.Side) (starlark.Value, error) {
	if op == syntax.IN || op == syntax.NOT_IN {
		return nil, fault.New(fault.Invalid, "a secret can't be searched with `in`")
	}
	if op != syntax.PLUS {
		return nil, nil
	}
	var other string
	switch y := y.(type) {
	case starlark.String:
		other = string(y)
	case *Secret:
		other = y.plain
	default:
		return nil, nil
	}
	if side == starlark.Right {
		return s.derive(other + s.plain), nil
	}
	return s.derive(s.plain + other), nil
}

// Open returns v with the secrets in it as plain texts, for comparing: lists,
// tuples, dicts and structs are taken anew, other values stay as they are.
func Open(v starlark.Value) starlark.Value {
	if FindSecret(v) == nil {
		return v
	}
	switch v := v.(type) {
	case *Secret:
		return starlark.String(v.plain)
	case starlark.Tuple:
		out := make(starlark.Tuple, len(v))
		for i, x := range v {
			out[i] = Open(x)
		}
		return out
	case *starlark.List:
		out := make([]starlark.Value, v.Len())
		for i := range out {
			out[i] = Open(v.Index(i))
		}
		return starlark.NewList(out)
	case *starlark.Dict:
		out := starlark.NewDict(v.Len())
		for _, item := range v.Items() {
			_ = out.SetKey(item[0], Open(item[1])) // a key of one dict fits another
		}
		return out
	case *starlarkstruct.Struct:
		attrs := make(starlark.StringDict)
		v.ToStringDict(attrs)
		for name, x := range attrs {
			attrs[name] = Open(x)
		}
		return starlarkstruct.FromStringDict(v.Constructor(), attrs)
	}
	return v
}

// FindSecret returns the first secret within v, or nil.
func FindSecret(v starlark.Value) *Secret {
	var found *Secret
	walk(v, 0, func(x starlark.Value) bool {
		if s, ok := x.(*Secret); ok && found == nil {
			found = s
		}
		return found == nil
	})
	return found
}

// Mentions reports whether the text s holds the secret's plain text.
func (s *Secret) Mentions(text string) bool { return strings.Contains(text, s.plain) }

// derive returns a text that was made of s as a secret. It is removed from the
// outputs from now on, as s is, unless it holds s as a whole, or is a piece of s
// that shows by right.
func (s *Secret) derive(text string) *Secret {
	if s.redactor != nil && !strings.Contains(text, s.plain) && !s.redactor.Public(text) && !isCommon(text) {
		line := strings.TrimSpace(text)
		if !strings.Contains(strings.TrimSpace(s.plain), "\n") || strings.Contains(line, "\n") || secretOfLine(line) != "" {
			s.redactor.Add(text)
		}
	}
	return &Secret{plain: text, redactor: s.redactor}
}

// Taint makes the texts in v, which were made of s, secret: v itself, or the
// elements of a list or tuple of texts. Other values stay as they are.
func (s *Secret) Taint(v starlark.Value) starlark.Value {
	switch v := v.(type) {
	case starlark.String:
		return s.derive(string(v))
	case starlark.Tuple:
		out := make(starlark.Tuple, len(v))
		for i, x := range v {
			out[i] = s.Taint(x)
		}
		return out
	case *starlark.List:
		out := make([]starlark.Value, v.Len())
		for i := range out {
			out[i] = s.Taint(v.Index(i))
		}
		return starlark.NewList(out)
	}
	return v
}
