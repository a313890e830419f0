package ssh

import (
	"context"
	"sync"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A gate lets a bounded number in at a time.
type gate struct {
	mu     sync.Mutex
	limit  int
	active int
	freed  chan struct{} // closed when one leaves
}

func newGate(limit int) *gate { return &gate{limit: limit, freed: make(chan struct{})} }

// enter waits for a place.
func (g *gate) enter(ctx context.Context) error {
	for {
		g.mu.Lock()
		if g.active < g.limit {
			g.active++
			g.mu.Unlock()
			return nil
		}
		freed := g.freed
		g.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return fault.FromContext(ctx)
		}
	}
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active--
	close(g.freed)
	g.freed = make(chan struct{})
}

// refused lowers the limit to the others that are inside, since the server
// didn't take this one. It reports whether there are any, so that waiting for
// a place makes sense.
func (g *gate) refused() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active <= 1 {
		return false
	}
	g.limit = min(g.limit, g.active-1)
	return true
}

// force enters without waiting, for a caller that will leave right away.
func (g *gate) force() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.active++
}
