package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
	"git.vanillacore.net/govstack/gsrun/stdlib"
)

// belongings are what there is of a recipe in the world: what the recipe
// itself meets, what bears its owner marks, and what the journals tell.
type belongings struct {
	x        *session
	owners   []effect.Owner
	prefixes []string // of their marks
	ledger   *ledger
	look     context.Context // what is looked at beside the recipe is read under it

	mu    sync.Mutex // guards met while a plan runs
	met   []effect.Sighting
	steps []runtime.StepResult

	owned   []effect.Owned
	through map[string][]string // by a thing's key, the systems that showed it when they were listed last
	logins  map[string][]string // by system, the ids of what it was logged in by then
	gone    map[string]bool     // ids of the credentials that were deleted since

	with  []view.Along
	left  []view.Leftover
	notes []string

	unknown []string        // systems that the site no longer knows
	inUse   []view.Leftover // what is left of the store for others
	stays   map[string]int  // by system, how many things lie on what isn't deleted
}

func newBelongings(ctx context.Context, x *session, redactor *effect.Redactor) *belongings {
	b := &belongings{x: x, owners: x.recipe.Owners(x.site.Name), ledger: &ledger{}, stays: make(map[string]int)}
	for _, o := range b.owners {
		b.prefixes = append(b.prefixes, o.Prefix())
	}
	door := &effect.Door{Mode: effect.Plan, Clock: effect.SystemClock{}, Redactor: redactor}
	b.look = effect.With(ctx, effect.NewScope(door, b.owners[0], "owned", nil))
	return b
}

// read takes in what the journals of the site say.
func (b *belongings) read() error {
	store := b.x.store
	if _, err := os.Stat(filepath.Join(b.x.site.StateDir(), "runs")); store == nil && err == nil {
		if store, err = journal.Open(b.x.site.StateDir()); err != nil {
			return err
		}
	}
	var err error
	if b.ledger, err = readLedger(store, b.x.site.Name); err != nil {
		return err
	}
	for _, run := range b.ledger.unread {
		b.note("the journal of run " + run + ", which can't be read")
	}
	return nil
}

// Met takes note of an op of a plan.
func (b *belongings) Met(s effect.Sighting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.met = append(b.met, s)
}

// survey runs the recipe without changing anything, to see what it is about.
func (b *belongings) survey(ctx context.Context, door *effect.Door, id string, inputs starlark.StringDict) error {
	door.Survey = true
	door.Retry = effect.Retry{Tries: 2}
	door.Met = b.Met
	res, err := b.x.engine.Run(ctx, b.x.recipe, runtime.Options{ID: id, Site: runtimeSite(b.x.site), Inputs: inputs, Door: door, Vault: b.x.vault, Secret: b.x.secrets.Read})
	if err != nil {
		return err
	}
	b.steps = res.Steps
	for _, s := range res.Steps {
		switch fault.KindOf(s.Err) {
		case fault.Unreachable, fault.Unavailable, fault.Timeout, fault.Denied, fault.Untrusted, fault.Exists:
			b.notes = append(b.notes, s.Err.Error())
		}
	}
	return nil
}

// list finds what bears the owner marks. Systems that only journals name and
// that the site no longer knows are noted.
func (b *belongings) list() ([]effect.Owned, error) {
	var out []effect.Owned
	for module, k := range stdlib.Keepers(b.x.modules) {
		asked := k.Scopes()
		for _, scope := range b.systems(module, k) {
			if ends(b.logins[scope], b.gone) {
				continue
			}
			found, err := k.ListOwned(b.look, scope, b.prefixes)
			if fault.KindOf(err) == fault.Invalid && !slices.Contains(asked, scope) {
				b.note(scope + ", which earlier runs worked on: " + err.Error())
				b.unknown = append(b.unknown, scope)
				continue
			}
			if err != nil {
				return nil, fault.Wrap("listing what is owned in", scope, err)
			}
			out = append(out, found...)
		}
	}
	return b.once(b.certain(out)), nil
}

func (b *belongings) note(text string) {
	if !slices.Contains(b.notes, text) {
		b.notes = append(b.notes, text)
	}
}

// certain leaves out what may be another recipe's: the mark of recipe a/b's x
// is that of recipe a's b/x.
func (b *belongings) certain(all []effect.Owned) []effect.Owned {
	marks := b.marks()
	for _, m := range b.ledger.of(b.prefixes) {
		marks[m.mark] = true
	}
	return slices.DeleteFunc(all, func(o effect.Owned) bool {
		if !strings.Contains(o.Mark[len(b.ownerOf(o.Mark).Prefix()):], "/") || marks[o.Mark] {
			return false
		}
		b.leave(o.Target.String(), "its mark "+o.Mark+" may be that of another recipe", "delete it by hand if it isn't")
		return true
	})
}

// ownerOf returns the owner that a mark is of.
func (b *belongings) ownerOf(mark string) effect.Owner {
	best := effect.Owner{}
	for _, o := range b.owners {
		if strings.HasPrefix(mark, o.Prefix()) && (best.Recipe == "" || len(o.Prefix()) > len(best.Prefix())) {
			best = o
		}
	}
	return best
}

// worker returns the owner whose work something is. What bears no mark was met
// in the recipe, or a journal tells of it.
func (b *belongings) worker(o effect.Owned) effect.Owner {
	if o.Mark == "" {
		for _, s := range b.met {
			if s.Target == o.Maker() {
				return s.Owner
			}
		}
	}
	if o.Mark == "" {
		for _, m := range b.ledger.of(b.prefixes) {
			if m.target == o.Target.String() {
				return b.ownerOf(m.mark)
			}
		}
	}
	return b.ownerOf(o.Mark)
}

// marks returns the owner marks of all that the recipe declares, as far as the
// survey came.
func (b *belongings) marks() map[string]bool {
	out := make(map[string]bool)
	for _, s := range b.met {
		if !s.Target.Unknown {
			out[s.Owner.Mark(s.Target.Name)] = true
		}
	}
	return out
}

// gather decides on all that was found what goes, what goes with it, and what
// is left.
func (b *belongings) gather() error {
	owned, err := b.list()
	if err != nil {
		return err
	}
	b.owned = owned
	listed := make(map[string]bool)
	for _, o := range owned {
		for _, t := range b.as(o, o.Target) {
			listed[t.String()] = true
		}
	}
	places := b.places()
	groups := make(map[string]*view.Along)
	var order []string
	for _, s := range b.met {
		name := s.Target.String()
		if !s.State.Exists || listed[name] {
			continue
		}
		listed[name] = true
		if on := places(s.Op); on != "" {
			if groups[s.Target.Scope] == nil {
				groups[s.Target.Scope] = &view.Along{What: s.Target.Scope, Of: on}
				order = append(order, s.Target.Scope)
			}
			groups[s.Target.Scope].N++
			continue
		}
		b.judge(s)
	}
	b.oneEach()
	for _, scope := range order {
		b.with = append(b.with, *groups[scope])
	}
	for _, scope := range slices.Sorted(maps.Keys(b.stays)) {
		b.leave(scope, fmt.Sprintf("%d of the things there are as the recipe set them, and what they lie on isn't deleted", b.stays[scope]), "")
	}
	remembered, err := b.remembered()
	if err != nil {
		return err
	}
	b.owned = append(b.owned, remembered...)
	b.unseen(listed, groups)
	b.sort()
	return nil
}

// places returns a function that tells on which of the things that go an op's
// target lies; "" for none.
func (b *belongings) places() func(effect.Op) string {
	at := make(map[string]string)
	for _, o := range b.owned {
		for _, address := range o.Addresses {
			if at[address] == "" || o.Target.Kind == "server" {
				at[address] = o.Target.String()
			}
		}
	}
	return func(op effect.Op) string {
		placed, ok := op.(effect.Placed)
		if !ok {
			return ""
		}
		for _, address := range placed.Addresses() {
			if at[address] != "" {
				return at[address]
			}
		}
		return ""
	}
}

// sort puts what goes into the order of deletion: what the site keeps itself
// last, and before it credentials; systems in the reverse of the order in which the recipe came to them; within one, what
// uses others first, which holds for what the recipe never came to, too.
func (b *belongings) sort() {
	system, thing, oneOf := make(map[string]int), make(map[string]int), b.oneOf()
	for i, s := range b.met {
		if one := oneOf(s.Target.Scope); system[one] == 0 {
			system[one] = i + 1
		}
		thing[s.Target.String()] = i + 1
	}
	slices.SortStableFunc(b.owned, func(x, y effect.Owned) int {
		if kept := x.Rank == effect.RankKept; kept != (y.Rank == effect.RankKept) {
			if kept {
				return 1
			}
			return -1
		}
		if x.Credential != y.Credential {
			if y.Credential {
				return -1
			}
			return 1
		}
		if !x.Credential {
			if c := cmp.Compare(system[oneOf(y.Target.Scope)], system[oneOf(x.Target.Scope)]); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(thing[y.Target.String()], thing[x.Target.String()]), cmp.Compare(x.Target.String(), y.Target.String()))
	})
}

// others asks what isn't ours and would be met. What couldn't be asked for is
// only noted if a destroy was begun already, which got an answer then.
func (b *belongings) others() ([]effect.Other, error) {
	var out []effect.Other
	begun := slices.Contains(b.ledger.begun, b.x.recipe.Path)
	for module, k := range stdlib.Keepers(b.x.modules) {
		for _, scope := range b.systems(module, k) {
			if slices.Contains(b.unknown, scope) || len(b.owned) == 0 {
				continue
			}
			found, err := k.Others(b.look, scope, b.owned)
			if err != nil {
				return nil, fault.Wrap("looking for what isn't ours in", scope, err)
			}
			for _, x := range found {
				if x.Unasked && begun {
					b.note(x.Text)
					continue
				}
				out = append(out, x)
			}
		}
	}
	return out, nil
}

// systems returns the systems of a module that this run asked for, or that
// earlier ones changed.
func (b *belongings) systems(module string, k effect.Keeper) []string {
	out := k.Scopes()
	for _, m := range b.ledger.of(b.prefixes) {
		if s := systemOf(m.target); m.changed && strings.HasPrefix(s, module+"/") && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
