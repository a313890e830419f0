// Package outputs keeps small public files in a folder: each whole or not there,
// also when several processes change it at once.
package outputs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Folder is the folder at a path. It is made at the first change.
type Folder string

// Read returns what the file of that name holds, and whether there is one.
func (f Folder) Read(name string) (text []byte, found bool, err error) {
	path := filepath.Join(string(f), name)
	text, err = os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, &fault.Error{Op: "reading", Target: path, Kind: fault.Invalid, Err: err}
	}
	return text, true, nil
}

// Change makes the file of that name hold what change makes of what it holds;
// of nil, which stands for no file, and nil deletes it. Nobody else that calls
// Change does so meanwhile. The file is on disk when Change returns.
func (f Folder) Change(name string, change func(text []byte) ([]byte, error)) (err error) {
	path := filepath.Join(string(f), name)
	folder := filepath.Dir(path)
	failed := func(err error) error {
		return &fault.Error{Op: "writing", Target: path, Kind: fault.Failed, Err: err}
	}
	if err := durable.MkdirAll(folder, 0o755); err != nil {
		return failed(err)
	}
	// The folder itself is what is locked: a file for it would lie there for
	// good. The lock ends with the process.
	dir, err := os.Open(folder)
	if err != nil {
		return failed(err)
	}
	defer dir.Close()
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = syscall.Flock(int(dir.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return failed(err)
	}
	text, _, err := f.Read(name)
	if err != nil {
		return err
	}
	if text, err = change(text); err != nil {
		return err
	}
	if text == nil {
		err = durable.Remove(path)
	} else {
		err = durable.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return failed(err)
	}
	return nil
}
