package effect

import (
	"context"
	"sync/atomic"
)

// A Doubt tells whether what was called under its context met something that
// isn't known in a plan: a change that is only planned, or a read that depends
// on one. Whether such a call will succeed isn't known either.
type Doubt struct {
	outer *Doubt
	met   atomic.Bool
}

type doubtKey struct{}

// WithDoubt returns a context for calls whose doubt the returned value tells.
func WithDoubt(ctx context.Context) (context.Context, *Doubt) {
	outer, _ := ctx.Value(doubtKey{}).(*Doubt)
	d := &Doubt{outer: outer}
	return context.WithValue(ctx, doubtKey{}, d), d
}

// Met reports whether there was any.
func (d *Doubt) Met() bool { return d.met.Load() }

// doubt notes that something isn't known.
func doubt(ctx context.Context) {
	d, _ := ctx.Value(doubtKey{}).(*Doubt)
	for ; d != nil; d = d.outer {
		d.met.Store(true)
	}
}
