package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A state is how far a step is.
type state int

const (
	running state = iota
	ok
	skipped
	deferred
	stopped
	failed
	states // how many there are
)

// A node is a step in the tree: of a recipe, or an item of one that fans out.
type node struct {
	name, path string
	parent     *node
	parts      []*node
	state      state
	start      time.Time
	elapsed    time.Duration // once it ended
	counts     opCount       // of its parts, too
	ops        []op          // changes under way
	note       string        // what it is doing now, beside its ops
	noteColor  string
}

// An op is a change under way.
type op struct {
	target string
	word   word
	note   string
}

// A model is the tree of steps as the events told it.
type model struct {
	cfg   *Config
	root  node
	steps map[string]*node
	ended [states]int // steps by state; items don't count
	start time.Time
	now   func() time.Time
}

func newModel(c *Config) *model {
	return &model{cfg: c, steps: make(map[string]*node), start: c.Clock.Now(), now: c.Clock.Now}
}

// node returns the node of the step at path. A part of a step that isn't known
// yet, such as an item, which has no event for its start, begins now.
func (m *model) node(path string, at time.Time) *node {
	if path == "" {
		return &m.root
	}
	if n := m.steps[path]; n != nil {
		return n
	}
	parent := &m.root
	if p := parentOf(path); p != "" {
		parent = m.node(p, at)
	}
	n := &node{path: path, parent: parent, start: at}
	n.name = clean(m.cfg.Redactor.String(strings.TrimPrefix(strings.TrimPrefix(path, parent.path), "/")))
	where := len(parent.parts)
	for i := itemOf(n.name); where > 0 && i >= 0 && itemOf(parent.parts[where-1].name) > i; {
		where--
	}
	parent.parts = slices.Insert(parent.parts, where, n)
	m.steps[path] = n
	if !n.isItem() {
		m.ended[running]++
	}
	return n
}

func (n *node) isItem() bool { return ownerOf(n.path) != n.path }

// each calls f for n and all that it is part of, the root included.
func (n *node) each(f func(*node)) {
	for ; n != nil; n = n.parent {
		f(n)
	}
}

// apply takes an event into the model.
func (m *model) apply(e effect.Event) {
	switch e.Kind {
	case effect.RunStart:
		m.start = e.Time
	case effect.StepStart:
		n := m.node(e.Step, e.Time)
		n.start = e.Time
	case effect.StepSkip:
		if e.Message != "" { // done before: it has its result
			m.end(e, ok)
			return
		}
		m.end(e, skipped)
	case effect.StepEnd:
		switch {
		case e.Err == nil:
			m.end(e, ok)
		case fault.KindOf(e.Err) == fault.Cancelled:
			m.end(e, stopped)
		default:
			m.end(e, failed)
		}
	case effect.Deferred:
		m.end(e, deferred)
	case effect.OpStart:
		n := m.node(e.Step, e.Time)
		n.note = ""
		if e.Change != nil {
			n.ops = append(n.ops, op{target: m.clean(e.Target), word: wordFor(e.Change.Kind, m.cfg.ASCII)})
		}
	case effect.OpEnd, effect.OpPlan:
		m.endOp(e)
	case effect.OpRetry:
		m.tell(e, fmt.Sprintf("retry %d: %s", e.Try, m.why(e)), yellow)
	case effect.Progress:
		m.tell(e, m.clean(e.Message), "")
	case effect.Asked, effect.Answered:
		m.ask(e)
	case effect.Waiting:
		m.tell(e, "waiting for "+m.clean(e.Message), cyan)
	}
}

func (m *model) clean(s string) string { return oneLine(m.cfg.Redactor.String(s)) }

func (m *model) why(e effect.Event) string {
	if e.Err == nil {
		return ""
	}
	return reasonOf(e.Err, m.cfg.Redactor).message
}

// tell keeps what a step, or the op that the event names, is doing.
func (m *model) tell(e effect.Event, text, color string) {
	n := m.node(e.Step, e.Time)
	if target := m.clean(e.Target); target != "" {
		for i := range n.ops {
			if n.ops[i].target == target {
				n.ops[i].note, n.note = text, ""
				return
			}
		}
	}
	n.note, n.noteColor = text, color
}

func (m *model) endOp(e effect.Event) {
	n := m.node(e.Step, e.Time)
	target := m.clean(e.Target)
	for i := range n.ops {
		if n.ops[i].target == target {
			n.ops = append(n.ops[:i], n.ops[i+1:]...)
			break
		}
	}
	n.note = ""
	var add opCount
	switch kind := fault.KindOf(e.Err); {
	case kind == fault.Deferred:
	case kind == fault.Cancelled:
		add.stopped = 1
	case e.Attempt:
	case e.Err != nil:
		add.failed = 1
	case e.Change == nil || e.Change.Kind == effect.None:
		add.unchanged = 1
	case e.Change.Kind != effect.Later:
		add.changed = 1
	}
	n.each(func(n *node) { n.counts.add(add) })
}

// end ends a step, and its items, which have no end of their own.
func (m *model) end(e effect.Event, s state) {
	n := m.node(e.Step, e.Time)
	if !n.isItem() {
		m.ended[n.state]--
		m.ended[s]++
	}
	n.state, n.ops, n.note, n.elapsed = s, nil, "", e.Elapsed
	for _, p := range n.parts {
		if p.isItem() && p.state == running {
			p.state, p.elapsed = s, e.Time.Sub(p.start)
			switch {
			case s != failed && s != stopped:
			case p.counts.failed > 0:
				p.state = failed
			case len(p.ops) > 0 || p.counts.stopped > 0 || s == stopped:
				p.state = stopped
			default:
				p.state = ok
			}
			p.ops, p.note = nil, ""
		}
	}
}
