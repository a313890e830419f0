// Package builtin declares what recipes can call. One declaration of a
// function, its argument struct included, gives the callable, its page in the
// reference, its editor stub and its text for `gsrun doc`.
package builtin

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// An Effect says what calling a function does to the outside world.
type Effect string

// The effects.
const (
	Pure    Effect = "pure"    // nothing: allowed at top level, and run in a plan
	Connect Effect = "connect" // makes a handle; the first use connects
	Reads   Effect = "reads"   // reads; runs in a plan too
	Changes Effect = "changes" // may change its target; a plan shows the change
	Waits   Effect = "waits"   // waits for a condition; a plan looks once
)

// An Identity says how an op finds what it made after a crash.
type Identity string

// The identities.
const (
	Marked     Identity = "marked"      // by an owner mark written in the create call
	NaturalKey Identity = "natural key" // by a name that is unique by itself
	PartOf     Identity = "part of"     // as a part of its parent
)

// A Module is a named set of functions and of the types that they return.
type Module struct {
	Name  string // "openstack"; empty for functions that need no prefix
	Doc   string
	Recv  any // the receiver of Funcs: this run's instance of the module; nil when only texts are wanted
	Funcs []Func
	Types []*Type
	Notes string // Markdown that ends the page, such as a table of what is needed
}

// A Type is a kind of value with methods, nouns and data that functions return
// as a Go value of type Of.
type Type struct {
	Name    string // "openstack.cloud"
	Doc     string
	Of      reflect.Type
	Attrs   []Attr
	Nouns   []Noun
	Methods []Func
}

// An Attr documents an attribute of the data that a value or a result has.
type Attr struct{ Name, Type, Doc string }

// A Noun is a kind of resource and the verbs that apply to it.
type Noun struct {
	Name, Doc string
	Identity  Identity
	Attrs     []Attr // what ensure and get return
	Verbs     []Func
}

// A Func is a declared function. Of makes one.
type Func struct {
	Name, Doc, Returns, Example string
	Effect                      Effect
	Errors                      []fault.Kind
	Params                      []Param

	recv reflect.Type
	call func(ctx context.Context, recv any, in *input) (any, error)
}

// A Param is one parameter, read from a field of the argument struct.
type Param struct {
	Name, Type, Doc, Default string
	Required                 bool
	Positional               bool

	index   int
	unknown bool   // the Go type can hold a value that isn't known
	secret  string // "never" and "only" refuse secrets, and texts that aren't
	of      string // the type of object that a reference may be given as; empty is any
}

// A Spec declares a function on receivers of type R whose arguments are the
// fields of A. A field's tag gives its name, and `required` (must be given) or
// `positional` (may be given by position; required ones always may):
//
//	CIDR string `star:"cidr,required" doc:"Address range, such as 10.20.0.0/24."`
//
// Two more tags refuse what can't be right. secret:"never" is for what others
// are shown, such as tags; secret:"only" for what nobody may see, such as
// passwords. of:"openstack.subnet" refuses other objects of that module where a
// reference is taken.
//
// Fields may be string, bool, int, int64, float64, time.Duration (given as
// "5m"), []string, map[string]string, *bool and *int (None when not given),
// effect.Text, effect.Reference, effect.Data, []effect.Text,
// []effect.Reference, map[string]effect.Text, starlark.Value,
// starlark.Callable, or a Go type that another function returned, or an
// interface that it has. Only the effect types take secrets and values that
// aren't known yet; where one of the others is given an Unknown, the call isn't
// made, and its result is Unknown.
type Spec[R, A any] struct {
	Name     string
	Doc      string // one sentence, then details
	Returns  string // the type or shape of the result
	Example  string // Starlark
	Effect   Effect
	Errors   []fault.Kind // those that a recipe may want to tell apart
	Defaults A
	// Run does the work. The result is data (see effect.ToStarlark), a
	// Starlark value, an effect.State, or a Go value of a type of the module.
	Run func(ctx context.Context, r R, a A) (any, error)
}

// Of returns the function that s declares. It panics if the declaration is
// incomplete or its argument struct can't be bound.
func Of[R, A any](s Spec[R, A]) Func {
	f := Func{Name: s.Name, Doc: s.Doc, Returns: s.Returns, Example: s.Example, Effect: s.Effect, Errors: s.Errors, recv: reflect.TypeFor[R]()}
	for what, missing := range map[string]bool{"Name": s.Name == "", "Doc": s.Doc == "", "Returns": s.Returns == "", "Example": s.Example == "", "Effect": s.Effect == "", "Run": s.Run == nil} {
		if missing {
			panic(fmt.Sprintf("builtin %q: %s is missing", s.Name, what))
		}
	}
	f.Params = params(s.Name, reflect.TypeFor[A](), reflect.ValueOf(s.Defaults))
	f.call = func(ctx context.Context, recv any, in *input) (any, error) {
		a := s.Defaults
		if unknown, err := in.unpack(reflect.ValueOf(&a).Elem()); err != nil || unknown != nil {
			if err != nil {
				return nil, err
			}
			return in.later(ctx, *unknown)
		}
		r, _ := recv.(R)
		return s.Run(ctx, r, a)
	}
	return f
}

// NewModule returns m. It panics if a text is missing, a type is declared
// twice, or a function is bound to the wrong receiver.
func NewModule(m Module) *Module {
	if m.Doc == "" {
		panic(fmt.Sprintf("builtin module %q: Doc is missing", m.Name))
	}
	seen := make(map[reflect.Type]bool)
	for _, t := range m.Types {
		if t.Doc == "" || t.Name == "" || t.Of == nil {
			panic(fmt.Sprintf("builtin type %q: Name, Doc and Of are required", t.Name))
		}
		if seen[t.Of] {
			panic(fmt.Sprintf("builtin type %q: %v is declared twice", t.Name, t.Of))
		}
		seen[t.Of] = true
		for _, f := range t.Methods {
			mustFit(t.Name+"."+f.Name, f.recv, t.Of)
		}
		for _, n := range t.Nouns {
			if n.Doc == "" || n.Identity == "" {
				panic(fmt.Sprintf("builtin noun %s.%s: Doc and Identity are required", t.Name, n.Name))
			}
			for _, f := range n.Verbs {
				mustFit(t.Name+"."+n.Name+"."+f.Name, f.recv, t.Of)
			}
		}
	}
	return &m
}

func mustFit(name string, want, have reflect.Type) {
	if !have.AssignableTo(want) {
		panic(fmt.Sprintf("builtin %s: it takes %v, but stands on %v", name, want, have))
	}
}

// TypeOf returns the reflection of R, for Type.Of.
func TypeOf[R any]() reflect.Type { return reflect.TypeFor[R]() }

// HasData reports whether values of the type have data beside methods and
// nouns.
func (t *Type) HasData() bool {
	return t.Of.Implements(reflect.TypeFor[interface{ Attrs() map[string]any }]())
}

// Functions calls f for every function of m with its full name, such as
// "openstack.cloud.network.ensure".
func (m *Module) Functions(f func(name string, fn Func)) {
	for _, fn := range m.Funcs {
		f(m.fullName(fn), fn)
	}
	for _, t := range m.Types {
		for _, fn := range t.Methods {
			f(t.Name+"."+fn.Name, fn)
		}
		for _, n := range t.Nouns {
			for _, fn := range n.Verbs {
				f(t.Name+"."+n.Name+"."+fn.Name, fn)
			}
		}
	}
}

// fullName returns how a recipe calls the function f of m.
func (m *Module) fullName(f Func) string {
	if m.Name == "" || m.Name == f.Name {
		return f.Name
	}
	return m.Name + "." + f.Name
}

// Signature returns the function as it is called: name(a, b = 1).
func (f Func) Signature(name string) string {
	var ps []string
	for _, p := range f.Params {
		s := p.Name
		if !p.Required {
			s += " = " + p.Default
		}
		ps = append(ps, s)
	}
	return name + "(" + strings.Join(ps, ", ") + ")"
}
