package openstack

import (
	"context"
	"net/http"
	"time"

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
	_, err := cl.Do(ctx, n.call(http.MethodDelete, id, nil))
	switch fault.KindOf(err) {
	case fault.NotFound:
		return nil
	case fault.Conflict:
		return n.inUse(ctx, cl, id, err)
	case "":
	case fault.Denied:
		if n.denied {
			if _, gone := n.byID(ctx, cl, id); fault.KindOf(gone) == fault.NotFound {
				return nil
			}
		}
		return err
	default:
		return err
	}
	return c.gone(ctx, c.target(n.name, str(obj, "name")), id, func(ctx context.Context) (string, error) {
		left, err := n.byID(ctx, cl, id)
		return str(left, "status"), err
	})
}

// goneTime is how long a deletion may take.
const goneTime = 10 * time.Minute

// gone waits until what was deleted isn't there any more. Look returns its
// state, or an error of kind NotFound.
func (c *Cloud) gone(ctx context.Context, t effect.Target, id string, look func(ctx context.Context) (state string, err error)) error {
	w := waiting{target: t, what: t.String() + " (" + id + ") being gone", timeout: goneTime, hint: "the cloud's operators can tell what holds it"}
	return c.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		state, err := look(ctx)
		if fault.KindOf(err) == fault.NotFound {
			return "", true, nil
		}
		return "it is still there: " + state, false, err
	})
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
