package dialect

import (
	"strings"

	"go.starlark.net/syntax"
)

// Function returns the source text of the function called name whose
// definition begins at the given line, its leading indentation removed.
func (f *File) Function(name string, line int) (string, bool) {
	var found *syntax.DefStmt
	for _, s := range f.Syntax.Stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			if d, ok := n.(*syntax.DefStmt); ok && d.Name.Name == name && int(d.Def.Line) == line {
				found = d
			}
			return found == nil
		})
	}
	if found == nil {
		return "", false
	}
	lines := strings.Split(string(f.Source), "\n")
	first := int(found.Def.Line) - 1
	indent := int(found.Def.Col) - 1
	// The body's last line is where its text stops being indented: the end
	// position of a statement doesn't count its closing brackets.
	last := first
	for i := first + 1; i < len(lines); i++ {
		l := lines[i]
		if strings.TrimSpace(l) == "" {
			continue
		}
		if _, end := found.Span(); len(l)-len(strings.TrimLeft(l, " \t")) <= indent && i >= int(end.Line) {
			break
		}
		last = i
	}
	var b strings.Builder
	for _, l := range lines[first : last+1] {
		if len(l) >= indent {
			l = l[indent:]
		}
		b.WriteString(strings.TrimRight(l, " \t") + "\n")
	}
	return b.String(), true
}

// Lambda returns the source text from where a lambda begins to the end of its
// last line: more than the lambda itself, where that isn't all on it.
func (f *File) Lambda(n syntax.Node) string {
	start, end := n.Span()
	lines := strings.Split(string(f.Source), "\n")
	first := int(start.Line) - 1
	if first < 0 || first >= len(lines) || int(start.Col) > len(lines[first]) {
		return ""
	}
	last := min(max(int(end.Line), first+1), len(lines))
	text := strings.Join(lines[first:last], "\n")
	return text[int(start.Col)-1:]
}

// Doc returns the file's docstring: a text that stands first in it.
func (f *File) Doc() string {
	if len(f.Syntax.Stmts) == 0 {
		return ""
	}
	if e, ok := f.Syntax.Stmts[0].(*syntax.ExprStmt); ok {
		if l, ok := e.X.(*syntax.Literal); ok && l.Token == syntax.STRING {
			s, _ := l.Value.(string)
			return strings.TrimSpace(s)
		}
	}
	return ""
}

// place is where a function begins.
type place struct{ line, col int32 }

// At returns the definition or lambda that begins at a position, or nil.
func (f *File) At(pos syntax.Position) syntax.Node {
	f.indexing.Do(func() {
		f.functions = make(map[place]syntax.Node)
		for _, s := range f.Syntax.Stmts {
			syntax.Walk(s, func(n syntax.Node) bool {
				switch n := n.(type) {
				case *syntax.DefStmt:
					f.functions[place{n.Def.Line, n.Def.Col}] = n
				case *syntax.LambdaExpr:
					f.functions[place{n.Lambda.Line, n.Lambda.Col}] = n
				}
				return true
			})
		}
	})
	return f.functions[place{pos.Line, pos.Col}]
}
