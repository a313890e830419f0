package agree

import (
	"fmt"
	"strings"
)

// deferredLine is what steps log when they end.
const deferredLine = "done"

// A domain is what a step works on: steps that may run at the same time work
// on different ones.
type domain int

const (
	inCloud domain = iota
	onHost
)

// statements returns n statements of a step.
func (g *gen) statements(s *scope, n int, d domain, depth int) []string {
	var out []string
	for range n {
		out = append(out, g.statement(s, d, depth))
	}
	return out
}

// statement returns one statement, without indentation; it may be a block.
func (g *gen) statement(s *scope, d domain, depth int) string {
	if g.chance(45) {
		return g.effect(s, d)
	}
	switch g.r.IntN(16) {
	case 0, 1, 2:
		t, e := g.value(s, 3)
		return g.assign(s, t, e)
	case 3:
		return g.augment(s)
	case 4, 5:
		if depth > 0 {
			return g.branching(s, d, depth)
		}
	case 6:
		return g.loop(s)
	case 7:
		v, w := g.name("v"), g.name("v")
		a, b := g.str(s, 2, false), g.num(s, 2, false)
		s.add(text, ex{v, a.vague, a.drifting})
		s.add(number, ex{w, b.vague, b.drifting})
		g.use("unpack")
		return pick(g, fmt.Sprintf("%s, %s = (%s, %s)", v, w, a.src, b.src), fmt.Sprintf("[%s, (%s, _)] = [%s, (%s, 0)]", v, w, a.src, b.src))
	case 8:
		f := g.name("f")
		inner := s.within()
		inner.add(text, ex{src: "x"})
		body, arg := g.str(inner, 2, false), g.str(s, 1, false)
		v := g.name("v")
		s.add(text, ex{v, body.vague || arg.vague, body.drifting || arg.drifting})
		g.use("closure")
		return fmt.Sprintf("def %s(x):\n    return %s\n%s = %s(%s)", f, body.src, v, f, arg.src)
	case 9, 10:
		g.use("log")
		return fmt.Sprintf("ctx.log(%s)", g.str(s, 2, false).src)
	case 11:
		return g.attempt(s, d)
	case 12:
		g.use("defer")
		return fmt.Sprintf("ctx.defer(lambda: ctx.log(%q))", deferredLine)
	case 13:
		g.use("wait")
		return g.assign(s, text, g.mk("wait", "wait(\"it\", until = lambda: %s, timeout = \"5s\", interval = \"1ms\")", g.mk("", "\"w\" + %s", g.str(s, 1, true))))
	case 14:
		if depth > 0 && g.chance(12) {
			g.use("fail")
			return fmt.Sprintf("if %s:\n    fail(%s)", g.cond(s, 2, true).src, g.str(s, 1, true).src)
		}
	}
	return g.read(s, d)
}

func (g *gen) assign(s *scope, t typ, e ex) string {
	if e.drifting {
		g.drifting = true
	}
	v := g.name("v")
	s.add(t, ex{v, e.vague, e.drifting})
	return v + " = " + e.src
}

func (g *gen) augment(s *scope) string {
	v := g.name("v")
	e := g.str(s, 1, false)
	switch g.r.IntN(6) {
	case 0:
		s.add(text, ex{v, e.vague, e.drifting})
		g.use("+=")
		return fmt.Sprintf("%s = \"a\"\n%s += %s", v, v, e.src)
	case 1:
		n := g.num(s, 1, false)
		s.add(number, ex{v, n.vague, n.drifting})
		g.use("%=")
		return fmt.Sprintf("%s = %s\n%s %%= 3", v, n.src, v)
	case 2:
		s.add(table, ex{v, e.vague, e.drifting})
		g.use("element +=")
		return fmt.Sprintf("%s = {\"a\": \"b\"}\n%s[\"a\"] += %s\n%s[\"b\"] = %s", v, v, e.src, v, e.src)
	case 3:
		s.add(table, ex{v, e.vague, e.drifting})
		g.use("element %=")
		return fmt.Sprintf("%s = {\"a\": \"b%%s\"}\n%s[\"a\"] %%= %s\n%s.update(c = %s)\n%s.setdefault(\"d\", \"e\")", v, v, e.src, v, e.src, v)
	case 4:
		s.add(texts, ex{v, e.vague, e.drifting})
		g.use("append")
		return fmt.Sprintf("%s = [\"a\"]\n%s.append(%s)\n%s += [%s]\n%s[0] = %s\n%s.insert(0, \"i\")", v, v, e.src, v, e.src, v, e.src, v)
	}
	s.add(texts, ex{v, e.vague, e.drifting})
	g.use("extend")
	return fmt.Sprintf("%s = [\"a\"]\n%s.extend(%s)\n%s.pop(0)", v, v, g.list(s, 1, false).src, v)
}

func (g *gen) branching(s *scope, d domain, depth int) string {
	v := g.name("v")
	c := g.cond(s, 2, !g.chance(decided))
	g.drifting = g.drifting || c.drifting
	outer := g.branch
	g.branch = true
	block := func() []string {
		in := s.within()
		lines := g.statements(in, 1, d, depth-1)
		return append(lines, fmt.Sprintf("%s = %s", v, g.str(in, 2, false).src))
	}
	yes, no := block(), block()
	g.branch = outer
	s.add(text, ex{v, true, c.drifting})
	g.use("if")
	return fmt.Sprintf("if %s:\n%s\nelse:\n%s", c.src, strings.Join(indented(yes), "\n"), strings.Join(indented(no), "\n"))
}

func (g *gen) loop(s *scope) string {
	v := g.name("v")
	list := g.list(s, 1, !g.chance(decided))
	inner := s.within()
	inner.add(text, ex{src: "x"})
	inner.add(text, ex{src: v, vague: list.vague})
	body := g.str(inner, 2, false)
	s.add(text, ex{v, list.vague || body.vague, list.drifting || body.drifting})
	g.use("for")
	if g.chance(30) {
		c := g.cond(inner, 1, true)
		return fmt.Sprintf("%s = \"\"\nfor x in %s:\n    if %s:\n        %s\n    %s = (%s)[-40:]", v, list.src, c.src, pick(g, "continue", "break"), v, body.src)
	}
	if g.chance(30) {
		return fmt.Sprintf("%s = \"\"\nfor i, (x, y) in enumerate([(x, 1) for x in %s]):\n    %s = (%s)[-40:]", v, list.src, v, body.src)
	}
	return fmt.Sprintf("%s = \"\"\nfor x in %s:\n    %s = (%s)[-40:]", v, list.src, v, body.src)
}

func (g *gen) attempt(s *scope, d domain) string {
	v := g.name("v")
	g.use("attempt")
	switch g.r.IntN(4) {
	case 0:
		e := g.str(s, 1, false)
		s.add(text, ex{v, true, e.drifting})
		return fmt.Sprintf("%s = attempt(lambda: fail(%s)).error.message", v, g.str(s, 1, true).src)
	case 1:
		e := g.str(s, 2, !g.chance(decided))
		s.add(text, ex{v, e.vague, e.drifting})
		return fmt.Sprintf("%s = attempt(lambda: %s).value", v, e.src)
	case 2:
		s.add(truth, ex{src: v})
		return fmt.Sprintf("%s = attempt(lambda: [1][%d]).ok", v, g.r.IntN(2))
	}
	s.add(truth, ex{src: v, vague: true})
	if d == onHost {
		return fmt.Sprintf("%s = attempt(lambda: h.run([\"test\", \"-d\", %q], readonly = True)).ok", v, pick(g, "/etc", "/nowhere"))
	}
	return fmt.Sprintf("%s = attempt(lambda: cloud.network.ensure(%s)).ok", v, g.naming(s, "at").src)
}
