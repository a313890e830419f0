package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A stage is what is deleted at the same time.
type stage struct {
	name  string
	owned []effect.Owned
}

// kept reports whether the stage is of what the site's store keeps.
func (s stage) kept() bool { return s.owned[0].Rank == effect.RankKept }

func stages(owned []effect.Owned) []stage {
	var out []stage
	names := make(map[string]int)
	for i, o := range owned {
		if i > 0 && o.Target.Scope == owned[i-1].Target.Scope && o.Target.Kind == owned[i-1].Target.Kind && o.Rank == owned[i-1].Rank {
			out[len(out)-1].owned = append(out[len(out)-1].owned, o)
			continue
		}
		name := o.Target.Kind
		if name == "" {
			name = o.Target.Scope
		}
		if names[name]++; names[name] > 1 {
			name = fmt.Sprintf("%s %d", name, names[name])
		}
		out = append(out, stage{name: name, owned: []effect.Owned{o}})
	}
	return out
}

func (s stage) delete(ctx context.Context, door *effect.Door, b *belongings) error {
	var group errgroup.Group
	group.SetLimit(atOnce)
	errs := make([]error, len(s.owned))
	for i, o := range s.owned {
		scope := effect.NewScope(door, b.worker(o), s.name, nil)
		group.Go(func() error {
			_, errs[i] = effect.Do(effect.With(ctx, scope), o.Delete)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	for _, err := range errs {
		if err != nil {
			return &runtime.StepError{Step: s.name, Err: err}
		}
	}
	return nil
}
