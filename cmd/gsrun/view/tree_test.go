package view

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A handClock stands still until it is moved on. Its sleepers wake only by
// tick, or when their context ends.
type handClock struct {
	mu   sync.Mutex
	now  time.Time
	wake chan struct{}
}

func newHandClock() *handClock { return &handClock{now: epoch, wake: make(chan struct{})} }

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) Sleep(ctx context.Context, _ time.Duration) error {
	select {
	case <-c.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *handClock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// A stage is a tree view on an emulator, painted by hand.
type stage struct {
	*tree
	emu   *emulator
	clock *handClock
}

func newStage(t *testing.T, width, height int, c Config) *stage {
	t.Helper()
	s := &stage{emu: newEmulator(width, height), clock: newHandClock()}
	c.Kind, c.Err, c.Clock = Tree, s.emu, s.clock
	c.Width, c.Height = s.emu.size()
	s.tree = New(c).(*tree)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// play shows events, with a picture after each.
func (s *stage) play(events ...effect.Event) {
	for _, e := range events {
		s.clock.set(e.Time)
		s.Event(e)
		s.picture()
	}
}

// picture paints and waits until the emulator has it.
func (s *stage) picture() {
	s.flush()
	s.paint(false)
	s.flush()
}

func (s *stage) flush() { settle(s.sink) }

func (s *stage) check(t *testing.T) {
	t.Helper()
	if len(s.emu.strange) > 0 {
		t.Errorf("the terminal got %v", s.emu.strange)
	}
}

func TestTree(t *testing.T) {
	for _, color := range []bool{false, true} {
		s := newStage(t, 100, 24, Config{Color: color})
		var frames strings.Builder
		for i, e := range aRun() {
			s.play(e)
			if i%6 == 0 && i > 0 {
				fmt.Fprintf(&frames, "--- after %d events\n%s\n", i+1, strings.Join(s.emu.screen(), "\n"))
			}
		}
		if !s.emu.hidden {
			t.Error("the cursor isn't hidden while the tree lives")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&frames, "--- at the end\n%s", s.emu.text())
		golden(t, "tree.txt", []byte(frames.String()))
		if s.emu.hidden {
			t.Error("the cursor isn't shown again")
		}
		if s.emu.col != 0 || s.emu.row != len(s.emu.rows)-1 || len(s.emu.rows[s.emu.row].cells) > 0 {
			t.Errorf("the cursor is left at row %d, column %d", s.emu.row, s.emu.col)
		}
		s.check(t)
	}
}

// Without UTF-8 and colours the tree keeps to ASCII and to moving the cursor.
func TestTreeInASCII(t *testing.T) {
	s := newStage(t, 80, 24, Config{ASCII: true})
	for _, e := range aRun() {
		if e.Kind == effect.Log {
			continue
		}
		s.play(e)
	}
	_ = s.Close()
	if text := s.emu.text(); strings.IndexFunc(text, func(r rune) bool { return r > 0x7e }) >= 0 {
		t.Errorf("not ASCII:\n%s", text)
	}
}

func TestTreeOfAPlan(t *testing.T) {
	s := newStage(t, 90, 30, Config{Verb: Planning})
	s.play(aPlanRun()...)
	_ = s.Close()
	golden(t, "tree_plan.txt", []byte(s.emu.text()))
	s.check(t)
}

// stepEvents are n steps, every third of which ends, every hundredth by a
// failure.
func stepEvents(n int) []effect.Event {
	var s script
	none := effect.Unchanged()
	for i := range n {
		name := fmt.Sprintf("fleet/step%04d", i)
		s.add(time.Millisecond, effect.Event{Kind: effect.StepStart, Step: name})
		s.add(0, effect.Event{Kind: effect.OpEnd, Step: name, Target: "t", Change: &none})
	}
	for i := range n {
		name := fmt.Sprintf("fleet/step%04d", i)
		switch {
		case i%100 == 99:
			s.add(time.Millisecond, effect.Event{Kind: effect.StepEnd, Step: name, Err: errors.New("broken")})
		case i%3 == 0:
			s.add(time.Millisecond, effect.Event{Kind: effect.StepEnd, Step: name})
		}
	}
	return s.events
}

func TestTreeOfAThousandSteps(t *testing.T) {
	const height = 20
	s := newStage(t, 80, height, Config{})
	for i, e := range stepEvents(1000) {
		s.clock.set(e.Time)
		s.Event(e)
		if i%37 != 0 {
			continue
		}
		s.picture()
		if n := len(s.shown); n > height-1 {
			t.Fatalf("a picture of %d lines on a terminal of %d", n, height)
		}
		// The tree is drawn over itself: it is on the screen once.
		if n := strings.Count(s.emu.text(), "running, "); n > 1 {
			t.Fatalf("after %d events the last line is there %d times:\n%s", i, n, s.emu.text())
		}
	}
	s.picture()
	screen := strings.Join(s.emu.screen(), "\n")
	for _, want := range []string{"330 steps done", "more lines", "661 running, 330 ok, 10 failed"} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q isn't on the screen:\n%s", want, screen)
		}
	}
	if n := strings.Count(s.emu.text(), "FAILED"); n != 10 {
		t.Errorf("%d failures scrolled past, want 10", n)
	}
	_ = s.Close()
	if n := strings.Count(s.emu.text(), "\n"); n > maxFinal+2*10+5 {
		t.Errorf("%d lines are left", n)
	}
	s.check(t)
}

// A small tree is shown whole, a larger one folds what ended first, and what
// failed never.
func TestFolding(t *testing.T) {
	var events script
	add := func(kind effect.EventKind, step string, err error) {
		events.add(0, effect.Event{Kind: kind, Step: step, Err: err})
	}
	for _, r := range []string{"one", "two"} {
		add(effect.StepStart, r, nil)
		for i := range 4 {
			add(effect.StepStart, fmt.Sprintf("%s/s%d", r, i), nil)
		}
	}
	for i := range 4 {
		add(effect.StepEnd, fmt.Sprintf("one/s%d", i), nil)
	}
	add(effect.StepEnd, "one", nil)
	add(effect.StepEnd, "two/s0", nil)
	add(effect.StepEnd, "two/s1", nil)
	add(effect.StepEnd, "two/s2", fault.New(fault.Failed, "broken"))
	names := func(height int) []string {
		m := newModel(&Config{Clock: newHandClock(), ASCII: true})
		for _, e := range events.events {
			m.apply(e)
		}
		var out []string
		for _, l := range m.frame(60, height, 0, false) {
			out = append(out, strings.Join(strings.Fields(l), " "))
		}
		return out[:len(out)-1]
	}
	zero := " 0.0s"
	whole := []string{"+ one" + zero, "+ s0" + zero, "+ s1" + zero, "+ s2" + zero, "+ s3" + zero, "| two" + zero, "+ s0" + zero, "+ s1" + zero, "x s2 failed" + zero, "| s3" + zero}
	for height, want := range map[int][]string{
		11: whole,
		10: {"+ one" + zero, "| two" + zero, "+ s0" + zero, "+ s1" + zero, "x s2 failed" + zero, "| s3" + zero},
		6:  {"+ one" + zero, "| two" + zero, "+ 2 steps done", "x s2 failed" + zero, "| s3" + zero},
		4:  {"+ one" + zero, "| two" + zero, "... 3 more lines"},
		1:  {},
	} {
		if got := names(height); !slices.Equal(got, want) {
			t.Errorf("height %d:\ngot  %q\nwant %q", height, got, want)
		}
	}
}

// No line is wider than the terminal, whatever is in it.
func TestTreeWidth(t *testing.T) {
	wide := "日本語のステップ🙂e\u0301" + strings.Repeat("長", 60)
	change := &effect.Change{Kind: effect.Create}
	for width := 1; width < 130; width += 3 {
		for _, color := range []bool{true, false} {
			s := newStage(t, width, 10, Config{Color: color})
			s.play(
				effect.Event{Time: epoch, Kind: effect.StepStart, Step: wide},
				effect.Event{Time: epoch, Kind: effect.StepStart, Step: "a/" + wide + "[3]"},
				effect.Event{Time: epoch, Kind: effect.OpStart, Step: "b", Target: wide, Change: change},
				effect.Event{Time: epoch, Kind: effect.Progress, Step: "b", Target: wide, Message: wide + evil},
				effect.Event{Time: epoch, Kind: effect.Waiting, Step: "c", Message: evil + wide},
			)
			for _, l := range s.shown {
				if n := textWidth(l); n >= width && width > 1 {
					t.Errorf("width %d: a line takes %d cells: %q", width, n, l)
				}
			}
			for _, r := range s.emu.rows {
				if r.wrapped && width > 2 {
					t.Errorf("width %d: a line wraps:\n%s", width, strings.Join(s.emu.screen(), "\n"))
					break
				}
			}
			_ = s.Close()
			s.check(t)
		}
	}
}

// A terminal that changes its size has the tree once, and what scrolled past
// stays whole.
func TestTreeResize(t *testing.T) {
	s := newStage(t, 100, 30, Config{})
	logs := 0
	last := regexp.MustCompile(`\d+ running.* \| `)
	sizes := [][2]int{{100, 30}, {40, 30}, {120, 12}, {33, 9}, {80, 24}, {20, 40}}
	for i, e := range aRun() {
		s.play(e)
		size := sizes[i%len(sizes)]
		s.emu.resize(size[0], size[1])
		s.play(effect.Event{Time: e.Time, Kind: effect.Log, Step: "x", Message: fmt.Sprintf("log-line-%d-with-%s-end", i, strings.Repeat("y", 30))})
		logs++
		text := s.emu.text()
		for j := range logs {
			if want := fmt.Sprintf("x: log: log-line-%d-with-%s-end", j, strings.Repeat("y", 30)); strings.Count(text, want) != 1 {
				t.Fatalf("after a resize to %v, %q is there %d times:\n%s", size, want, strings.Count(text, want), text)
			}
		}
		if n := len(last.FindAllString(text, -1)); n > 1 {
			t.Fatalf("after a resize to %v, the tree is there %d times:\n%s", size, n, text)
		}
	}
	_ = s.Close()
	s.check(t)
}

// The painter draws by itself, no more often than the clock lets it, and not at
// all if nothing changed.
func TestPainter(t *testing.T) {
	s := newStage(t, 80, 24, Config{})
	tick := func() {
		s.clock.wake <- struct{}{} // the painter wakes,
	}
	s.Event(effect.Event{Time: epoch, Kind: effect.StepStart, Step: "build"})
	s.Event(effect.Event{Time: epoch, Kind: effect.Log, Step: "build", Message: "hello"})
	s.flush()
	if n := s.emu.written; n > 1 {
		t.Errorf("%d writes before the first tick", n)
	}
	tick()
	tick() // and has painted once it takes the next
	tick()
	s.flush()
	if text := s.emu.text(); !strings.Contains(text, "build: log: hello") || !strings.Contains(text, "1 running") {
		t.Errorf("after a tick:\n%s", text)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := s.emu.text()
	s.Event(effect.Event{Time: epoch, Kind: effect.Log, Step: "build", Message: "too late"})
	if err := s.Close(); err != nil || s.emu.text() != before {
		t.Errorf("a second Close: %v\n%s", err, s.emu.text())
	}
	if !strings.Contains(before, "not ended") {
		t.Errorf("a step that runs at the end:\n%s", before)
	}
}
