package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	starresolve "go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// Digest returns the digest of the step's code: of its function, and of what
// that reaches, which are helpers, values of the file and
// of those that it loads, captured values, defaults of parameters, and files
// that it names. Two steps with one digest do the same.
func (s *Step) Digest(l *Loader) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.digest(l)
}

// digest is Digest for use while loading.
func (s *Step) digest(l *Loader) (string, error) {
	if s.Fn == nil {
		return "", fault.New(fault.Invalid, "%s is a recipe, which has no digest", s.Name)
	}
	return newDigester(l).step(s)
}

// reached is digest, and returns as well what the step reaches, as text.
func (s *Step) reached(l *Loader) (digest, code string, err error) {
	if s.Fn == nil {
		return "", "", fault.New(fault.Invalid, "%s is a recipe, which has no digest", s.Name)
	}
	d := newDigester(l)
	d.text, d.told = new(strings.Builder), make(map[string]bool)
	digest, err = d.step(s)
	return digest, d.text.String(), err
}

// Digests returns the digests of the code of a recipe's steps, and of those of the
// recipes that it uses, by the steps' paths; what belongs to a recipe itself
// goes by "outputs".
func (e *Engine) Digests(r *Recipe) (map[string]string, error) {
	e.loader.mu.Lock()
	defer e.loader.mu.Unlock()
	code := make(map[string]string)
	return code, e.digests(code, r, "")
}

func (e *Engine) digests(code map[string]string, r *Recipe, prefix string) error {
	add := func(path string, v starlark.Value) error {
		d := newDigester(e.loader)
		d.value(v)
		code[path] = "sha256:" + hex.EncodeToString(d.sum.Sum(nil))
		return d.err
	}
	for _, s := range r.Steps {
		if err := add(prefix+s.Name, s); err != nil {
			return err
		}
		if s.Use == nil {
			continue
		}
		if err := e.digests(code, s.Use, prefix+s.Name+"/"); err != nil {
			return err
		}
	}
	if r.Outputs == nil {
		return nil
	}
	return add(prefix+"outputs", r.Outputs)
}

// A digester digests what the code of functions is made of.
type digester struct {
	loader *Loader
	sum    hash.Hash
	seen   map[any]int // what was met before, and as how manieth: code may refer to itself
	err    error

	text  *strings.Builder // what the digest is of, for people; nil if nobody asks
	told  map[string]bool  // values that stand in the text
	files []NamedFile
}

// step returns the digest of the step, and of what it wraps.
func (d *digester) step(s *Step) (string, error) {
	for ; s != nil; s = s.original {
		d.function(s.Fn)
	}
	return "sha256:" + hex.EncodeToString(d.sum.Sum(nil)), d.err
}

// Files returns the files of the recipes that the step names, itself or by what
// it calls.
func (e *Engine) Files(s *Step) []NamedFile {
	e.loader.mu.Lock()
	defer e.loader.mu.Unlock()
	d := newDigester(e.loader)
	for ; s != nil; s = s.original {
		for _, fn := range s.functions() {
			d.function(fn)
		}
	}
	return d.files
}

// tell adds a part to the text.
func (d *digester) tell(head, text string) {
	if d.text == nil {
		return
	}
	if d.text.Len() > 0 {
		d.text.WriteByte('\n')
	}
	fmt.Fprintf(d.text, "# %s\n%s\n", head, strings.TrimRight(text, "\n"))
}

func newDigester(l *Loader) *digester {
	return &digester{loader: l, sum: sha256.New(), seen: make(map[any]int)}
}

// put adds texts, each with its length, so that no two lists of them are alike.
func (d *digester) put(texts ...string) {
	for _, t := range texts {
		fmt.Fprintf(d.sum, "%d:", len(t))
		io.WriteString(d.sum, t)
	}
}

// again reports whether x was met before, and notes that in the digest.
func (d *digester) again(x any) bool {
	if n, ok := d.seen[x]; ok {
		d.put("again", fmt.Sprint(n))
		return true
	}
	d.seen[x] = len(d.seen)
	return false
}

func (d *digester) function(fn *starlark.Function) {
	if d.again(fn) {
		return
	}
	pos := fn.Position()
	f := d.loader.sources[pos.Filename()]
	if f == nil || f.Syntax == nil {
		d.err = fmt.Errorf("%s isn't loaded", pos.Filename())
		return
	}
	node := f.At(pos)
	if node == nil {
		d.err = fmt.Errorf("no function %s at %s", fn.Name(), pos)
		return
	}
	text, ok := f.Function(fn.Name(), int(pos.Line))
	if !ok {
		text = f.Lambda(node)
	}
	d.put("function", text)
	d.tell(d.loader.ids[pos.Filename()].Path, text)
	for i := range fn.NumParams() {
		if v := fn.ParamDefault(i); v != nil {
			name, _ := fn.Param(i)
			d.put("default", name)
			d.value(v)
		}
	}
	for i := range fn.NumFreeVars() {
		b, v := fn.FreeVar(i)
		if isOperator(b.Name) {
			continue
		}
		d.put("captured", b.Name)
		d.tellValue(b.Pos.Filename(), b.Name, v)
		d.value(v)
	}
	globals := fn.Globals()
	for _, name := range names(node) {
		v := globals[name]
		if v == nil {
			continue // of a file that failed before it was defined
		}
		d.put("global", name)
		d.tellValue(pos.Filename(), name, v)
		d.value(v)
	}
	for _, f := range fileNames(node) {
		d.files = append(d.files, f)
		content, err := readFile(d.loader.layers[d.loader.from:], f.Name)
		if err != nil {
			continue // the call that reads it will say so
		}
		d.put("file", f.Name, string(content))
		d.tell(f.Name, string(content))
	}
}

// tellValue adds a value that a function refers to. A function says so itself.
func (d *digester) tellValue(file, name string, v starlark.Value) {
	if d.text == nil || d.told[file+":"+name] {
		return
	}
	d.told[file+":"+name] = true
	head := d.loader.origin(file, name)
	switch v := v.(type) {
	case *starlark.Function, *Step, *Recipe:
	case *starlark.Dict:
		var b strings.Builder
		for _, item := range v.Items() {
			fmt.Fprintf(&b, "    %s: %s,\n", item[0], item[1])
		}
		d.tell(head, name+" = {\n"+b.String()+"}")
	default:
		d.tell(head, name+" = "+v.String())
	}
}

// origin returns the path of the file that a name of a loaded file comes from:
// another one if it was loaded.
func (l *Loader) origin(file, name string) string {
	id := l.ids[file]
	f := l.sources[file]
	if f == nil || f.Syntax == nil {
		return id.Path
	}
	for _, s := range f.Syntax.Stmts {
		load, ok := s.(*syntax.LoadStmt)
		if ok && slices.ContainsFunc(load.To, func(to *syntax.Ident) bool { return to.Name == name }) {
			_, path := resolve(id, load.ModuleName())
			return path
		}
	}
	return id.Path
}

// isOperator reports whether a name is one of those that the rewriting makes.
func isOperator(name string) bool { return strings.HasPrefix(name, "$") }

// names returns the globals of its file that the code below n refers to,
// sorted.
func names(n syntax.Node) []string {
	var out []string
	syntax.Walk(n, func(n syntax.Node) bool {
		id, ok := n.(*syntax.Ident)
		if !ok {
			return true
		}
		if b, ok := id.Binding.(*starresolve.Binding); ok && b.Scope == starresolve.Global {
			out = append(out, id.Name)
		}
		return true
	})
	slices.Sort(out)
	return slices.Compact(out)
}

// A NamedFile is a file of the recipes that code names: "files/NAME".
type NamedFile struct {
	Name string
	Pos  syntax.Position
}

// fileNames returns the texts below n that name files of the recipes, sorted.
func fileNames(n syntax.Node) []NamedFile {
	var out []NamedFile
	syntax.Walk(n, func(n syntax.Node) bool {
		if l, ok := n.(*syntax.Literal); ok && l.Token == syntax.STRING {
			if s, _ := l.Value.(string); strings.HasPrefix(s, "files/") {
				out = append(out, NamedFile{Name: s, Pos: l.TokenPos})
			}
		}
		return true
	})
	slices.SortStableFunc(out, func(a, b NamedFile) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b NamedFile) bool { return a.Name == b.Name })
}

// value adds what code that refers to v depends on.
func (d *digester) value(v starlark.Value) {
	switch v := v.(type) {
	case *starlark.Function:
		d.function(v)
	case *starlark.Dict:
		if d.again(v) {
			return
		}
		d.put("dict", fmt.Sprint(v.Len()))
		for _, item := range v.Items() {
			d.value(item[0])
			d.value(item[1])
		}
	case *starlark.List, starlark.Tuple, *starlark.Set:
		if _, isTuple := v.(starlark.Tuple); !isTuple && d.again(v) {
			return
		}
		d.put(v.Type(), fmt.Sprint(starlark.Len(v)))
		for x := range starlark.Elements(v.(starlark.Iterable)) {
			d.value(x)
		}
	case *starlarkstruct.Struct:
		d.put("struct")
		for _, name := range v.AttrNames() {
			x, err := v.Attr(name)
			if err != nil {
				continue
			}
			d.put(name)
			d.value(x)
		}
	case *Step:
		if d.again(v) {
			return
		}
		for s := v; s != nil; s = s.original {
			d.put("step", s.Name)
			for _, fn := range s.functions() {
				d.function(fn)
			}
		}
	case *Recipe:
		if d.again(v) {
			return
		}
		d.put("recipe", v.Path)
		for _, s := range v.Steps {
			d.value(s)
		}
	default:
		d.put(v.Type(), v.String())
	}
}
