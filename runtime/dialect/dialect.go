// Package dialect is the recipe language: Starlark, in which a value that
// isn't known yet can't be decided on by accident, and a secret stays one.
//
// Starlark answers `unknown == 1` with False, and "%s" % secret with the text
// that the secret shows. Neither can be changed from outside the interpreter,
// so a file's syntax tree is rewritten before it is compiled: comparisons,
// conditions, loops, formatting and the methods of strings go through
// functions of this package. Their names can't be written in a recipe, so
// nothing shadows them. Positions, docstrings and names stay as they were.
package dialect

import (
	"errors"
	"fmt"
	"sync"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// options are the language's switches. Recursion and while loops stay off, so
// that every recipe ends.
var options = &syntax.FileOptions{Set: true, TopLevelControl: true}

// A File is a parsed and checked file.
type File struct {
	Name    string // as it shows in messages
	Source  []byte
	Syntax  *syntax.File // rewritten; its positions are those of the source
	program *starlark.Program

	indexing  sync.Once
	functions map[place]syntax.Node // by where they begin
}

// Compile parses and checks a file. predeclared are the names that it may use
// beside those of Starlark itself. An error lists every fault that was found,
// with its position.
func Compile(name string, src []byte, predeclared func(string) bool) (*File, error) {
	tree, err := options.Parse(name, src, 0)
	if err != nil {
		return nil, syntaxError(err)
	}
	r := rewriter{}
	r.stmts(tree.Stmts)
	program, err := starlark.FileProgram(tree, func(n string) bool {
		_, ours := operators[n]
		_, wrapped := universe[n]
		return ours || wrapped || predeclared(n)
	})
	if err != nil {
		return nil, syntaxError(err)
	}
	return &File{Name: name, Source: src, Syntax: tree, program: program}, nil
}

// Init runs the file's top level on thread and returns its globals, frozen.
func (f *File) Init(thread *starlark.Thread, predeclared starlark.StringDict) (starlark.StringDict, error) {
	env := make(starlark.StringDict, len(predeclared)+len(operators)+len(universe))
	for n, v := range universe {
		env[n] = v
	}
	for n, v := range operators {
		env[n] = v
	}
	for n, v := range predeclared {
		env[n] = v
	}
	globals, err := f.program.Init(thread, env)
	globals.Freeze()
	return globals, err
}

// Loads returns the load statements of the file: what each names, and where.
func (f *File) Loads() []Load {
	var out []Load
	for _, s := range f.Syntax.Stmts {
		if l, ok := s.(*syntax.LoadStmt); ok {
			out = append(out, Load{Path: l.ModuleName(), Pos: l.Load})
		}
	}
	return out
}

// A Load is a load statement.
type Load struct {
	Path string
	Pos  syntax.Position
}

// A PosError is a fault at a position of a file.
type PosError struct {
	Pos syntax.Position
	Msg string
}

func (e *PosError) Error() string { return fmt.Sprintf("%s: %s", e.Pos, e.Msg) }

func syntaxError(err error) error {
	var list resolve.ErrorList
	if errors.As(err, &list) {
		var errs []error
		for _, e := range list {
			errs = append(errs, &PosError{Pos: e.Pos, Msg: e.Msg})
		}
		return &fault.Error{Kind: fault.Invalid, Err: errors.Join(errs...)}
	}
	var se syntax.Error
	if errors.As(err, &se) {
		return &fault.Error{Kind: fault.Invalid, Err: &PosError{Pos: se.Pos, Msg: "syntax error: " + se.Msg}}
	}
	return &fault.Error{Kind: fault.Invalid, Err: err}
}
