package openstack

import (
	"context"
	"net/http"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// beingChanged reports whether a conflict is about a change that is under way.
func beingChanged(err error) bool {
	return strings.Contains(err.Error(), "immutable") || strings.Contains(err.Error(), "Invalid state PENDING")
}

// A balancerWriter changes the parts of one load balancer. Each change makes
// the whole unchangeable for a while.
type balancerWriter struct {
	op *ensureOp
	cl *client.Client
	id string
}

// settled waits until the load balancer can be changed.
func (w *balancerWriter) settled(ctx context.Context) (client.Object, error) {
	return w.op.settle(ctx, w.cl, client.Object{"id": w.id})
}

// send makes one change, once the load balancer takes it.
func (w *balancerWriter) send(ctx context.Context, method, path string, body any) (client.Object, error) {
	clock := effect.From(ctx).Door.Clock
	start := clock.Now()
	for {
		if _, err := w.settled(ctx); err != nil {
			return nil, err
		}
		out, err := w.cl.Do(ctx, client.Call{Service: client.LoadBalancer, Method: method, Path: path, Body: body})
		switch k := fault.KindOf(err); {
		case k == fault.NotFound && method == http.MethodDelete:
			return nil, nil
		case k != fault.Conflict || !beingChanged(err):
			return out, err
		case clock.Now().Sub(start) >= w.op.timeout:
			return nil, fault.Hinted(fault.Timeout, "a part of it may hang: the cloud's operators can tell; replace = True makes a new one of what ended in ERROR", "%s can't be changed: %w", w.op.Target(), err)
		}
		if err := w.op.cloud.pause(ctx); err != nil {
			return nil, err
		}
	}
}
