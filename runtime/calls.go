package runtime

import (
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
)

// A catalog knows every function that recipes can call, by its full name, so
// that a misspelled name or argument is found when a file is loaded and not in
// the middle of a run.
type catalog struct {
	functions map[string]builtin.Func  // "openstack.cloud.network.ensure"
	spaces    map[string]bool          // what functions hang from: "openstack", "openstack.cloud.network"
	types     map[string]*builtin.Type // "openstack.cloud"
}

func newCatalog(modules []*builtin.Module) *catalog {
	c := &catalog{functions: make(map[string]builtin.Func), spaces: make(map[string]bool), types: make(map[string]*builtin.Type)}
	for _, m := range modules {
		for _, t := range m.Types {
			c.types[t.Name] = t
		}
		m.Functions(func(name string, f builtin.Func) {
			c.functions[name] = f
			for i := strings.LastIndexByte(name, '.'); i > 0; i = strings.LastIndexByte(name[:i], '.') {
				c.spaces[name[:i]] = true
			}
		})
	}
	return c
}

// below lists the names that hang from a space.
func (c *catalog) below(space string) []string {
	var names []string
	seen := make(map[string]bool)
	for full := range c.functions {
		rest, ok := strings.CutPrefix(full, space+".")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	if t := c.types[space]; t != nil {
		for _, a := range t.Attrs {
			names = append(names, a.Name)
		}
	}
	return names
}

// checkCalls returns the faults of the calls in a file. loaded has the functions
// that the file loads, as the result has its own.
func (c *catalog) checkCalls(f *dialect.File, loaded map[string]*helper) (errs []error, own map[string]*helper) {
	w := &callWalker{catalog: c, globals: make(map[string]bool), helpers: make(map[string]*helper)}
	for name, h := range loaded {
		w.globals[name] = true
		if h != nil {
			w.helpers[name] = h
		}
	}
	for _, s := range f.Syntax.Stmts {
		w.declare(s)
	}
	// What a function returns may depend on one that stands below it: the
	// first pass learns, the second one checks.
	for range 2 {
		w.errs, w.entered = nil, make(map[string]string)
		for _, s := range f.Syntax.Stmts {
			w.stmt(s, make(scope))
		}
	}
	return w.errs, w.helpers
}

// A scope says what the local names of a function hold: a space of the
// catalog, or "" for something else.
type scope map[string]string

// notYet is what a name holds that its function binds, but hasn't bound so far.
const notYet = "?"

func (s scope) hide(names map[string]bool) {
	for name := range names {
		s[name] = notYet
	}
}

// callWalker goes through a file.
type callWalker struct {
	*catalog
	globals map[string]bool    // names that the file defines: they hide modules
	helpers map[string]*helper // the functions among them
	entered map[string]string  // what helpers return that were given spaces, by their arguments
	errs    []error

	result  *string // of the function that is walked: what it returns
	results int
	depth   int // of functions within functions
}

// declare notes the names that a top-level statement defines.
func (w *callWalker) declare(s syntax.Stmt) {
	switch s := s.(type) {
	case *syntax.DefStmt:
		w.globals[s.Name.Name] = true
		w.helpers[s.Name.Name] = &helper{def: s, file: w}
	case *syntax.AssignStmt:
		eachName(s.LHS, func(name string) { w.globals[name] = true })
	case *syntax.LoadStmt:
		for _, to := range s.To {
			w.globals[to.Name] = true
		}
	case *syntax.IfStmt, *syntax.ForStmt:
		bound(s, func(name string) { w.globals[name] = true })
	}
}

// bound calls f for every name that a statement binds, in the blocks within it
// as well, but not within functions.
func bound(s syntax.Stmt, f func(string)) {
	blocks := func(lists ...[]syntax.Stmt) {
		for _, list := range lists {
			for _, inner := range list {
				bound(inner, f)
			}
		}
	}
	switch s := s.(type) {
	case *syntax.AssignStmt:
		eachName(s.LHS, f)
	case *syntax.DefStmt:
		f(s.Name.Name)
	case *syntax.ForStmt:
		eachName(s.Vars, f)
		blocks(s.Body)
	case *syntax.IfStmt:
		blocks(s.True, s.False)
	}
}

// eachName calls f for every name that a pattern binds.
func eachName(e syntax.Expr, f func(string)) {
	switch e := e.(type) {
	case *syntax.Ident:
		f(e.Name)
	case *syntax.ParenExpr:
		eachName(e.X, f)
	case *syntax.TupleExpr:
		for _, x := range e.List {
			eachName(x, f)
		}
	case *syntax.ListExpr:
		for _, x := range e.List {
			eachName(x, f)
		}
	}
}

func (w *callWalker) stmts(list []syntax.Stmt, local scope) {
	for _, s := range list {
		w.stmt(s, local)
	}
}

func (w *callWalker) stmt(s syntax.Stmt, local scope) {
	switch s := s.(type) {
	case *syntax.ExprStmt:
		w.space(s.X, local)
	case *syntax.AssignStmt:
		space := w.space(s.RHS, local)
		id, plain := s.LHS.(*syntax.Ident)
		if !plain || s.Op != syntax.EQ {
			eachName(s.LHS, func(name string) { local[name] = "" })
			w.space(s.LHS, local)
			return
		}
		if have, bound := local[id.Name]; bound && have != space && have != notYet {
			space = "" // it is one or the other
		}
		local[id.Name] = space
	case *syntax.IfStmt:
		w.space(s.Cond, local)
		w.stmts(s.True, local)
		w.stmts(s.False, local)
	case *syntax.ForStmt:
		w.space(s.X, local)
		eachName(s.Vars, func(name string) { local[name] = "" })
		w.stmts(s.Body, local)
	case *syntax.ReturnStmt:
		space := ""
		if s.Result != nil {
			space = w.space(s.Result, local)
		}
		if w.result != nil {
			if w.results++; w.results > 1 && *w.result != space {
				space = ""
			}
			*w.result = space
		}
	case *syntax.DefStmt:
		result := w.body(s, w.inner(s.Params, local))
		if w.depth == 0 {
			if h := w.helpers[s.Name.Name]; h != nil {
				h.returns = result
			}
			return
		}
		local[s.Name.Name] = ""
	}
}

// body goes through a function whose parameters are in, and returns what it
// returns.
func (w *callWalker) body(s *syntax.DefStmt, in scope) string {
	outer, n := w.result, w.results
	var result string
	w.result, w.results = &result, 0
	w.depth++
	hidden := make(map[string]bool)
	for _, inner := range s.Body {
		bound(inner, func(name string) { hidden[name] = true })
	}
	in.hide(hidden) // it is the function's own, whatever it is outside
	w.stmts(s.Body, in)
	w.depth--
	w.result, w.results = outer, n
	return result
}

// inner returns the scope of a function with the given parameters.
func (w *callWalker) inner(params []syntax.Expr, outer scope) scope {
	in := make(scope, len(outer)+len(params))
	for k, v := range outer {
		in[k] = v
	}
	for _, p := range params {
		switch p := p.(type) {
		case *syntax.BinaryExpr:
			w.space(p.Y, outer)
			eachName(p.X, func(name string) { in[name] = "" })
		case *syntax.UnaryExpr:
			if p.X != nil {
				eachName(p.X, func(name string) { in[name] = "" })
			}
		default:
			eachName(p, func(name string) { in[name] = "" })
		}
	}
	return in
}

// space checks the calls within an expression, and returns the space of the
// catalog that it is, or "".
func (w *callWalker) space(e syntax.Expr, local scope) string {
	switch e := e.(type) {
	case nil:
	case *syntax.Ident:
		if space, bound := local[e.Name]; bound {
			if space == notYet {
				return ""
			}
			return space
		}
		if !w.globals[e.Name] && (w.spaces[e.Name] || w.isFunction(e.Name)) {
			return e.Name
		}
	case *syntax.ParenExpr:
		return w.space(e.X, local)
	case *syntax.DotExpr:
		return w.member(w.space(e.X, local), e.Name.Name, e.Name.NamePos)
	case *syntax.CallExpr:
		return w.call(e, local)
	case *syntax.LambdaExpr:
		w.space(e.Body, w.inner(e.Params, local))
	case *syntax.Comprehension:
		w.comprehension(e, local)
	default:
		w.parts(e, local)
	}
	return ""
}

func (w *callWalker) isFunction(name string) bool {
	_, ok := w.functions[name]
	return ok
}

// parts checks what an expression consists of.
func (w *callWalker) parts(e syntax.Expr, local scope) {
	switch e := e.(type) {
	case *syntax.ListExpr:
		w.all(e.List, local)
	case *syntax.TupleExpr:
		w.all(e.List, local)
	case *syntax.DictExpr:
		w.all(e.List, local)
	case *syntax.DictEntry:
		w.all([]syntax.Expr{e.Key, e.Value}, local)
	case *syntax.CondExpr:
		w.all([]syntax.Expr{e.Cond, e.True, e.False}, local)
	case *syntax.UnaryExpr:
		w.all([]syntax.Expr{e.X}, local)
	case *syntax.BinaryExpr:
		w.all([]syntax.Expr{e.X, e.Y}, local)
	case *syntax.IndexExpr:
		w.all([]syntax.Expr{e.X, e.Y}, local)
	case *syntax.SliceExpr:
		w.all([]syntax.Expr{e.X, e.Lo, e.Hi, e.Step}, local)
	}
}

func (w *callWalker) all(list []syntax.Expr, local scope) {
	for _, x := range list {
		w.space(x, local)
	}
}

func (w *callWalker) comprehension(e *syntax.Comprehension, local scope) {
	in := w.inner(nil, local)
	for _, c := range e.Clauses {
		switch c := c.(type) {
		case *syntax.ForClause:
			w.space(c.X, in)
			eachName(c.Vars, func(name string) { in[name] = "" })
		case *syntax.IfClause:
			w.space(c.Cond, in)
		}
	}
	w.space(e.Body, in)
}

// member returns the space of space.name, and complains if it can't be there.
func (w *callWalker) member(space, name string, pos syntax.Position) string {
	if space == "" || !w.spaces[space] {
		return ""
	}
	full := space + "." + name
	if w.spaces[full] || w.isFunction(full) {
		return full
	}
	names := w.below(space)
	if slices.Contains(names, name) {
		return ""
	}
	if t := w.types[space]; t != nil && len(t.Attrs) == 0 && t.HasData() {
		return "" // its data isn't declared
	}
	hint := "see: gsrun doc " + space
	if near := builtin.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	w.errs = append(w.errs, at(pos, fault.Hinted(fault.Invalid, hint, "%s has no %s", space, name)))
	return ""
}

// call checks a call, and returns the space of its result.
func (w *callWalker) call(e *syntax.CallExpr, local scope) string {
	if x, name, pos, ok := dialect.GuardedAttr(e); ok { // x.name, where name is also that of a method of strings
		return w.member(w.space(x, local), name, pos)
	}
	spaces := make([]string, len(e.Args))
	for i, a := range e.Args {
		if b, named := a.(*syntax.BinaryExpr); named && b.Op == syntax.EQ {
			a = b.Y
		}
		spaces[i] = w.space(a, local)
	}
	if id, ok := e.Fn.(*syntax.Ident); ok {
		if _, bound := local[id.Name]; !bound && w.globals[id.Name] {
			return w.enter(w.helpers[id.Name], e.Args, spaces)
		}
	}
	full := w.space(e.Fn, local)
	fn, ok := w.functions[full]
	if !ok {
		return ""
	}
	w.arguments(full, fn, e)
	if of := strings.TrimSuffix(fn.Returns, " or None"); w.types[of] != nil { // who uses None as one is wrong anyway
		return of
	}
	return ""
}
