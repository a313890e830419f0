package view

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// reset ends every colour.
const reset = "\x1b[0m"

// The colours, as the parameter that selects one.
const (
	red     = "31"
	green   = "32"
	yellow  = "33"
	magenta = "35"
	cyan    = "36"
	dim     = "2"
	bold    = "1"
)

// A palette colours texts, or doesn't.
type palette bool

func (p palette) paint(color, s string) string {
	if !p || s == "" || color == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + reset
}

// A word is how a kind of change is told.
type word struct {
	sign, color     string
	now, done, plan string // "creating", "created", "create"
}

// wordFor returns the word for k.
func wordFor(k effect.ChangeKind, ascii bool) word {
	switch k {
	case effect.Create:
		return word{"+", green, "creating", "created", "create"}
	case effect.Update:
		return word{"~", yellow, "updating", "updated", "update"}
	case effect.Replace:
		return word{"-/+", magenta, "replacing", "replaced", "replace"}
	case effect.Delete:
		return word{"-", red, "deleting", "deleted", "delete"}
	case effect.Run:
		if ascii {
			return word{">", cyan, "running", "ran", "run"}
		}
		return word{"»", cyan, "running", "ran", "run"}
	case effect.Later:
		return word{"?", dim, "deciding on", "decided on", "decide on"}
	}
	return word{" ", dim, "checking", "unchanged", "leave"}
}

// took writes a duration as people read it: "0.4s", "12s", "3m05s", "2h03m".
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "0.0s"
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute-500*time.Millisecond:
		return fmt.Sprintf("%.0fs", d.Seconds())
	case d < time.Hour-500*time.Millisecond:
		s := int(d.Round(time.Second) / time.Second)
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	m := int(d.Round(time.Minute) / time.Minute)
	return fmt.Sprintf("%dh%02dm", m/60, m%60)
}

// plural returns "1 step", "2 steps".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// An opCount says how many ops ended how; of a plan, later are those whose kind
// isn't known before they are applied.
type opCount struct{ changed, later, unchanged, stopped, failed int }

func (c *opCount) add(x opCount) {
	c.changed += x.changed
	c.later += x.later
	c.unchanged += x.unchanged
	c.stopped += x.stopped
	c.failed += x.failed
}

// tally returns "3 changed, 1 unchanged, 1 failed" with what isn't zero.
func (c opCount) tally(verb Verb) string {
	var parts []string
	add := func(n int, s string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	done := "changed"
	if verb == Planning {
		done = "to change"
	}
	add(c.changed, done)
	add(c.later, "may change")
	add(c.unchanged, "unchanged")
	add(c.stopped, "stopped")
	add(c.failed, "failed")
	return strings.Join(parts, ", ")
}

// noteOf returns what is told of a change beside what differs: its note, and
// that it may turn out to delete something.
func noteOf(c effect.Change, r *effect.Redactor) string {
	note := oneLine(r.String(c.Note))
	may := map[effect.ChangeKind]string{effect.Delete: "may delete it", effect.Replace: "may replace it"}[c.May]
	switch {
	case may == "":
		return note
	case note == "":
		return may
	}
	return may + ": " + note
}

// A reason is an error as the lines of a view tell it.
type reason struct {
	step    string // the step that failed, if the error says
	message string // clean, without the step's name
	hint    string
	kind    fault.Kind
}

// reasonOf returns what err says, without secrets.
func reasonOf(err error, r *effect.Redactor) reason {
	out := reason{kind: fault.KindOf(err), hint: oneLine(r.String(fault.HintOf(err)))}
	text := err.Error()
	var se *runtime.StepError
	if errors.As(err, &se) {
		out.step = se.Step
		text = se.Err.Error()
	} else if rest, ok := strings.CutPrefix(text, "step "); ok {
		// The redaction of an error keeps its text only.
		if name, msg, ok := strings.Cut(rest, ": "); ok && !strings.Contains(name, " ") {
			out.step, text = name, msg
		}
	}
	out.message = withoutEchoes(oneLine(strings.TrimSpace(r.String(text))))
	return out
}

// withoutEchoes removes the name of a target before a text that begins with it
// itself: "a/b: a/b (id) is gone" says no more than "a/b (id) is gone".
func withoutEchoes(message string) string {
	parts := strings.Split(message, ": ")
	kept := parts[:0]
	for i, p := range parts {
		if i+1 < len(parts) && strings.Contains(p, "/") {
			if after, ok := strings.CutPrefix(parts[i+1], p); ok && (after == "" || after[0] == ' ') {
				continue
			}
		}
		kept = append(kept, p)
	}
	return strings.Join(kept, ": ")
}
