package runtime

import (
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
)

// arguments checks the arguments of a call against what the function takes.
func (w *callWalker) arguments(full string, fn builtin.Func, e *syntax.CallExpr) {
	given := make(map[string]bool)
	positional, open := 0, false
	var names []string
	for _, p := range fn.Params {
		names = append(names, p.Name)
	}
	for _, a := range e.Args {
		if b, named := a.(*syntax.BinaryExpr); named && b.Op == syntax.EQ {
			name := b.X.(*syntax.Ident).Name
			given[name] = true
			if !slices.Contains(names, name) {
				hint := "it takes " + strings.Join(names, ", ")
				if near := builtin.Nearest(name, names); near != "" {
					hint = "did you mean " + near + "?"
				}
				w.errs = append(w.errs, at(b.X.(*syntax.Ident).NamePos, fault.Hinted(fault.Invalid, hint, "%s: unknown argument %s", full, name)))
			}
			continue
		}
		if u, star := a.(*syntax.UnaryExpr); star && (u.Op == syntax.STAR || u.Op == syntax.STARSTAR) {
			open = true
			continue
		}
		positional++
	}
	for _, p := range fn.Params {
		if p.Positional && positional > 0 {
			given[p.Name] = true
			positional--
		}
	}
	if open {
		return
	}
	for _, p := range fn.Params {
		if p.Required && !given[p.Name] {
			w.errs = append(w.errs, at(e.Lparen, fault.Hinted(fault.Invalid, "see: gsrun doc "+full, "%s: missing argument %s: %s", full, p.Name, p.Doc)))
		}
	}
	if positional > 0 {
		w.errs = append(w.errs, at(e.Lparen, fault.Hinted(fault.Invalid, "give them by name", "%s: %d arguments too many by position", full, positional)))
	}
}
