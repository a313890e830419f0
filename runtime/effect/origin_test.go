package effect_test

import (
	"context"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func TestOrigin(t *testing.T) {
	redactor := new(effect.Redactor)
	scope := effect.NewScope(&effect.Door{Redactor: redactor}, effect.Owner{Site: "lab", Recipe: "test"}, "step", nil)
	ctx := effect.With(context.Background(), scope)
	text := func(v starlark.Value) effect.Text {
		t.Helper()
		out, err := effect.TextOrBytes(v)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	plain, secret := text(starlark.String("plain")), text(effect.SecretOf("hunter22hunter", ""))
	unknown, other := text(effect.Unknown{Of: "the id"}), text(effect.Unknown{Of: "the port"})
	for name, tt := range map[string]struct {
		from []effect.Text
		want starlark.Value
	}{
		"of nothing":             {nil, starlark.String("made of it")},
		"of plain text":          {[]effect.Text{plain, text(starlark.Bytes("\xff"))}, starlark.String("made of it")},
		"of a secret":            {[]effect.Text{plain, secret}, effect.SecretOf("made of it", "")},
		"of an unknown":          {[]effect.Text{plain, unknown, other}, effect.Unknown{Of: "the id"}},
		"of both":                {[]effect.Text{secret, unknown}, effect.Unknown{Of: "the id"}},
		"of a nameless unknown":  {[]effect.Text{text(effect.Unknown{}), other}, effect.Unknown{}},
		"of a secret and itself": {[]effect.Text{secret, secret}, effect.SecretOf("made of it", "")},
	} {
		o := effect.OriginOf(tt.from...)
		got := o.Text(ctx, "made of it")
		switch want := tt.want.(type) {
		case *effect.Secret:
			if s, ok := got.(*effect.Secret); !ok || s.Reveal() != want.Reveal() || !o.IsSecret() {
				t.Errorf("%s: got %#v, want a secret", name, got)
			}
		case effect.Unknown:
			if got != tt.want || o.Known() {
				t.Errorf("%s: got %#v, want %#v", name, got, want)
			}
		default:
			if got != tt.want || o.IsSecret() || !o.Known() {
				t.Errorf("%s: got %#v, want %#v", name, got, want)
			}
		}
	}
	if got := redactor.String("it was made of it"); strings.Contains(got, "made of it") {
		t.Errorf("what was made from a secret shows in the outputs: %s", got)
	}
	var o effect.Origin
	if got := o.Reveal(effect.SecretOf("short", "")); got != "short" || !o.IsSecret() {
		t.Errorf("revealed %q, secret %t", got, o.IsSecret())
	}
	if s, ok := o.Text(ctx, "tiny").(*effect.Secret); !ok || s.String() != effect.Mask {
		t.Errorf("a short text made from a secret shows as %v", s)
	}
	if got := redactor.String("tiny steps"); got != "tiny steps" {
		t.Errorf("a short secret removed from the outputs: %s", got)
	}
	o.Lack(effect.Unknown{Of: "the id"})
	o.Lack(effect.Unknown{Of: "the port"})
	if got := o.Text(ctx, "text"); got != (effect.Unknown{Of: "the id"}) {
		t.Errorf("got %#v, want the first unknown", got)
	}
	for _, v := range []starlark.Value{starlark.None, starlark.MakeInt(1), starlark.NewList(nil)} {
		if _, err := effect.TextOrBytes(v); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), v.Type()) {
			t.Errorf("a %s as text: %v", v.Type(), err)
		}
	}
}
