package journal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"git.vanillacore.net/govstack/gsrun/internal/durable"
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
	path, err := v.prepare(name)
	if err != nil {
		return err
	}
	return storing(path, durable.WriteFile(path, value, 0o600))
}

// Create stores value under name unless there is one, and returns what is
// stored then and whether it is this one. It is on disk, whole, when Create
// returns.
func (v *Values) Create(_ context.Context, name string, value []byte) (stored []byte, created bool, err error) {
	path, err := v.prepare(name)
	if err != nil {
		return nil, false, err
	}
	stored, created, err = durable.CreateFile(path, value, 0o600)
	return stored, created, storing(path, err)
}

// prepare makes the folder that the value called name lies in.
func (v *Values) prepare(name string) (path string, err error) {
	if path, err = v.path(name); err != nil {
		return "", err
	}
	return path, storing(path, durable.MkdirAll(filepath.Dir(path), 0o700))
}

func storing(path string, err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Op: "storing", Target: path, Kind: fault.Failed, Err: err, Hint: diskHint(err)}
}

// Delete removes the value stored under name, if there is one.
func (v *Values) Delete(_ context.Context, name string) error {
	path, err := v.path(name)
	if err != nil {
		return err
	}
	if err := durable.Remove(path); err != nil {
		return &fault.Error{Op: "deleting", Target: path, Kind: fault.Failed, Err: err}
	}
	return nil
}
