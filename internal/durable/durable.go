// Package durable writes files so that a reader, or a machine that loses its
// power, finds all of a file or nothing of it. What a function here did is on
// disk when it returns. Errors are those of the system.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile makes the file at path have the content data, whether or not there
// is one. Its folder must exist.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	return write(path, data, mode, os.Rename)
}

// CreateFile makes a file at path with the content data unless there is one,
// and returns the content that it has then and whether it is this one: of
// several that do so at once, in however many processes, all get that of the
// first. Its folder must exist.
func CreateFile(path string, data []byte, mode fs.FileMode) (stored []byte, created bool, err error) {
	for range 3 {
		// A link fails where a name is taken, which a rename doesn't.
		err = write(path, data, mode, os.Link)
		if err == nil {
			return data, true, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, false, err
		}
		// Somebody may have removed it meanwhile.
		if stored, err = os.ReadFile(path); !errors.Is(err, fs.ErrNotExist) {
			return stored, false, err
		}
	}
	return nil, false, err // a dangling symbolic link, say
}

func write(path string, data []byte, mode fs.FileMode, place func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	return commit(f, path, mode, place)
}

// Commit gives f, a new file in the folder of path, its mode and the name path.
// It closes f in any case.
func Commit(f *os.File, path string, mode fs.FileMode) error {
	return commit(f, path, mode, os.Rename)
}

func commit(f *os.File, path string, mode fs.FileMode, place func(from, to string) error) error {
	if err := errors.Join(f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := place(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// MkdirAll makes dir and what is missing above it.
func MkdirAll(dir string, mode fs.FileMode) error {
	var missing []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, d)
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	for _, d := range missing {
		if err := SyncDir(filepath.Dir(d)); err != nil {
			return err
		}
	}
	return nil
}

// Remove removes the file at path. That there is none is no error.
func Remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names of the files in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
