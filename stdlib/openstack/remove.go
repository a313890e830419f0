package openstack

import (
	"context"
	"net/http"
	"strings"
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
	err := n.drop(ctx, c, cl, id)
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

// drop asks for the deletion, again and again where what uses the resource is
// on its way out itself.
func (n *noun) drop(ctx context.Context, c *Cloud, cl *client.Client, id string) error {
	clock := effect.From(ctx).Door.Clock
	for start := clock.Now(); ; {
		_, err := cl.Do(ctx, n.call(http.MethodDelete, id, nil))
		if fault.KindOf(err) != fault.Conflict || n.ports == nil || clock.Now().Sub(start) >= leaveTime*c.config.Patience {
			return err
		}
		ports, perr := portNoun().list(ctx, cl, n.ports(id))
		if perr != nil || !allLeaving(ctx, cl, ports) {
			return err
		}
		if err := c.pause(ctx); err != nil {
			return err
		}
	}
}

// leaveTime is how long what uses a resource may take to leave, in times of the
// cloud's patience.
const leaveTime = 10

// allLeaving reports whether each of the ports goes away by itself: its server or
// load balancer is being deleted, or is gone. Without any, the last has just gone.
func allLeaving(ctx context.Context, cl *client.Client, ports []client.Object) bool {
	for _, p := range ports {
		if ofBalancer(p) {
			if !leavesWithBalancer(ctx, cl, p) {
				return false
			}
			continue
		}
		if !strings.HasPrefix(str(p, "device_owner"), "compute:") {
			return false
		}
		s, err := getServer(ctx, cl, str(p, "device_id"))
		if err != nil && fault.KindOf(err) != fault.NotFound || err == nil && str(s, "OS-EXT-STS:task_state") != "deleting" && str(s, "status") != "DELETED" {
			return false
		}
	}
	return true
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
	if n.users == nil && n.ports == nil {
		return err
	}
	if n.users == nil {
		if users, uerr := portUsers(ctx, cl, n.ports(id)); uerr == nil {
			return blamed(err, users)
		}
		return err
	}
	users, uerr := n.users(ctx, cl, id)
	if uerr != nil {
		return err // the first error says what went wrong
	}
	return blamed(err, users)
}

// blamed adds to an error, as its hint, who is in the way.
func blamed(err error, users []string) error {
	if len(users) == 0 {
		return err
	}
	return &fault.Error{Kind: fault.KindOf(err), Hint: "it is used by " + joinSome(users), After: fault.AfterOf(err), Err: err}
}
