// Package override writes the file by which a site overrides a step of a
// recipe: what it loads, the step's function as a starting point, the call of
// extend, and the pin of the step as it is.
package override

import (
	"path"
	"slices"
	"strings"

	"github.com/bazelbuild/buildtools/build"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Request says what to override, and how.
type Request struct {
	Recipe string // its path, without .star: "gateway"
	Step   string
	Digest string // of the step, as a pin
	Doc    string // the step's
	Wrap   bool   // wrap it instead of replacing it

	// Of a replacement: the function's name, and the file that it stands in.
	Function string
	File     string // within the recipes
	Source   []byte
	Reached  bool // whether @base//File, loaded by the site, is that file
}

// Write returns the text of the site's file with the override in it. site is
// what the file says now, nil if there is none. What can't be added safely is
// refused.
func Write(r Request, site []byte) ([]byte, error) {
	name := r.Recipe + ".star"
	if site == nil {
		alias := "base"
		if r.Step == alias {
			alias = "shipped"
		}
		site = []byte("\"\"\"What this site changes of the recipe " + r.Recipe + ".\"\"\"\nload(\"@base//" + name + "\", " + alias + " = \"main\")\nmain = " + alias + ".extend()\n")
	}
	e, err := open(name, site)
	if err != nil {
		return nil, err
	}
	if err := e.add(r); err != nil {
		return nil, err
	}
	return build.FormatWithoutRewriting(e.file), nil
}

// Repin returns the text of the site's file with another digest for the step.
func Repin(recipe, step, digest string, site []byte) ([]byte, error) {
	e, err := open(recipe+".star", site)
	if err != nil {
		return nil, err
	}
	if err := e.entry("of", step, text(digest)); err != nil {
		return nil, err
	}
	return build.FormatWithoutRewriting(e.file), nil
}

// An edit is a site's file that is changed.
type edit struct {
	file *build.File
	main int             // the index of the statement main = base.extend(...)
	call *build.CallExpr // extend(...)
}

// open reads a site's file, which has to end in a call of extend.
func open(name string, src []byte) (*edit, error) {
	f, err := build.ParseDefault(name, src)
	if err != nil {
		return nil, fault.Wrap("reading", name, err)
	}
	e := &edit{file: f}
	base := make(map[string]bool)
	for i, stmt := range f.Stmt {
		switch stmt := stmt.(type) {
		case *build.LoadStmt:
			for n, from := range stmt.From {
				if from.Name == "main" && strings.HasPrefix(stmt.Module.Value, "@base//") {
					base[stmt.To[n].Name] = true
				}
			}
		case *build.AssignExpr:
			call, ok := stmt.RHS.(*build.CallExpr)
			if !ok || defined(stmt) != "main" {
				continue
			}
			dot, ok := call.X.(*build.DotExpr)
			if !ok || dot.Name != "extend" {
				continue
			}
			if id, ok := dot.X.(*build.Ident); ok && base[id.Name] {
				e.main, e.call = i, call
			}
		}
	}
	if e.call == nil {
		return nil, fault.New(fault.Invalid, "it has no statement main = base.extend(...), whose base is the main of a load from @base//")
	}
	return e, nil
}

// add adds the override.
func (e *edit) add(r Request) error {
	spread(&e.call.End)
	if r.Wrap {
		doc := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(strings.TrimSpace(r.Doc))
		def, err := build.ParseDefault("wrapper", []byte("def "+r.Step+"(original):\n    \"\"\""+doc+"\"\"\"\n    return original()\n"))
		if err != nil {
			return fault.Wrap("writing a wrapper of", r.Step, err)
		}
		if err := e.insert(def.Stmt...); err != nil {
			return err
		}
		if err := e.entry("wrap", r.Step, &build.Ident{Name: r.Step}); err != nil {
			return err
		}
		return e.entry("of", r.Step, text(r.Digest))
	}
	from, err := readShipped(r.File, r.Source, r.Reached)
	if err != nil {
		return err
	}
	loads, stmts, err := from.gather(r.Function)
	if err != nil {
		return err
	}
	for _, l := range loads {
		if err := e.load(l); err != nil {
			return err
		}
	}
	if err := e.insert(stmts...); err != nil {
		return err
	}
	list, err := e.argument("replace", func() build.Expr { return &build.ListExpr{} })
	if err != nil {
		return err
	}
	replace, ok := list.(*build.ListExpr)
	if !ok {
		return fault.New(fault.Invalid, "its argument replace is no list that is written out")
	}
	replace.List = append(replace.List, &build.Ident{Name: r.Step})
	return e.entry("of", r.Step, text(r.Digest))
}

func text(s string) *build.StringExpr { return &build.StringExpr{Value: s} }

// argument returns the value of an argument of extend, which is made if it
// isn't given.
func (e *edit) argument(name string, make func() build.Expr) (build.Expr, error) {
	for _, a := range e.call.List {
		given, ok := a.(*build.AssignExpr)
		if !ok {
			return nil, fault.New(fault.Invalid, "it calls extend with something else than named arguments")
		}
		if id, ok := given.LHS.(*build.Ident); ok && id.Name == name {
			return given.RHS, nil
		}
	}
	v := make()
	e.call.List = append(e.call.List, &build.AssignExpr{LHS: &build.Ident{Name: name}, Op: "=", RHS: v})
	return v, nil
}

// entry sets an entry of a dict that is an argument of extend.
func (e *edit) entry(argument, key string, value build.Expr) error {
	v, err := e.argument(argument, func() build.Expr { return &build.DictExpr{} })
	if err != nil {
		return err
	}
	d, ok := v.(*build.DictExpr)
	if !ok {
		return fault.New(fault.Invalid, "its argument %s is no dict that is written out", argument)
	}
	for _, have := range d.List {
		if k, ok := have.Key.(*build.StringExpr); ok && k.Value == key {
			have.Value = value
			return nil
		}
	}
	d.List = append(d.List, &build.KeyValueExpr{Key: text(key), Value: value})
	if len(d.List) > 1 {
		spread(&d.End)
	}
	return nil
}

// spread makes the formatter give each element before end a line of its own, as
// it does where the end stands in another line.
func spread(end *build.End) { end.Pos.Line++ }

// insert puts statements before the call of extend.
func (e *edit) insert(stmts ...build.Expr) error {
	for _, stmt := range stmts {
		name := defined(stmt)
		if at := e.binding(name); at != nil {
			if build.FormatString(at) == build.FormatString(stmt) {
				continue // another override copied it
			}
			start, _ := at.Span()
			return fault.New(fault.Invalid, "it has something else called %s, at line %d", name, start.Line)
		}
		e.file.Stmt = slices.Insert(e.file.Stmt, e.main, stmt)
		e.main++
	}
	return nil
}

// binding returns the top-level statement of the file that gives name a
// meaning, or nil.
func (e *edit) binding(name string) build.Expr {
	for _, stmt := range e.file.Stmt {
		if l, ok := stmt.(*build.LoadStmt); ok && slices.ContainsFunc(l.To, func(to *build.Ident) bool { return to.Name == name }) {
			return stmt
		}
		if defined(stmt) == name {
			return stmt
		}
	}
	return nil
}

// load makes the file load a name.
func (e *edit) load(l imported) error {
	module := l.module
	if rest, ok := strings.CutPrefix(module, "//"); ok && path.Dir(rest) == path.Dir(e.file.Path) {
		module = path.Base(rest) // it stands beside this file
	}
	last := 0
	var into *build.LoadStmt
	for i, stmt := range e.file.Stmt {
		have, ok := stmt.(*build.LoadStmt)
		if !ok {
			continue
		}
		last = i + 1
		if have.Module.Value != module && have.Module.Value != l.module {
			continue
		}
		into = have
		for n, to := range have.To {
			if to.Name == l.to && have.From[n].Name == l.from {
				return nil
			}
		}
	}
	if at := e.binding(l.to); at != nil {
		start, _ := at.Span()
		return fault.New(fault.Invalid, "it has something else called %s, at line %d", l.to, start.Line)
	}
	if into == nil {
		into = &build.LoadStmt{Module: text(module), ForceCompact: true}
		e.file.Stmt = slices.Insert(e.file.Stmt, max(last, e.afterDoc()), build.Expr(into))
		e.main++
	}
	// Names that keep theirs stand before those that don't.
	at := 0
	for at < len(into.To) && into.To[at].Name == into.From[at].Name {
		at++
	}
	if l.from != l.to {
		at = len(into.To)
	}
	into.From = slices.Insert(into.From, at, &build.Ident{Name: l.from})
	into.To = slices.Insert(into.To, at, &build.Ident{Name: l.to})
	return nil
}

// afterDoc returns the index of the first statement that isn't the file's
// docstring or a comment.
func (e *edit) afterDoc() int {
	for i, stmt := range e.file.Stmt {
		switch stmt.(type) {
		case *build.StringExpr, *build.CommentBlock:
		default:
			return i
		}
	}
	return len(e.file.Stmt)
}
