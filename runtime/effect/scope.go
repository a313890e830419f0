package effect

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
)

// An Owner is whose work a step is: the site, the recipe's path and the
// instance of its use. Owner marks and resource names are made from it.
type Owner struct {
	Site     string
	Recipe   string // "gateway"
	Instance string // of use(..., instance = "eu"); mostly empty
}

// Mark returns the owner mark of the resource called name: what is written
// into a resource when it is created, so that it is found again.
func (o Owner) Mark(name string) string {
	m := "gsrun:" + o.Site + "/" + o.Recipe
	if o.Instance != "" {
		m += "@" + o.Instance
	}
	return m + "/" + name
}

// Name returns the resource name for s: two sites, and two uses of one
// recipe, don't collide in one project.
func (o Owner) Name(s string) string {
	n := o.Site
	if o.Instance != "" {
		n += "-" + o.Instance
	}
	if s != "" {
		n += "-" + s
	}
	return n
}

// A Scope is the part of a run that an op belongs to: one step, or one item of
// a step that fans out. It is carried by the context.
type Scope struct {
	Door  *Door
	Owner Owner
	Step  string   // the step's path: "gateway/nat", "nodes[2]"
	Needs []*Scope // the steps that this one depends on
	Pos   string   // file and line of the call that is running: "recipes/gateway.star:12"
	// Files returns a file of the recipes by name, from the top layer down.
	Files func(name string) ([]byte, error)

	mu      *sync.Mutex
	pending map[string]bool // targets with a planned change
	reached map[string]int  // what planned changes may change beside their targets: the number of the last one
	calls   map[string]int  // how often something was asked for (see Once)
	branch  string          // which of the calls at the same time this is
}

// NewScope returns a scope for the step at path, whose needs are given.
func NewScope(d *Door, owner Owner, path string, needs []*Scope) *Scope {
	return &Scope{Door: d, Owner: owner, Step: path, Needs: needs, mu: new(sync.Mutex), pending: make(map[string]bool), reached: make(map[string]int), calls: make(map[string]int)}
}

type scopeKey struct{}

// With returns a context that carries s.
func With(ctx context.Context, s *Scope) context.Context {
	return context.WithValue(ctx, scopeKey{}, s)
}

// From returns the scope that ctx carries, or nil.
func From(ctx context.Context) *Scope {
	s, _ := ctx.Value(scopeKey{}).(*Scope)
	return s
}

// At returns a context whose scope says that the call at pos is running.
func At(ctx context.Context, pos string) context.Context {
	s := From(ctx)
	if s == nil || s.Pos == pos {
		return ctx
	}
	at := *s
	at.Pos = pos
	return With(ctx, &at)
}

// Mark returns the owner mark for a resource of that name.
func Mark(ctx context.Context, name string) string {
	if s := From(ctx); s != nil {
		return s.Owner.Mark(name)
	}
	return Owner{}.Mark(name)
}

// everything is what every target lies within.
const everything = ""

// Stop says that the plan of this step stopped: what it would have changed
// isn't known, so every read that depends on it is Unknown, and whether what
// comes after it changes anything isn't known.
func (s *Scope) Stop() {
	s.setPending(everything)
	s.Door.mu.Lock()
	n := len(s.Door.planned)
	s.Door.mu.Unlock()
	s.setReach(Target{}, []string{anything}, n)
}

func (s *Scope) setPending(target string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending[target] = true
}

// isPending reports whether this step, or one that it depends on, has a
// planned change within the system named by prefix.
func (s *Scope) isPending(prefix string) bool {
	return s.any(func(s *Scope) bool {
		for t := range s.pending {
			if t == everything || t == prefix || strings.HasPrefix(prefix, t+"/") || strings.HasPrefix(t, prefix) && (strings.HasSuffix(prefix, "/") || t[len(prefix)] == '/') {
				return true
			}
		}
		return false
	})
}

// any reports whether is is true of this step, or of one that it depends on.
func (s *Scope) any(is func(*Scope) bool) bool {
	seen := make(map[*sync.Mutex]bool)
	var visit func(s *Scope) bool
	visit = func(s *Scope) bool {
		if seen[s.mu] {
			return false
		}
		seen[s.mu] = true
		s.mu.Lock()
		found := is(s)
		s.mu.Unlock()
		return found || slices.ContainsFunc(s.Needs, visit)
	}
	return visit(s)
}

// A Dialer opens connections through somewhere else: a host that is reached by
// SSH gives one for what lies behind it. Modules take each other's transport
// only in this form.
type Dialer interface {
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	// Via names the way, for messages: "ssh/203.0.113.7".
	Via() string
	// Known reports whether the way exists already; in a plan it may not.
	Known() bool
}
