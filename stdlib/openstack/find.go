package openstack

import (
	"context"
	"net/url"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A finder looks for the resource that an op is about.
type finder struct {
	cloud      *Cloud
	noun       *noun
	name, mark string
	adopt      bool
	patient    bool // it may be there and not yet listed
	absent     func() ([]client.Object, error)
}

// patience is how many more times a resource is looked for that may have been
// created a moment ago.
const patience = 2

// find returns the resource that bears the mark, or with adopt the one that
// only has the name; nil if there is neither. Errors: Exists if the name is
// taken by what isn't ours, or if several bear the mark.
func (f finder) find(ctx context.Context, cl *client.Client) (client.Object, error) {
	own, err := f.marked(ctx, cl)
	for try := 0; err == nil && len(own) == 0 && f.patient && try < patience; try++ {
		if err := f.cloud.pause(ctx); err != nil {
			return nil, err
		}
		own, err = f.marked(ctx, cl)
	}
	if err != nil {
		return nil, err
	}
	switch len(own) {
	case 0:
	case 1:
		return own[0], nil
	default:
		return nil, fault.Hinted(fault.Exists, "delete all but the one that is used", "%d %ss bear the owner mark %s: %s", len(own), f.noun.label(), f.mark, ids(own))
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
	return foreign(f.noun.label(), f.name, f.mark, same, f.adopt)
}

// foreign decides on resources that stand where ours would, and lack its mark.
func foreign(label, name, mark string, same []client.Object, adopt bool) (client.Object, error) {
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
	return nil, fault.Hinted(fault.Exists, "adopt = True takes it over as it is; or choose another name",
		"a %s %q exists that isn't ours: %s %s, ours would be %s", label, name, ids(same), other, mark)
}

func (f finder) marked(ctx context.Context, cl *client.Client) ([]client.Object, error) {
	all, err := f.noun.list(ctx, cl, f.query(cl, "description", f.mark))
	return markedOnes(all, f.mark), err
}

// query filters by one field within the login's project: an administrator
// would see those of all projects.
func (f finder) query(cl *client.Client, key, value string) url.Values {
	q := url.Values{key: {value}}
	if cl.Project() != "" {
		q.Set("project_id", cl.Project())
	}
	return q
}
