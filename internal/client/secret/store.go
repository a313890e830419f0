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
	plain, err := s.box.Decrypt(data)
	if err != nil {
		return nil, false, fault.Wrap("reading stored value", name, err)
	}
	return plain, true, nil
}

// Put stores a value. Once it returns, the value is durable.
func (s *Store) Put(ctx context.Context, name string, value []byte) error {
	_, err := s.write(ctx, name, value, os.Rename)
	return err
}

// Create stores a value unless there is one, and returns the one that is
// stored then and whether it is this one: of several processes that make a
// value at once, all get that of the first.
func (s *Store) Create(ctx context.Context, name string, value []byte) (stored []byte, created bool, err error) {
	// A link fails where a name is taken, which a rename doesn't.
	taken, err := s.write(ctx, name, value, os.Link)
	if err != nil {
		return nil, false, err
	}
	if !taken {
		return value, true, nil
	}
	have, found, err := s.Get(ctx, name)
	if err == nil && !found {
		err = &fault.Error{Op: "storing", Target: name, Kind: fault.Conflict, Err: errors.New("somebody else stored and deleted it meanwhile")}
	}
	return have, false, err
}

// write encrypts a value into a new file, which place then gives its name. It
// reports whether place found the name taken.
func (s *Store) write(ctx context.Context, name string, value []byte, place func(from, to string) error) (taken bool, err error) {
	if err := fault.FromContext(ctx); err != nil {
		return false, err
	}
	path, err := s.path(name)
	if err != nil {
		return false, err
	}
	data, err := s.box.Encrypt(value)
	if err != nil {
		return false, fault.Wrap("storing", name, err)
	}
	err = s.replace(path, data, place)
	if errors.Is(err, fs.ErrExist) {
		return true, nil
	}
	if err != nil {
		return false, &fault.Error{Op: "storing", Target: name, Kind: fault.Failed, Err: err}
	}
	return false, nil
}

func (s *Store) replace(path string, data []byte, place func(from, to string) error) error {
	dir := filepath.Dir(path)
	if err := s.makeDir(dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".tmp-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, werr := f.Write(data)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := place(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// makeDir makes dir and what is missing above it, and makes the new folders
// themselves durable.
func (s *Store) makeDir(dir string) error {
	var missing []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, d)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range missing {
		if err := syncDir(filepath.Dir(d)); err != nil {
			return err
		}
	}
	return nil
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
	err = os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
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

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
