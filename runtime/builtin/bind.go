package builtin

import (
	"context"
	"fmt"
	"reflect"
	"sort"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// contextKey is where a thread keeps the context that its calls run under.
const contextKey = "gsrun.context"

// SetContext makes calls on thread run under ctx. A thread without a context
// is one that loads a file: only pure functions can be called on it.
func SetContext(thread *starlark.Thread, ctx context.Context) { thread.SetLocal(contextKey, ctx) }

// Context returns the context that calls on thread run under, or nil.
func Context(thread *starlark.Thread) context.Context {
	ctx, _ := thread.Local(contextKey).(context.Context)
	return ctx
}

// Value returns m as a Starlark value whose attributes are its functions. If m
// has a function of its own name, the value is also that function:
// secret("db") beside secret.generate("db").
func (m *Module) Value() starlark.Value {
	v := &moduleValue{m: m, types: m.typesByGo()}
	for i := range m.Funcs {
		if f := &m.Funcs[i]; f.Name == m.Name {
			return &callableModule{moduleValue: v, fn: v.bind(f, m.Recv, m.Name, m.Name)}
		}
	}
	return v
}

// A callableModule is a module that is also a function.
type callableModule struct {
	*moduleValue
	fn *starlark.Builtin
}

func (c *callableModule) Name() string { return c.m.Name }

func (c *callableModule) CallInternal(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	return c.fn.CallInternal(thread, args, kwargs)
}

// Globals returns the functions of m by name, for a module without a name.
func (m *Module) Globals() starlark.StringDict {
	v := &moduleValue{m: m, types: m.typesByGo()}
	d := make(starlark.StringDict, len(m.Funcs))
	for i := range m.Funcs {
		d[m.Funcs[i].Name] = v.bind(&m.Funcs[i], m.Recv, m.Funcs[i].Name, m.Funcs[i].Name)
	}
	return d
}

// Method returns the method of a declared type, bound to recv; nil if the type
// has none of that name. It is for values that are Starlark values themselves.
func (m *Module) Method(typeName, name string, recv any) starlark.Value {
	for _, t := range m.Types {
		if t.Name != typeName {
			continue
		}
		for i := range t.Methods {
			if f := &t.Methods[i]; f.Name == name {
				return (&moduleValue{m: m, types: m.typesByGo()}).bind(f, recv, typeName+"."+name, typeName+"."+name)
			}
		}
	}
	return nil
}

func (m *Module) typesByGo() map[reflect.Type]*Type {
	types := make(map[reflect.Type]*Type, len(m.Types))
	for _, t := range m.Types {
		types[t.Of] = t
	}
	return types
}

type moduleValue struct {
	m     *Module
	types map[reflect.Type]*Type
}

func (v *moduleValue) String() string        { return "<module " + v.m.Name + ">" }
func (v *moduleValue) Type() string          { return "module" }
func (v *moduleValue) Freeze()               {}
func (v *moduleValue) Truth() starlark.Bool  { return true }
func (v *moduleValue) Hash() (uint32, error) { return starlark.String(v.m.Name).Hash() }

func (v *moduleValue) Attr(name string) (starlark.Value, error) {
	for i := range v.m.Funcs {
		if f := &v.m.Funcs[i]; f.Name == name {
			return v.bind(f, v.m.Recv, v.m.Name+"."+name, v.m.Name+"."+name), nil
		}
	}
	return nil, nil
}

func (v *moduleValue) AttrNames() []string {
	var names []string
	for _, f := range v.m.Funcs {
		names = append(names, f.Name)
	}
	sort.Strings(names)
	return names
}

// bind returns f as a callable on recv. A state that it returns becomes an
// object of the given kind.
func (v *moduleValue) bind(f *Func, recv any, name, kind string) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		ctx := Context(thread)
		if ctx == nil {
			if f.Effect != Pure {
				return nil, fault.Hinted(fault.Invalid, "move the call into a step: loading a file has no effects",
					"%s was called at top level", name)
			}
			ctx = context.Background()
		} else if err := fault.FromContext(ctx); err != nil {
			return nil, err
		} else {
			ctx = effect.At(ctx, callerPos(thread))
		}
		res, err := f.call(context.WithValue(ctx, threadKey{}, thread), recv, &input{fn: f, name: name, args: args, kwargs: kwargs})
		if err != nil {
			return nil, err
		}
		return v.wrap(res, name, kind), nil
	})
}

type threadKey struct{}

// Thread returns the Starlark thread that the call running under ctx was made
// on, or nil.
func Thread(ctx context.Context) *starlark.Thread {
	t, _ := ctx.Value(threadKey{}).(*starlark.Thread)
	return t
}

func callerPos(thread *starlark.Thread) string {
	if thread.CallStackDepth() < 2 {
		return ""
	}
	frame := 1
	for frame < thread.CallStackDepth()-1 && thread.CallFrame(frame).Pos.Filename() == "<builtin>" {
		frame++ // a callable module is a builtin that calls one
	}
	p := thread.CallFrame(frame).Pos
	return fmt.Sprintf("%s:%d", p.Filename(), p.Line)
}

// wrap returns a result as a Starlark value.
func (v *moduleValue) wrap(res any, fn, kind string) starlark.Value {
	switch res := res.(type) {
	case starlark.Value:
		return res
	case effect.State:
		if res.Unknown {
			return effect.Unknown{Of: fn + "()"}
		}
		return effect.NewObject(kind, res.Attrs)
	case nil:
		return starlark.None
	}
	if t, ok := v.types[reflect.TypeOf(res)]; ok {
		return &Handle{module: v, t: t, recv: res}
	}
	return effect.ToStarlark(res)
}

// A Handle is a Go value of a declared type, in a recipe: a cloud, a host.
type Handle struct {
	module *moduleValue
	t      *Type
	recv   any
}

var _ effect.Attributer = (*Handle)(nil)

// Recv returns the Go value.
func (h *Handle) Recv() any { return h.recv }

func (h *Handle) String() string {
	if s, ok := h.recv.(fmt.Stringer); ok {
		return h.t.Name + "(" + s.String() + ")"
	}
	return "<" + h.t.Name + ">"
}
func (h *Handle) Type() string         { return h.t.Name }
func (h *Handle) Freeze()              {}
func (h *Handle) Truth() starlark.Bool { return true }
func (h *Handle) Hash() (uint32, error) {
	return 0, fault.New(fault.Invalid, "a %s can't be a key", h.t.Name)
}

// Data returns the handle's data, if its Go value has any: the attributes that
// its method Attrs returns.
func (h *Handle) Data() *effect.Object {
	if a, ok := h.recv.(interface{ Attrs() map[string]any }); ok {
		return effect.NewObject(h.t.Name, a.Attrs())
	}
	return nil
}

// Attr returns data, a noun or a method.
func (h *Handle) Attr(name string) (starlark.Value, error) {
	for i := range h.t.Nouns {
		if n := &h.t.Nouns[i]; n.Name == name {
			return &nounValue{h: h, n: n}, nil
		}
	}
	for i := range h.t.Methods {
		if f := &h.t.Methods[i]; f.Name == name {
			return h.module.bind(f, h.recv, h.t.Name+"."+name, h.module.m.Name+"."+name), nil
		}
	}
	if d := h.Data(); d != nil {
		return d.Attr(name)
	}
	return nil, nil
}

// AttrNames returns the names of the data, nouns and methods.
func (h *Handle) AttrNames() []string {
	var names []string
	for _, n := range h.t.Nouns {
		names = append(names, n.Name)
	}
	for _, f := range h.t.Methods {
		names = append(names, f.Name)
	}
	if d := h.Data(); d != nil {
		names = append(names, d.AttrNames()...)
	}
	sort.Strings(names)
	return names
}

type nounValue struct {
	h *Handle
	n *Noun
}

func (v *nounValue) String() string        { return "<" + v.Type() + ">" }
func (v *nounValue) Type() string          { return v.h.t.Name + "." + v.n.Name }
func (v *nounValue) Freeze()               {}
func (v *nounValue) Truth() starlark.Bool  { return true }
func (v *nounValue) Hash() (uint32, error) { return starlark.String(v.Type()).Hash() }

func (v *nounValue) Attr(name string) (starlark.Value, error) {
	for i := range v.n.Verbs {
		if f := &v.n.Verbs[i]; f.Name == name {
			return v.h.module.bind(f, v.h.recv, v.Type()+"."+name, v.h.module.m.Name+"."+v.n.Name), nil
		}
	}
	return nil, nil
}

func (v *nounValue) AttrNames() []string {
	var names []string
	for _, f := range v.n.Verbs {
		names = append(names, f.Name)
	}
	sort.Strings(names)
	return names
}
