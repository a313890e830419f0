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
// Put.
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
	if err := v.put(path, value); err != nil {
		return &fault.Error{Op: "storing", Target: path, Kind: fault.Failed, Err: err}
	}
	return nil
}

func (v *Values) put(path string, value []byte) error {
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
	if err := os.Rename(f.Name(), path); err != nil {
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
