package secret

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Source is where one secret is kept: the kind of place, and which one there.
type Source struct {
	Kind string // "env", "file", "age", "sops", "kubernetes", "store"
	Arg  string // the variable's name, the file's path, the stored value's name, what KubernetesArg.String returns
}

// String returns the source as kind:arg. ParseRef reads it.
func (s Source) String() string { return s.Kind + ":" + s.Arg }

// ParseRef reads what String returns.
func ParseRef(ref string) (Source, bool) {
	kind, arg, ok := strings.Cut(ref, ":")
	return Source{kind, arg}, ok && kind != "" && arg != ""
}

// ParseSource reads the source of the secret called name from what a site
// declares for it: {"env": "NAME"}, "env:NAME", or "store", which is the value
// that secret.generate made under the secret's own name.
func ParseSource(name string, spec any) (Source, error) {
	refuse := func(format string, args ...any) error {
		return &fault.Error{Op: "reading the source of secret", Target: fmt.Sprintf("%q", name), Kind: fault.Invalid,
			Hint: "write {env: NAME}, {file: PATH}, {age: PATH}, {sops: PATH, key: A.B}, {kubernetes: {...}} or store", Err: fmt.Errorf(format, args...)}
	}
	if IsPrivateKey(fmt.Sprint(spec)) {
		return Source{}, refuse("what is written there is a private key")
	}
	switch spec := spec.(type) {
	case string:
		if spec == "store" {
			return Source{"store", Generated(name)}, nil
		}
		if s, ok := ParseRef(spec); ok {
			return s, nil
		}
		// It isn't told: it may be the secret itself.
		return Source{}, refuse("what is written there has no kind")
	case map[string]any:
		if path, ok := spec["sops"].(string); ok && len(spec) == 2 {
			key, isText := spec["key"].(string)
			if !isText || key == "" || strings.Contains(path, "#") {
				return Source{}, refuse("sops takes a path and a key")
			}
			return Source{"sops", path + "#" + key}, nil
		}
		if len(spec) != 1 {
			return Source{}, refuse("it has %d kinds, want one", len(spec))
		}
		for kind, arg := range spec {
			if kind == "kubernetes" {
				k, err := parseKubernetes(arg)
				if err != nil {
					return Source{}, refuse("%w", err)
				}
				return Source{kind, k.String()}, nil
			}
			text, ok := arg.(string)
			if !ok || text == "" {
				return Source{}, refuse("what follows %s is no text", kind)
			}
			return Source{kind, text}, nil
		}
	}
	return Source{}, refuse("it is a %T", spec)
}

// Generated returns the name under which a generated secret is stored.
func Generated(name string) string { return "secret/" + name }

// A Reader reads secrets of one kind of source. An error of kind NotFound says
// that there is none.
type Reader interface {
	Read(ctx context.Context, arg string) ([]byte, error)
}

// ReaderFunc is a function that is a Reader.
type ReaderFunc func(ctx context.Context, arg string) ([]byte, error)

// Read calls f.
func (f ReaderFunc) Read(ctx context.Context, arg string) ([]byte, error) { return f(ctx, arg) }

// Readers holds the reader of each kind of source.
type Readers map[string]Reader

// Read returns the plain text of the secret that s is the source of. A single
// newline at the end of a one-line secret is dropped: editors add it.
func (r Readers) Read(ctx context.Context, s Source) (string, error) {
	reader, ok := r[s.Kind]
	if !ok {
		return "", fault.Hinted(fault.Invalid, "the kinds are "+strings.Join(r.Kinds(), ", "), "%q is no kind of secret source here", s.Kind)
	}
	data, err := reader.Read(ctx, s.Arg)
	if err != nil {
		return "", err
	}
	if line := bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r")); !bytes.ContainsRune(line, '\n') {
		data = line
	}
	if len(data) == 0 {
		return "", fault.New(fault.NotFound, "%s is empty", s)
	}
	return string(data), nil
}

// Kinds returns the kinds that can be read, sorted.
func (r Readers) Kinds() []string { return slices.Sorted(maps.Keys(r)) }

// Env reads environment variables through lookup.
func Env(lookup func(string) (string, bool)) Reader {
	return ReaderFunc(func(_ context.Context, name string) ([]byte, error) {
		v, ok := lookup(name)
		if !ok {
			return nil, fault.Hinted(fault.NotFound, "export "+name, "the environment variable %s isn't set", name)
		}
		return []byte(v), nil
	})
}

// File reads files that only their owner may read, relative to dir.
func File(dir string) Reader {
	return ReaderFunc(func(_ context.Context, path string) ([]byte, error) { return readPrivate(within(dir, path)) })
}

// AgeFile reads files that are encrypted with age, relative to dir.
func AgeFile(dir string, box *Box) Reader {
	return ReaderFunc(func(_ context.Context, path string) ([]byte, error) {
		path = within(dir, path)
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil, fault.New(fault.NotFound, "there is no file %s", path)
		}
		if err != nil {
			return nil, fault.New(fault.Denied, "%v", err)
		}
		plain, err := box.Decrypt(data)
		return plain, fault.Wrap("decrypting", path, err)
	})
}

func within(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// SiteReaders returns the readers of environment variables (through lookup)
// and of plain, age-encrypted and SOPS-encrypted files in the site's folder dir.
func SiteReaders(dir string, lookup func(string) (string, bool), box *Box) Readers {
	return Readers{"env": Env(lookup), "file": File(dir), "age": AgeFile(dir, box), "sops": SOPSFile(dir, box)}
}

// Local reports whether the secret is read on this machine, at no cost.
func (s Source) Local() bool {
	return s.Kind == "env" || s.Kind == "file" || s.Kind == "age" || s.Kind == "sops"
}
