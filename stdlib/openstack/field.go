package openstack

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A field is one thing that a recipe wants of a resource.
type field struct {
	attr  string              // the attribute, as recipes and plans call it; empty if it is only sent on creation
	key   string              // the field of the API; empty if it is called like the attribute
	want  any                 // what the attribute should be; within it, effect.Unknown where it isn't known yet
	send  any                 // how the API takes it; nil means as want is
	fixed bool                // it can't be changed on what exists
	set   bool                // it is a list whose order doesn't count
	equal func(have any) bool // compares, where comparing data wouldn't do; may be nil
	after map[string]any      // attributes to come of it, where they are not just what is wanted
	with  client.Object       // sent along: the API takes the field only beside these
	late  bool                // a create doesn't take it: it is set once the parts are there
	apart bool                // it is the tags, which are set by a call of their own

	// act changes it on what exists, by a call of its own; nil if an update does.
	act func(ctx context.Context, cl *client.Client, obj client.Object) error
	// unmoved is the hint where act was taken and changed nothing.
	unmoved string
	// over returns what is wanted where part of it is what is there, whose
	// attributes it gets; may be nil.
	over func(have map[string]any) any
	// fixedFrom reports whether it can't be changed from what is there; may be nil.
	fixedFrom func(have any) bool
}

// null is sent as JSON's null, where nil means "as want is".
type null struct{}

func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// put adds the field to a body.
func (f field) put(body client.Object) {
	key := f.key
	if key == "" {
		key = f.attr
	}
	for k, v := range f.with {
		body[k] = v
	}
	if f.send != nil {
		body[key] = f.send
	} else {
		body[key] = f.want
	}
}

// known reports whether all of what is wanted is known.
func (f field) known() bool { return known(f.want) }

func known(x any) bool {
	switch x := x.(type) {
	case effect.Unknown:
		return false
	case []any:
		return !slices.ContainsFunc(x, func(e any) bool { return !known(e) })
	case map[string]any:
		for _, e := range x {
			if !known(e) {
				return false
			}
		}
	}
	return true
}

// same reports whether the attribute is as wanted already.
func (f field) same(have any) bool {
	if f.equal != nil {
		return f.known() && f.equal(have)
	}
	want := f.want
	if f.set {
		want, have = sorted(want), sorted(have)
	}
	return len(effect.Compare(map[string]any{"x": want}, map[string]any{"x": have})) == 0
}

// sorted returns a list in a canonical order.
func sorted(x any) any {
	l, ok := x.([]any)
	if !ok {
		return x
	}
	l = slices.Clone(l)
	slices.SortFunc(l, func(a, b any) int { return strings.Compare(canonical(a), canonical(b)) })
	return l
}

func canonical(x any) string {
	b, err := json.Marshal(x)
	if err != nil {
		return fmt.Sprint(x)
	}
	return string(b)
}

// The makers of fields. Each returns none if the recipe didn't give the
// argument.

func boolField(attr, key string, v *bool) []field {
	if v == nil {
		return nil
	}
	return []field{{attr: attr, key: key, want: *v}}
}

func intField(attr, key string, v *int) []field {
	if v == nil {
		return nil
	}
	return []field{{attr: attr, key: key, want: *v}}
}

func textField(attr, key string, t effect.Text, fixed bool) []field {
	if t.Empty() {
		return nil
	}
	return []field{{attr: attr, key: key, want: t.Value(), send: revealed(t), fixed: fixed}}
}

// none is what a recipe writes for "it should have none".
const none = "none"

// emptiable makes fields of text that are "none" empty, which the API is told
// by sending as.
func emptiable(fs []field, as any) []field {
	for i := range fs {
		if fs[i].want == none {
			fs[i].want, fs[i].send = "", as
		}
	}
	return fs
}

// addressField is a textField for an address or a range, in the spelling that
// Neutron shows.
func addressField(attr, key string, t effect.Text, fixed bool) []field {
	if t.Known() && !t.IsSecret() && !t.Empty() {
		t = effect.Plain(canonicalAddress(t.Reveal()))
	}
	return textField(attr, key, t, fixed)
}

// canonicalAddress returns an address or a range in its shortest spelling;
// what is neither stays as it is, for Neutron to refuse.
func canonicalAddress(s string) string {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.String()
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.String()
	}
	return s
}

func canonicalAddresses(l []any) {
	for i, x := range l {
		if s, ok := x.(string); ok {
			l[i] = canonicalAddress(s)
		}
	}
}

func revealed(t effect.Text) any {
	if !t.Known() {
		return t.Value()
	}
	return t.Reveal()
}

func listField(attr, key string, items []effect.Text, set bool) []field {
	if items == nil {
		return nil
	}
	want := make([]any, len(items))
	for i, t := range items {
		want[i] = revealed(t)
	}
	if set {
		want = distinct(want)
	}
	return []field{{attr: attr, key: key, want: want, set: set}}
}

// distinct returns a list with each of its items once: the services keep sets so.
func distinct(l []any) []any {
	out := make([]any, 0, len(l))
	for _, x := range l {
		if !slices.ContainsFunc(out, func(y any) bool { return canonical(x) == canonical(y) && known(x) }) {
			out = append(out, x)
		}
	}
	return out
}

// checkTags refuses an empty tag, which no service takes, and one with a comma,
// which lists take for several.
func checkTags(target effect.Target, fields []field) error {
	for _, f := range fields {
		if l, ok := f.want.([]any); ok && f.attr == "tags" && slices.Contains(l, any("")) {
			return fault.New(fault.Invalid, "%s: one of its tags is empty", target)
		} else if ok && f.attr == "tags" {
			for _, t := range l {
				if s, _ := t.(string); strings.Contains(s, ",") {
					return fault.New(fault.Invalid, "%s: the tag %q has a comma", target, s)
				}
			}
		}
	}
	return nil
}

// tagsField is what ensure makes of its argument tags.
func (n *noun) tagsField(tags []effect.Text) []field {
	fs := listField("tags", "", tags, true)
	for i := range fs {
		fs[i].apart = n.tagged == tagsByCall
	}
	return fs
}

// immutable returns the error for fields that differ and can't be changed.
func immutable(target, id string, differ []effect.Field) error {
	parts := make([]string, len(differ))
	for i, d := range differ {
		old := show(d.Old)
		if effect.HoldsSecret(d.New) {
			old = effect.Mask // likely the secret of before
		}
		parts[i] = fmt.Sprintf("%s is %s, not %s", d.Path, old, show(d.New))
	}
	return fault.Hinted(fault.Invalid, "replace = True deletes it and makes it anew",
		"%s (%s) can't be changed to what is wanted: %s", target, id, strings.Join(parts, "; "))
}

// show writes a value for people.
func show(x any) string {
	switch x := x.(type) {
	case nil:
		return "unset"
	case string:
		if x == "" {
			return "empty"
		}
		return x
	case effect.Unknown, *effect.Secret:
		return fmt.Sprint(x)
	}
	return canonical(x)
}

// after returns the attributes to come: those of before, where there are some,
// with what the fields make of them. What isn't known is Unknown.
func after(target effect.Target, names []string, before map[string]any, fields []field) map[string]any {
	out := make(map[string]any, len(names))
	for _, n := range names {
		if v, ok := before[n]; ok {
			out[n] = v
		} else {
			out[n] = effect.Unknown{Of: target.String() + " " + n}
		}
	}
	set := func(name string, v any) {
		if _, declared := out[name]; !declared {
			return
		}
		if _, unknown := v.(effect.Unknown); unknown {
			v = effect.Unknown{Of: target.String() + " " + name}
		}
		out[name] = v
	}
	// What follows from a field comes first: another may say it better.
	for _, f := range fields {
		for name, v := range f.after {
			set(name, v)
		}
	}
	for _, f := range fields {
		if _, follows := f.after[f.attr]; follows {
			continue
		}
		if f.set {
			set(f.attr, sorted(f.want))
		} else {
			set(f.attr, f.want)
		}
	}
	return out
}

// differing returns the fields that aren't as wanted yet.
func differing(fields []field, have map[string]any) []field {
	return slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return f.attr == "" || f.known() && f.same(have[f.attr]) })
}

// onlyKeys refuses a dict of an argument that has other keys.
func onlyKeys(m map[string]any, known ...string) error {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if slices.Contains(known, k) {
			continue
		}
		hint := "it takes " + strings.Join(known, ", ")
		if near := builtin.Nearest(k, known); near != "" {
			hint = "did you mean " + near + "?"
		}
		return fault.Hinted(fault.Invalid, hint, "unknown key %q", k)
	}
	return nil
}
