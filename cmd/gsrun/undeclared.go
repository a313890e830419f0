package main

import (
	"slices"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// undeclared returns what of all was met by no op.
func (b *belongings) undeclared(all []effect.Owned) []effect.Owned {
	return slices.DeleteFunc(all, func(o effect.Owned) bool {
		return slices.ContainsFunc(b.as(o, o.Maker()), func(t effect.Target) bool { return b.declares(t, o.Mark) })
	})
}

// undeclaredBy returns what is owned and was met by no op of a plan, which
// stopped somewhere or not.
func (b *belongings) undeclaredBy(stopped bool) view.Undeclared {
	if err := b.read(); err != nil {
		return view.Undeclared{Err: err}
	}
	all, err := b.list()
	if err != nil {
		return view.Undeclared{Err: err}
	}
	remembered, err := b.remembered()
	if err != nil {
		return view.Undeclared{Err: err}
	}
	things := b.undeclared(append(all, remembered...))
	if stopped || b.unsure(things) {
		return view.Undeclared{Unsure: len(things)}
	}
	b.owned = things
	b.sort()
	return view.Undeclared{Things: b.owned}
}

// unsure reports whether an op that may have met one of all isn't known.
func (b *belongings) unsure(all []effect.Owned) bool {
	return slices.ContainsFunc(b.met, func(s effect.Sighting) bool {
		return slices.ContainsFunc(all, func(o effect.Owned) bool { return b.mayBe(s, o) })
	})
}

// complete returns an error if the survey left out a part of the recipe: what
// that declares isn't known.
func (b *belongings) complete() error {
	for _, s := range b.steps {
		if s.Err != nil {
			return &fault.Error{Op: "looking what " + b.x.recipe.Path + " declares", Kind: fault.Conflict, Err: s.Err,
				Hint: "run the recipe first: what a step declares is known only once what comes before it is there"}
		}
	}
	if b.unsure(b.owned) {
		return fault.Hinted(fault.Conflict, "run the recipe first", "the names of some things that %s declares aren't known", b.x.recipe.Path)
	}
	return nil
}
