package agree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A testCase is a generated recipe, and what the world has before.
type testCase struct {
	seed      uint64
	converges bool // the second run finds all as it wants it
	used      map[string]int
	defs      []string    // functions of main.star
	steps     []*stepText // of main.star
	sub       []*stepText // of sub.star, which main.star may use
	outputs   string
	subOut    string
	prior     []string // statements of the recipe that ran before
	foreign   []string // of somebody else's
}

// A stepText is the text of a step.
type stepText struct {
	name   string
	params string
	body   []string // statements
	result string
	decl   string // in the list of steps
}

const connections = "cloud = openstack.connect(\"lab\")\nh = host()"

func (s *stepText) source() string {
	if s.params == "" {
		return "" // it uses a recipe
	}
	lines := append([]string{"\"\"\"Do it.\"\"\"", connections}, s.body...)
	lines = append(lines, "return "+s.result)
	return fmt.Sprintf("def %s(%s):\n%s\n", s.name, s.params, strings.Join(indented(lines), "\n"))
}

const header = "\"\"\"A generated recipe.\"\"\"\n\nload(\"lab.star\", \"IMAGE\", \"host\", \"repo\")\n\n"

func file(steps []*stepText, defs []string, load, inputs, outputs string) string {
	var b strings.Builder
	b.WriteString(header + load)
	for _, d := range defs {
		b.WriteString(d + "\n\n")
	}
	var decls []string
	for _, s := range steps {
		if src := s.source(); src != "" {
			b.WriteString(src + "\n")
		}
		decls = append(decls, s.decl)
	}
	fmt.Fprintf(&b, "main = recipe(\n    inputs = {%s},\n    steps = [%s],\n    outputs = %s,\n)\n", inputs, strings.Join(decls, ", "), outputs)
	return b.String()
}

// files returns the recipe's files.
func (c *testCase) files() map[string]string {
	inputs := `"word": input.string(default = "delta", doc = "A word."), "num": input.int(default = 3, doc = "A number."), "flag": input.bool(default = True, doc = "A switch."), "names": input.list(default = ["a", "b"], doc = "Names.")`
	load := ""
	if c.sub != nil {
		load = "load(\"sub.star\", sub = \"main\")\n\n"
	}
	f := map[string]string{"main.star": file(c.steps, c.defs, load, inputs, c.outputs), "t.tmpl": "a = {{.a}}\nn = {{.n}}\n"}
	if c.sub != nil {
		f["sub.star"] = file(c.sub, nil, "", `"a": input.string(doc = "A text."), "n": input.int(doc = "A number.")`, c.subOut)
	}
	return f
}

// before returns recipes that make the world as it is before: one under the
// recipe's own name, and one of somebody else.
func (c *testCase) before() (own, other map[string]string) {
	make := func(name string, lines []string) map[string]string {
		s := &stepText{name: "before", params: "ctx", body: lines, result: "None", decl: "before"}
		return map[string]string{name: file([]*stepText{s}, nil, "", "", "None"), "t.tmpl": "old = {{.a}}\n"}
	}
	return make("main.star", c.prior), make("other.star", c.foreign)
}

// source returns all of the case as text.
func (c *testCase) source() string {
	f := c.files()
	text := "# main.star\n" + f["main.star"]
	if f["sub.star"] != "" {
		text += "\n# sub.star\n" + f["sub.star"]
	}
	if len(c.prior) > 0 {
		text += "\n# before, by the same recipe\n" + strings.Join(c.prior, "\n") + "\n"
	}
	if len(c.foreign) > 0 {
		text += "\n# before, by another recipe\n" + strings.Join(c.foreign, "\n") + "\n"
	}
	return text
}

// generate returns the case of a seed.
func generate(seed uint64, repository bool) *testCase {
	g := &gen{r: rand.New(rand.NewPCG(seed, 0x9e3779b9)), used: make(map[string]int), git: repository,
		subnets: make(map[string]bool), ranges: make(map[string]string), twins: make(map[string]variable)}
	c := &testCase{seed: seed, used: g.used}
	for range g.r.IntN(3) {
		name := g.name("help")
		s := &scope{}
		s.add(text, ex{src: "x"})
		s.add(text, ex{src: "y"})
		body := g.str(s, 2, false)
		for strings.Contains(body.src, "ctx.") || strings.Contains(body.src, "parallel") || strings.Contains(body.src, "wait(") {
			body = g.str(s, 2, false)
		}
		c.defs = append(c.defs, fmt.Sprintf("def %s(x, y = %q):\n    return %s", name, "y", body.src))
		g.helpers = append(g.helpers, name)
	}
	inputs := &scope{}
	inputs.add(text, ex{src: "ctx.inputs.word"})
	inputs.add(number, ex{src: "ctx.inputs.num"})
	inputs.add(truth, ex{src: "ctx.inputs.flag"})
	inputs.add(texts, ex{src: "ctx.inputs.names"})
	c.compose(g, inputs)
	c.converges = !g.drifting
	c.prior, c.foreign = g.prior, g.foreign
	return c
}

// compose makes the steps. Those of one domain follow each other; those of
// different ones run at the same time, unless one needs a value of another.
func (c *testCase) compose(g *gen, inputs *scope) {
	last := map[domain]string{}
	results := map[string][]variable{} // of the steps, as their dependents see them
	n := 2 + g.r.IntN(3)
	for i := range n {
		d := domain(g.r.IntN(2))
		s := inputs.within()
		var needs []string
		for other, step := range last {
			if other == d || g.chance(40) {
				needs = append(needs, step)
			}
		}
		slices.Sort(needs)
		for _, step := range needs {
			s.vars = append(s.vars, results[step]...)
		}
		name := fmt.Sprintf("s%d", i)
		if i > 0 && c.sub == nil && g.chance(12) {
			results[name] = c.useSub(g, s, name, d, needs)
			last[d] = name
			continue
		}
		results[name] = c.step(g, s, name, d, needs)
		last[d] = name
	}
	var fields []string
	var params []string
	for i := range c.steps {
		name := c.steps[i].name
		if len(results[name]) == 0 || g.chance(30) {
			continue
		}
		params = append(params, name)
		fields = append(fields, fmt.Sprintf("%q: %s", name, results[name][g.r.IntN(len(results[name]))].src))
	}
	c.outputs = fmt.Sprintf("lambda %s: {%s}", strings.Join(params, ", "), strings.Join(fields, ", "))
}

// step adds a step, and returns what its dependents can name.
func (c *testCase) step(g *gen, s *scope, name string, d domain, needs []string) []variable {
	t := &stepText{name: name, params: strings.Join(append([]string{"ctx"}, needs...), ", ")}
	c.steps = append(c.steps, t)
	lambda := "lambda " + strings.Join(needs, ", ") + ": "
	var options []string
	skip, each := "", false
	plain := s.within()
	plain.vars = slices.DeleteFunc(plain.vars, func(v variable) bool { return strings.HasPrefix(v.src, "ctx.") })
	noCtx := func(e func() ex) ex {
		for {
			if x := e(); !strings.Contains(x.src, "ctx.") {
				return x
			}
		}
	}
	switch {
	case g.chance(10):
		cond := noCtx(func() ex { return g.cond(plain, 2, !g.chance(10)) })
		g.use("when")
		skip = cond.src
		g.branch = true
		options = append(options, "when = "+lambda+cond.src)
		g.drifting = g.drifting || cond.drifting
	case g.chance(12):
		items := noCtx(func() ex { return g.list(plain, 1, !g.chance(10)) })
		g.use("each")
		each = true
		options = append(options, "each = "+lambda+fmt.Sprintf("[x for x in dict([(y.lower().replace(\"/\", \"-\"), 1) for y in %s[:3]])]", items.src))
		s.item = true
		s.add(text, ex{src: "ctx.item", vague: items.vague})
		s.add(number, ex{src: "ctx.index"})
		g.drifting = g.drifting || items.drifting
	}
	had := len(s.vars)
	if each {
		t.body = g.statements(s, 1+g.r.IntN(2), d, 0)
	} else {
		t.body = g.statements(s, 2+g.r.IntN(4), d, 2)
	}
	g.branch = false
	own := slices.DeleteFunc(slices.Clone(s.vars[had:]), func(v variable) bool { return strings.HasPrefix(v.src, "ctx.") })
	g.r.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	own = own[:min(len(own), 6)]
	var fields []string
	var seen []variable
	for i, v := range own {
		f := fmt.Sprintf("f%d", i)
		fields = append(fields, f+" = "+v.src)
		after := v
		after.src = name + "." + f
		if twin, ok := g.twins[v.src]; ok {
			g.twins[after.src] = twin
		}
		if g.subnets[v.src] {
			g.subnets[after.src] = true
		}
		seen = append(seen, after)
	}
	if len(fields) == 0 {
		fields = []string{"f0 = 1"}
		seen = []variable{{ex: ex{src: name + ".f0"}, t: number}}
	}
	t.result = "struct(" + strings.Join(fields, ", ") + ")"
	switch g.r.IntN(6) {
	case 0:
		t.result = strings.Replace(t.result, ")", ", extra = [1, (\"a\", {\"b\": None}), 2.5])", 1)
		if !strings.HasSuffix(t.result, "2.5])") {
			t.result = "struct(" + strings.Join(fields, ", ") + ")"
		}
	}
	t.decl = name
	if len(options) > 0 {
		t.decl = "step(" + name + ", " + strings.Join(options, ", ") + ")"
	}
	switch {
	case skip != "":
		v := seen[0]
		return []variable{{ex: ex{fmt.Sprintf("(str(%s) if %s != None else \"no\")", v.src, name), true, v.drifting}, t: text}}
	case each:
		return []variable{{ex: ex{src: "len(" + name + ")"}, t: number}, {ex: ex{"[str(x.f0) for x in " + name + "]", true, seen[0].drifting}, t: texts}}
	}
	return seen
}

// useSub adds a step that is another recipe.
func (c *testCase) useSub(g *gen, s *scope, name string, d domain, needs []string) []variable {
	g.use("use")
	sub := &testCase{}
	in := &scope{}
	in.add(text, ex{src: "ctx.inputs.a", vague: true})
	in.add(number, ex{src: "ctx.inputs.n", vague: true})
	prior := g.prior
	helpers := g.helpers
	g.helpers = nil
	first := sub.step(g, in, "t0", d, nil)
	g.helpers = helpers
	g.prior = prior // it would be the main recipe's
	plain := s.within()
	plain.vars = slices.DeleteFunc(plain.vars, func(v variable) bool { return strings.HasPrefix(v.src, "ctx.") })
	given := func(e func() ex) ex {
		for {
			if x := e(); !strings.Contains(x.src, "ctx.") {
				g.drifting = g.drifting || x.drifting
				return x
			}
		}
	}
	a, n := given(func() ex { return g.str(plain, 2, false) }), given(func() ex { return g.num(plain, 1, false) })
	c.sub = sub.steps
	c.subOut = fmt.Sprintf("lambda t0: {\"x\": %s}", first[0].src)
	c.steps = append(c.steps, &stepText{name: name, decl: fmt.Sprintf("use(%q, sub, inputs = lambda %s: {\"a\": %s, \"n\": %s})", name, strings.Join(needs, ", "), a.src, n.src)})
	x := first[0]
	x.src = name + ".x"
	return []variable{x}
}
