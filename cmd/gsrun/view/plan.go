package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A PlanData is what a plan found.
type PlanData struct {
	Recipe  string
	Changes []effect.Planned
	// Steps are the steps that were planned. Those that stopped say so by their
	// error; the others only give the order.
	Steps []runtime.StepResult
	// Stops are further places where the plan stopped, such as those of items
	// (see Stops).
	Stops []Stop
	// Questions are what a run would ask people (see Questions).
	Questions []Question
	// Order has the paths of steps in the order to show them. The others follow
	// in the order in which they ended.
	Order     []string
	Unchanged int
	// Err is what the plan failed with, without secrets; nil if it came to its
	// end. What was found before is shown all the same.
	Err error
	// Undeclared is what the site owns and the recipe no longer declares.
	Undeclared Undeclared
	// Budget is how many deletions the run may make, as effect.Door.Deletes:
	// less than 0 means no limit.
	Budget int
}

// deletions returns how many deletions the run would make, those included that
// it may, and whether its budget has too few.
func (p *PlanData) deletions() (n int, exceeded bool) {
	c := countsOf(p.Changes)
	n = c.Deleted + c.Replaced
	for _, ch := range p.Changes {
		if ch.Change.May != "" {
			n++
		}
	}
	return n, p.Budget >= 0 && n > p.Budget
}

// A Stop says that the plan of a step, or of one item of it, went no further.
type Stop struct {
	Step string
	Err  error
	Pos  string // file and line, if the error has none
}

// Stops collects the stops from the events of a plan. The zero value is ready
// for use, by several goroutines at once.
type Stops struct {
	mu  sync.Mutex
	all []Stop
}

// Event keeps e if it is a stop.
func (s *Stops) Event(e effect.Event) {
	if e.Kind != effect.Deferred {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, Stop{Step: e.Step, Err: e.Err, Pos: e.Pos})
}

// All returns the stops so far.
func (s *Stops) All() []Stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// PlanOptions say how a plan is shown.
type PlanOptions struct {
	Color, ASCII bool
	Full         bool             // show long texts whole
	Redactor     *effect.Redactor // may be nil
}

// branch is a step in the tree that a plan is shown as.
type branch struct {
	name, path string
	parts      []*branch
	byName     map[string]*branch
	changes    []effect.Planned
	stops      []Stop
	questions  []Question
}

// tree puts what the plan found into the tree of its steps. Steps without
// anything to show are left out by shows.
func (p *PlanData) tree() *branch {
	root := &branch{}
	for _, path := range p.Order {
		root.at(path)
	}
	stopped := make(map[string]bool)
	stop := func(s Stop) {
		if !stopped[s.Step] {
			stopped[s.Step] = true
			b := root.at(s.Step)
			b.stops = append(b.stops, s)
		}
	}
	for _, s := range p.Steps {
		root.at(s.Path)
		if s.Status == runtime.Deferred {
			stop(Stop{Step: s.Path, Err: s.Err})
		}
	}
	for _, s := range p.Stops {
		stop(s)
	}
	for _, c := range p.Changes {
		b := root.at(c.Step)
		b.changes = append(b.changes, c)
	}
	for _, q := range p.Questions {
		b := root.at(q.Step)
		b.questions = append(b.questions, q)
	}
	root.sortItems()
	return root
}

// at returns the branch of the step at path.
func (b *branch) at(path string) *branch {
	if path == "" {
		return b
	}
	parent := b
	if p := parentOf(path); p != "" {
		parent = b.at(p)
	}
	name := strings.TrimPrefix(strings.TrimPrefix(path, parent.path), "/")
	if found := parent.byName[name]; found != nil {
		return found
	}
	c := &branch{name: name, path: path}
	if parent.byName == nil {
		parent.byName = make(map[string]*branch)
	}
	parent.byName[name] = c
	parent.parts = append(parent.parts, c)
	return c
}

// sortItems puts items, which are planned at the same time, in order.
func (b *branch) sortItems() {
	for _, c := range b.parts {
		c.sortItems()
	}
	slices.SortStableFunc(b.parts, func(x, y *branch) int { return itemOf(x.name) - itemOf(y.name) })
}

// shows reports whether there is anything to show below b.
func (b *branch) shows() bool {
	return len(b.changes)+len(b.stops)+len(b.questions) > 0 || slices.ContainsFunc(b.parts, (*branch).shows)
}

// walk calls f for each branch that shows something, parents first.
func (b *branch) walk(depth int, f func(depth int, b *branch)) {
	for _, c := range b.parts {
		if c.shows() {
			f(depth, c)
			c.walk(depth+1, f)
		}
	}
}

// countsOf counts the changes by kind.
func countsOf(changes []effect.Planned) effect.Counts {
	var c effect.Counts
	for _, p := range changes {
		switch p.Change.Kind {
		case effect.Create:
			c.Created++
		case effect.Update:
			c.Updated++
		case effect.Replace:
			c.Replaced++
		case effect.Delete:
			c.Deleted++
		case effect.Run:
			c.Ran++
		case effect.Later:
			c.Later++
		}
	}
	return c
}

// Plan writes a plan for people: the tree of steps, under each its changes
// in their order, with what differs, and the counts at the end.
func Plan(w io.Writer, p PlanData, o PlanOptions) error {
	pal := palette(o.Color)
	d := details{palette: pal, ascii: o.ASCII, full: o.Full, r: o.Redactor}
	var b strings.Builder
	line := func(depth int, s string) {
		b.WriteString(strings.TrimRight(strings.Repeat("  ", depth)+s, " ") + "\n")
	}
	root := p.tree()
	own := func(depth int, br *branch) {
		for _, q := range br.questions {
			line(depth, pal.paint(cyan, "would ask: "+oneLine(o.Redactor.String(q.Text))))
		}
		for _, c := range br.changes {
			w := wordFor(c.Change.Kind, o.ASCII)
			head := pal.paint(w.color, w.sign) + " " + oneLine(o.Redactor.String(c.Target.String()))
			if note := noteOf(c.Change, o.Redactor); note != "" {
				head += pal.paint(dim, " ("+note+")")
			} else if c.Change.Kind == effect.Later && !c.Target.Unknown {
				head += pal.paint(dim, " "+effect.UnknownText)
			}
			line(depth, head)
			for _, l := range d.of(c.Target, c.Change) {
				line(depth+2, l)
			}
		}
		for _, s := range br.stops {
			line(depth, pal.paint(yellow, stopText(s.Err, s.Pos, o.Redactor)))
		}
	}
	own(0, root)
	stops := 0
	root.walk(0, func(depth int, br *branch) {
		if depth == 0 && b.Len() > 0 {
			b.WriteByte('\n')
		}
		line(depth, pal.paint(bold, clean(o.Redactor.String(br.name))))
		own(depth+1, br)
		stops += len(br.stops)
	})
	p.Undeclared.write(&b, pal, o)
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(p.verdict(stops+len(root.stops), pal, o.Redactor) + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// verdict returns the last lines of a plan, whose steps stopped at so many
// places: what it found, and what stands in the way of more.
func (p *PlanData) verdict(stops int, pal palette, r *effect.Redactor) string {
	c := countsOf(p.Changes)
	found := "no changes"
	if c.Changed()+c.Later > 0 {
		found = fmt.Sprintf("%d to create, %d to update, %d to replace, %d to delete, %d to run, %d known only after apply",
			c.Created, c.Updated, c.Replaced, c.Deleted, c.Ran, c.Later)
	}
	var s string
	switch {
	case p.Err != nil:
		s = pal.paint(statusColor(p.Err), "Plan incomplete: "+incomplete(p.Err, r)) + "; found so far: " + found + "."
	case c.Changed()+c.Later == 0 && stops == 0:
		s = "No changes."
	case c.Changed()+c.Later == 0:
		s = "Plan: no changes so far."
	default:
		s = "Plan: " + found + "."
	}
	if n, exceeded := p.deletions(); exceeded {
		more := ""
		if p.Err != nil || stops > 0 || c.Later > 0 {
			more = " or more"
		}
		s += "\n" + pal.paint(yellow, fmt.Sprintf("The run's budget is %s: it needs --max-deletes %d%s.", plural(p.Budget, "deletion"), n, more))
	}
	switch {
	case stops == 1:
		s += "\n1 step can be planned to its end only after what comes before it is applied."
	case stops > 1:
		s += fmt.Sprintf("\n%d steps can be planned to their end only after what comes before them is applied.", stops)
	}
	return s
}

// incomplete returns why a plan didn't come to its end: "step gateway/nat failed".
func incomplete(err error, r *effect.Redactor) string {
	if statusOf(err) == statusStopped {
		return "it was stopped"
	}
	if step := reasonOf(err, r).step; step != "" {
		return "step " + clean(r.String(step)) + " failed"
	}
	return "it failed"
}
