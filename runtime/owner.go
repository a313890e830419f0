package runtime

import (
	"slices"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Owners returns whose work a run of r for the site of that name is: that of r
// itself, then that of each recipe that it uses, each once.
func (r *Recipe) Owners(site string) []effect.Owner {
	return r.owners(effect.Owner{Site: site, Recipe: r.Path}, nil)
}

func (r *Recipe) owners(own effect.Owner, all []effect.Owner) []effect.Owner {
	if slices.Contains(all, own) {
		return all
	}
	all = append(all, own)
	for _, s := range r.Steps {
		if s.Use != nil {
			all = s.Use.owners(usedOwner(own, s), all)
		}
	}
	return all
}

// usedOwner returns whose work the recipe is that step s of a recipe of owner's
// uses.
func usedOwner(owner effect.Owner, s *Step) effect.Owner {
	used := effect.Owner{Site: owner.Site, Recipe: s.Use.Path, Instance: owner.Instance}
	switch {
	case s.Instance == "":
	case used.Instance == "":
		used.Instance = s.Instance
	default:
		used.Instance += "-" + s.Instance
	}
	return used
}
