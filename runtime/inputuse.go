package runtime

import (
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
)

// checkInputs returns the places in the recipe's steps that ask ctx.inputs for
// what is no input, and in the uses of other recipes that give them what they
// don't take. What other functions do with ctx can't be known here.
func (r *Recipe) checkInputs() []error {
	var errs []error
	for _, s := range r.Steps {
		for _, fn := range s.functions() {
			body := r.loader.function(fn)
			if body == nil {
				continue
			}
			if !hasParam(fn, paramCtx) {
				continue
			}
			syntax.Walk(body, func(n syntax.Node) bool {
				if name, pos, ok := inputAsked(n); ok && r.input(name) == nil {
					errs = append(errs, at(pos, r.noInput("ctx.inputs has no %s", name)))
				}
				if name, pos, ok := ofCtx(n); ok && !slices.Contains((*stepCtx)(nil).AttrNames(), name) {
					err := fault.Hinted(fault.Invalid, "see: gsrun doc ctx", "ctx has no %s", name)
					if near := builtin.Nearest(name, (*stepCtx)(nil).AttrNames()); near != "" {
						err.Hint = "did you mean " + near + "?"
					}
					errs = append(errs, at(pos, err))
				}
				return true
			})
		}
		if s.Use != nil {
			errs = append(errs, s.Use.checkInputs()...)
			if s.Inputs != nil {
				errs = append(errs, s.Use.checkGiven(r.loader.function(s.Inputs))...)
			}
		}
	}
	return errs
}

// ofCtx returns the name in ctx.name.
func ofCtx(n syntax.Node) (name string, pos syntax.Position, ok bool) {
	d, ok := n.(*syntax.DotExpr)
	if !ok {
		return "", pos, false
	}
	id, ok := d.X.(*syntax.Ident)
	return d.Name.Name, d.Name.NamePos, ok && id.Name == paramCtx
}

// inputAsked returns the name in ctx.inputs.name.
func inputAsked(n syntax.Node) (name string, pos syntax.Position, ok bool) {
	var x syntax.Expr
	switch n := n.(type) {
	case *syntax.DotExpr:
		x, name, pos = n.X, n.Name.Name, n.Name.NamePos
	case *syntax.CallExpr:
		if x, name, pos, ok = dialect.GuardedAttr(n); !ok {
			return "", pos, false
		}
	default:
		return "", pos, false
	}
	inputs, ok := x.(*syntax.DotExpr)
	if !ok || inputs.Name.Name != "inputs" {
		return "", pos, false
	}
	id, ok := inputs.X.(*syntax.Ident)
	return name, pos, ok && id.Name == paramCtx
}

// checkGiven returns the keys of the dict that a function of a use returns
// which are no input of r, where that can be seen.
func (r *Recipe) checkGiven(fn syntax.Node) []error {
	lambda, ok := fn.(*syntax.LambdaExpr)
	if !ok {
		return nil
	}
	body := lambda.Body
	for {
		p, ok := body.(*syntax.ParenExpr)
		if !ok {
			break
		}
		body = p.X
	}
	dict, ok := body.(*syntax.DictExpr)
	if !ok {
		return nil
	}
	var errs []error
	for _, e := range dict.List {
		key, ok := e.(*syntax.DictEntry).Key.(*syntax.Literal)
		if !ok {
			continue
		}
		if name, isText := key.Value.(string); isText && r.input(name) == nil {
			errs = append(errs, at(key.TokenPos, r.noInput("%s is no input of "+r.Path, name)))
		}
	}
	return errs
}

func (r *Recipe) noInput(format, name string) *fault.Error {
	names := make([]string, len(r.Inputs))
	for i, in := range r.Inputs {
		names[i] = in.Name
	}
	hint := "the inputs of " + r.Path + " are " + strings.Join(names, ", ")
	if near := builtin.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	return fault.Hinted(fault.Invalid, hint, format, name)
}

// function returns the definition of a function of a loaded file, or nil.
func (l *Loader) function(fn *starlark.Function) syntax.Node {
	l.mu.Lock()
	f := l.sources[fn.Position().Filename()]
	l.mu.Unlock()
	if f == nil || f.Syntax == nil {
		return nil
	}
	return f.At(fn.Position())
}
