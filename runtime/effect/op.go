// Package effect is the door: everything that touches the outside world is an
// Op, and Do is the only way to run one. The door plans or applies, keeps the
// journal, retries, holds deadlines, reports progress and removes secrets from
// all that it reports; an Op only observes, compares and acts.
package effect

import (
	"context"
	"reflect"
)

// An Op is one idempotent action on one target. The door calls Observe, then
// Diff, then Apply if there is a change to make and the run applies. After a
// failure that may pass by itself it begins again with Observe, so that a
// change whose answer was lost is found instead of made twice.
type Op interface {
	// Target names what is acted on. It is called first and doesn't fail.
	Target() Target
	// Observe reads the target's state. It changes nothing. A target that
	// isn't there is a State with Exists false, not an error.
	Observe(ctx context.Context) (State, error)
	// Diff compares the state with what is wanted. It does no I/O. An error
	// says that the wanted state can't be reached, such as an immutable field
	// that differs.
	Diff(State) (Change, error)
	// Apply makes the change and returns the state after it.
	Apply(ctx context.Context, c Change) (State, error)
}

// A Target names a thing in the world, as "openstack/lab/network/mgmt".
type Target struct {
	Scope   string // the system it is part of: "openstack/lab", "ssh/203.0.113.7", "kube/seed"
	Kind    string // the noun: "network", "file"
	Name    string // the name within scope and kind
	Unknown bool   // the name or the system isn't known yet
}

func (t Target) String() string {
	s := t.Scope
	for _, part := range []string{t.Kind, t.Name} {
		if part == "" {
			continue
		}
		if s != "" && part[0] != '/' {
			s += "/"
		}
		s += part
	}
	if t.Unknown {
		s += " " + UnknownText
	}
	return s
}

// within names the part of the world that a planned change of t is in. Of a
// target that isn't known yet that is all that it may be.
func (t Target) within() string {
	if !t.Unknown {
		return t.String()
	}
	if t.Kind == "" {
		return t.Scope
	}
	return t.Scope + "/" + t.Kind
}

// A Remover is an Op that may be one that only deletes.
type Remover interface {
	Op
	// Removes reports whether it is.
	Removes() bool
}

// A State is what an Op saw, or left behind.
type State struct {
	Exists bool
	// Attrs is the state as data (see Data): what a recipe gets, and what the
	// journal keeps.
	Attrs map[string]any
	// Raw is the Op's own detail, for its Diff and Apply. The journal doesn't
	// keep it.
	Raw any
	// Unknown is set by the door where nothing can be said of the state yet.
	Unknown bool
}

// A ChangeKind says what a Change does to its target.
type ChangeKind string

// The kinds of change.
const (
	None    ChangeKind = "none"
	Create  ChangeKind = "create"
	Update  ChangeKind = "update"
	Replace ChangeKind = "replace"
	Delete  ChangeKind = "delete"
	Run     ChangeKind = "run"   // a command, whose effect isn't known from outside
	Later   ChangeKind = "later" // planned only: whether there is a change isn't known yet
)

// A Change is the difference between the observed state and the wanted one.
type Change struct {
	Kind   ChangeKind
	Fields []Field        // what differs, in the order to show it
	After  map[string]any // the attributes to come, with Unknown where they aren't known
	Note   string         // a remark for the plan: "at least once"
	// Follows says that the comparison took the changes into account that the
	// same plan makes to the same target before. Otherwise what an op will find
	// then isn't known.
	Follows bool
	// May says of a Later change that it may turn out to be a Delete or a
	// Replace; set by the door.
	May ChangeKind
	// Reach names the other targets that the change may change, or may make
	// another change of: those below it if it ends in a slash ("ssh/gw/", of a
	// command), else the one of that name; a * stands for any text. What a plan
	// observes of them isn't what a later op finds.
	Reach []string
	// Relative names the attributes in After that depend on what is there
	// before, as the digest of a file does in which one line is changed.
	Relative []string
	Before   State // the observed state; set by the door
}

// A Field is one difference.
type Field struct {
	Path string // "mtu", "spec.replicas"
	Old  any    // nil if there was none
	New  any    // nil if there will be none
}

// Unchanged is the Change of a target that is as wanted.
func Unchanged() Change { return Change{Kind: None} }

// Compare returns the fields of want that differ from those of have, sorted by
// name. A wanted value that isn't known always differs.
func Compare(want, have map[string]any) []Field {
	var out []Field
	for _, k := range sortedKeys(want) {
		w, h := plainData(want[k]), plainData(have[k])
		if !equalData(w, h) {
			out = append(out, Field{Path: k, Old: h, New: w})
		}
	}
	return out
}

// plainData unwraps the argument types of this package.
func plainData(x any) any {
	switch x := x.(type) {
	case Text:
		return x.Value()
	case Reference:
		return x.ID.Value()
	case Data:
		return x.V
	}
	return x
}

func equalData(a, b any) bool {
	if _, ok := a.(Unknown); ok {
		return false
	}
	if sa, ok := a.(*Secret); ok {
		if sb, ok := b.(*Secret); ok {
			return sa.plain == sb.plain
		}
		sb, ok := b.(string)
		return ok && sa.plain == sb
	}
	switch a := a.(type) {
	case []any:
		lb, ok := b.([]any)
		if !ok || len(a) != len(lb) {
			return false
		}
		for i := range a {
			if !equalData(a[i], lb[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		mb, ok := b.(map[string]any)
		if !ok || len(a) != len(mb) {
			return false
		}
		for k := range a {
			y, ok := mb[k]
			if !ok || !equalData(a[k], y) {
				return false
			}
		}
		return true
	}
	if na, ok := number(a); ok {
		nb, ok := number(b)
		return ok && na == nb
	}
	return reflect.DeepEqual(a, b)
}

func number(x any) (float64, bool) {
	switch v := reflect.ValueOf(x); v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return float64(v.Int()), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return float64(v.Uint()), true
	case reflect.Float32, reflect.Float64:
		return v.Float(), true
	}
	return 0, false
}
