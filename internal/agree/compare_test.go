package agree

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func unknownWithin(x any) bool { return strings.Contains(string(formOf(x)), `{"$unknown":`) }

// sameData compares attributes, as same does values.
func (c *checker) sameData(what string, want, got any, n *int) {
	c.compare(what, formOf(want), formOf(got), n)
}

func (c *checker) same(what string, want, got starlark.Value, n *int) {
	c.compare(what, form(want), form(got), n)
}

func (c *checker) compare(what string, want, got []byte, n *int) {
	a, b := decoded(want), decoded(got)
	if !c.agrees(a, b, n) {
		c.claim("%s is %s in the plan and %s in fact", what, want, got)
	}
	if strings.Contains(strings.ReplaceAll(string(want), `"$unknown":"`, ""), effect.UnknownText) {
		c.claim("%s holds the text for what isn't known: %s", what, want)
	}
}

// formOf returns data in the journal's form.
func formOf(x any) []byte { return form(effect.ToStarlark(x)) }

func form(v starlark.Value) []byte {
	b, err := effect.Codec{Vault: vault{}}.Encode(v)
	if err != nil {
		return fmt.Appendf(nil, "%q", "no data: "+err.Error())
	}
	return b
}

func decoded(form []byte) any {
	d := json.NewDecoder(bytes.NewReader(form))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil {
		return err.Error()
	}
	return x
}

// agrees reports whether got is want wherever want is known, and counts the
// known parts.
func (c *checker) agrees(want, got any, n *int) bool {
	switch want := want.(type) {
	case map[string]any:
		if _, unknown := want["$unknown"]; unknown && len(want) == 1 {
			c.tally.unknown++
			return true
		}
		m, ok := got.(map[string]any)
		if !ok || len(m) != len(want) {
			return false
		}
		for k, x := range want {
			y, ok := m[k]
			if !ok || !c.agrees(x, y, n) {
				return false
			}
		}
		return true
	case []any:
		l, ok := got.([]any)
		if !ok || len(l) != len(want) {
			return false
		}
		for i := range want {
			if !c.agrees(want[i], l[i], n) {
				return false
			}
		}
		return true
	}
	if s, ok := got.(string); ok && strings.Contains(s, effect.Mask) {
		c.tally.unknown++ // the run doesn't show it
		return true
	}
	*n++
	return reflect.DeepEqual(want, got) || fmt.Sprint(want) == fmt.Sprint(got) && fmt.Sprintf("%T", want) == fmt.Sprintf("%T", got)
}
