package openstack

import (
	"context"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A waiting says what an op waits for after it has acted.
type waiting struct {
	target  effect.Target
	what    string // "server gw (4f0c...) being ACTIVE"
	timeout time.Duration
	hint    string // for who waited in vain
}

// await looks until it is done. A look that fails in a way that may pass is
// one that isn't done yet; what isn't there any more won't come back.
func (c *Cloud) await(ctx context.Context, w waiting, look func(ctx context.Context) (seen string, done bool, err error)) error {
	_, err := effect.Await(ctx, effect.Wait{Query: effect.Query{Target: w.target}, For: w.what, Timeout: w.timeout, Interval: c.config.Interval},
		func(ctx context.Context) (effect.Poll, error) {
			seen, done, err := look(ctx)
			if fault.KindOf(err) == fault.NotFound {
				err = &fault.Error{Kind: fault.Failed, Err: err}
			}
			return effect.Poll{Seen: seen, Done: done}, err
		})
	if fault.KindOf(err) == fault.Timeout && fault.FromContext(ctx) == nil && fault.HintOf(err) == "" {
		err = &fault.Error{Kind: fault.Timeout, Hint: w.hint, Err: err}
	}
	return err
}
