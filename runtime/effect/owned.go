package effect

import (
	"context"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Sighting is an op that a plan met, and what it observed.
type Sighting struct {
	Owner  Owner
	Step   string
	Target Target
	Op     Op
	State  State // zero if the target isn't known yet
}

// An Owned is a thing in the world that a recipe made, and how it is deleted.
type Owned struct {
	Target Target
	Mark   string // its owner mark; empty if it can't bear one
	ID     string // by which its system knows it; may be empty
	// Same is what the thing is known by to all systems of its module that show
	// it, such as two logins to one project. Empty: no other does.
	Same string
	// Logins are the ids of what its system is logged in by: a credential, a
	// user, a project. Once one of them is deleted, the system can't be asked.
	Logins []string
	// By is the target of the op that makes it, where that is another: a rule is
	// made with its security group.
	By Target
	// Rank orders the deletions within one system: what has a lower one goes
	// first. Things of one rank don't need each other.
	Rank int
	// Credential says that it lets somebody in: it goes after all else.
	Credential bool
	// Addresses are those at which it answers. What is reached there goes with
	// it.
	Addresses []string
	// Delete is the op that deletes it if it still is what was found.
	Delete Op
}

// Maker returns the target of the op that makes o.
func (o Owned) Maker() Target {
	if o.By != (Target{}) {
		return o.By
	}
	return o.Target
}

// Key returns what two findings of the same thing have in common.
func (o Owned) Key() string {
	if o.Same != "" {
		module, _, _ := strings.Cut(o.Target.Scope, "/")
		return module + " " + o.Same
	}
	return o.Target.String() + " " + o.ID
}

// RankKept is the rank of what the site's store keeps: it goes last.
const RankKept = 1000

// An Undoer is an op that knows how what it made is deleted again. Those of
// nouns that a Keeper lists needn't be.
type Undoer interface {
	Op
	// Undo returns what was observed as something to delete. Its mark is the
	// one that it bears, empty if it can't bear one.
	Undo(State) Owned
}

// A Safe is a module's instance that keeps what recipes make in the site's
// store, where nothing bears a mark.
type Safe interface {
	// Kept returns what a journal calls target as something to delete, whether
	// or not it is still there; false if there is no store for it.
	Kept(target string) (Owned, bool)
}

// A Placed is an op on something that lies on a machine: what it made goes
// when the machine does.
type Placed interface {
	Op
	// Addresses are the machine's, as far as they are known.
	Addresses() []string
}

// An Other is something that isn't ours, and that a deletion would meet.
type Other struct {
	Target Target
	Text   string // what it is and whose: "port db (1f3a...), which is compute:nova of 77c0..."
	Of     Target // the thing to delete that it is about
	// Orphan says that it doesn't stand in the way, but that nobody could look
	// after it any more. Otherwise the deletion would fail.
	Orphan bool
	// Unasked says that it couldn't be asked for: there may be none.
	Unasked bool
	Hint    string // what to do about it first
}

// A Keeper is a module's instance whose systems keep what recipes make.
type Keeper interface {
	// Scopes returns the systems that recipes asked for in this run:
	// "openstack/lab".
	Scopes() []string
	// ListOwned lists what bears an owner mark with one of the prefixes in one
	// system, which may be one that this run hasn't asked for.
	ListOwned(ctx context.Context, scope string, prefixes []string) ([]Owned, error)
	// Others lists what isn't ours and would be met in one system if all of
	// going were deleted.
	Others(ctx context.Context, scope string, going []Owned) ([]Other, error)
}

// Prefix returns what the owner marks of o begin with.
func (o Owner) Prefix() string { return o.Mark("") }

// survey ends an op of a survey: what is there is taken as it is, and the rest
// as what a change would produce.
func (d *Door) survey(ctx context.Context, s *Scope, op Op, t Target, before State) State {
	if before.Exists {
		d.count(None)
		return before
	}
	s.setPending(t.within())
	doubt(ctx)
	c, err := op.Diff(before)
	if err != nil || c.After == nil {
		return State{Unknown: true}
	}
	return State{Attrs: c.After}
}

// meet tells whoever wants to know of an op.
func (d *Door) meet(s *Scope, op Op, t Target, st State) {
	if d.Met != nil {
		d.Met(Sighting{Owner: s.Owner, Step: s.Step, Target: t, Op: op, State: st})
	}
}

// lose remembers of a survey that a system couldn't be reached: it is tried
// once, not again for each thing on it.
func (d *Door) lose(scope string, err error) {
	if k := fault.KindOf(err); !d.Survey || k != fault.Unreachable && k != fault.Timeout {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost == nil {
		d.lost = make(map[string]error)
	}
	d.lost[scope] = err
}

func (d *Door) lostBefore(scope string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost[scope]
}
