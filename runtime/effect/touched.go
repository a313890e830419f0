package effect

import (
	"context"
	"sync/atomic"
)

type touchedKey struct{}

// Touched notes that a call of the op under ctx took effect. If the op fails
// after that, something was changed all the same, and the run says so.
func Touched(ctx context.Context) {
	if b, ok := ctx.Value(touchedKey{}).(*atomic.Bool); ok {
		b.Store(true)
	}
}

// touchable returns ctx for one op, and whether a call of it took effect.
func touchable(ctx context.Context) (context.Context, *atomic.Bool) {
	b := new(atomic.Bool)
	return context.WithValue(ctx, touchedKey{}, b), b
}

// untouched takes back what was noted.
func untouched(ctx context.Context) {
	if b, ok := ctx.Value(touchedKey{}).(*atomic.Bool); ok {
		b.Store(false)
	}
}
