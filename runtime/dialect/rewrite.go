package dialect

import (
	"strconv"

	"go.starlark.net/syntax"
)

// A rewriter replaces the places at which Starlark would silently decide on a
// value, or put one into text.
type rewriter struct{}

// binary maps the operators that are replaced to the functions that do it.
var binary = map[syntax.Token]string{
	syntax.EQL: "$eq", syntax.NEQ: "$ne",
	syntax.LT: "$lt", syntax.LE: "$le", syntax.GT: "$gt", syntax.GE: "$ge",
	syntax.IN: "$in", syntax.NOT_IN: "$not_in",
	syntax.PERCENT: "$mod", syntax.LTLT: "$shl", syntax.GTGT: "$shr",
}

// augmented maps the assignments that do one of these operators to its function.
var augmented = map[syntax.Token]string{syntax.PERCENT_EQ: "$mod", syntax.LTLT_EQ: "$shl", syntax.GTGT_EQ: "$shr"}

func (r *rewriter) stmts(list []syntax.Stmt) {
	for i := range list {
		list[i] = r.stmt(list[i])
	}
}

// stmt returns the statement that takes the place of s: mostly s itself.
func (r *rewriter) stmt(s syntax.Stmt) syntax.Stmt {
	switch s := s.(type) {
	case *syntax.ExprStmt:
		s.X = r.expr(s.X)
	case *syntax.IfStmt:
		s.Cond = condition(s.If, r.expr(s.Cond))
		r.stmts(s.True)
		r.stmts(s.False)
	case *syntax.ForStmt:
		s.X = iterated(s.For, r.expr(s.X), s.Vars)
		s.Vars = r.target(s.Vars)
		r.stmts(s.Body)
	case *syntax.AssignStmt:
		if fn, ok := augmented[s.Op]; ok {
			return r.augmented(s, fn)
		}
		r.assign(s)
	case *syntax.DefStmt:
		r.params(s.Params)
		r.stmts(s.Body)
	case *syntax.ReturnStmt:
		if s.Result != nil {
			s.Result = r.expr(s.Result)
		}
	}
	return s
}

// augmented rewrites x %= y, for the operator that fn does. Elements and
// attributes are set by a function, so that what they are part of is evaluated
// once.
func (r *rewriter) augmented(s *syntax.AssignStmt, fn string) syntax.Stmt {
	y := r.expr(s.RHS)
	lhs := s.LHS
	for {
		paren, ok := lhs.(*syntax.ParenExpr)
		if !ok {
			break
		}
		lhs = paren.X
	}
	switch x := lhs.(type) {
	case *syntax.Ident:
		s.Op = syntax.EQ
		s.RHS = call(fn, s.OpPos, &syntax.Ident{NamePos: x.NamePos, Name: x.Name}, y)
		return s
	case *syntax.IndexExpr:
		return &syntax.ExprStmt{X: call("$assign_index", s.OpPos, r.expr(x.X), r.expr(x.Y), y, text(fn, s.OpPos))}
	case *syntax.DotExpr:
		return &syntax.ExprStmt{X: call("$assign_field", s.OpPos, r.expr(x.X), text(x.Name.Name, x.Name.NamePos), y)}
	}
	s.RHS = y // the resolver refuses it
	return s
}

func (r *rewriter) assign(s *syntax.AssignStmt) {
	s.RHS = r.expr(s.RHS)
	if p := pattern(s.LHS); p != "." {
		s.RHS = call("$unpack", s.OpPos, s.RHS, text(p, s.OpPos))
	}
	s.LHS = r.target(s.LHS)
}

// condition returns x, which is about to be tested. What a comparison or `not`
// gives is known already.
func condition(pos syntax.Position, x syntax.Expr) syntax.Expr {
	switch e := x.(type) {
	case *syntax.CallExpr:
		if id, ok := e.Fn.(*syntax.Ident); ok && comparisons[id.Name] {
			return x
		}
	case *syntax.UnaryExpr:
		if e.Op == syntax.NOT {
			return x
		}
	case *syntax.ParenExpr:
		e.X = condition(pos, e.X)
		return x
	}
	return call("$known", pos, x)
}

// comparisons are the functions whose result is True or False.
var comparisons = map[string]bool{"$eq": true, "$ne": true, "$lt": true, "$le": true, "$gt": true, "$ge": true, "$in": true, "$not_in": true}

// iterated returns the expression for what a loop goes through.
func iterated(pos syntax.Position, x, vars syntax.Expr) syntax.Expr {
	if p := pattern(vars); p != "." {
		return call("$each", pos, x, text(p, pos))
	}
	return call("$iter", pos, x)
}

// text returns a literal that stands at pos.
func text(s string, pos syntax.Position) syntax.Expr {
	return &syntax.Literal{Token: syntax.STRING, TokenPos: pos, Raw: strconv.Quote(s), Value: s}
}

// pattern describes the left side of an assignment for $unpack.
func pattern(e syntax.Expr) string {
	var parts []syntax.Expr
	switch e := e.(type) {
	case *syntax.TupleExpr:
		parts = e.List
	case *syntax.ListExpr:
		parts = e.List
	case *syntax.ParenExpr:
		return pattern(e.X)
	default:
		return "."
	}
	p := "("
	for _, x := range parts {
		p += pattern(x)
	}
	return p + ")"
}

// target rewrites the expressions within the left side of an assignment, but
// not the places that are assigned to.
func (r *rewriter) target(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.IndexExpr:
		e.X = r.expr(e.X)
		e.Y = call("$key", e.Lbrack, r.expr(e.Y))
	case *syntax.DotExpr:
		e.X = r.expr(e.X)
	case *syntax.TupleExpr:
		for i := range e.List {
			e.List[i] = r.target(e.List[i])
		}
	case *syntax.ListExpr:
		for i := range e.List {
			e.List[i] = r.target(e.List[i])
		}
	case *syntax.ParenExpr:
		e.X = r.target(e.X)
	}
	return e
}

// params rewrites the defaults of parameters.
func (r *rewriter) params(params []syntax.Expr) {
	for _, p := range params {
		if b, ok := p.(*syntax.BinaryExpr); ok && b.Op == syntax.EQ {
			b.Y = r.expr(b.Y)
		}
	}
}

func (r *rewriter) exprs(list []syntax.Expr) {
	for i := range list {
		list[i] = r.expr(list[i])
	}
}

func (r *rewriter) expr(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case nil, *syntax.Ident, *syntax.Literal:
	case *syntax.ParenExpr:
		e.X = r.expr(e.X)
	case *syntax.ListExpr:
		r.exprs(e.List)
	case *syntax.TupleExpr:
		r.exprs(e.List)
	case *syntax.DictExpr:
		for _, entry := range e.List {
			d := entry.(*syntax.DictEntry)
			d.Key, d.Value = r.expr(d.Key), r.expr(d.Value)
		}
	case *syntax.CondExpr:
		e.Cond = condition(e.If, r.expr(e.Cond))
		e.True, e.False = r.expr(e.True), r.expr(e.False)
	case *syntax.UnaryExpr:
		if e.X == nil {
			break
		}
		e.X = r.expr(e.X)
		if e.Op == syntax.NOT {
			e.X = condition(e.OpPos, e.X)
		}
	case *syntax.BinaryExpr:
		return r.binary(e)
	case *syntax.CallExpr:
		e.Fn = r.expr(e.Fn)
		r.args(e.Args)
	case *syntax.DotExpr:
		return r.dot(e)
	case *syntax.IndexExpr:
		e.X = r.expr(e.X)
		if _, literal := e.Y.(*syntax.Literal); !literal {
			e.Y = call("$key", e.Lbrack, r.expr(e.Y))
		}
	case *syntax.SliceExpr:
		e.X = call("$iter", e.Lbrack, r.expr(e.X))
		for _, p := range []*syntax.Expr{&e.Lo, &e.Hi, &e.Step} {
			if *p != nil {
				*p = call("$key", e.Lbrack, r.expr(*p))
			}
		}
	case *syntax.LambdaExpr:
		r.params(e.Params)
		e.Body = r.expr(e.Body)
	case *syntax.Comprehension:
		r.comprehension(e)
	}
	return e
}

func (r *rewriter) comprehension(e *syntax.Comprehension) {
	for _, c := range e.Clauses {
		switch c := c.(type) {
		case *syntax.ForClause:
			c.X = iterated(c.For, r.expr(c.X), c.Vars)
			c.Vars = r.target(c.Vars)
		case *syntax.IfClause:
			c.Cond = condition(c.If, r.expr(c.Cond))
		}
	}
	if d, ok := e.Body.(*syntax.DictEntry); ok {
		d.Key, d.Value = r.expr(d.Key), r.expr(d.Value)
		return
	}
	e.Body = r.expr(e.Body)
}

func (r *rewriter) binary(e *syntax.BinaryExpr) syntax.Expr {
	x, y := r.expr(e.X), r.expr(e.Y)
	if fn, ok := binary[e.Op]; ok {
		return call(fn, e.OpPos, x, y)
	}
	if e.Op == syntax.AND || e.Op == syntax.OR {
		x = condition(e.OpPos, x)
	}
	e.X, e.Y = x, y
	return e
}

func (r *rewriter) dot(e *syntax.DotExpr) syntax.Expr {
	e.X = r.expr(e.X)
	if !guarded[e.Name.Name] {
		return e
	}
	return call("$attr", e.Dot, e.X, text(e.Name.Name, e.Name.NamePos))
}

func (r *rewriter) args(args []syntax.Expr) {
	for i, a := range args {
		switch a := a.(type) {
		case *syntax.BinaryExpr:
			if a.Op == syntax.EQ { // name = value
				a.Y = r.expr(a.Y)
				continue
			}
		case *syntax.UnaryExpr:
			if a.Op == syntax.STAR || a.Op == syntax.STARSTAR {
				a.X = call("$iter", a.OpPos, r.expr(a.X))
				continue
			}
		}
		args[i] = r.expr(a)
	}
}

// call returns the expression fn(args...) that stands at pos.
func call(fn string, pos syntax.Position, args ...syntax.Expr) syntax.Expr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: pos, Name: fn}, Lparen: pos, Args: args, Rparen: pos}
}

// GuardedAttr takes apart the call that x.name was rewritten to, if e is one.
func GuardedAttr(e *syntax.CallExpr) (x syntax.Expr, name string, pos syntax.Position, ok bool) {
	id, isIdent := e.Fn.(*syntax.Ident)
	if !isIdent || id.Name != "$attr" || len(e.Args) != 2 {
		return nil, "", syntax.Position{}, false
	}
	lit := e.Args[1].(*syntax.Literal)
	return e.Args[0], lit.Value.(string), lit.TokenPos, true
}
