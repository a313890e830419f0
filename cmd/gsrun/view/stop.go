package view

import (
	"errors"
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// stopText returns "plan stops here: REASON at FILE:LINE".
func stopText(err error, pos string, r *effect.Redactor) string {
	text := "plan stops here"
	pos = r.String(pos)
	if err != nil {
		var why string
		why, pos = stopReason(err, pos, r)
		text += ": " + why
	}
	if pos != "" {
		text += " at " + clean(pos)
	}
	return text
}

// stopReason returns why a plan stopped, clean, and file and line of where: that
// of the error, else pos.
func stopReason(err error, pos string, r *effect.Redactor) (why, place string) {
	why = reasonOf(err, r).message
	if p := placeOf(err); p != "" {
		pos = p
	}
	pos = r.String(pos)
	// A fault at a position begins with it, and has the column as well.
	if rest, ok := strings.CutPrefix(why, clean(pos)+":"); ok && pos != "" {
		if col, msg, ok := strings.Cut(rest, ": "); ok && strings.Trim(col, "0123456789") == "" {
			rest = msg
		}
		why = strings.TrimSpace(rest)
	}
	return why, pos
}

// placeOf returns file and line of the innermost place in the chain of err
// that is in a recipe, or "".
func placeOf(err error) string {
	place := ""
	var visit func(error)
	visit = func(err error) {
		switch x := err.(type) {
		case nil:
			return
		case *starlark.EvalError:
			for _, f := range x.CallStack {
				if f.Pos.Filename() != "<builtin>" && f.Pos.Line > 0 {
					place = fmt.Sprintf("%s:%d", f.Pos.Filename(), f.Pos.Line)
				}
			}
		case *dialect.PosError:
			if x.Pos.IsValid() {
				place = fmt.Sprintf("%s:%d", x.Pos.Filename(), x.Pos.Line)
			}
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				visit(e)
			}
			return
		}
		visit(errors.Unwrap(err))
	}
	visit(err)
	return place
}
