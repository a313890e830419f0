package openstack

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// imageMembers returns the ids of the projects that an image is shared with.
func imageMembers(ctx context.Context, cl *client.Client, obj client.Object) ([]any, error) {
	out := []any{}
	if str(obj, "visibility") != "shared" {
		return out, nil
	}
	all, err := cl.List(ctx, client.Call{Service: client.Image, Path: "/images/" + str(obj, "id") + "/members"}, "members")
	for _, m := range all {
		out = append(out, m["member_id"])
	}
	return out, err
}

// shareDiff compares the projects that the image is shared with; have is nil
// for a new image.
func (o *imageOp) shareDiff(have []any) []effect.Field {
	var out []effect.Field
	for _, p := range o.args.Shared {
		if !slices.Contains(have, any(p)) {
			out = append(out, effect.Field{Path: "shared_with." + p, New: "shared"})
		}
	}
	for _, p := range have {
		if id, _ := p.(string); o.args.Exact && o.args.Shared != nil && !slices.Contains(o.args.Shared, id) {
			out = append(out, effect.Field{Path: "shared_with." + id, Old: "shared"})
		}
	}
	return out
}

// share shares the image with the projects that it isn't shared with yet, and
// ends that with those that aren't named, if it is to be exact.
func (o *imageOp) share(ctx context.Context, cl *client.Client, obj client.Object) error {
	if o.args.Shared == nil {
		return nil
	}
	have, err := imageMembers(ctx, cl, obj)
	if err != nil {
		return err
	}
	path := "/images/" + str(obj, "id") + "/members"
	for _, f := range o.shareDiff(have) {
		project := f.Path[len("shared_with."):]
		call := client.Call{Service: client.Image, Method: http.MethodPost, Path: path, Body: client.Object{"member": project}}
		gone := fault.Conflict // it is there already, as after an answer that was lost
		if f.New == nil {
			call.Method, call.Path, call.Body, gone = http.MethodDelete, path+"/"+url.PathEscape(project), nil, fault.NotFound
		}
		if _, err := cl.Do(ctx, call); err != nil && fault.KindOf(err) != gone {
			return err
		}
	}
	return nil
}
