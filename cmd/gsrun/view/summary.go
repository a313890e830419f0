package view

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A SummaryData is how a run ended.
type SummaryData struct {
	Run     string // the run's id
	Recipe  string
	Verb    string // of a run that isn't a plain one: "destroy"
	Left    *int   // of a destroy: how many of the things to delete are there still
	Steps   []runtime.StepResult
	Counts  effect.Counts
	Time    time.Time // when it ended
	Elapsed time.Duration
	Outputs starlark.Value // a struct, or nil
	Err     error          // nil if the run succeeded
}

// SummaryOptions say how a summary is shown.
type SummaryOptions struct {
	Color, ASCII bool
	Redactor     *effect.Redactor // may be nil
}

// How a run or a plan ended.
const (
	statusOK      = "ok"
	statusFailed  = "failed"
	statusStopped = "stopped"
)

// statusOf returns how a run ended whose error is err.
func statusOf(err error) string {
	switch {
	case err == nil:
		return statusOK
	case fault.KindOf(err) == fault.Cancelled:
		return statusStopped
	}
	return statusFailed
}

// statusColor returns the colour in which to tell it.
func statusColor(err error) string {
	switch statusOf(err) {
	case statusOK:
		return green
	case statusStopped:
		return yellow
	}
	return red
}

// StepCounts are the numbers of steps by how they ended.
type StepCounts struct {
	OK       int `json:"ok"`
	Kept     int `json:"kept"` // done by an earlier process of the run
	Skipped  int `json:"skipped"`
	Failed   int `json:"failed"`
	Stopped  int `json:"stopped"` // the run was stopped while they ran
	Deferred int `json:"deferred"`
	NotRun   int `json:"not_run"`
}

func stepCounts(steps []runtime.StepResult) StepCounts {
	var c StepCounts
	for _, s := range steps {
		switch s.Status {
		case runtime.OK:
			c.OK++
		case runtime.Kept:
			c.Kept++
		case runtime.Skipped:
			c.Skipped++
		case runtime.Failed:
			c.Failed++
		case runtime.Stopped:
			c.Stopped++
		case runtime.Deferred:
			c.Deferred++
		case runtime.NotRun:
			c.NotRun++
		}
	}
	return c
}

// A tint is a text and the colour that it has unless its number is 0.
type tint struct {
	n           int
	text, color string
}

func (p palette) counts(tints ...tint) string {
	parts := make([]string, len(tints))
	for i, t := range tints {
		parts[i] = fmt.Sprintf("%d %s", t.n, t.text)
		if t.n > 0 {
			parts[i] = p.paint(t.color, parts[i])
		}
	}
	return strings.Join(parts, ", ")
}

// Summary writes the end of a run for people: how its steps and ops ended, how
// long it took, and its outputs.
func Summary(w io.Writer, s SummaryData, o SummaryOptions) error {
	p := palette(o.Color)
	var b strings.Builder
	steps := stepCounts(s.Steps)
	tints := []tint{{steps.OK, "ok", green}, {steps.Skipped, "skipped", dim}, {steps.Failed, "failed", red}, {steps.NotRun, "not run", yellow}}
	if steps.Kept > 0 {
		tints = slices.Insert(tints, 1, tint{steps.Kept, "done before", ""})
	}
	if steps.Stopped > 0 {
		tints = append(tints, tint{steps.Stopped, "stopped", yellow})
	}
	if steps.Deferred > 0 {
		tints = append(tints, tint{steps.Deferred, "deferred", yellow})
	}
	b.WriteString("Steps:   " + p.counts(tints...) + "\n")
	changed := byKind(s.Counts, o.ASCII)
	b.WriteString("Changes: " + p.counts(tint{s.Counts.Changed(), "changed" + changed, yellow}, tint{s.Counts.Unchanged, "unchanged", ""}, tint{s.Counts.Failed, "failed", red}))
	if s.Left != nil {
		b.WriteString("\nLeft:    " + p.paint(map[bool]string{true: yellow}[*s.Left > 0], strconv.Itoa(*s.Left)))
	}
	b.WriteString("\nTime:    " + took(s.Elapsed) + "\n")
	what := "Run"
	if s.Verb != "" {
		what = strings.ToUpper(s.Verb[:1]) + s.Verb[1:]
	}
	for _, part := range []string{s.Run, s.Recipe} {
		if part != "" && part == s.Run {
			what += " " + part
		} else if part != "" {
			what += " of " + part
		}
	}
	b.WriteString(clean(o.Redactor.String(what)) + ": " + p.paint(statusColor(s.Err), statusOf(s.Err)) + "\n")
	if rows := outputRows(s.Outputs, o); len(rows) > 0 {
		b.WriteString("\n" + strings.Join(rows, "\n") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// byKind returns " (5 created, 2 updated)", or "" for nothing.
func byKind(c effect.Counts, ascii bool) string {
	var kinds []string
	for _, k := range []struct {
		n    int
		kind effect.ChangeKind
	}{{c.Created, effect.Create}, {c.Updated, effect.Update}, {c.Replaced, effect.Replace}, {c.Deleted, effect.Delete}, {c.Ran, effect.Run}} {
		if k.n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", k.n, wordFor(k.kind, ascii).done))
		}
	}
	if c.Partly > 0 {
		kinds = append(kinds, fmt.Sprintf("%d in part", c.Partly))
	}
	if len(kinds) == 0 {
		return ""
	}
	return " (" + strings.Join(kinds, ", ") + ")"
}

// outputRows returns the lines "name = value", aligned.
func outputRows(v starlark.Value, o SummaryOptions) []string {
	data, ok := outputData(v, o.Redactor).(map[string]any)
	if !ok {
		if v == nil {
			return nil
		}
		return []string{"outputs = " + inline(normal(v, o.Redactor))}
	}
	wide := 0
	for k := range data {
		wide = max(wide, textWidth(clean(k)))
	}
	p := palette(o.Color)
	var out []string
	for _, k := range keysOf(data) {
		head := pad(clean(k), wide) + " ="
		x := data[k]
		switch {
		case x == nil:
			out = append(out, head+" none")
		case short(x):
			out = append(out, head+" "+inline(x))
		default:
			out = append(out, head)
			for _, l := range block(x) {
				out = append(out, "  "+p.paint(dim, "|")+" "+l)
			}
		}
	}
	return out
}

// outputData returns the outputs as data without secrets, nil if there are none.
func outputData(v starlark.Value, r *effect.Redactor) any {
	if v == nil || v == starlark.None {
		return nil
	}
	return normal(v, r)
}

// A SummaryRecord is a summary as SummaryJSON writes it.
type SummaryRecord struct {
	Time    string       `json:"time"`
	Kind    string       `json:"kind"` // "summary"
	Run     string       `json:"run,omitempty"`
	Recipe  string       `json:"recipe,omitempty"`
	Verb    string       `json:"verb,omitempty"` // "destroy"; empty for a plain run
	Left    *int         `json:"left,omitempty"` // of a destroy: how many of the things to delete are there still
	Status  string       `json:"status"`         // "ok", "failed" or "stopped"
	Steps   StepCounts   `json:"steps"`
	Changes ChangeCounts `json:"changes"`
	Elapsed int64        `json:"elapsed_ms"`
	Outputs any          `json:"outputs"` // an object, null if there are none
	Error   *ErrorRecord `json:"error,omitempty"`
}

// ChangeCounts are the numbers of ops by what they did. Changed is the sum of
// created, updated, replaced, deleted, ran and
// in_part: ops that failed after they had changed something.
type ChangeCounts struct {
	Changed   int `json:"changed"`
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Replaced  int `json:"replaced"`
	Deleted   int `json:"deleted"`
	Ran       int `json:"ran"`
	Partly    int `json:"in_part"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed"`
}

// SummaryJSON writes a summary as one line of JSON, a SummaryRecord: the last
// line of an event stream.
func SummaryJSON(w io.Writer, s SummaryData, o SummaryOptions) error {
	c := s.Counts
	rec := SummaryRecord{Time: stamp(s.Time), Kind: "summary", Run: o.Redactor.String(s.Run), Recipe: o.Redactor.String(s.Recipe), Verb: s.Verb, Left: s.Left, Status: statusOf(s.Err),
		Steps: stepCounts(s.Steps), Elapsed: s.Elapsed.Milliseconds(), Outputs: forJSON(outputData(s.Outputs, o.Redactor)), Error: errorRecord(s.Err, o.Redactor),
		Changes: ChangeCounts{Changed: c.Changed(), Created: c.Created, Updated: c.Updated, Replaced: c.Replaced, Deleted: c.Deleted, Ran: c.Ran, Partly: c.Partly, Unchanged: c.Unchanged, Failed: c.Failed}}
	_, err := w.Write(jsonLine(rec))
	return err
}
