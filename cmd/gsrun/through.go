package main

import (
	"cmp"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/stdlib"
)

// once lists each thing once that several systems show, such as two logins to
// one project. Of their findings the one is kept that a login can delete which
// doesn't end with what goes, then the one by which the recipe declares it.
func (b *belongings) once(all []effect.Owned) []effect.Owned {
	b.through, b.logins = make(map[string][]string), make(map[string][]string)
	going := make(map[string]bool)
	for _, o := range all {
		if k := o.Key(); !slices.Contains(b.through[k], o.Target.Scope) {
			b.through[k] = append(b.through[k], o.Target.Scope)
		}
		going[o.ID] = going[o.ID] || o.Credential
		b.logins[o.Target.Scope] = o.Logins
	}
	rank := func(o effect.Owned) int {
		switch {
		case ends(o.Logins, going):
			return 2
		case !b.declares(o.Maker(), o.Mark):
			return 1
		}
		return 0
	}
	best := make(map[string]effect.Owned)
	var order []string
	for _, o := range all {
		k := o.Key()
		was, ok := best[k]
		if !ok {
			order = append(order, k)
		}
		if !ok || rank(o) < rank(was) {
			best[k] = o
		}
	}
	out := make([]effect.Owned, len(order))
	for i, k := range order {
		out[i] = best[k]
	}
	return out
}

// ends reports whether a login ends when what has the ids goes.
func ends(logins []string, ids map[string]bool) bool {
	return slices.ContainsFunc(logins, func(id string) bool { return ids[id] })
}

// declares reports whether an op of the recipe is about what bears the mark.
func (b *belongings) declares(t effect.Target, mark string) bool {
	return slices.ContainsFunc(b.met, func(s effect.Sighting) bool {
		return s.Target == t && (mark == "" || s.Owner.Mark(s.Target.Name) == mark)
	})
}

// shown returns the systems that show o.
func (b *belongings) shown(o effect.Owned) []string {
	if all := b.through[o.Key()]; len(all) > 0 {
		return all
	}
	return []string{o.Target.Scope}
}

// as returns what t is in each of the systems that show o.
func (b *belongings) as(o effect.Owned, t effect.Target) []effect.Target {
	var out []effect.Target
	for _, scope := range b.shown(o) {
		t.Scope = scope
		out = append(out, t)
	}
	return out
}

// mayBe reports whether an op whose target isn't known may be about o: its name
// may be o's, or its login may be to where o is.
func (b *belongings) mayBe(s effect.Sighting, o effect.Owned) bool {
	if !s.Target.Unknown {
		return false
	}
	if slices.Contains(b.shown(o), s.Target.Scope) {
		return true
	}
	module, _, _ := strings.Cut(s.Target.Scope, "/")
	k := stdlib.Keepers(b.x.modules)[module]
	return k != nil && strings.HasPrefix(o.Target.Scope, module+"/") && !slices.Contains(k.Scopes(), s.Target.Scope)
}

// oneOf returns what tells systems apart: those that show the same are one.
func (b *belongings) oneOf() func(scope string) string {
	first := make(map[string]string)
	var find func(string) string
	find = func(s string) string {
		if f := cmp.Or(first[s], s); f != s {
			return find(f)
		}
		return s
	}
	for _, scopes := range b.through {
		for _, s := range scopes[1:] {
			if x, y := find(scopes[0]), find(s); x != y {
				first[max(x, y)] = min(x, y)
			}
		}
	}
	return find
}
