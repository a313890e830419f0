package openstack

import (
	"context"
	"net/url"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A finder looks for the resource that an op is about.
type finder struct {
	cloud      *Cloud
	noun       *noun
	name, mark string
	adopt      adoption
	sent       sent
	absent     func() ([]client.Object, error)
}

// sent is what an op knows of a create that it sent before: the resource may be
// there and not listed yet.
type sent struct {
	at time.Time // when it ended, if it may have taken effect
	id string    // of what it made, if the answer came
}

// note takes note of how a create ended.
func (s *sent) note(ctx context.Context, obj client.Object, err error) {
	if err == nil || client.Lost(err) {
		s.at = effect.From(ctx).Door.Clock.Now()
	}
	if id := str(obj, "id"); id != "" {
		s.id = id
	}
}

// made returns what was made, by its id; nil if that isn't known, or it is gone.
func (s *sent) made(get func(id string) (client.Object, error)) (client.Object, error) {
	if s.id == "" {
		return nil, nil
	}
	obj, err := get(s.id)
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil
	}
	return obj, err
}

// patiently looks until something is found or an error ends it; no more than
// once unless something may be there that isn't listed yet, by this run or by
// an earlier one that died or ended a moment ago.
func (c *Cloud) patiently(ctx context.Context, t effect.Target, s sent, look func() (found bool, err error)) error {
	clock := effect.From(ctx).Door.Clock
	if s.at.IsZero() && !client.Glancing(ctx) {
		s.at = effect.Unsettled(ctx, t)
	}
	for pause := c.config.Interval / 8; ; pause = min(2*pause, c.config.Interval) {
		found, err := look()
		if err != nil || found || s.at.IsZero() || clock.Now().Sub(s.at) >= c.config.Patience {
			return err
		}
		if err := pauseFor(ctx, pause); err != nil {
			return err
		}
	}
}

// find returns the resource that bears the mark, or with adopt the one that
// it says, or that only has the name; nil if there is neither. Errors: Exists if the name is
// taken by what isn't ours, or if several bear the mark.
func (f finder) find(ctx context.Context, cl *client.Client) (client.Object, error) {
	var own []client.Object
	err := f.cloud.patiently(ctx, f.cloud.target(f.noun.name, f.name), f.sent, func() (bool, error) {
		var err error
		own, err = f.marked(ctx, cl)
		return len(own) > 0, err
	})
	if err != nil {
		return nil, err
	}
	switch len(own) {
	case 0:
	case 1:
		return f.adopt.keep(ctx, cl, own[0], f.name, f.choice())
	default:
		return nil, fault.Hinted(fault.Exists, "delete all but the one that is used", "%d %ss bear the owner mark %s: %s", len(own), f.noun.label(), f.mark, ids(own))
	}
	if f.adopt.chosen() {
		return f.adopt.pick(ctx, cl, f.choice())
	}
	var same []client.Object
	if !f.noun.unnamed {
		all, err := f.noun.list(ctx, cl, f.query(cl, "name", f.name))
		if err != nil {
			return nil, err
		}
		for _, obj := range all {
			if str(obj, "name") == f.name {
				same = append(same, obj)
			}
		}
	}
	if f.absent != nil && len(same) == 0 {
		if same, err = f.absent(); err != nil {
			return nil, err
		}
	}
	return foreign(f.noun.label(), f.name, f.mark, same, f.adopt.same)
}

// adoptHint is what ensure says of what stands in its place.
const adoptHint = "adopt = True takes it over as it is; or choose another name"

// adoptMeans says what adopt = True does in place of taking over, where that is
// what it would do to what isn't ours.
func adoptMeans(err error, hint string) error {
	if fault.KindOf(err) != fault.Exists || fault.HintOf(err) != adoptHint {
		return err
	}
	return &fault.Error{Kind: fault.Exists, Hint: hint, Err: err}
}

// foreign decides on resources that stand where ours would, and lack its mark.
func foreign(label, name, mark string, same []client.Object, adopt bool) (client.Object, error) {
	// One that is ours after all wasn't listed yet when the mark was looked for.
	if own := markedOnes(same, mark); len(own) == 1 {
		return own[0], nil
	}
	switch {
	case len(same) == 0:
		return nil, nil
	case adopt && len(same) == 1:
		return same[0], nil
	case adopt:
		return nil, fault.Hinted(fault.Exists, "rename or delete all but the one to adopt", "%d %ss could be adopted as %q: %s", len(same), label, name, ids(same))
	}
	other := "has no owner mark"
	if m := markOf(same[0]); m != "" {
		other = "is owned by " + m.(string)
	}
	return nil, fault.Hinted(fault.Exists, adoptHint,
		"a %s %q exists that isn't ours: %s %s, ours would be %s", label, name, ids(same), other, mark)
}

// choice is where the finder looks for what a recipe has chosen.
func (f finder) choice() choice {
	return choice{label: f.noun.label(), byID: f.noun.byID, tagged: func(ctx context.Context, cl *client.Client, tag string) ([]client.Object, error) {
		return f.noun.list(ctx, cl, f.query(cl, "tags", tag))
	}}
}

func (f finder) marked(ctx context.Context, cl *client.Client) ([]client.Object, error) {
	query := f.noun.ours(cl)
	if !f.noun.scans {
		query.Set("description", f.mark)
	}
	all, err := f.noun.list(ctx, cl, query)
	own := markedOnes(all, f.mark)
	if err == nil && len(own) == 0 {
		var one client.Object
		if one, err = f.sent.made(func(id string) (client.Object, error) { return f.noun.byID(ctx, cl, id) }); one != nil {
			own = append(own, one)
		}
	}
	return own, err
}

// query filters by one field within the login's project: an administrator
// would see those of all projects.
func (f finder) query(cl *client.Client, key, value string) url.Values {
	q := f.noun.ours(cl)
	q.Set(key, value)
	return q
}

// onlyOne returns what was made, unless an earlier run had asked for the same
// and the cloud didn't show it yet when this one looked: then there are
// two. What was made just now is deleted again, and the other one returned.
func (c *Cloud) onlyOne(ctx context.Context, t effect.Target, made client.Object, marked func() ([]client.Object, error), remove func(client.Object) error) (client.Object, error) {
	if effect.Unsettled(ctx, t).IsZero() {
		return made, nil
	}
	all, err := marked()
	if err != nil {
		return nil, err
	}
	for _, other := range all {
		if str(other, "id") != str(made, "id") {
			return other, remove(made)
		}
	}
	return made, nil
}
