package view

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// progressPause is the shortest time between two lines about the progress of
// one step.
const progressPause = 5 * time.Second

// plain writes a line for each event that is worth one: "gateway/nat: updated
// ssh/gw/file/etc/nftables.conf (0.4s)". Each line begins with the step's path.
type plain struct {
	tell teller
	sink *sink
	mu   sync.Mutex
}

func newPlain(c Config) View {
	return &plain{tell: newTeller(c), sink: newSink(c.Err)}
}

func (p *plain) Event(e effect.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := p.tell.lines(e); text != "" {
		p.sink.write(text)
	}
}

func (p *plain) Close() error { return p.sink.close() }

// A teller turns events into lines.
type teller struct {
	palette
	cfg   Config
	steps map[string]*told
}

// told is what was told of a step.
type told struct {
	seen     map[string]string // by target: what a wait saw last
	progress string
	at       time.Time // of the last line on progress
	failed   []string  // what ops failed with
	retried  retried   // what the last retry was for
	items    []string  // the paths of the items of a step that fans out
	counts   opCount
}

// A retried says what failed before a retry, and of what.
type retried struct{ target, message string }

func newTeller(c Config) teller {
	return teller{palette: palette(c.Color), cfg: c, steps: make(map[string]*told)}
}

func (t *teller) step(path string) *told {
	s := t.steps[path]
	if s == nil {
		s = &told{seen: make(map[string]string)}
		t.steps[path] = s
		if owner := ownerOf(path); owner != path {
			o := t.step(owner)
			o.items = append(o.items, path)
		}
	}
	return s
}

// forget drops what was told of a step that ended, and of its items.
func (t *teller) forget(path string) {
	if s := t.steps[path]; s != nil {
		for _, item := range s.items {
			delete(t.steps, item)
		}
		delete(t.steps, path)
	}
}

// count calls add for a step and for all that it is part of.
func (t *teller) count(path string, add func(*told)) {
	for ; path != ""; path = parentOf(path) {
		add(t.step(path))
	}
}

// lines returns what to say of e, each line with a newline; "" for nothing.
func (t *teller) lines(e effect.Event) string {
	switch e.Kind {
	case effect.RunStart, effect.RunEnd:
		return t.runLine(e)
	case effect.StepStart:
		if t.cfg.Verbose && e.Message != "" {
			first, _, _ := strings.Cut(e.Message, "\n")
			return t.line(e.Step, "", "started: "+clean(t.cfg.Redactor.String(first)))
		}
		return t.line(e.Step, "", "started")
	case effect.StepEnd:
		return t.stepEnd(e)
	case effect.StepSkip:
		t.forget(e.Step)
		if e.Message != "" { // done before
			return t.line(e.Step, dim, oneLine(t.cfg.Redactor.String(e.Message)))
		}
		return t.line(e.Step, dim, "skipped")
	case effect.Deferred:
		t.forget(e.Step)
		return t.line(e.Step, yellow, stopText(e.Err, e.Pos, t.cfg.Redactor))
	case effect.OpEnd:
		return t.opEnd(e)
	case effect.OpPlan:
		return t.opPlan(e)
	case effect.OpRetry:
		return t.retry(e)
	case effect.Progress:
		return t.progress(e)
	case effect.Waiting:
		return t.waiting(e)
	case effect.Asked, effect.Answered:
		return t.asked(e)
	case effect.Log:
		var b strings.Builder
		for _, l := range lines(t.cfg.Redactor.String(e.Message)) {
			b.WriteString(t.line(e.Step, "", "log: "+l))
		}
		return b.String()
	}
	return ""
}

// line returns one line about a step; color is that of the text.
func (t *teller) line(step, color, text string) string {
	if step == "" {
		return t.paint(color, text) + "\n"
	}
	return t.paint(bold, clean(t.cfg.Redactor.String(step))+":") + " " + t.paint(color, text) + "\n"
}

func (t *teller) runLine(e effect.Event) string {
	if e.Message == "" {
		return ""
	}
	return t.line("", "", oneLine(t.cfg.Redactor.String(e.Message)))
}

func (t *teller) stepEnd(e effect.Event) string {
	s := t.step(e.Step)
	t.forget(e.Step)
	if e.Err == nil {
		text := "ok"
		if n := s.counts.tally(t.cfg.Verb); n != "" {
			text += ", " + n
		}
		return t.line(e.Step, green, text+" ("+took(e.Elapsed)+")")
	}
	r := reasonOf(e.Err, t.cfg.Redactor)
	head, color := "FAILED ("+took(e.Elapsed)+")", statusColor(e.Err)
	if statusOf(e.Err) == statusStopped {
		head = "stopped (" + took(e.Elapsed) + ")"
	}
	if r.step != "" && r.step != e.Step {
		return t.line(e.Step, color, head+" in "+clean(t.cfg.Redactor.String(r.step)))
	}
	for _, f := range s.failed {
		if strings.Contains(r.message, f) {
			return t.line(e.Step, color, head)
		}
	}
	return t.line(e.Step, color, head+": "+r.message) + t.hint(e.Step, r)
}

func (t *teller) opEnd(e effect.Event) string {
	target := oneLine(t.cfg.Redactor.String(e.Target))
	if e.Err != nil {
		r := reasonOf(e.Err, t.cfg.Redactor)
		switch r.kind {
		case fault.Deferred:
			return ""
		case fault.Cancelled:
			return t.opStopped(e, target)
		}
		if e.Attempt {
			return t.line(e.Step, yellow, "attempt failed after "+took(e.Elapsed)+": "+withTarget(target, r.message))
		}
		t.count(e.Step, func(s *told) {
			s.counts.failed++
			s.failed = append(s.failed, r.message)
		})
		return t.line(e.Step, red, "failed after "+took(e.Elapsed)+": "+withTarget(target, r.message)) + t.hint(e.Step, r)
	}
	if e.Change == nil || e.Change.Kind == effect.None {
		t.count(e.Step, func(s *told) { s.counts.unchanged++ })
		if !t.cfg.Verbose {
			return ""
		}
		return t.line(e.Step, dim, "unchanged "+target+" ("+took(e.Elapsed)+")")
	}
	t.count(e.Step, func(s *told) { s.counts.changed++ })
	w := wordFor(e.Change.Kind, t.cfg.ASCII)
	return t.line(e.Step, w.color, w.done+" "+target+t.fieldNames(e.Change)+" ("+took(e.Elapsed)+")")
}

// opStopped tells of a change that was under way when the run was stopped: it
// may have been made or not.
func (t *teller) opStopped(e effect.Event, target string) string {
	t.count(e.Step, func(s *told) { s.counts.stopped++ })
	if e.Change == nil {
		return ""
	}
	return t.line(e.Step, yellow, "stopped while "+wordFor(e.Change.Kind, t.cfg.ASCII).now+" "+target+" ("+took(e.Elapsed)+")")
}

func (t *teller) opPlan(e effect.Event) string {
	if e.Change == nil {
		return ""
	}
	target := oneLine(t.cfg.Redactor.String(e.Target))
	w := wordFor(e.Change.Kind, t.cfg.ASCII)
	text := "would " + w.plan + " " + target + t.fieldNames(e.Change)
	if e.Change.Kind == effect.Later {
		text = "may change " + target
		t.count(e.Step, func(s *told) { s.counts.later++ })
	} else {
		t.count(e.Step, func(s *told) { s.counts.changed++ })
	}
	if note := noteOf(*e.Change, t.cfg.Redactor); note != "" {
		text += " (" + note + ")"
	}
	return t.line(e.Step, w.color, text)
}

// fieldNames returns " [mode, owner]": what an update changes.
func (t *teller) fieldNames(c *effect.Change) string {
	const shown = 6
	if c.Kind != effect.Update && c.Kind != effect.Replace || len(c.Fields) == 0 {
		return ""
	}
	var names []string
	for _, f := range c.Fields {
		if name := clean(t.cfg.Redactor.String(f.Path)); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if more := len(names) - shown; more > 0 {
		names = append(names[:shown], fmt.Sprintf("%d more", more))
	}
	return " [" + strings.Join(names, ", ") + "]"
}

func (t *teller) retry(e effect.Event) string {
	text := fmt.Sprintf("retry %d", e.Try)
	if e.Err == nil {
		return t.line(e.Step, yellow, text)
	}
	now := retried{target: oneLine(t.cfg.Redactor.String(e.Target)), message: reasonOf(e.Err, t.cfg.Redactor).message}
	s := t.step(e.Step)
	// A step that is tried again was told of by its op that failed.
	told := e.Target == "" && slices.ContainsFunc(s.failed, func(f string) bool { return strings.Contains(now.message, f) })
	if now == s.retried || told {
		text += ": same error"
	} else {
		text += ": " + withTarget(now.target, now.message)
	}
	s.retried = now
	return t.line(e.Step, yellow, text)
}

func (t *teller) progress(e effect.Event) string {
	s := t.step(e.Step)
	text := oneLine(t.cfg.Redactor.String(e.Message))
	if text == s.progress || text == "" || !s.at.IsZero() && e.Time.Sub(s.at) < progressPause {
		return ""
	}
	s.progress, s.at = text, e.Time
	if target := oneLine(t.cfg.Redactor.String(e.Target)); target != "" {
		text = target + ": " + text
	}
	return t.line(e.Step, "", text)
}

func (t *teller) waiting(e effect.Event) string {
	s := t.step(e.Step)
	text := oneLine(t.cfg.Redactor.String(e.Message))
	if s.seen[e.Target] == text {
		return ""
	}
	s.seen[e.Target] = text
	return t.line(e.Step, cyan, "waiting for "+text+" ("+took(e.Elapsed)+")")
}

func (t *teller) hint(step string, r reason) string {
	if r.hint == "" {
		return ""
	}
	return t.line(step, "", "hint: "+r.hint)
}

// withTarget puts target before a message that doesn't name it.
func withTarget(target, message string) string {
	if target == "" || strings.Contains(message, target) {
		return message
	}
	return target + ": " + message
}
