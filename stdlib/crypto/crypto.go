// Package crypto is the module that makes keys, passwords and certificates:
// each once, kept encrypted in the site's store.
package crypto

import (
	"context"
	"strings"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Config says where keys are kept. The zero Config only gives the texts.
type Config struct {
	Store effect.Store     // keeps what was made; it encrypts
	Now   func() time.Time // nil means the system's clock
}

// A Maker is one run's instance of the module.
type Maker struct {
	store effect.Store
	now   func() time.Time

	making sync.Mutex // held while something is made and stored
}

// Module returns the module.
func Module(c Config) *builtin.Module {
	m := &Maker{store: c.Store, now: c.Now}
	if m.now == nil {
		m.now = time.Now
	}
	return builtin.NewModule(builtin.Module{
		Name: "crypto",
		Doc: "Keys, passwords and certificates. Each function makes one the first time it is called with a name, keeps it encrypted in the site's store, and returns the same one ever after. " +
			"Names are unique in a site, for each function; in a plan, what isn't made yet is known after apply.",
		Recv:  m,
		Funcs: []builtin.Func{sshKeypair(), wireguardKeypair(), password(), ca(), certificate()},
	})
}

// ready returns the error of a maker without a store.
func (m *Maker) ready(kind, name string) error {
	if m == nil || m.store == nil {
		return fault.Hinted(fault.Invalid, "name a store and age recipients in site.yaml", "%s %q can't be kept: the site has no store", kind, name)
	}
	return nil
}

// A kept is the op that makes one thing and stores it, unless it is there.
type kept struct {
	m          *Maker
	kind, name string
	after      map[string]any // what is known before it is made
	make       func() ([]byte, error)
	// read returns the attributes of what is stored. Secrets of it that are
	// all of the stored text may have ref as their source.
	read func(ctx context.Context, stored []byte, ref effect.Ref) (map[string]any, error)
	// fits returns an error if what is stored isn't what the recipe asks for.
	fits func(attrs map[string]any) error
}

func (k *kept) key() string { return "crypto/" + k.kind + "/" + k.name }

func (k *kept) Target() effect.Target {
	return effect.Target{Scope: "crypto", Kind: k.kind, Name: k.name}
}

func (k *kept) Observe(ctx context.Context) (effect.State, error) {
	stored, found, err := k.m.store.Get(ctx, k.key())
	if err != nil || !found {
		return effect.State{}, err
	}
	return k.state(ctx, stored)
}

func (k *kept) state(ctx context.Context, stored []byte) (effect.State, error) {
	attrs, err := k.read(ctx, stored, effect.Ref("store:"+k.key()))
	if err != nil {
		return effect.State{}, &fault.Error{Op: "reading", Target: k.key(), Kind: fault.Invalid,
			Hint: "delete it from the site's store to have a new one made", Err: err}
	}
	return effect.State{Exists: true, Attrs: attrs}, nil
}

func (k *kept) Diff(have effect.State) (effect.Change, error) {
	if have.Exists {
		if k.fits != nil {
			if err := k.fits(have.Attrs); err != nil {
				return effect.Change{}, err
			}
		}
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Create, After: k.after}, nil
}

func (k *kept) Apply(ctx context.Context, _ effect.Change) (effect.State, error) {
	k.m.making.Lock()
	defer k.m.making.Unlock()
	// Another step may have made it since.
	if st, err := k.Observe(ctx); err != nil || st.Exists {
		return st, err
	}
	made, err := k.make()
	if err != nil {
		return effect.State{}, &fault.Error{Op: "making", Target: k.Target().String(), Kind: fault.Failed, Err: err}
	}
	if made, _, err = k.m.store.Create(ctx, k.key(), made); err != nil {
		return effect.State{}, err
	}
	return k.state(ctx, made)
}

// Undo returns what was made as something to delete.
func (k *kept) Undo(effect.State) effect.Owned {
	return k.m.undo(k.Target(), k.key())
}

// undo returns what is kept under the keys as something to delete. A private
// key comes last, so that what goes with it isn't left behind alone.
func (m *Maker) undo(t effect.Target, keys ...string) effect.Owned {
	return effect.Owned{Target: t, Rank: effect.RankKept, Credential: true, Delete: &forgetting{m: m, target: t, keys: keys}}
}

var _ effect.Safe = (*Maker)(nil)

// Kept returns what is kept of that target as something to delete.
func (m *Maker) Kept(target string) (effect.Owned, bool) {
	parts := strings.SplitN(target, "/", 3)
	if len(parts) < 3 || parts[0] != "crypto" || m.store == nil {
		return effect.Owned{}, false
	}
	switch kind, name := parts[1], parts[2]; kind {
	case "ca", "certificate":
		return (&issued{m: m, kind: kind, name: name}).Undo(effect.State{}), true
	default:
		return (&kept{m: m, kind: kind, name: name}).Undo(effect.State{}), true
	}
}

// A forgetting is the op that deletes what is kept of one thing.
type forgetting struct {
	m      *Maker
	target effect.Target
	keys   []string
}

func (f *forgetting) Target() effect.Target { return f.target }

func (f *forgetting) Observe(ctx context.Context) (effect.State, error) {
	for _, key := range f.keys {
		if _, found, err := f.m.store.Get(ctx, key); err != nil || found {
			return effect.State{Exists: found}, err
		}
	}
	return effect.State{}, nil
}

func (f *forgetting) Diff(have effect.State) (effect.Change, error) {
	if !have.Exists {
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Delete}, nil
}

func (f *forgetting) Apply(ctx context.Context, _ effect.Change) (effect.State, error) {
	for _, key := range f.keys {
		if err := f.m.store.Delete(ctx, key); err != nil {
			return effect.State{}, err
		}
	}
	return effect.State{}, nil
}

// later returns the attributes of something that isn't made yet: those given
// are known, those named aren't.
func later(of string, known map[string]any, names ...string) map[string]any {
	after := make(map[string]any, len(known)+len(names))
	for k, v := range known {
		after[k] = v
	}
	for _, n := range names {
		after[n] = effect.Unknown{Of: of + " " + n}
	}
	return after
}
