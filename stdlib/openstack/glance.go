package openstack

import (
	"context"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Glanced says that an op has had its glance: it looks closely from then on.
type glanced bool

// looks counts the ops of a run that have looked.
type looks struct {
	run *effect.Door
	n   int
}

// observe returns what look sees for op. But for the first few of a run, the
// first look of an op is a glance at snapshots, which costs a list of each kind
// for all ops of a run together; it counts only where nothing is to be done.
// Whatever else it shows, a missing resource above all, is looked at closely, so
// that no change is ever decided on what may be old.
func (c *Cloud) observe(ctx context.Context, op effect.Op, g *glanced, look func(context.Context) (effect.State, error)) (effect.State, error) {
	kind := op.Target().Kind
	settled := func(st effect.State, err error) bool {
		if err != nil {
			return false
		}
		change, err := op.Diff(st)
		return err == nil && change.Kind == effect.None
	}
	run := effect.From(ctx).Door
	c.mu.Lock()
	if c.looks.run != run {
		c.looks = looks{run: run}
	}
	glance := false
	if !*g {
		c.looks.n++
		glance = c.looks.n > c.config.CloseLooks && !c.moving[kind]
	}
	c.mu.Unlock()
	*g = true
	if glance {
		st, err := look(client.Glance(ctx, run))
		// A service that asks for a pause gets it.
		if settled(st, err) || fault.KindOf(err).Retryable() || ctx.Err() != nil {
			return st, err
		}
	}
	st, err := look(ctx)
	c.mu.Lock()
	c.moving[kind] = !settled(st, err)
	c.mu.Unlock()
	return st, err
}
