package inject_test

import (
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
)

type fault struct {
	id                        string
	skip, count, chance, hits int
	on                        string
}

func newSet() *inject.Set[fault] {
	return inject.New("part", func(f *fault) inject.Turns {
		return inject.Turns{ID: &f.id, Skip: &f.skip, Count: &f.count, Chance: &f.chance, Hits: &f.hits}
	})
}

// take returns the ids of the faults that n requests get.
func take(s *inject.Set[fault], on string, n int) (ids []string) {
	for range n {
		id := ""
		if f := s.Take(func(f *fault) bool { return f.on == on }); f != nil {
			id = f.id
		}
		ids = append(ids, id)
	}
	return ids
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}

func TestTurns(t *testing.T) {
	s := newSet()
	s.Add(fault{on: "a"})
	s.Add(fault{on: "a", id: "mine", skip: 1, count: 2})
	if !s.Live() {
		t.Error("not live")
	}
	equal(t, take(s, "a", 5), "part-1", "", "mine", "mine", "")
	if s.Live() {
		t.Error("live, though all are used up")
	}
	s.Add(fault{on: "b", count: -1})
	equal(t, take(s, "b", 3), "part-3", "part-3", "part-3")
	if all := s.List(); len(all) != 3 || all[1].hits != 2 || all[2].hits != 3 {
		t.Errorf("%+v", all)
	}
	if s.Clear("none") != 0 || s.Clear("mine") != 1 || s.Clear("") != 2 || len(s.List()) != 0 {
		t.Errorf("clearing left %+v", s.List())
	}
}

func TestMethod(t *testing.T) {
	for want, have := range map[string]string{"": "GET", "*": "POST", "write": "DELETE", "PATCH": "PATCH"} {
		if !inject.Method(want, have) {
			t.Errorf("%q isn't about %s", want, have)
		}
	}
	if inject.Method("write", "GET") || inject.Method("POST", "PUT") {
		t.Error("another method")
	}
}

// A fault that passes by chance leaves the request to the next one, and the
// same seed gives the same faults.
func TestChance(t *testing.T) {
	run := func(seed uint64) []string {
		s := newSet()
		s.Seed(seed)
		s.Add(fault{on: "a", id: "rare", count: -1, chance: 30})
		s.Add(fault{on: "a", id: "rest", count: -1})
		return take(s, "a", 200)
	}
	first, rare := run(7), 0
	for _, id := range first {
		if id == "rare" {
			rare++
		}
	}
	if rare < 20 || rare > 100 {
		t.Errorf("%d of 200", rare)
	}
	equal(t, run(7), first...)
}
