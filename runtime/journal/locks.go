package journal

import (
	"context"
	"slices"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Locks are the locks of a run: one for each recipe, and instance of one, whose
// work it does, since another run may be of one of those alone.
type Locks struct {
	root *Lock
	of   map[effect.Owner]*Lock
}

// LockAll takes the locks of owners for the holder h, the first of which is that
// of the run's own recipe. It takes all or none.
func (s *Store) LockAll(h Holder, owners []effect.Owner) (*Locks, error) {
	all := &Locks{of: make(map[effect.Owner]*Lock)}
	for _, o := range owners {
		h.Recipe = o.Recipe
		if o.Instance != "" {
			h.Recipe += "@" + o.Instance
		}
		l, err := s.Lock(h)
		if err != nil {
			all.Release()
			return nil, err
		}
		all.of[o] = l
		if all.root == nil {
			all.root = l
		}
	}
	return all, nil
}

// Guard is an effect.Guard: it looks at the lock of the recipe whose work the
// change is.
func (a *Locks) Guard(ctx context.Context) (leave func(), err error) {
	if s := effect.From(ctx); s != nil {
		if l := a.of[s.Owner]; l != nil {
			return l.Guard(ctx)
		}
	}
	return a.root.Guard(ctx)
}

// Context returns a context that ends when one of the locks is lost or released.
func (a *Locks) Context(parent context.Context) (context.Context, context.CancelFunc) {
	var cancels []context.CancelFunc
	ctx := parent
	for _, l := range a.of {
		var cancel context.CancelFunc
		ctx, cancel = l.Context(ctx)
		cancels = append(cancels, cancel)
	}
	return ctx, func() {
		for _, cancel := range slices.Backward(cancels) {
			cancel()
		}
	}
}

// Release frees the locks.
func (a *Locks) Release() {
	for _, l := range a.of {
		l.Release()
	}
}
