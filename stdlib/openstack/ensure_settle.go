package openstack

import (
	"context"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// settle waits until a resource is ready.
func (o *ensureOp) settle(ctx context.Context, cl *client.Client, obj client.Object) (client.Object, error) {
	n, id := o.noun, str(obj, "id")
	if n.phaseOf(obj).ready {
		return obj, nil
	}
	timeout := o.timeout
	if timeout == 0 {
		timeout = readyTime
	}
	w := waiting{target: o.Target(), what: o.Target().String() + " (" + id + ") being ready", timeout: timeout, hint: "the cloud's operators can tell what holds it up"}
	err := o.cloud.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		now, err := n.byID(ctx, cl, id)
		if err != nil {
			return "", false, err
		}
		obj = now
		p := n.phaseOf(obj)
		if p.failed {
			if n.expand != nil && n.expand(ctx, cl, obj) == nil {
				p = n.phaseOf(obj)
			}
			return p.state, false, o.failed(obj, p)
		}
		return "it is " + p.state, p.ready, nil
	})
	return obj, err
}

// readyTime is how long a resource may take to be ready where the recipe
// doesn't say.
const readyTime = 10 * time.Minute

// failed returns the error for a resource that won't become ready.
func (o *ensureOp) failed(obj client.Object, p phase) error {
	why := ""
	if p.why != "" {
		why = ": " + p.why
	}
	hint := "replace = True deletes it and makes it anew"
	if p.mend != "" {
		hint = p.mend
	}
	return fault.Hinted(fault.Failed, hint, "%s (%s) is in %s%s", o.Target(), str(obj, "id"), p.state, why)
}
