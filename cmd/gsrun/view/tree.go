package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// framePause is the time between two pictures of the tree.
const framePause = 100 * time.Millisecond

// maxFinal is how many lines the tree that stays has at most.
const maxFinal = 100

// tree is a live tree of steps at the bottom of a terminal. What happened
// scrolls past above it.
type tree struct {
	cfg  Config
	sink *sink
	stop context.CancelFunc
	done chan struct{} // closed when the painter has ended

	mu     sync.Mutex
	cond   *sync.Cond // signalled when above was taken
	model  *model
	tell   teller
	above  strings.Builder // lines that are to scroll past
	closed bool

	// Of the painter, and of Close after it.
	tick  int
	shown []string // the lines on the terminal
}

func newTree(c Config) View {
	ctx, stop := context.WithCancel(context.Background())
	t := &tree{cfg: c, sink: newSink(c.Err), stop: stop, done: make(chan struct{}), tell: newTeller(c)}
	t.model = newModel(&t.cfg)
	t.cond = sync.NewCond(&t.mu)
	t.sink.write("\x1b[?25l")
	go func() {
		defer close(t.done)
		for c.Clock.Sleep(ctx, framePause) == nil {
			t.paint(false)
		}
	}()
	return t
}

func (t *tree) Event(e effect.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.above.Len() > maxPending && !t.closed {
		t.cond.Wait()
	}
	if t.closed {
		return
	}
	t.model.apply(e)
	t.above.WriteString(t.tell.above(e))
}

func (t *tree) Close() error {
	t.mu.Lock()
	again := t.closed
	t.closed = true
	t.cond.Broadcast()
	t.mu.Unlock()
	t.stop()
	<-t.done
	if !again {
		t.paint(true)
	}
	return t.sink.close()
}

// paint brings the terminal up to date, unless it is behind with the picture
// before.
func (t *tree) paint(final bool) {
	if !final && !t.sink.idle() {
		return
	}
	width, height := t.cfg.size()
	cells := max(width-1, 1) // the last column stays free: a terminal may wrap there
	rows := max(height-1, 1) // the cursor stands below the tree
	t.mu.Lock()
	t.tick++
	above := t.above.String()
	t.above.Reset()
	t.cond.Broadcast()
	if final {
		rows = maxFinal
	}
	lines := t.model.frame(cells, rows, t.tick, final)
	t.mu.Unlock()

	var b strings.Builder
	if above != "" || final || !slices.Equal(lines, t.shown) {
		if n := min(height-1, rowsOf(t.shown, width)); n > 0 {
			fmt.Fprintf(&b, "\x1b[%dA\r", n)
		}
		if above != "" {
			b.WriteString("\x1b[J")
			b.WriteString(above)
		}
		for _, l := range lines {
			b.WriteString(l)
			b.WriteString("\x1b[K\n")
		}
		b.WriteString("\x1b[J")
	}
	if final {
		b.WriteString("\x1b[?25h")
	}
	t.shown = lines
	if b.Len() > 0 {
		t.sink.write(b.String())
	}
}

// rowsOf returns the number of rows that lines take on a terminal which is that
// wide now: one that was made narrower has wrapped them.
func rowsOf(lines []string, width int) int {
	n := 0
	for _, l := range lines {
		n += max(1, (textWidth(l)+width-1)/width)
	}
	return n
}

// above returns what scrolls past above the tree for an event: changes, logs,
// failures; not what the tree itself shows.
func (t *teller) above(e effect.Event) string {
	switch e.Kind {
	case effect.StepStart, effect.StepSkip, effect.Progress, effect.Waiting:
		return ""
	case effect.StepEnd:
		// A recipe that failed by one of its steps is told by that step.
		if e.Err == nil || !within(reasonOf(e.Err, t.cfg.Redactor).step, e.Step) {
			t.forget(e.Step)
			return ""
		}
	}
	return t.lines(e)
}

// within reports whether a failure that names a step, or none, is that of the
// step at path itself.
func within(step, path string) bool { return step == "" || step == path }
