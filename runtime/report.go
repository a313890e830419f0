package runtime

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
)

// A Report is an error as people see it.
type Report struct {
	Message string
	Hint    string
	Kind    fault.Kind
	Step    string  // the path of the step that failed, if one did
	Frames  []Frame // where it happened, outermost call first
}

// A Frame is one place on the way to an error.
type Frame struct {
	File   string
	Line   int
	Col    int
	Func   string // empty for a place that isn't within a call
	Source string // the line's text
}

// Explain makes a report of an error from this engine: with the file, line and
// text of each call that led to it, through load statements as well.
func (e *Engine) Explain(err error) Report {
	r := Report{Message: err.Error(), Hint: fault.HintOf(err), Kind: fault.KindOf(err)}
	e.collect(err, &r)
	for i := range r.Frames {
		f := &r.Frames[i]
		if text, ok := e.loader.source(f.File, f.Line); ok {
			f.Source = text
		}
	}
	return r
}

// collect adds the places along the chain of err.
func (e *Engine) collect(err error, r *Report) {
	switch x := err.(type) {
	case *StepError:
		if r.Step == "" {
			r.Step = x.Step
		}
	case *starlark.EvalError:
		for _, f := range x.CallStack {
			if f.Pos.Filename() == "<builtin>" || strings.HasPrefix(f.Name, "$") {
				continue
			}
			r.add(Frame{File: f.Pos.Filename(), Line: int(f.Pos.Line), Col: int(f.Pos.Col), Func: f.Name})
		}
	case *dialect.PosError:
		r.add(Frame{File: x.Pos.Filename(), Line: int(x.Pos.Line), Col: int(x.Pos.Col)})
	}
	switch x := err.(type) {
	case interface{ Unwrap() error }:
		if inner := x.Unwrap(); inner != nil {
			e.collect(inner, r)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range x.Unwrap() {
			e.collect(inner, r)
		}
	case list:
		for _, inner := range x {
			e.collect(inner, r)
		}
	}
}

func (r *Report) add(f Frame) {
	for _, have := range r.Frames {
		if have.File == f.File && have.Line == f.Line {
			return
		}
	}
	r.Frames = append(r.Frames, f)
}

// String writes the report: the message, then each place with its line, then
// the hint.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "gsrun: error: %s\n", strings.ReplaceAll(r.Message, "\n", "\n  "))
	for _, f := range r.Frames {
		fmt.Fprintf(&b, "  %s:%d", f.File, f.Line)
		if f.Func != "" && f.Func != "<toplevel>" {
			fmt.Fprintf(&b, ": in %s", f.Func)
		}
		b.WriteByte('\n')
		if strings.TrimSpace(f.Source) != "" {
			fmt.Fprintf(&b, "      %s\n", strings.TrimSpace(f.Source))
		}
	}
	if r.Hint != "" {
		fmt.Fprintf(&b, "gsrun: hint: %s\n", r.Hint)
	}
	return b.String()
}
