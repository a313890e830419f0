// Package inject keeps the faults that a part of the lab was told to have, and
// decides which of them a request gets.
package inject

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Turns are the fields by which a fault says when it acts. Each part of the
// lab has faults of its own, which all have these.
type Turns struct {
	ID     *string // made up if empty
	Skip   *int    // matches to let pass first
	Count  *int    // how often it acts: 0 is once, -1 always
	Chance *int    // at how many of 100 matches it acts; 0 is all
	Hits   *int    // how often it has acted
}

// A Set is the faults of one part. It may be used by several goroutines.
type Set[F any] struct {
	name  string
	turns func(*F) Turns

	mu   sync.Mutex
	next int
	all  []*F
	dice *rand.Rand
}

// New returns an empty set. The name begins the ids that are made up; turns
// returns the fields of a fault.
func New[F any](name string, turns func(*F) Turns) *Set[F] {
	return &Set[F]{name: name, turns: turns, dice: rand.New(rand.NewPCG(1, 1))}
}

// Seed makes the chances of the faults repeatable.
func (s *Set[F]) Seed(seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dice = rand.New(rand.NewPCG(seed, seed))
}

// Add adds a fault and returns its id.
func (s *Set[F]) Add(f F) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.turns(&f)
	if s.next++; *t.ID == "" {
		*t.ID = s.name + "-" + strconv.Itoa(s.next)
	}
	if *t.Count == 0 {
		*t.Count = 1
	}
	*t.Hits = 0
	s.all = append(s.all, &f)
	return *t.ID
}

// Take returns a copy of the first fault that matches and isn't used up, and
// counts it; nil if there is none.
func (s *Set[F]) Take(match func(*F) bool) *F {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.all {
		t := s.turns(f)
		if used(t) || !match(f) {
			continue
		}
		if *t.Skip > 0 {
			*t.Skip--
			continue
		}
		if *t.Chance > 0 && s.dice.IntN(100) >= *t.Chance {
			continue
		}
		*t.Hits++
		taken := *f
		return &taken
	}
	return nil
}

func used(t Turns) bool { return *t.Count >= 0 && *t.Hits >= *t.Count }

// Live reports whether a fault can still act.
func (s *Set[F]) Live() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.all {
		if !used(s.turns(f)) {
			return true
		}
	}
	return false
}

// List returns copies of the faults, those that are used up included.
func (s *Set[F]) List() []F {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]F, len(s.all))
	for i, f := range s.all {
		out[i] = *f
	}
	return out
}

// Clear removes the faults of that id, or all for an empty one, and returns
// how many there were.
func (s *Set[F]) Clear(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	var kept []*F
	for _, f := range s.all {
		if id != "" && *s.turns(f).ID != id {
			kept = append(kept, f)
		}
	}
	removed := len(s.all) - len(kept)
	s.all = kept
	return removed
}

// RetryAfter returns the value of the header Retry-After that a fault asks
// for. "+2s" is the date in two seconds; all else is taken as it is.
func RetryAfter(value string) string {
	if d, err := time.ParseDuration(value); err == nil && strings.HasPrefix(value, "+") {
		// A date has whole seconds: the next one is never too early.
		return time.Now().Add(d + time.Second - 1).UTC().Format(http.TimeFormat)
	}
	return value
}

// Writes is the method by which a fault means all requests that change
// something.
const Writes = "write"

// Method reports whether a fault of method want is about a request of method
// have.
func Method(want, have string) bool {
	switch want {
	case "", "*":
		return true
	case Writes:
		return have != http.MethodGet && have != http.MethodHead
	}
	return want == have
}
