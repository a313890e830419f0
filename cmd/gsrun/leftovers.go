package main

import (
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/stdlib"
)

func (b *belongings) leave(what, why, hint string) {
	l := view.Leftover{What: what, Why: why, Hint: hint}
	if !slices.Contains(b.left, l) {
		b.left = append(b.left, l)
	}
}

// oneEach lists what bears no mark once, where ops of two logins, or under two
// names, are about it: it goes if one of them says so.
func (b *belongings) oneEach() {
	going := make(map[string]bool)
	b.owned = slices.DeleteFunc(b.owned, func(o effect.Owned) bool {
		k := o.Key()
		again := going[k]
		going[k] = true
		return again
	})
	keys := make(map[string]string) // by target
	for _, s := range b.met {
		if u, ok := s.Op.(effect.Undoer); ok && s.State.Exists {
			keys[s.Target.String()] = u.Undo(s.State).Key()
		}
	}
	b.left = slices.DeleteFunc(b.left, func(l view.Leftover) bool { return going[keys[l.What]] })
}

// judge decides on something that exists and bears no mark that is listed.
func (b *belongings) judge(s effect.Sighting) {
	name := s.Target.String()
	undoer, ok := s.Op.(effect.Undoer)
	if !ok {
		b.leaveOther(s.Target)
		return
	}
	o := undoer.Undo(s.State)
	switch {
	case o.Mark != "" && strings.HasPrefix(o.Mark, s.Owner.Prefix()):
	case o.Mark != "":
		b.leave(name, "it is owned by "+o.Mark, "")
		return
	case !slices.ContainsFunc(b.ledger.of(b.prefixes), func(m made) bool { return m.target == name && m.claimed() }):
		switch maker := b.ledger.makerOf(name); maker {
		case "":
			b.leave(name, "no journal says that this recipe made it", "delete it by hand if nothing else needs it")
		case b.x.recipe.Path:
			b.leave(name, "a recipe that this one no longer uses made it", "delete it by hand if nothing else needs it")
		default:
			b.leave(name, "recipe "+maker+" made it", "it goes when that is destroyed")
		}
		return
	case b.needed(name):
		return
	}
	b.owned = append(b.owned, o)
}

// leaveOther lists what gsrun can't undo, by the system that it is in.
func (b *belongings) leaveOther(t effect.Target) {
	module, _, _ := strings.Cut(t.Scope, "/")
	switch module {
	case "openstack":
		b.leave(t.String(), "it has no owner mark of this recipe", "")
	case "git":
		b.leaveGit(t.String())
	default:
		b.stays[t.Scope]++
	}
}

func (b *belongings) leaveGit(target string) {
	b.leave(target, "what was committed stays: others may follow it", "remove it by a commit of your own if nobody does")
}

// unseen lists what journals tell of and the survey didn't come to.
func (b *belongings) unseen(listed map[string]bool, with map[string]*view.Along) {
	keepers := stdlib.Keepers(b.x.modules)
	for _, m := range b.ledger.of(b.prefixes) {
		module, _, _ := strings.Cut(m.target, "/")
		system := systemOf(m.target)
		switch {
		case listed[m.target] || !m.changed || with[system] != nil:
		case module == "git":
			b.leaveGit(m.target)
		case keepers[module] != nil && module == "openstack":
		case !kept(m.target) && (m.claimed() || module == "ssh"):
			b.note(system + ", which earlier runs worked on")
		}
	}
}
