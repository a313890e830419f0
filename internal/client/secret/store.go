package secret

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Store keeps named values in a folder, one file each, encrypted by a Box.
// Names are slash-separated. Several goroutines, and several processes, may
// use one folder at once: a value is replaced as a whole or not at all.
type Store struct {
	dir string
	box *Box
}

// NewStore returns a store in dir, which is made when something is first put.
func NewStore(dir string, box *Box) *Store { return &Store{dir: dir, box: box} }

const suffix = ".age"

// segment is one part of a name. Leading dots are for the files in the making.
var segment = regexp.MustCompile(`^[A-Za-z0-9_\[][A-Za-z0-9._@:+=,\[\]-]*$`)

func (s *Store) path(name string) (string, error) {
	if name == "" || len(name) > 200 {
		return "", fault.New(fault.Invalid, "a stored value's name has 1 to 200 bytes, not %d", len(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		if !segment.MatchString(part) || strings.HasSuffix(part, suffix) {
			return "", fault.Hinted(fault.Invalid, "use letters, digits and ._@:+=,- between slashes", "%q can't be the name of a stored value", name)
		}
	}
	return filepath.Join(s.dir, filepath.FromSlash(name)+suffix), nil
}

// Get returns the value of that name, and whether there is one.
func (s *Store) Get(ctx context.Context, name string) ([]byte, bool, error) {
	if err := fault.FromContext(ctx); err != nil {
		return nil, false, err
	}
	path, err := s.path(name)
	if err != nil {
		return nil, false, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, &fault.Error{Op: "reading stored value", Target: name, Kind: fault.Failed, Err: err}
	}
	plain, err := s.open(name, data)
	return plain, err == nil, err
}

// Put stores a value. Once it returns, the value is durable.
func (s *Store) Put(ctx context.Context, name string, value []byte) error {
	path, data, err := s.prepare(ctx, name, value)
	if err != nil {
		return err
	}
	return storing(name, durable.WriteFile(path, data, 0o600))
}

// Create stores a value unless there is one, and returns the one that is
// stored then and whether it is this one: of several processes that make a
// value at once, all get that of the first.
func (s *Store) Create(ctx context.Context, name string, value []byte) (stored []byte, created bool, err error) {
	path, data, err := s.prepare(ctx, name, value)
	if err != nil {
		return nil, false, err
	}
	data, created, err = durable.CreateFile(path, data, 0o600)
	if err != nil {
		return nil, false, storing(name, err)
	}
	if created {
		return value, true, nil
	}
	stored, err = s.open(name, data)
	return stored, false, err
}

// open decrypts the content of a value's file.
func (s *Store) open(name string, data []byte) ([]byte, error) {
	plain, err := s.box.Decrypt(data)
	if err != nil {
		return nil, fault.Wrap("reading stored value", name, err)
	}
	return plain, nil
}

// prepare encrypts a value, and makes the folder that it will lie in.
func (s *Store) prepare(ctx context.Context, name string, value []byte) (path string, data []byte, err error) {
	if err := fault.FromContext(ctx); err != nil {
		return "", nil, err
	}
	if path, err = s.path(name); err != nil {
		return "", nil, err
	}
	if data, err = s.box.Encrypt(value); err != nil {
		return "", nil, fault.Wrap("storing", name, err)
	}
	return path, data, storing(name, durable.MkdirAll(filepath.Dir(path), 0o700))
}

func storing(name string, err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Op: "storing", Target: name, Kind: fault.Failed, Err: err}
}

// Delete removes a value. Removing one that isn't there is no error.
func (s *Store) Delete(ctx context.Context, name string) error {
	if err := fault.FromContext(ctx); err != nil {
		return err
	}
	path, err := s.path(name)
	if err != nil {
		return err
	}
	if err := durable.Remove(path); err != nil {
		return &fault.Error{Op: "deleting stored value", Target: name, Kind: fault.Failed, Err: err}
	}
	return nil
}

// List returns the names of all values, sorted.
func (s *Store) List(ctx context.Context) ([]string, error) {
	var names []string
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if cerr := fault.FromContext(ctx); cerr != nil {
			return cerr
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(s.dir, path)
		if err != nil {
			return err
		}
		if name, ok := strings.CutSuffix(filepath.ToSlash(rel), suffix); ok && !strings.HasPrefix(d.Name(), ".") {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		if fault.KindOf(err) != fault.Internal {
			return nil, err
		}
		return nil, &fault.Error{Op: "listing", Target: s.dir, Kind: fault.Failed, Err: err}
	}
	sort.Strings(names)
	return names, nil
}
