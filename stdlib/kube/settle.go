package kube

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

const (
	// glance is the pause between two looks at what is waited for.
	glance = 250 * time.Millisecond
	// patience is how long something blocks before it is asked why.
	patience = 3 * time.Second
)

// settle waits until the objects are as they should be. It begins with what was
// seen of them when they were applied, and asks again only for those that
// aren't there yet.
func (c *Cluster) settle(ctx context.Context, what string, list []*item, states map[*item]effect.State, deadline time.Time) error {
	if len(list) == 0 {
		return nil
	}
	clock := effect.From(ctx).Door.Clock
	w := settling{c: c, now: clock.Now}
	for _, it := range list {
		u := &unsettled{it: it}
		if s, ok := states[it].Raw.(*sight); ok {
			u.seen = s.live
		}
		w.open = append(w.open, u)
	}
	wait := effect.Wait{
		Query:    effect.Query{Target: effect.Target{Scope: c.scope(), Unknown: !c.known()}, Scope: c.scope()},
		For:      fmt.Sprintf("%d %s of %s", len(list), what, c.scope()),
		Timeout:  max(deadline.Sub(clock.Now()), time.Millisecond),
		Interval: glance,
	}
	_, err := effect.Await(ctx, wait, w.look)
	return err
}

// settling is a wait for objects.
type settling struct {
	c    *Cluster
	now  func() time.Time
	open []*unsettled
	why  string // what was found beyond the first object's own status
	of   *item
	from time.Time // since when `of` is the first that blocks
	last time.Time // when it was asked why
}

// An unsettled object isn't there yet, as far as is known.
type unsettled struct {
	it    *item
	seen  *kubeclient.Object // nil asks for it
	state kubeclient.Health
	err   error
}

func (s *settling) look(ctx context.Context) (effect.Poll, error) {
	client, err := s.c.client()
	if err != nil {
		return effect.Poll{}, err
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, u := range s.open {
		group.Go(func() error {
			u.look(ctx, client)
			return nil
		})
	}
	_ = group.Wait() // failures are in the objects
	left := s.open[:0]
	for _, u := range s.open {
		if u.err != nil && !fault.KindOf(u.err).Retryable() {
			return effect.Poll{}, fault.Wrap("", u.it.String(), u.err)
		}
		if u.state.Failed && !planning(ctx) {
			text := u.state.Message
			if why := client.Explain(ctx, u.seen); why != "" {
				text += "; " + why
			}
			return effect.Poll{}, fault.New(fault.Failed, "%s has failed: %s", u.it, text)
		}
		if !u.state.Current {
			left = append(left, u)
		}
	}
	s.open = left
	if len(left) == 0 {
		return effect.Poll{Done: true}, nil
	}
	return effect.Poll{Seen: s.blocker(ctx, client)}, nil
}

// look finds out how far the object is.
func (u *unsettled) look(ctx context.Context, client *kubeclient.Client) {
	fresh := u.seen != nil && u.state == (kubeclient.Health{}) && u.err == nil
	if !fresh {
		u.seen, u.err = client.Get(ctx, u.it.kind, u.it.object.GetNamespace(), u.it.object.GetName())
		if fault.KindOf(u.err) == fault.NotFound {
			u.err = fault.New(fault.Failed, "it was deleted while it was waited for")
		}
		if u.err != nil {
			u.state = kubeclient.Health{Message: u.err.Error()}
			return
		}
	}
	u.state = kubeclient.HealthOf(u.seen)
}

// blocker says what the first object waits for.
func (s *settling) blocker(ctx context.Context, client *kubeclient.Client) string {
	u := s.open[0]
	now := s.now()
	if s.of != u.it {
		s.of, s.from, s.last, s.why = u.it, now, time.Time{}, ""
	}
	if u.seen != nil && u.err == nil && now.Sub(s.from) >= patience && (s.last.IsZero() || now.Sub(s.last) >= patience) {
		s.why, s.last = client.Explain(ctx, u.seen), now
	}
	text := u.it.String() + ": " + u.state.Message
	if s.why != "" {
		text += "; " + s.why
	}
	if n := len(s.open) - 1; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return text
}

// awaitKinds waits until the cluster serves the kinds that CRDs among the items
// make: that comes a moment after they are established.
func (c *Cluster) awaitKinds(ctx context.Context, members []*item, deadline time.Time) error {
	for _, it := range members {
		if it.kind.GroupKind() != definitionKind {
			continue
		}
		made, _, ok := definedKind(it.object)
		if !ok {
			continue
		}
		wait := effect.Wait{
			Query:    effect.Query{Target: effect.Target{Scope: c.scope(), Unknown: !c.known()}, Scope: c.scope()},
			For:      fmt.Sprintf("%s being served by %s", kubeclient.KindName(made.GroupKind()), c.scope()),
			Timeout:  max(deadline.Sub(effect.From(ctx).Door.Clock.Now()), time.Millisecond),
			Interval: glance,
		}
		if _, err := effect.Await(ctx, wait, func(ctx context.Context) (effect.Poll, error) {
			client, err := c.client()
			if err != nil {
				return effect.Poll{}, err
			}
			served, err := client.Serves(ctx, made)
			return effect.Poll{Done: served, Seen: "not listed yet"}, err
		}); err != nil {
			return err
		}
	}
	return nil
}
