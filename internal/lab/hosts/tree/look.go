package tree

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Stat describes the file at p; with follow, what a link at the end leads to.
func (f *FS) Stat(c Cred, p string, follow bool) (*Info, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.find(c, p, follow)
	if err != nil {
		return nil, &fs.PathError{Op: "stat", Path: p, Err: err}
	}
	return n.info(path.Base(p)), nil
}

// Access fails with EACCES unless c has the rights want: the sum of 4 to
// read, 2 to write, 1 to execute or enter.
func (f *FS) Access(c Cred, p string, want fs.FileMode) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.find(c, p, true)
	switch {
	case err != nil:
	case !allowed(c, n, want):
		err = syscall.EACCES
	case want&2 != 0:
		err = f.writable(n)
	}
	if err != nil {
		return &fs.PathError{Op: "access", Path: p, Err: err}
	}
	return nil
}

// ReadDir lists the directory at p by name.
func (f *FS) ReadDir(c Cred, p string) ([]*Info, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.find(c, p, true)
	switch {
	case err != nil:
	case !n.dir():
		err = syscall.ENOTDIR
	case !allowed(c, n, 4):
		err = syscall.EACCES
	}
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: p, Err: err}
	}
	out := make([]*Info, 0, len(n.kids))
	for name, kid := range n.kids {
		out = append(out, kid.info(name))
	}
	slices.SortFunc(out, func(a, b *Info) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// Readlink returns where the symbolic link at p points.
func (f *FS) Readlink(c Cred, p string) (string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.find(c, p, false)
	if err == nil && !n.link() {
		err = syscall.EINVAL
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: p, Err: err}
	}
	return n.target, nil
}
