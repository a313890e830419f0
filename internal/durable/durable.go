// Package durable writes files so that a reader, or a machine that loses its
// power, finds all of a file or nothing of it. What a function here did is on
// disk when it returns. Errors are those of the system.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
		err = write(path, data, mode, renameNew)
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
	f, err := Temp(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	return commit(f, path, mode, place)
}

// prefix begins the names of temporary files.
const prefix = ".gsrun-new-"

// Temp makes a temporary file in dir, for Commit, and removes those that were
// left there by processes that died. Whoever makes it removes it if it isn't
// committed.
func Temp(dir string) (*os.File, error) {
	sweep(dir)
	for {
		f, err := os.CreateTemp(dir, prefix+"*")
		if err != nil {
			return nil, err
		}
		// The lock ends with the process, so what isn't locked is nobody's. In
		// the moment before it is taken another may sweep the file away.
		if err := lock(f, syscall.LOCK_EX); err != nil {
			return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
		if _, err := os.Lstat(f.Name()); err == nil {
			return f, nil
		}
		_ = f.Close()
	}
}

// sweep removes the temporary files in dir that no living process writes. One
// that can't be removed does no harm.
func sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(escape(dir), prefix+"*")) // the pattern is right
	for _, path := range left {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if lock(f, syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.Remove(path)
		}
		_ = f.Close()
	}
}

// escape returns dir so that a pattern takes it as it is.
func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

func lock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}

// Commit gives f, a file that Temp made in the folder of path, its mode and the
// name path. It closes f in any case.
func Commit(f *os.File, path string, mode fs.FileMode) error {
	return commit(f, path, mode, os.Rename)
}

func commit(f *os.File, path string, mode fs.FileMode, place func(from, to string) error) error {
	err := errors.Join(f.Chmod(mode), f.Sync())
	if err == nil {
		err = place(f.Name(), path) // before the lock ends with the file
	}
	if err := errors.Join(err, f.Close()); err != nil {
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
	if err := SyncDir(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) { // somebody removed the folder, too
		return err
	}
	return nil
}

// SyncDir makes the names of the files in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
