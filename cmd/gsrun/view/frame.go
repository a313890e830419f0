package view

import (
	"fmt"
	"strings"
	"time"
)

// The fold levels: what the tree leaves out where it is higher than the
// terminal.
const (
	foldNothing  = iota
	foldFinished // the parts of what ended well
	foldSiblings // what ended well beside each other becomes one line
	folds
)

// A frame builds one picture of the tree.
type frame struct {
	palette
	m     *model
	width int // cells that a line may take
	fold  int
	room  int // lines left
	left  int // lines that had no room
	final bool
	tick  int
	now   time.Time
	lines []string
	name  int // cells of the column of names
}

// frame returns the lines of the tree, at most height of them, each at most
// width cells wide. The final picture stands still.
func (m *model) frame(width, height, tick int, final bool) []string {
	f := &frame{palette: palette(m.cfg.Color), m: m, width: width, final: final, tick: tick, now: m.now()}
	room := max(height-1, 0) // the last line has the totals
	for f.fold = foldNothing; f.fold < folds-1; f.fold++ {
		if f.count(&m.root) <= room {
			break
		}
	}
	if total := f.count(&m.root); total > room {
		room = max(room-1, 0) // for how many are left out
	}
	f.room = room
	f.name = min(f.nameWidth(&m.root, 0, new(int)), 36)
	f.parts(&m.root, 0)
	if f.left > 0 && height > 1 {
		f.lines = append(f.lines, f.fit("  "+f.paint(dim, f.ellipsis()+" "+plural(f.left, "more line"))))
	}
	return append(f.lines, f.fit(f.totals()))
}

func (f *frame) ellipsis() string {
	if f.m.cfg.ASCII {
		return "..."
	}
	return "…"
}

func (f *frame) fit(s string) string { return cut(s, f.width, f.ellipsis()) }

// well reports whether n ended in a way that needs no attention.
func (n *node) well() bool { return n.state == ok || n.state == skipped }

// shown returns the parts of n that have a line of their own, and the number of
// those that are folded into one.
func (f *frame) shown(n *node, each func(*node)) (folded int) {
	if f.fold >= foldFinished && n.parent != nil && n.well() {
		return 0
	}
	if f.fold >= foldSiblings {
		for _, p := range n.parts {
			if p.well() {
				folded++
			}
		}
		if folded == 1 {
			folded = 0
		}
	}
	for _, p := range n.parts {
		if folded == 0 || !p.well() {
			each(p)
		}
	}
	return folded
}

// count returns the number of lines below n.
func (f *frame) count(n *node) int {
	lines := 0
	if f.shown(n, func(p *node) { lines += 1 + f.count(p) }) > 0 {
		lines++
	}
	return lines
}

// nameWidth returns the cells that the names of the lines that have room take.
func (f *frame) nameWidth(n *node, depth int, seen *int) int {
	wide := 0
	f.shown(n, func(p *node) {
		if *seen++; *seen > f.room {
			return
		}
		wide = max(wide, 2*depth+textWidth(p.name), f.nameWidth(p, depth+1, seen))
	})
	return wide
}

// add adds a line if there is room for one.
func (f *frame) add(line func() string) {
	if f.room == 0 {
		f.left++
		return
	}
	f.room--
	f.lines = append(f.lines, line())
}

// parts adds the lines below n.
func (f *frame) parts(n *node, depth int) {
	var pending []*node
	folded := f.shown(n, func(p *node) { pending = append(pending, p) })
	if folded > 0 {
		f.add(func() string { return f.foldedLine(n, depth, folded) })
	}
	for _, p := range pending {
		f.add(func() string { return f.line(p, depth) })
		f.parts(p, depth+1)
	}
}

func (f *frame) foldedLine(n *node, depth, folded int) string {
	changed := 0
	for _, p := range n.parts {
		if p.well() {
			changed += p.counts.changed
		}
	}
	text := plural(folded, "step") + " done"
	if changed > 0 {
		text += fmt.Sprintf(", %d changed", changed)
	}
	return f.fit(strings.Repeat("  ", depth) + f.sign(ok) + " " + f.paint(dim, text))
}

func (f *frame) sign(s state) string {
	signs, color := [states]string{"", "✓", "–", "…", "■", "✗"}, [states]string{cyan, green, dim, yellow, yellow, red}[s]
	spinner := []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}
	if f.m.cfg.ASCII {
		signs = [states]string{"", "+", "-", ".", "!", "x"}
		spinner = []string{"|", "/", "-", `\`}
	}
	signs[running] = spinner[f.tick%len(spinner)]
	if f.final {
		signs[running] = signs[stopped]
	}
	return f.paint(color, signs[s])
}

// line returns the line of one step. Its time stays where its text is cut.
func (f *frame) line(n *node, depth int) string {
	indent := strings.Repeat("  ", depth)
	name := n.name
	switch n.state {
	case running:
		name = f.paint(bold, name)
	case skipped:
		name = f.paint(dim, name)
	}
	head := indent + f.sign(n.state) + " "
	text := f.doing(n)
	elapsed := ""
	if n.state != skipped && n.state != deferred {
		d := n.elapsed
		if n.state == running {
			d = f.now.Sub(n.start)
		}
		elapsed = f.paint(dim, took(d))
	}
	if text == "" && elapsed == "" {
		return f.fit(head + name)
	}
	head = cut(head+pad(name, f.name-2*depth), max(f.width*2/3, 1), f.ellipsis())
	room := f.width - textWidth(head) - 2
	if elapsed != "" {
		room -= textWidth(elapsed) + 2
	}
	if room > 3 && text != "" {
		head += "  " + cut(text, room, f.ellipsis())
	}
	if elapsed != "" {
		head += "  " + elapsed
	}
	return f.fit(head)
}

// doing returns what a step is doing now, or did.
func (f *frame) doing(n *node) string {
	of := n.counts
	if n.state == stopped {
		of.stopped = 0 // the line says so already
	}
	counts := of.tally(f.m.cfg.Verb)
	switch n.state {
	case skipped:
		return f.paint(dim, "skipped")
	case deferred:
		return join(counts, f.paint(yellow, "deferred"))
	case stopped:
		return join(f.paint(yellow, "stopped"), counts)
	case failed:
		return join(f.paint(red, "failed"), counts)
	case ok:
		return counts
	}
	if f.final {
		return join(f.paint(yellow, "not ended"), counts)
	}
	if n.note != "" {
		return f.paint(n.noteColor, n.note)
	}
	if last := len(n.ops) - 1; last >= 0 {
		o := n.ops[last]
		text := f.paint(o.word.color, o.word.now) + " " + o.target
		if o.note != "" {
			text += ": " + o.note
		}
		if last > 0 {
			text += fmt.Sprintf(" (and %d more)", last)
		}
		return text
	}
	return counts
}

func join(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return a + ", " + b
}

// totals returns the last line: how many steps and changes there were.
func (f *frame) totals() string {
	var parts []string
	words := [states]string{"running", "ok", "skipped", "deferred", "stopped", "failed"}
	colors := [states]string{cyan, "", "", yellow, yellow, red}
	if f.final {
		words[running] = "not ended"
	}
	for s, n := range f.m.ended {
		if n > 0 {
			parts = append(parts, f.paint(colors[s], fmt.Sprintf("%d %s", n, words[s])))
		}
	}
	c := f.m.root.counts
	steps := strings.Join(parts, ", ")
	if steps == "" {
		steps = "no steps yet"
		if f.final {
			steps = "no steps"
		}
	}
	text := "  " + steps
	if n := c.tally(f.m.cfg.Verb); n != "" {
		text += f.paint(dim, " | ") + n
	}
	return text + f.paint(dim, " | "+took(f.now.Sub(f.m.start)))
}
