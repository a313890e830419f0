package main

import (
	"strings"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/stdlib"
)

// needed reports whether other recipes use what the store keeps, and lists it
// as left then.
func (b *belongings) needed(target string) bool {
	users := b.ledger.others(target, b.prefixes, b.x.recipe.Path)
	if len(users) == 0 {
		return false
	}
	l := view.Leftover{What: target, Why: "recipe " + strings.Join(users, ", ") + " uses it, too", Hint: "destroy that first"}
	b.leave(l.What, l.Why, l.Hint)
	b.inUse = append(b.inUse, l)
	return true
}

// remembered returns what the store keeps, the journals say that this recipe
// made, and no op met: a step that is gone, or that the survey didn't come to.
func (b *belongings) remembered() ([]effect.Owned, error) {
	looked := make(map[string]bool)
	for _, s := range b.met {
		looked[s.Target.String()] = true
	}
	safes := stdlib.Safes(b.x.modules)
	var out []effect.Owned
	for _, m := range b.ledger.of(b.prefixes) {
		module, _, _ := strings.Cut(m.target, "/")
		if looked[m.target] || !m.claimed() || safes[module] == nil {
			continue
		}
		looked[m.target] = true
		o, ok := safes[module].Kept(m.target)
		if !ok {
			b.note(m.target + ", which earlier runs worked on")
			continue
		}
		st, err := o.Delete.Observe(b.look)
		if err != nil {
			return nil, fault.Wrap("looking for", m.target, err)
		}
		if st.Exists && !b.needed(m.target) {
			out = append(out, o)
		}
	}
	return out, nil
}
