package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A Record is an event as the kind JSON writes it: one object a line. A secret
// is "***", a value that isn't known before it is applied {"unknown": "of what"}.
// Fields are only added, never renamed or removed. Whoever reads records passes
// over kinds and fields that it doesn't know.
type Record struct {
	Time    string        `json:"time"`           // RFC 3339 with milliseconds, UTC
	Kind    string        `json:"kind"`           // as effect.EventKind: "step_start", "op_end"; "plan" and "summary" at the end
	Step    string        `json:"step,omitempty"` // the step's path: "gateway/nat", "nodes[2]"
	Target  string        `json:"target,omitempty"`
	Change  *ChangeRecord `json:"change,omitempty"`
	Message string        `json:"message,omitempty"`
	Status  string        `json:"status,omitempty"` // of step_end and op_end: "ok", "failed", "stopped" or "deferred"
	Error   *ErrorRecord  `json:"error,omitempty"`
	Elapsed *int64        `json:"elapsed_ms,omitempty"` // of kinds that end something
	Pos     string        `json:"pos,omitempty"`        // file and line of the call
	Try     int           `json:"try,omitempty"`        // of op_retry: how many tries have failed
	Attempt bool          `json:"attempt,omitempty"`    // of op_end: the recipe catches the error
	Ask     *AskRecord    `json:"ask,omitempty"`        // of asked and answered
}

// A ChangeRecord is a change: its kind is "none", "create", "update", "replace",
// "delete", "run" or "later".
type ChangeRecord struct {
	Kind   string         `json:"kind"`
	Fields []FieldRecord  `json:"fields,omitempty"`
	Note   string         `json:"note,omitempty"`
	May    string         `json:"may,omitempty"`   // of a change of kind "later": "delete" or "replace", if it may turn out to be that
	After  map[string]any `json:"after,omitempty"` // of a plan only: the attributes to come
}

// A FieldRecord is one difference. Old is null where there was nothing, New
// where there will be nothing.
type FieldRecord struct {
	Path string `json:"path"`
	Old  any    `json:"old"`
	New  any    `json:"new"`
	// Changed is set where a secret differs, though both sides are masked.
	Changed bool `json:"changed,omitempty"`
}

// An ErrorRecord is an error with its kind, as recipes see it.
type ErrorRecord struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Pos     string `json:"pos,omitempty"` // file and line, if the error says
}

// jsonView writes a record for each event.
type jsonView struct {
	cfg  Config
	sink *sink
	mu   sync.Mutex // keeps the lines in the order of the calls
}

func newJSONView(c Config) View { return &jsonView{cfg: c, sink: newSink(c.Out)} }

func (v *jsonView) Event(e effect.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sink.write(string(jsonLine(recordOf(e, v.cfg.Redactor))))
}

func (v *jsonView) Close() error { return v.sink.close() }

func recordOf(e effect.Event, r *effect.Redactor) Record {
	rec := Record{Time: stamp(e.Time), Kind: string(e.Kind), Step: r.String(e.Step), Target: r.String(e.Target),
		Message: r.String(e.Message), Error: errorRecord(e.Err, r), Pos: r.String(e.Pos), Try: e.Try, Attempt: e.Attempt, Ask: askRecord(e.Ask, r)}
	if e.Change != nil {
		rec.Change = changeRecord(*e.Change, r)
	}
	switch e.Kind {
	case effect.StepEnd, effect.OpEnd:
		rec.Status = statusOf(e.Err)
		if rec.Error != nil && rec.Error.Kind == string(fault.Deferred) {
			rec.Status = string(effect.Deferred)
		}
	}
	switch e.Kind {
	case effect.StepEnd, effect.StepSkip, effect.OpEnd, effect.RunEnd, effect.Waiting, effect.Deferred, effect.Answered:
		ms := e.Elapsed.Milliseconds()
		rec.Elapsed = &ms
	}
	return rec
}

// stamp writes a time as RFC 3339 with milliseconds, in UTC.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func changeRecord(c effect.Change, r *effect.Redactor) *ChangeRecord {
	rec := &ChangeRecord{Kind: string(c.Kind), Note: r.String(c.Note), May: string(c.May)}
	if c.Kind == "" {
		rec.Kind = string(effect.None)
	}
	for _, f := range c.Fields {
		p := pairOf(f, r)
		rec.Fields = append(rec.Fields, FieldRecord{Path: p.path, Old: forJSON(p.old), New: forJSON(p.new), Changed: p.hidden})
	}
	return rec
}

// afterRecord returns the attributes to come, without secrets.
func afterRecord(c effect.Change, r *effect.Redactor) map[string]any {
	if len(c.After) == 0 {
		return nil
	}
	spots := make(map[string]bool)
	for _, f := range c.Fields {
		p := pairOf(f, r)
		secretSpots(p.new, "."+p.path, spots)
	}
	after, _ := forJSON(hide(normal(c.After, r), "", spots)).(map[string]any)
	return after
}

func errorRecord(err error, r *effect.Redactor) *ErrorRecord {
	if err == nil {
		return nil
	}
	return &ErrorRecord{Kind: string(fault.KindOf(err)), Message: r.String(err.Error()), Hint: r.String(fault.HintOf(err)), Pos: r.String(placeOf(err))}
}

// jsonLine returns x as one line of JSON that holds no control characters, not
// even those that JSON would let through.
func jsonLine(x any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(x); err != nil {
		// Every value was made by forJSON: this is a defect, to be seen, not hidden.
		panic(fmt.Sprintf("view: %v", err))
	}
	line := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if bytes.IndexFunc(line, hostile) >= 0 {
		var safe bytes.Buffer
		for len(line) > 0 {
			c, n := utf8.DecodeRune(line)
			switch {
			case !hostile(c):
				safe.Write(line[:n])
			case c > 0xffff:
				high, low := utf16.EncodeRune(c)
				fmt.Fprintf(&safe, `\u%04x\u%04x`, high, low)
			default:
				fmt.Fprintf(&safe, `\u%04x`, c)
			}
			line = line[n:]
		}
		line = safe.Bytes()
	}
	return append(line, '\n')
}
