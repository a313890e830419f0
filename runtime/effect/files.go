package effect

import (
	"bytes"
	"context"
	"fmt"
	"text/template"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// ReadFile returns a file that belongs to the recipes, such as
// "files/nftables.conf.tmpl": the first of that name in the layers of the
// running step.
func ReadFile(ctx context.Context, name string) ([]byte, error) {
	s := From(ctx)
	if s == nil || s.Files == nil {
		return nil, fault.New(fault.Invalid, "%s: no recipe's files can be read here", name)
	}
	return s.Files(name)
}

// Render fills a text/template with vars, which it sees as the dot. Text that
// a secret goes into is secret. Where a variable isn't known yet, the text
// isn't either. Asking for a variable that isn't given is an error.
func Render(name, text string, vars map[string]any) (Text, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return Text{}, &fault.Error{Op: "reading template", Target: name, Kind: fault.Invalid, Err: err}
	}
	r := rendering{}
	plain := r.reveal(vars)
	if r.unknown != nil {
		return Text{unknown: true, of: r.unknown.Of}, nil
	}
	var b bytes.Buffer
	if err := t.Execute(&b, plain); err != nil {
		hint := ""
		if len(vars) > 0 {
			hint = fmt.Sprintf("the variables are %v", sortedKeys(vars))
		}
		return Text{}, &fault.Error{Op: "filling template", Target: name, Kind: fault.Invalid, Err: err, Hint: hint}
	}
	if r.secret {
		return Text{secret: &Secret{plain: b.String()}}, nil
	}
	return Text{plain: b.String()}, nil
}

// rendering reveals the secrets in the variables of a template, and remembers
// that there were some.
type rendering struct {
	secret  bool
	unknown *Unknown
}

func (r *rendering) reveal(x any) any {
	switch x := x.(type) {
	case Unknown:
		r.unknown = &x
		return ""
	case *Secret:
		r.secret = true
		return x.plain
	case Text:
		return r.reveal(x.Value())
	case map[string]any:
		m := make(map[string]any, len(x))
		for k, v := range x {
			m[k] = r.reveal(v)
		}
		return m
	case []any:
		l := make([]any, len(x))
		for i, v := range x {
			l[i] = r.reveal(v)
		}
		return l
	}
	return x
}

// A LocalFile is a file on this machine that another primitive made ready: an
// object with the attributes `path` and `sha256`.
type LocalFile struct {
	Path   string
	SHA256 string
	Size   int64
}

// Unpack takes an object with the attributes path and sha256, or None.
func (l *LocalFile) Unpack(v starlark.Value) error {
	if v == starlark.None {
		return nil
	}
	f, ok := fieldsOf(v)
	if !ok {
		return fault.Hinted(fault.Invalid, "pass what artifact.fetch returned", "got %s, want a fetched file", v.Type())
	}
	for name, dst := range map[string]*string{"path": &l.Path, "sha256": &l.SHA256} {
		x, err := f.Attr(name)
		if err != nil || x == nil {
			return fault.New(fault.Invalid, "got %s, which has no attribute %s", v.Type(), name)
		}
		*dst, _ = starlark.AsString(x)
	}
	if x, err := f.Attr("size"); err == nil && x != nil {
		if n, ok := x.(starlark.Int); ok {
			l.Size, _ = n.Int64()
		}
	}
	return nil
}

// A Store keeps small named values beyond a run: keys that were made, host
// keys that were read. Names are slash-separated, such as "hostkeys/gw".
type Store interface {
	Get(ctx context.Context, name string) (value []byte, found bool, err error)
	Put(ctx context.Context, name string, value []byte) error
	// Create stores value unless there is one, in one step, and returns the
	// value that is stored then and whether it is this one: of several that
	// create a value at once, in however many processes, all get that of one.
	Create(ctx context.Context, name string, value []byte) (stored []byte, created bool, err error)
	Delete(ctx context.Context, name string) error
}
