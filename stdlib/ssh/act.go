package ssh

import (
	"context"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// An act is an op on one host.
type act struct {
	host *Host
	kind string // the noun
	name string
	lock string // what no other act of the run may change at the same time; empty means the target

	reach   []string // what else it may change (see effect.Change)
	removes bool     // it only deletes
	always  bool     // it is done whatever there is

	observe func(context.Context) (effect.State, error)
	diff    func(effect.State) (effect.Change, error)
	apply   func(context.Context, effect.Change) (effect.State, error)
}

var _ effect.Placed = (*act)(nil)

func (a *act) do(ctx context.Context) (any, error) { return effect.Do(ctx, a) }

// Target names the act. A host whose address isn't known yet has a name or
// not; what is wanted on it can be said in either case.
func (a *act) Target() effect.Target {
	return effect.Target{Scope: a.host.scope(), Kind: a.kind, Name: a.name}
}

// Addresses returns that of the host, which is where all lies that it made.
func (a *act) Addresses() []string {
	if !a.host.address.Known() {
		return nil
	}
	return []string{a.host.address.Reveal()}
}

// Observe looks at the target. On a host that isn't known yet there is
// nothing.
func (a *act) Observe(ctx context.Context) (effect.State, error) {
	if !a.host.Known() {
		return effect.State{}, nil
	}
	return a.observe(ctx)
}

// Diff compares. What a host that isn't known yet has isn't known either, so
// that only a command which is run in any case is sure to be.
func (a *act) Diff(s effect.State) (effect.Change, error) {
	c, err := a.diff(s)
	c.Reach, c.Follows = append(c.Reach, a.reach...), c.Follows || a.always
	if err != nil || a.host.Known() || a.always {
		return c, err
	}
	for _, k := range c.Relative {
		c.After[k] = effect.Unknown{Of: a.Target().String() + " " + k}
	}
	c.Kind, c.Note = effect.Later, "the host isn't known yet"
	return c, nil
}

// Removes reports whether the act only deletes.
func (a *act) Removes() bool { return a.removes }

func (a *act) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	lock := a.lock
	if lock == "" {
		lock = a.Target().String()
	}
	unlock, err := a.host.pool.lock(ctx, a.host.id()+" "+lock)
	if err != nil {
		return effect.State{}, err
	}
	defer unlock()
	return a.apply(ctx, c)
}

// query returns the query for something on the host.
func (h *Host) query(kind, name string) effect.Query {
	return effect.Query{Target: effect.Target{Scope: h.scope(), Kind: kind, Name: name, Unknown: !h.Known()}, Scope: h.scope()}
}

// change returns the Change for the fields that differ: none, an update, or a
// creation if there was nothing.
func change(s effect.State, fields []effect.Field, after map[string]any) (effect.Change, error) {
	switch {
	case len(fields) == 0 && s.Exists:
		return effect.Unchanged(), nil
	case !s.Exists:
		return effect.Change{Kind: effect.Create, Fields: fields, After: after}, nil
	}
	return effect.Change{Kind: effect.Update, Fields: fields, After: after}, nil
}

// removal returns the Change that deletes what exists.
func removal(s effect.State) (effect.Change, error) {
	if !s.Exists {
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Delete}, nil
}

func invalid(fn, format string, args ...any) error {
	e := fault.New(fault.Invalid, format, args...)
	e.Op = fn
	return e
}
