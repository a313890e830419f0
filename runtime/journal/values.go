package journal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// Values is an effect.Store of public values in a folder, each in a file of
// its own: host keys, for example.
type Values struct{ dir string }

// NewValues returns the store in the folder dir, which is made at the first
// Put or Create.
func NewValues(dir string) *Values { return &Values{dir: dir} }

func (v *Values) path(name string) (string, error) {
	if !fs.ValidPath(name) || name == "." {
		return "", fault.New(fault.Invalid, "%q is no name for a stored value", name)
	}
	return filepath.Join(v.dir, filepath.FromSlash(name)), nil
}

// Get returns the value stored under name.
func (v *Values) Get(_ context.Context, name string) ([]byte, bool, error) {
	path, err := v.path(name)
	if err != nil {
		return nil, false, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, &fault.Error{Op: "reading", Target: path, Kind: fault.Invalid, Err: err}
	}
	return data, true, nil
}

// Put stores value under name. It is on disk, whole, when Put returns.
func (v *Values) Put(_ context.Context, name string, value []byte) error {
	path, err := v.path(name)
	if err != nil {
		return err
	}
	return storing(path, v.put(path, value, os.Rename))
}

// Create stores value under name unless there is one, and returns what is
// stored then and whether it is this one. It is on disk, whole, when Create
// returns.
func (v *Values) Create(ctx context.Context, name string, value []byte) (stored []byte, created bool, err error) {
	path, err := v.path(name)
	if err != nil {
		return nil, false, err
	}
	// A link fails where a name is taken, which a rename doesn't.
	err = v.put(path, value, os.Link)
	if err == nil {
		return value, true, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return nil, false, storing(path, err)
	}
	stored, found, err := v.Get(ctx, name)
	if err == nil && !found {
		err = &fault.Error{Op: "storing", Target: path, Kind: fault.Conflict, Err: errors.New("somebody else stored and deleted it meanwhile")}
	}
	return stored, false, err
}

func storing(path string, err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Op: "storing", Target: path, Kind: fault.Failed, Err: err}
}

// put writes value into a new file, which place then gives its name.
func (v *Values) put(path string, value []byte, place func(from, to string) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(value)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := place(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// Delete removes the value stored under name, if there is one.
func (v *Values) Delete(_ context.Context, name string) error {
	path, err := v.path(name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fault.Error{Op: "deleting", Target: path, Kind: fault.Failed, Err: err}
	}
	return nil
}
