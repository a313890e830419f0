package agree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A typ is the type of an expression of a generated recipe.
type typ string

const (
	text   typ = "str"
	number typ = "int"
	truth  typ = "bool"
	texts  typ = "list[str]"
	table  typ = "dict[str, str]"
	hidden typ = "secret"
)

// An ex is an expression. It is vague if a plan may not know its value, and
// drifting if its value may be another one in the next run.
type ex struct {
	src             string
	vague, drifting bool
}

// A variable is an expression that a step can name.
type variable struct {
	ex
	t     typ  // or the kind of an object: "network"
	there bool // an object that is there already: all of it is known
}

// A scope is what the code at one place can name.
type scope struct {
	vars []variable
	item bool // it runs for several items at the same time
}

func (s *scope) add(t typ, e ex) { s.vars = append(s.vars, variable{ex: e, t: t}) }

// within returns the scope of code within s, whose variables end with it.
func (s *scope) within() *scope {
	c := *s
	c.vars = slices.Clone(s.vars)
	return &c
}

// objectAttrs are attributes of objects, and whether they are known before the
// object is made.
var objectAttrs = map[typ][]struct {
	name  string
	t     typ
	vague bool
}{
	"network":        {{"id", text, true}, {"name", text, false}, {"mark", text, false}, {"mtu", number, true}, {"external", truth, true}, {"status", text, true}},
	"external":       {{"id", text, true}, {"name", text, true}, {"mtu", number, true}, {"external", truth, true}},
	"subnet":         {{"id", text, true}, {"name", text, false}, {"cidr", text, false}, {"gateway_ip", text, true}, {"dns_nameservers", texts, true}, {"network", text, true}},
	"router":         {{"id", text, true}, {"name", text, false}, {"subnets", texts, true}, {"address", text, true}},
	"port":           {{"id", text, true}, {"name", text, false}, {"mac", text, true}, {"address", text, true}, {"port_security", truth, true}},
	"security_group": {{"id", text, true}, {"name", text, false}, {"mark", text, false}, {"stateful", truth, true}},
	"floating_ip":    {{"id", text, true}, {"address", text, true}, {"mark", text, false}},
	"keypair":        {{"name", text, false}, {"fingerprint", text, false}},
	"server":         {{"id", text, true}, {"name", text, false}, {"address", text, true}, {"status", text, false}, {"metadata", table, true}},
	"image":          {{"id", text, true}, {"name", text, false}, {"sha256", text, false}},
	"file":           {{"path", text, false}, {"sha256", text, false}, {"mode", text, false}, {"owner", text, false}, {"group", text, true}},
	"directory":      {{"path", text, false}, {"mode", text, false}, {"owner", text, false}},
	"user":           {{"name", text, false}, {"home", text, true}, {"shell", text, true}, {"uid", number, true}, {"groups", texts, true}},
	"sysctl":         {{"key", text, false}, {"value", text, false}, {"persistent", truth, false}},
	"service":        {{"name", text, false}, {"enabled", truth, false}},
	"command":        {{"stdout", text, true}, {"exit_code", number, true}},
	"ssh_key":        {{"public_key", text, true}, {"fingerprint", text, true}},
}

// A gen generates one case.
type gen struct {
	r        *rand.Rand
	used     map[string]int      // constructs, by name
	n        int                 // for new names
	drifting bool                // the next run may differ
	helpers  []string            // names of functions of a text that return one
	git      bool                // the world has a repository, and no step uses it so far
	subnets  map[string]bool     // networks that have one
	ranges   map[string]string   // address ranges of subnets, by name
	twins    map[string]variable // what there is of an object before, by the expression of it
	prior    []string            // what is made before, by the same recipe
	foreign  []string            // by another one
	touched  bool                // a step before changes the host
	service  bool                // a step has the service
	sysctls  int                 // how many kernel parameters are used
	branch   bool                // the code may not run
}

func (g *gen) chance(percent int) bool { return g.r.IntN(100) < percent }
func (g *gen) use(construct string)    { g.used[construct]++ }

func (g *gen) name(prefix string) string {
	g.n++
	return fmt.Sprintf("%s%d", prefix, g.n)
}

func pick[T any](g *gen, list ...T) T { return list[g.r.IntN(len(list))] }

// mk makes an expression of others.
func (g *gen) mk(construct, format string, parts ...ex) ex {
	g.use(construct)
	e := ex{}
	args := make([]any, len(parts))
	for i, p := range parts {
		args[i] = p.src
		e.vague = e.vague || p.vague
		e.drifting = e.drifting || p.drifting
	}
	e.src = fmt.Sprintf(format, args...)
	return e
}

// pick returns a variable of the type.
func (g *gen) pick(s *scope, t typ, known bool) (ex, bool) {
	var found []ex
	for _, v := range s.vars {
		if v.t == t && !(known && v.vague) {
			found = append(found, v.ex)
		}
		for _, a := range objectAttrs[v.t] {
			vague := v.vague || a.vague && !v.there
			if a.t == t && !(known && vague) {
				found = append(found, ex{v.src + "." + a.name, vague, v.drifting})
			}
		}
	}
	if len(found) == 0 {
		return ex{}, false
	}
	return found[g.r.IntN(len(found))], true
}

func (g *gen) word() ex {
	return ex{src: fmt.Sprintf("%q", pick(g, "alpha", "beta", "a-b", "x1", "mgmt", "Zed", "k", "v2"))}
}

// decided is how often code decides on what may not be known.
const decided = 5

// sure returns whether an operand that is decided on must be known.
func (g *gen) sure(known bool) bool { return known || !g.chance(decided) }

// str returns an expression of a text without line ends.
func (g *gen) str(s *scope, depth int, known bool) ex {
	if depth <= 0 || g.chance(20) {
		if e, ok := g.pick(s, text, known); ok && g.chance(75) {
			return e
		}
		return g.word()
	}
	sub := func() ex { return g.str(s, depth-1, known) }
	sure := func() ex { return g.str(s, depth-1, g.sure(known)) }
	switch g.r.IntN(33) {
	case 0, 1:
		return g.mk("+", "(%s + %s)", sub(), sub())
	case 2, 3:
		return g.mk("%", "(\"%%s-%%s\" %% (%s, %s))", sub(), sub())
	case 4:
		return g.mk("%", "(\"n%%d\" %% %s)", g.num(s, depth-1, known))
	case 5:
		return g.mk("% dict", "(\"%%(a)s.%%(b)s\" %% {\"a\": %s, \"b\": %s})", sub(), sub())
	case 6:
		return g.mk("format", "\"{}/{}\".format(%s, %s)", sub(), sub())
	case 7:
		return g.mk("format named", "\"{x}_{y}\".format(x = %s, y = %s)", sub(), sub())
	case 8, 9:
		return g.mk("join", "%s.join(%s)", g.word(), g.list(s, depth-1, known))
	case 10:
		return g.mk("str method", "%s."+pick(g, "upper()", "lower()", "strip()", "title()", "replace(\"a\", \"o\")", "removeprefix(\"a\")", "lstrip(\"a\")"), sub())
	case 11:
		return g.mk("str method of u", "\"a-b\"."+pick(g, "replace(\"a\", %s)", "removeprefix(%s)", "strip(%s)"), sub())
	case 12:
		return g.mk("slice", "%s"+pick(g, "[1:3]", "[:4]", "[-3:]", "[::2]"), sub())
	case 13:
		return g.mk("str()", pick(g, "str(%s)", "repr(%s)"), g.num(s, depth-1, known))
	case 14:
		return g.mk("str of list", "str(%s)", g.list(s, depth-1, known))
	case 15:
		return g.mk("json", "json.encode(%s)", g.dict(s, depth-1, known))
	case 16:
		return g.mk("hash", "hash.sha256(%s)[:8]", sub())
	case 17:
		return g.mk("base64", "base64.encode(%s)", sub())
	case 18:
		return g.mk("template", "template.render(text = \"<{{.a}}>\", vars = {\"a\": %s})", sub())
	case 19:
		return g.mk("re", "re.sub(\"[aeiou]\", \"_\", %s)", sub())
	case 20:
		return g.mk("dict get", "%s.get(\"a\", %s)", g.dict(s, depth-1, known), sub())
	case 21:
		return g.mk("cond expr", "(%s if %s else %s)", sub(), g.cond(s, depth-1, known), sub())
	case 22:
		if len(g.helpers) > 0 {
			return g.mk("helper", pick(g, g.helpers...)+"(%s)", sub())
		}
		return g.mk("lambda", "(lambda x, y = %s: x + y)(%s)", sub(), sub())
	case 23:
		return g.mk("list index", "(%s + [%s])[0]", g.list(s, depth-1, known), sub())
	case 24:
		return g.mk("ctx.name", "ctx.name(%s)", sub())
	case 25:
		return g.mk("path", "path.join([\"srv\", %s])", sub())
	case 26:
		return g.mk("net", "net.cidr_host(\"10.9.0.0/16\", %s)", g.mk("", "abs(%s) %% 200", g.num(s, depth-1, known)))
	case 27:
		return g.mk("or", "(%s or \"none\")", sure())
	case 28:
		return g.mk("min str", pick(g, "min([%s, \"m\"])", "max([%s, \"m\"])", "sorted([%s, \"m\"])[0]"), sure())
	case 29:
		return g.mk("dict index", "{\"other\": %s, \"k\": %s}[\"k\"]", sub(), sub())
	case 30:
		return g.mk("getattr", "getattr(struct(f = %s), \"f\")", sub())
	case 31:
		return g.mk("star call", "(lambda *a, **k: a[0] + k[\"z\"])(*[%s], **{\"z\": %s})", sub(), sub())
	default:
		return g.mk("attr of struct", "struct(a = %s, b = [%s]).a", sub(), sub())
	}
}

func (g *gen) num(s *scope, depth int, known bool) ex {
	if depth <= 0 || g.chance(25) {
		if e, ok := g.pick(s, number, known); ok && g.chance(70) {
			return e
		}
		return ex{src: fmt.Sprint(g.r.IntN(9))}
	}
	sub := func() ex { return g.num(s, depth-1, known) }
	switch g.r.IntN(11) {
	case 0, 1:
		return g.mk("arithmetic", "(%s "+pick(g, "+", "-", "*")+" %s)", sub(), sub())
	case 2:
		return g.mk("arithmetic", "(%s "+pick(g, "%% 7", "// 2", "<< 1", ">> 1", "& 3", "| 1", "^ 2")+")", sub())
	case 3:
		return g.mk("shift by", "(1 << (%s %% 5))", sub())
	case 4:
		return g.mk("len", "len(%s)", g.list(s, depth-1, known))
	case 5:
		return g.mk("len", "len(%s)", g.str(s, depth-1, g.sure(known)))
	case 6:
		return g.mk("int()", "int(\"1%%d\" %% (%s %% 9))", g.num(s, depth-1, g.sure(known)))
	case 7:
		return g.mk("max", pick(g, "max(%s, %s)", "min(%s, %s)"), g.num(s, depth-1, g.sure(known)), g.num(s, depth-1, g.sure(known)))
	case 8:
		return g.mk("find", "%s."+pick(g, "find(\"a\")", "count(\"a\")"), g.str(s, depth-1, known))
	case 9:
		return g.mk("unary", pick(g, "-%s", "+%s", "~%s"), sub())
	default:
		return g.mk("math", "math.floor(%s)", sub())
	}
}

// cond returns an expression that is True or False.
func (g *gen) cond(s *scope, depth int, known bool) ex {
	if depth <= 0 || g.chance(15) {
		if e, ok := g.pick(s, truth, known); ok && g.chance(60) {
			return e
		}
		return ex{src: pick(g, "True", "False")}
	}
	str := func() ex { return g.str(s, depth-1, g.sure(known)) }
	num := func() ex { return g.num(s, depth-1, g.sure(known)) }
	sub := func() ex { return g.cond(s, depth-1, g.sure(known)) }
	switch g.r.IntN(13) {
	case 0:
		return g.mk("compare", "%s "+pick(g, "<", "<=", ">", ">=", "==", "!=")+" %s", num(), num())
	case 1, 2:
		return g.mk("compare", "%s "+pick(g, "==", "!=", "<")+" %s", str(), str())
	case 3:
		return g.mk("in list", "%s "+pick(g, "in", "not in")+" %s", str(), g.list(s, depth-1, g.sure(known)))
	case 4:
		return g.mk("in str", "\"a\" "+pick(g, "in", "not in")+" %s", str())
	case 5:
		return g.mk("in dict", "%s in %s", str(), g.dict(s, depth-1, g.sure(known)))
	case 6:
		return g.mk("startswith", "%s."+pick(g, "startswith(\"a\")", "endswith(\"a\")", "isdigit()"), str())
	case 7:
		return g.mk("not", "not %s", sub())
	case 8:
		return g.mk("and or", "(%s "+pick(g, "and", "or")+" %s)", sub(), sub())
	case 9:
		return g.mk("any all", pick(g, "any", "all")+"([%s, %s])", sub(), sub())
	case 10:
		return g.mk("bool()", "bool(%s)", g.list(s, depth-1, known))
	case 11:
		return g.mk("hasattr", "hasattr(struct(a = %s), \"a\")", g.str(s, depth-1, known))
	default:
		return g.mk("compare list", "%s == %s", g.list(s, depth-1, g.sure(known)), g.list(s, depth-1, g.sure(known)))
	}
}

func (g *gen) list(s *scope, depth int, known bool) ex {
	if depth <= 0 || g.chance(15) {
		if e, ok := g.pick(s, texts, known); ok && g.chance(60) {
			return e
		}
		return g.mk("list", "[%s, %s]", g.str(s, depth-1, known), g.str(s, depth-1, known))
	}
	sub := func() ex { return g.list(s, depth-1, known) }
	inner := s.within()
	inner.add(text, ex{src: "x"})
	switch g.r.IntN(14) {
	case 0:
		return g.mk("comprehension", "[%s for x in %s]", g.str(inner, depth-1, known), sub())
	case 1:
		return g.mk("comprehension if", "[x for x in %s if %s]", sub(), g.cond(inner, depth-1, g.sure(known)))
	case 2:
		return g.mk("comprehension nested", "[x + y for x in %s for y in [%s] if %s]", sub(), g.str(s, depth-1, known), g.cond(s, depth-1, g.sure(known)))
	case 3:
		return g.mk("sorted", "sorted(%s"+pick(g, "", ", reverse = True", ", key = lambda x: len(x)")+")", g.list(s, depth-1, g.sure(known)))
	case 4:
		return g.mk("list +", "(%s + %s)", sub(), sub())
	case 5:
		return g.mk("list slice", "%s"+pick(g, "[1:]", "[:1]", "[::-1]"), sub())
	case 6:
		return g.mk("split", "%s.split(\"-\")", g.str(s, depth-1, g.sure(known)))
	case 7:
		return g.mk("range", "[str(i) for i in range(%s)]", g.mk("", "abs(%s) %% 3", g.num(s, depth-1, g.sure(known))))
	case 8:
		return g.mk("enumerate", "[\"%%d%%s\" %% (i, n) for i, n in enumerate(%s)]", sub())
	case 9:
		return g.mk("zip", "[a + b for a, b in zip(%s, %s)]", sub(), sub())
	case 10:
		return g.mk("keys", pick(g, "%s.keys()", "list(%s)", "sorted(%s)"), g.dict(s, depth-1, g.sure(known)))
	case 11:
		return g.mk("values", "%s.values()", g.dict(s, depth-1, known))
	case 12:
		return g.mk("reversed", "list(reversed(%s))", sub())
	default:
		return g.mk("parallel", "parallel(%s, lambda x: %s)", sub(), g.str(inner, depth-1, known))
	}
}

func (g *gen) dict(s *scope, depth int, known bool) ex {
	if depth <= 0 || g.chance(20) {
		if e, ok := g.pick(s, table, known); ok && g.chance(60) {
			return e
		}
		return g.mk("dict", "{\"a\": %s, \"b\": %s}", g.str(s, depth-1, known), g.str(s, depth-1, known))
	}
	inner := s.within()
	inner.add(text, ex{src: "x"})
	switch g.r.IntN(5) {
	case 0:
		return g.mk("dict()", "dict(a = %s, c = %s)", g.str(s, depth-1, known), g.str(s, depth-1, known))
	case 1:
		return g.mk("dict comprehension", "{x: %s for x in %s}", g.str(inner, depth-1, known), g.list(s, depth-1, g.sure(known)))
	case 2:
		return g.mk("dict |", "(%s | %s)", g.dict(s, depth-1, known), g.dict(s, depth-1, known))
	case 3:
		return g.mk("dict key", "{%s: %s}", g.str(s, depth-1, g.sure(known)), g.str(s, depth-1, known))
	default:
		return g.mk("dict zip", "dict(zip([\"a\", \"b\"], [%s, %s]))", g.str(s, depth-1, known), g.str(s, depth-1, known))
	}
}

// value returns an expression of any type that leaves a step.
func (g *gen) value(s *scope, depth int) (typ, ex) {
	switch g.r.IntN(6) {
	case 0:
		return number, g.num(s, depth, false)
	case 1:
		return truth, g.cond(s, depth, !g.chance(decided))
	case 2:
		return texts, g.list(s, depth, false)
	case 3:
		return table, g.dict(s, depth, false)
	}
	return text, g.str(s, depth, false)
}

// indented moves lines to the right.
func indented(lines []string) []string {
	var out []string
	for _, l := range lines {
		for part := range strings.SplitSeq(l, "\n") {
			out = append(out, "    "+part)
		}
	}
	return out
}
