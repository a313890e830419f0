package view

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A gate is a terminal that is stopped until it is opened.
type gate struct {
	open chan struct{}
	mu   sync.Mutex
	got  strings.Builder
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.got.Write(p)
}

// settle waits until s has written all.
func settle(s *sink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.buf) > 0 || s.busy {
		s.cond.Wait()
	}
}

// A terminal that is stopped doesn't stop the run, and gets all in the end.
func TestStoppedTerminal(t *testing.T) {
	const n = 2000
	for _, kind := range []Kind{Plain, JSON, Tree} {
		g := &gate{open: make(chan struct{})}
		clock := newHandClock()
		v := New(Config{Kind: kind, Out: g, Err: g, Clock: clock})
		for i := range n {
			v.Event(effect.Event{Time: epoch, Kind: effect.Log, Step: "s", Message: fmt.Sprintf("line %d.", i)})
		}
		close(g.open)
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if !strings.Contains(g.got.String(), fmt.Sprintf("line %d.", i)) {
				t.Fatalf("%s: line %d is lost", kind, i)
			}
		}
	}
}

// One that is stopped for long makes the run wait instead of taking all memory.
func TestMemoryIsBounded(t *testing.T) {
	for _, kind := range []Kind{Plain, JSON, Tree} {
		g := &gate{open: make(chan struct{})}
		v := New(Config{Kind: kind, Out: g, Err: g, Clock: newHandClock()})
		const lines = 20
		big := strings.Repeat("x", 1<<20)
		sent := make(chan int, 100)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range lines {
				v.Event(effect.Event{Time: epoch, Kind: effect.Log, Step: "s", Message: big})
				sent <- i
			}
		}()
		last := -1
		for last < maxPending>>20-1 {
			last = <-sent
		}
		if tr, ok := v.(*tree); ok {
			// A picture hands over what has waited; that the terminal is behind
			// holds the next one back.
			tr.mu.Lock()
			held := tr.above.Len()
			tr.mu.Unlock()
			if held > maxPending+2<<20 {
				t.Errorf("%s: %d bytes are held", kind, held)
			}
			close(g.open)
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
			<-done
			continue
		}
		select {
		case <-done:
			t.Errorf("%s: %d MiB were taken by an output that is stopped", kind, lines)
		default:
		}
		close(g.open)
		<-done
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(g.got.String(), big); n != lines {
			t.Errorf("%s: %d of %d lines arrived", kind, n, lines)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestBrokenOutput(t *testing.T) {
	for _, kind := range []Kind{Plain, JSON, Tree} {
		v := New(Config{Kind: kind, Out: broken{}, Err: broken{}, Clock: newHandClock()})
		for range 500 {
			v.Event(effect.Event{Time: epoch, Kind: effect.Log, Step: "s", Message: strings.Repeat("x", 20<<10)})
			if tr, ok := v.(*tree); ok {
				settle(tr.sink)
				tr.paint(false)
			}
		}
		if err := v.Close(); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: Close returns %v", kind, err)
		}
	}
}

// Many goroutines show events at once; each line stays whole.
func TestConcurrentEvents(t *testing.T) {
	for _, kind := range []Kind{Plain, JSON, Tree} {
		g := &gate{open: make(chan struct{})}
		close(g.open)
		clock := newHandClock()
		v := New(Config{Kind: kind, Out: g, Err: g, Clock: clock, Color: true})
		change := &effect.Change{Kind: effect.Create, Fields: []effect.Field{{Path: "a", New: secret()}}}
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				step := fmt.Sprintf("recipe%d/step%d", i%3, i)
				v.Event(effect.Event{Time: epoch, Kind: effect.StepStart, Step: step})
				for j := range 50 {
					target := fmt.Sprintf("t/%d", j)
					v.Event(effect.Event{Time: epoch, Kind: effect.OpStart, Step: step, Target: target, Change: change})
					v.Event(effect.Event{Time: epoch, Kind: effect.Waiting, Step: step, Target: target, Message: target})
					v.Event(effect.Event{Time: epoch, Kind: effect.OpEnd, Step: step, Target: target, Change: change})
					v.Event(effect.Event{Time: epoch, Kind: effect.Log, Step: step, Message: fmt.Sprintf("mark-%d-%d.", i, j)})
				}
				v.Event(effect.Event{Time: epoch, Kind: effect.StepEnd, Step: step})
			})
		}
		stop := make(chan struct{})
		wg.Go(func() {
			for range 20 {
				if kind == Tree {
					clock.wake <- struct{}{}
				}
			}
			close(stop)
		})
		wg.Wait()
		<-stop
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range 16 {
			for j := range 50 {
				if n := strings.Count(g.got.String(), fmt.Sprintf("mark-%d-%d.", i, j)); n != 1 {
					t.Fatalf("%s: log %d of step %d is there %d times", kind, j, i, n)
				}
			}
		}
	}
}
