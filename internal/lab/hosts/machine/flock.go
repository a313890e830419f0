package machine

import (
	"context"
)

// A flock is an advisory lock on one file.
type flock struct {
	held chan struct{} // full while it is held
}

// Lock takes the advisory lock of the file at p, waiting for it until ctx ends
// unless nonblock. It returns the way to let it go, or nil if it is not to be had.
func (m *Machine) Lock(ctx context.Context, p string, nonblock bool) func() {
	m.mu.Lock()
	l := m.locks[p]
	if l == nil {
		l = &flock{held: make(chan struct{}, 1)}
		m.locks[p] = l
	}
	m.mu.Unlock()
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held }
	default:
	}
	if nonblock {
		return nil
	}
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held }
	case <-ctx.Done():
		return nil
	}
}
