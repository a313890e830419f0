package openstack

import (
	"context"
	"net/http"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// remove deletes a resource with its parts and waits until it is gone. That it
// is gone already is no error.
func (n *noun) remove(ctx context.Context, c *Cloud, cl *client.Client, obj client.Object) error {
	id := str(obj, "id")
	if n.release != nil {
		if err := n.release(ctx, cl, obj); err != nil {
			return err
		}
	}
	_, err := cl.Do(ctx, client.Call{Service: client.Network, Method: http.MethodDelete, Path: n.path + "/" + id})
	switch fault.KindOf(err) {
	case fault.NotFound:
		return nil
	case fault.Conflict:
		return n.inUse(ctx, cl, id, err)
	case "":
	default:
		return err
	}
	for {
		if _, err := n.byID(ctx, cl, id); err != nil {
			if fault.KindOf(err) == fault.NotFound {
				return nil
			}
			return err
		}
		effect.Progressf(ctx, "waiting until %s is gone", id)
		if err := c.pause(ctx); err != nil {
			return err
		}
	}
}

// inUse adds to the error of a deletion what uses the resource.
func (n *noun) inUse(ctx context.Context, cl *client.Client, id string, err error) error {
	if n.users == nil {
		return err
	}
	users, uerr := n.users(ctx, cl, id)
	if uerr != nil {
		return err // the first error says what went wrong
	}
	return blamed(err, users)
}

// blamed adds to a conflict, as its hint, who is in the way.
func blamed(err error, users []string) error {
	if len(users) == 0 {
		return err
	}
	return &fault.Error{Kind: fault.Conflict, Hint: "it is used by " + joinSome(users), After: fault.AfterOf(err), Err: err}
}
