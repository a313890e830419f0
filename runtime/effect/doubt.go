package effect

import (
	"context"
	"sync/atomic"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Doubt tells whether what was called under its context met something that
// isn't known in a plan: a change that is only planned, or a read that depends
// on one. Whether such a call will succeed isn't known either.
type Doubt struct {
	outer *Doubt
	ctx   context.Context // of the attempt itself: once it has ended, nothing is caught
	met   atomic.Bool
}

type doubtKey struct{}

// WithAttempt returns a context for calls whose failure is caught, see
// Attemptable, and whose doubt the returned value tells.
func WithAttempt(ctx context.Context) (context.Context, *Doubt) {
	outer, _ := ctx.Value(doubtKey{}).(*Doubt)
	d := &Doubt{outer: outer, ctx: ctx}
	return context.WithValue(ctx, doubtKey{}, d), d
}

// Met reports whether there was any.
func (d *Doubt) Met() bool { return d.met.Load() }

// Attemptable reports whether a failure of that kind can be caught. One that
// can't ends the step whatever the recipe would do about it.
func Attemptable(k fault.Kind) bool {
	switch k {
	case fault.Deferred, fault.Cancelled, fault.Locked, fault.Limit, fault.Internal, fault.Drift:
		return false
	}
	return true
}

// caught reports whether an attempt under ctx catches err.
func caught(ctx context.Context, err error) bool {
	d, _ := ctx.Value(doubtKey{}).(*Doubt)
	for ; d != nil; d = d.outer {
		if d.ctx.Err() == nil {
			return Attemptable(fault.KindOf(err))
		}
	}
	return false
}

// doubt notes that something isn't known.
func doubt(ctx context.Context) {
	d, _ := ctx.Value(doubtKey{}).(*Doubt)
	for ; d != nil; d = d.outer {
		d.met.Store(true)
	}
}
