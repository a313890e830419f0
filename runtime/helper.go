package runtime

import (
	"fmt"
	"slices"

	"go.starlark.net/syntax"
)

// A helper is a function of a file that others may call: what it does with
// what it is given is checked where it is called.
type helper struct {
	def     *syntax.DefStmt
	file    *callWalker // of the file that it stands in
	returns string      // the space that it returns, whatever it is given
}

// enter checks a function with the spaces that a call gives it, and returns the
// space of the result.
func (w *callWalker) enter(h *helper, args []syntax.Expr, spaces []string) string {
	if h == nil {
		return ""
	}
	given := h.given(args, spaces)
	if len(given) == 0 {
		return h.returns
	}
	in := h.file.inner(h.def.Params, make(scope))
	for name, space := range given {
		in[name] = space
	}
	key := fmt.Sprint(h.def.Def, given) // maps are printed in order
	if result, seen := w.entered[key]; seen {
		return result
	}
	w.entered[key] = "" // it may call itself
	walker := &callWalker{catalog: w.catalog, globals: h.file.globals, helpers: h.file.helpers, entered: w.entered}
	result := walker.body(h.def, in)
	for _, err := range walker.errs {
		if !slices.ContainsFunc(w.errs, func(e error) bool { return e.Error() == err.Error() }) {
			w.errs = append(w.errs, err)
		}
	}
	w.entered[key] = result
	return result
}

// given returns the spaces that a call's arguments give to parameters, by the
// parameters' names.
func (h *helper) given(args []syntax.Expr, spaces []string) map[string]string {
	var names []string
	var positional int // how many of names come first
	only := false      // what follows is given by name
	for _, p := range h.def.Params {
		if b, ok := p.(*syntax.BinaryExpr); ok {
			p = b.X
		}
		if id, ok := p.(*syntax.Ident); ok {
			names = append(names, id.Name)
			if !only {
				positional++
			}
			continue
		}
		only = true // * or *args or **kwargs
	}
	out := make(map[string]string)
	add := func(name, space string) {
		if space != "" && slices.Contains(names, name) && !h.asks(name) {
			out[name] = space
		}
	}
	for i, a := range args {
		switch a := a.(type) {
		case *syntax.BinaryExpr:
			if a.Op == syntax.EQ {
				add(a.X.(*syntax.Ident).Name, spaces[i])
				continue
			}
		case *syntax.UnaryExpr:
			if a.Op == syntax.STAR || a.Op == syntax.STARSTAR {
				return out // what follows goes nobody knows where
			}
		}
		if i < positional {
			add(names[i], spaces[i])
		}
	}
	return out
}

// asks reports whether the function finds out by itself what it got: it may
// have a branch for each.
func (h *helper) asks(name string) bool {
	found := false
	syntax.Walk(h.def, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
			fn, isIdent := call.Fn.(*syntax.Ident)
			arg, onName := call.Args[0].(*syntax.Ident)
			if isIdent && onName && arg.Name == name && slices.Contains([]string{"type", "hasattr", "getattr", "dir"}, fn.Name) {
				found = true
			}
		}
		return !found
	})
	return found
}
