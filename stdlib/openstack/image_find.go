package openstack

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func listImages(ctx context.Context, cl *client.Client, query url.Values) ([]client.Object, error) {
	q := url.Values{"limit": {imagePage}}
	for k, v := range query {
		if k == "name" && strings.Contains(v[0], ":") {
			v = []string{"in:" + v[0]} // Glance takes what stands before a colon for an operator
		}
		q[k] = v
	}
	return cl.List(ctx, client.Call{Service: client.Image, Path: "/images", Query: q}, "images")
}

// listImagesToo lists the hidden ones where there are no others.
func listImagesToo(ctx context.Context, cl *client.Client, query url.Values) ([]client.Object, error) {
	all, err := listImages(ctx, cl, query)
	if err != nil || len(all) > 0 {
		return all, err
	}
	query.Set("os_hidden", "true")
	return listImages(ctx, cl, query)
}

func getImage(ctx context.Context, cl *client.Client, id string) (client.Object, error) {
	return cl.Do(ctx, client.Call{Service: client.Image, Method: http.MethodGet, Path: "/images/" + url.PathEscape(id)})
}

// imageByName returns the one image of that name or id: of the project's own,
// else of the others.
func imageByName(ctx context.Context, cl *client.Client, name string) (client.Object, error) {
	if isID(name) {
		obj, err := getImage(ctx, cl, name)
		if err == nil || fault.KindOf(err) != fault.NotFound {
			return obj, err
		}
	}
	all, err := listImagesToo(ctx, cl, url.Values{"name": {name}})
	if err != nil {
		return nil, err
	}
	var own, other []client.Object
	for _, o := range all {
		switch {
		case str(o, "name") != name:
		case str(o, "owner") == cl.Project():
			own = append(own, o)
		default:
			other = append(other, o)
		}
	}
	if len(own) == 0 {
		own = other
	}
	switch len(own) {
	case 0:
		return nil, fault.New(fault.NotFound, "there is no image called %q", name)
	case 1:
		return own[0], nil
	}
	return nil, fault.Hinted(fault.Invalid, "name the one that is meant by its id", "%d images are called %q: %s", len(own), name, ids(own))
}

// resolveImage returns the id that ref stands for.
func resolveImage(ctx context.Context, c *Cloud, cl *client.Client, ref effect.Reference) (any, error) {
	if !ref.Known() || ref.Name != "" || isID(ref.ID.Reveal()) {
		return ref.ID.Value(), nil
	}
	t := c.target("image", ref.ID.Reveal())
	return effect.Read(ctx, effect.Query{Target: t, Scope: t.String()}, func(ctx context.Context) (string, error) {
		obj, err := imageByName(ctx, cl, ref.ID.Reveal())
		return str(obj, "id"), err
	})
}

// ownImages is the query for the project's images of which one field has that
// value: an administrator would see those of all projects.
func ownImages(cl *client.Client, key, value string) url.Values {
	q := url.Values{key: {value}}
	if cl.Project() != "" {
		q.Set("owner", cl.Project())
	}
	return q
}

// markedImages returns the project's images that bear the mark.
func markedImages(ctx context.Context, cl *client.Client, mark string) ([]client.Object, error) {
	all, err := listImagesToo(ctx, cl, ownImages(cl, imageMark, mark))
	return slices.DeleteFunc(all, func(o client.Object) bool { return str(o, imageMark) != mark }), err
}

// imageChoice is where an image that a recipe has chosen is looked for: among the
// project's own.
func imageChoice() choice {
	return choice{label: "image", byID: getImage, tagged: func(ctx context.Context, cl *client.Client, tag string) ([]client.Object, error) {
		return listImagesToo(ctx, cl, ownImages(cl, "tag", tag))
	}}
}

// findImage returns the image that bears the mark, or with adopt the one that it
// says, or the project's own that only has the name; nil if there is neither.
func findImage(ctx context.Context, cl *client.Client, name, mark string, adopt adoption) (client.Object, error) {
	own, err := markedImages(ctx, cl, mark)
	if err != nil {
		return nil, err
	}
	switch len(own) {
	case 0:
		if adopt.chosen() {
			return adopt.pick(ctx, cl, imageChoice())
		}
	case 1:
		return adopt.keep(ctx, cl, own[0], name, imageChoice())
	default:
		return nil, fault.Hinted(fault.Exists, "delete all but the one that is used", "%d images bear the owner mark %s: %s", len(own), mark, ids(own))
	}
	all, err := listImagesToo(ctx, cl, ownImages(cl, "name", name))
	if err != nil {
		return nil, err
	}
	var same []client.Object
	for _, o := range all {
		if str(o, "name") == name {
			// Where foreign looks for a mark, an image has none.
			same = append(same, withMark(o))
		}
	}
	return foreign("image", name, mark, same, adopt.same)
}

// withMark puts an image's mark where other nouns have it.
func withMark(o client.Object) client.Object {
	if m := str(o, imageMark); m != "" {
		o["description"] = m
	}
	return o
}
