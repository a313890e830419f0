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
func adoptionOf(v any, label string, tags bool) (adoption, error) {
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
		case tagged && !tags:
			return adoption{}, fault.Hinted(fault.Invalid, "adopt is True, or an id", "adopt: %ss have no tags", label)
		case tagged && tag != "":
			if err := plainTags([]string{tag}); err != nil {
				return adoption{}, fault.Wrap("", "adopt", err)
			}
			return adoption{tag: tag}, nil
		case isID(v):
			return adoption{id: v}, nil
		}
	case effect.Unknown:
		return adoption{}, fault.New(fault.Invalid, "adopt: what to take over has to be known before the run")
	}
	hint := "adopt is True, or an id"
	if tags {
		hint = "adopt is True, an id, or \"tag:NAME\""
	}
	return adoption{}, fault.Hinted(fault.Invalid, hint, "adopt: %s names nothing to take over", show(v))
}

// chosen reports whether the recipe says which one to take over.
func (a adoption) chosen() bool { return a.id != "" || a.tag != "" }

// given reports whether the recipe takes over anything.
func (a adoption) given() bool { return a.same || a.chosen() }

// A choice is where the one that a recipe has chosen is looked for.
type choice struct {
	label  string
	byID   func(ctx context.Context, cl *client.Client, id string) (client.Object, error)
	tagged func(ctx context.Context, cl *client.Client, tag string) ([]client.Object, error)
}

// pick returns the resource that the recipe has chosen to take over. An error
// of kind NotFound says that there is none.
func (a adoption) pick(ctx context.Context, cl *client.Client, from choice) (client.Object, error) {
	const hint = "name one that is there, or leave adopt out to have one made; adopt = True takes over one of the same name if there is one"
	if a.id != "" {
		obj, err := from.byID(ctx, cl, a.id)
		if fault.KindOf(err) == fault.NotFound {
			return nil, fault.Hinted(fault.NotFound, hint, "there is no %s with the id %s to take over", from.label, a.id)
		}
		return obj, err
	}
	all, err := from.tagged(ctx, cl, a.tag)
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, fault.Hinted(fault.NotFound, hint, "there is no %s with the tag %s to take over", from.label, a.tag)
	case len(all) > 1:
		return nil, fault.Hinted(fault.Exists, "name the one that is meant by its id", "%d %ss have the tag %s: %s", len(all), from.label, a.tag, ids(all))
	}
	return all[0], nil
}

// keep returns own, which bears the mark, unless the recipe has chosen another
// one that is there.
func (a adoption) keep(ctx context.Context, cl *client.Client, own client.Object, name string, from choice) (client.Object, error) {
	id := str(own, "id")
	if !a.chosen() || a.id == id {
		return own, nil
	}
	other, err := a.pick(ctx, cl, from)
	switch {
	case fault.KindOf(err) == fault.NotFound: // it was replaced by ours
		return own, nil
	case err != nil:
		return nil, err
	case str(other, "id") == id:
		return own, nil
	}
	return nil, fault.Hinted(fault.Exists, "delete that one, or leave adopt out to keep it",
		"this recipe has made a %s %q already: %s isn't the one to take over, %s", from.label, name, id, str(other, "id"))
}
