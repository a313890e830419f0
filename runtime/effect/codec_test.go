package effect

import (
	"context"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// plainVault seals by writing backwards.
type plainVault struct{}

func (plainVault) Seal(s *Secret) (string, error) { return reverse(s.plain), nil }
func (plainVault) Open(_ context.Context, sealed string) (*Secret, error) {
	return SecretOf(reverse(sealed), ""), nil
}

func reverse(s string) string {
	var b strings.Builder
	for i := len(s) - 1; i >= 0; i-- {
		b.WriteByte(s[i])
	}
	return b.String()
}

func TestCodecRoundTrip(t *testing.T) {
	d := starlark.NewDict(3)
	for _, k := range []string{"z", "a", "$m"} {
		if err := d.SetKey(starlark.String(k), starlark.MakeInt(len(k))); err != nil {
			t.Fatal(err)
		}
	}
	big, _ := starlark.NumberToInt(starlark.Float(1e20))
	for _, v := range []starlark.Value{
		starlark.None, starlark.True, starlark.String("ä\"\n<x>"), starlark.MakeInt64(1 << 62), big, starlark.Float(1), starlark.Float(-2.5e-9),
		starlark.Bytes("\x00\xff"), d, starlark.NewList([]starlark.Value{starlark.MakeInt(1), starlark.NewList(nil)}),
		NewStruct(starlark.StringDict{"a": starlark.MakeInt(1), "b": d}), NewObject("openstack.network", map[string]any{"id": "x", "tags": []string{"t"}}),
		Unknown{Of: "the id"},
	} {
		c := Codec{Vault: plainVault{}}
		form, err := c.Encode(v)
		if err != nil {
			t.Errorf("%v: %v", v, err)
			continue
		}
		back, err := c.Decode(t.Context(), form)
		if err != nil || back.String() != v.String() || back.Type() != v.Type() {
			t.Errorf("%v (%s): %s came back as %v (%v)", v, v.Type(), form, back, err)
		}
	}
	form, err := Codec{Vault: plainVault{}}.Encode(starlark.Tuple{SecretOf("correct horse", "")})
	if err != nil || strings.Contains(string(form), "correct") {
		t.Errorf("secret: %s %v", form, err)
	}
	back, err := Codec{Vault: plainVault{}}.Decode(t.Context(), form)
	if err != nil || back.(*starlark.List).Index(0).(*Secret).Reveal() != "correct horse" {
		t.Errorf("secret: %v %v", back, err)
	}
	r := new(Redactor)
	r.Add("correct horse")
	c := Codec{Vault: plainVault{}, Redactor: r}
	form, err = c.Encode(starlark.String("it printed correct horse."))
	if err != nil || strings.Contains(string(form), "correct") {
		t.Errorf("a text that holds a secret: %s %v", form, err)
	}
	if back, err := c.Decode(t.Context(), form); err != nil || back != starlark.String("it printed correct horse.") {
		t.Errorf("it comes back as it was: %v %v", back, err)
	}
	for _, v := range []starlark.Value{starlark.NewBuiltin("f", nil), SecretOf("correct horse", ""), starlark.String("\xff")} {
		if _, err := (Codec{}).Encode(v); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", v.Type(), err)
		}
	}
}
