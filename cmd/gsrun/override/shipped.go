package override

import (
	"path"
	"slices"
	"strings"

	"github.com/bazelbuild/buildtools/build"
	"go.starlark.net/resolve"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
)

// An imported is a name that a file loads.
type imported struct{ module, from, to string }

// shipped is the file that a step's function stands in.
type shipped struct {
	path    string // within the recipes
	file    *build.File
	defs    map[string]build.Expr // top-level statements, by the name that they define
	uses    map[string][]string   // by the same: names of the file that the statement uses
	loads   map[string]imported
	reached bool // whether a load from @base// gets this very file
}

// readShipped reads the file at a path within the recipes.
func readShipped(name string, src []byte, reached bool) (*shipped, error) {
	f, err := build.ParseDefault(name, src)
	if err != nil {
		return nil, fault.Wrap("reading", name, err)
	}
	compiled, err := dialect.Compile(name, src, func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	s := &shipped{path: name, file: f, defs: make(map[string]build.Expr), uses: make(map[string][]string), loads: make(map[string]imported), reached: reached}
	for _, stmt := range f.Stmt {
		switch stmt := stmt.(type) {
		case *build.LoadStmt:
			for i, to := range stmt.To {
				s.loads[to.Name] = imported{module: s.module(stmt.Module.Value), from: stmt.From[i].Name, to: to.Name}
			}
		default:
			if name := defined(stmt); name != "" {
				s.defs[name] = stmt
			}
		}
	}
	for _, stmt := range compiled.Syntax.Stmts {
		switch stmt := stmt.(type) {
		case *syntax.DefStmt:
			s.uses[stmt.Name.Name] = s.usedBy(stmt)
		case *syntax.AssignStmt:
			if id, ok := stmt.LHS.(*syntax.Ident); ok {
				s.uses[id.Name] = s.usedBy(stmt.RHS)
			}
		}
	}
	return s, nil
}

// defined returns the name that a top-level statement defines, or "".
func defined(stmt build.Expr) string {
	switch stmt := stmt.(type) {
	case *build.DefStmt:
		return stmt.Name
	case *build.AssignExpr:
		if id, ok := stmt.LHS.(*build.Ident); ok && stmt.Op == "=" {
			return id.Name
		}
	}
	return ""
}

// usedBy returns the names of the file that the code below n uses, sorted.
func (s *shipped) usedBy(n syntax.Node) []string {
	var names []string
	syntax.Walk(n, func(n syntax.Node) bool {
		id, ok := n.(*syntax.Ident)
		if !ok {
			return true
		}
		b, ok := id.Binding.(*resolve.Binding)
		if !ok {
			return true
		}
		_, loaded := s.loads[id.Name]
		if b.Scope == resolve.Global || loaded && (b.Scope == resolve.Free || b.Scope == resolve.Local) {
			names = append(names, id.Name)
		}
		return true
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// module returns what a load of the file is called in a file anywhere else.
func (s *shipped) module(label string) string {
	if strings.HasPrefix(label, "//") || strings.HasPrefix(label, "@") {
		return label
	}
	return "//" + path.Join(path.Dir(s.path), label)
}

// gather returns what a file elsewhere has to load and to copy so that it can
// hold the function called name. The function itself comes last.
func (s *shipped) gather(name string) (loads []imported, stmts []build.Expr, err error) {
	seen := make(map[string]bool)
	var visit func(name string, copied bool) error
	visit = func(name string, copied bool) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		if l, ok := s.loads[name]; ok {
			if strings.HasPrefix(l.module, "@base//") {
				return fault.New(fault.Invalid, "it uses %s, which %s loads from a layer below its own", name, s.path)
			}
			loads = append(loads, l)
			return nil
		}
		stmt := s.defs[name]
		if stmt == nil {
			return fault.New(fault.Invalid, "it uses %s, which %s doesn't define by a statement of its own", name, s.path)
		}
		if !copied && s.reached && !strings.HasPrefix(name, "_") { // Starlark loads no private names
			loads = append(loads, imported{module: "@base//" + s.path, from: name, to: name})
			return nil
		}
		for _, used := range s.uses[name] {
			if err := visit(used, false); err != nil {
				return err
			}
		}
		stmts = append(stmts, stmt)
		return nil
	}
	if _, ok := s.defs[name].(*build.DefStmt); !ok {
		return nil, nil, fault.New(fault.Invalid, "%s has no function %s at its top level", s.path, name)
	}
	return loads, stmts, visit(name, true)
}
