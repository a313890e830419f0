package tree

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// parent returns the directory that a new name at p goes into. It fails with
// EEXIST if the name is taken.
func (f *FS) parent(c Cred, p string) (*node, string, error) {
	dir, name, n, err := f.lookup(c, strings.TrimRight(p, "/"), false)
	switch {
	case err != nil:
		return nil, "", err
	case n != nil:
		return nil, "", syscall.EEXIST
	}
	return dir, name, f.mayChange(c, dir)
}

// mayChange fails unless c may add names to dir.
func (f *FS) mayChange(c Cred, dir *node) error {
	if dir.vol == Process || dir.vol == System {
		if c.UID != 0 {
			return syscall.EACCES
		}
		return syscall.EPERM
	}
	if !allowed(c, dir, 3) {
		return syscall.EACCES
	}
	return f.writable(dir)
}

// mayRemove fails unless c may take n out of dir, the sticky bit considered.
func (f *FS) mayRemove(c Cred, dir, n *node) error {
	if err := f.mayChange(c, dir); err != nil {
		return err
	}
	if dir.mode&fs.ModeSticky != 0 && c.UID != 0 && c.UID != n.uid && c.UID != dir.uid {
		return syscall.EPERM
	}
	return nil
}

func (f *FS) add(dir *node, name string, n *node) {
	dir.kids[name] = n
	if n.dir() {
		n.up = dir
		dir.nlink++
	}
	f.touched(dir)
}

func (f *FS) drop(dir *node, name string, n *node) {
	delete(dir.kids, name)
	if n.dir() {
		dir.nlink--
		for kid, k := range n.kids {
			f.drop(n, kid, k)
		}
	} else if n.nlink--; n.nlink == 0 && n.vol == Disk {
		f.used -= int64(len(n.data))
	}
	f.touched(dir)
}

// Mkdir makes one directory.
func (f *FS) Mkdir(c Cred, p string, perm fs.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, name, err := f.parent(c, p)
	if err != nil {
		return &fs.PathError{Op: "mkdir", Path: p, Err: err}
	}
	n := f.node(fs.ModeDir|perm&permMask, c, dir.vol)
	if dir.mode&fs.ModeSetgid != 0 {
		n.gid = dir.gid
		n.mode |= fs.ModeSetgid
	}
	f.add(dir, name, n)
	return nil
}

// Mount makes a directory (with the parents that are missing) the start of
// another volume.
func (f *FS) Mount(p string, vol Volume, perm fs.FileMode) error {
	if err := f.MkdirAll(Root(), p, perm); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(Root(), p, true)
	if err != nil {
		return &fs.PathError{Op: "mount", Path: p, Err: err}
	}
	n.vol = vol
	return nil
}

// MkdirAll makes a directory and the parents that are missing.
func (f *FS) MkdirAll(c Cred, p string, perm fs.FileMode) error {
	if info, err := f.Stat(c, p, true); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: p, Err: syscall.ENOTDIR}
		}
		return nil
	}
	if up := path.Dir(strings.TrimRight(p, "/")); up != p {
		if err := f.MkdirAll(c, up, perm); err != nil {
			return err
		}
	}
	err := f.Mkdir(c, p, perm)
	if os.IsExist(err) {
		if info, serr := f.Stat(c, p, true); serr == nil && info.IsDir() {
			return nil
		}
	}
	return err
}

// Remove takes away a file, a link or an empty directory.
func (f *FS) Remove(c Cred, p string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remove(c, p, false)
}

// RemoveAll takes away p and all that is below it. That nothing is there is
// no error.
func (f *FS) RemoveAll(c Cred, p string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.find(c, p, false); err == syscall.ENOENT {
		return nil
	}
	return f.remove(c, p, true)
}

func (f *FS) remove(c Cred, p string, all bool) error {
	dir, name, n, err := f.lookup(c, p, false)
	switch {
	case err != nil:
	case n == nil:
		err = syscall.ENOENT
	case n == f.root:
		err = syscall.EBUSY
	case n.vol != dir.vol:
		err = syscall.EBUSY
	case n.dir() && len(n.kids) > 0 && !all:
		err = syscall.ENOTEMPTY
	default:
		if err = f.mayRemove(c, dir, n); err == nil && all {
			err = f.mayEmpty(c, n)
		}
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: p, Err: err}
	}
	f.drop(dir, name, n)
	return nil
}

func (f *FS) mayEmpty(c Cred, n *node) error {
	if !n.dir() || c.UID == 0 {
		return nil
	}
	for _, kid := range n.kids {
		if err := f.mayRemove(c, n, kid); err != nil {
			return err
		}
		if err := f.mayEmpty(c, kid); err != nil {
			return err
		}
	}
	return nil
}

// Rename moves a file or directory; what the new name holds is replaced in
// one go, unless it is a directory with something in it.
func (f *FS) Rename(c Cred, from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	fail := func(err error) error { return &os.LinkError{Op: "rename", Old: from, New: to, Err: err} }
	odir, oname, n, err := f.lookup(c, strings.TrimRight(from, "/"), false)
	if err != nil {
		return fail(err)
	}
	if n == nil {
		return fail(syscall.ENOENT)
	}
	ndir, nname, old, err := f.lookup(c, strings.TrimRight(to, "/"), false)
	if err != nil {
		return fail(err)
	}
	if old == n {
		return nil
	}
	if err := f.mayRemove(c, odir, n); err != nil {
		return fail(err)
	}
	if err := f.mayChange(c, ndir); err != nil {
		return fail(err)
	}
	if n.vol != ndir.vol || n == f.root {
		return fail(syscall.EXDEV)
	}
	for up := ndir; n.dir(); up = up.up {
		if up == n {
			return fail(syscall.EINVAL)
		}
		if up == f.root {
			break
		}
	}
	if old != nil {
		switch {
		case old.dir() && !n.dir():
			return fail(syscall.EISDIR)
		case !old.dir() && n.dir():
			return fail(syscall.ENOTDIR)
		case len(old.kids) > 0:
			return fail(syscall.ENOTEMPTY)
		}
		if err := f.mayRemove(c, ndir, old); err != nil {
			return fail(err)
		}
		f.drop(ndir, nname, old)
	}
	mtime := n.mtime
	delete(odir.kids, oname)
	if n.dir() {
		odir.nlink--
	}
	f.touched(odir)
	f.add(ndir, nname, n)
	n.mtime = mtime
	return nil
}

// Symlink makes p a symbolic link to target, which needn't exist.
func (f *FS) Symlink(c Cred, target, p string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, name, err := f.parent(c, p)
	if err == nil && target == "" {
		err = syscall.ENOENT
	}
	if err != nil {
		return &os.LinkError{Op: "symlink", Old: target, New: p, Err: err}
	}
	n := f.node(fs.ModeSymlink|0o777, c, dir.vol)
	n.target = target
	f.add(dir, name, n)
	return nil
}

// Link gives the file at from a second name.
func (f *FS) Link(c Cred, from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(c, from, false)
	if err == nil && n.dir() {
		err = syscall.EPERM
	}
	var dir *node
	var name string
	if err == nil {
		dir, name, err = f.parent(c, to)
	}
	if err == nil && dir.vol != n.vol {
		err = syscall.EXDEV
	}
	if err != nil {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: err}
	}
	n.nlink++
	f.add(dir, name, n)
	return nil
}
