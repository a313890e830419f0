package journal

import (
	"os"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func TestWaiting(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	held, err := s.Lock(Holder{Recipe: "x", Run: "r"})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	j, err := s.Start(Entry{Run: "r", Recipe: "x"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	check := func(when, status string, want ...string) {
		t.Helper()
		runs, err := s.Runs()
		if err != nil {
			t.Fatal(err)
		}
		if runs[0].Status != status || len(runs[0].Waits) != len(want) {
			t.Fatalf("%s: %s %v, want %s %v", when, runs[0].Status, runs[0].Waits, status, want)
		}
		for i, w := range want {
			if runs[0].Waits[i] != w {
				t.Errorf("%s: %v, want %v", when, runs[0].Waits, want)
			}
		}
	}
	ask := func(id, step string, until time.Time) effect.Question {
		t.Helper()
		q := effect.Question{ID: id, Step: step, Text: "text of " + id, Asked: time.Now(), Until: until}
		if err := j.Ask(q); err != nil {
			t.Fatal(err)
		}
		return q
	}
	later := time.Now().Add(time.Hour)
	check("nothing asked", "running")
	one := ask("1", "a", later)
	ask("2", "b", later)
	check("two asked", "waiting", "text of 1", "text of 2")
	if err := j.Answer(one, effect.Answer{Approved: true, By: "me@here"}); err != nil {
		t.Fatal(err)
	}
	check("one answered", "waiting", "text of 2")
	if err := j.Step(Entry{Step: "b", Status: "failed"}, 0, nil); err != nil {
		t.Fatal(err)
	}
	ask("3", "c", time.Now().Add(-time.Second))
	check("the other's step ended, a third's time is over", "running")
	ask("4", "d", later)
	check("a fourth", "waiting", "text of 4")
	j, err = s.Continue("r", "me", Options{})
	if err != nil {
		t.Fatal(err)
	}
	check("who asked is gone", "running")
	ask("6", "d", later)
	held.Release()
	if !s.Ended("r") {
		t.Error("somebody works at a run whose lock is free")
	}
	check("nobody works at it", "unfinished")
	ask("5", "d", later)
	if err := j.End("failed", 0, nil); err != nil {
		t.Fatal(err)
	}
	check("it ended", "failed")
	entries, _, err := s.Read("r")
	if err != nil {
		t.Fatal(err)
	}
	past, err := PastOf(t.Context(), entries, effect.Codec{})
	if err != nil || len(past.Approved) != 1 || past.Approved["1"].By != "me@here" {
		t.Errorf("approved: %v %v", past, err)
	}
}

// TestGiveAnswer: of many who answer at once, one counts, and all learn which.
func TestGiveAnswer(t *testing.T) {
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, given, err := s.GivenAnswer("r", "1"); given || err != nil {
		t.Errorf("before: %v %v", given, err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	firsts, answers := 0, make(map[string]int)
	for i := range 20 {
		wg.Go(func() {
			a, first, err := s.GiveAnswer("r", "1", effect.Answer{Approved: i%2 == 0, By: string(rune('a' + i)), At: time.Now()})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if first {
				firsts++
			}
			answers[a.By]++
		})
	}
	wg.Wait()
	a, given, err := s.GivenAnswer("r", "1")
	if firsts != 1 || len(answers) != 1 || !given || err != nil || answers[a.By] != 20 {
		t.Errorf("%d were first, answers %v, now %v %v %v", firsts, answers, a, given, err)
	}
	if err := s.ForgetAnswer("r", "1"); err != nil {
		t.Fatal(err)
	}
	if _, given, err := s.GivenAnswer("r", "1"); given || err != nil {
		t.Errorf("after: %v %v", given, err)
	}
	for _, text := range []string{"", "{}", `{"answer":"maybe","by":"x"}`, `{"answer":"approved"}`} {
		if err := os.WriteFile(s.answerPath("r", "2"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, given, err := s.GivenAnswer("r", "2"); given || err == nil {
			t.Errorf("%q is taken for an answer", text)
		}
	}
}
