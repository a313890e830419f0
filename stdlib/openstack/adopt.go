package openstack

import (
	"context"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// An adoption says which resource that isn't ours an op may take over.
type adoption struct {
	same bool   // the one that stands where ours would: of the same name
	id   string // the one of this id
	tag  string // the one with this tag
}

// adoptTag begins what names a resource by its tag.
const adoptTag = "tag:"

// adoptionOf reads the argument adopt, which is a bool or what a recipe gave.
func (n *noun) adoptionOf(v any) (adoption, error) {
	if d, given := v.(effect.Data); given {
		v = d.V
	}
	if m, ok := v.(map[string]any); ok {
		v = m["id"]
	}
	switch v := v.(type) {
	case nil:
		return adoption{}, nil
	case bool:
		return adoption{same: v}, nil
	case string:
		tag, tagged := strings.CutPrefix(v, adoptTag)
		switch {
		case tagged && n.tagged == untagged:
			return adoption{}, fault.New(fault.Invalid, "adopt: %ss have no tags", n.label())
		case tagged && tag != "":
			return adoption{tag: tag}, nil
		case isID(v):
			return adoption{id: v}, nil
		}
	case effect.Unknown:
		return adoption{}, fault.New(fault.Invalid, "adopt: what to take over has to be known before the run")
	}
	return adoption{}, fault.Hinted(fault.Invalid, "adopt is True, an id, or \"tag:NAME\"", "adopt: %s names nothing to take over", show(v))
}

// chosen reports whether the recipe says which one to take over.
func (a adoption) chosen() bool { return a.id != "" || a.tag != "" }

// given reports whether the recipe takes over anything.
func (a adoption) given() bool { return a.same || a.chosen() }

// adopted returns the resource that the recipe has chosen to take over; nil if
// none has the tag.
func (f finder) adopted(ctx context.Context, cl *client.Client) (client.Object, error) {
	if f.adopt.id != "" {
		obj, err := f.noun.byID(ctx, cl, f.adopt.id)
		if fault.KindOf(err) == fault.NotFound {
			return nil, fault.Hinted(fault.NotFound, "give the id of one that is there, or leave adopt out to have one made",
				"there is no %s with the id %s to take over", f.noun.label(), f.adopt.id)
		}
		return obj, err
	}
	all, err := f.noun.list(ctx, cl, f.query(cl, "tags", f.adopt.tag))
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if len(all) > 1 {
		return nil, fault.Hinted(fault.Exists, "name the one that is meant by its id", "%d %ss have the tag %s: %s", len(all), f.noun.label(), f.adopt.tag, ids(all))
	}
	return all[0], nil
}
