package tree

import (
	"io/fs"
	"syscall"
	"time"
)

// attr runs change on the node at p if c owns it.
func (f *FS) attr(op string, c Cred, p string, follow bool, change func(*node) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(c, p, follow)
	if err == nil {
		err = f.writable(n)
	}
	if err == nil {
		err = change(n)
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: p, Err: err}
	}
	f.writes.Add(1)
	return nil
}

// Chmod sets the permissions of the file at p.
func (f *FS) Chmod(c Cred, p string, perm fs.FileMode) error {
	return f.attr("chmod", c, p, true, func(n *node) error {
		if c.UID != 0 && c.UID != n.uid {
			return syscall.EPERM
		}
		n.mode = n.mode&^permMask | perm&permMask
		return nil
	})
}

// Chown sets owner and group; -1 leaves one as it is. Only root gives a file
// away, and an owner only to a group of their own.
func (f *FS) Chown(c Cred, p string, uid, gid int, follow bool) error {
	return f.attr("chown", c, p, follow, func(n *node) error {
		if c.UID != 0 {
			if c.UID != n.uid || uid >= 0 && uid != n.uid || gid >= 0 && gid != n.gid && !c.member(gid) {
				return syscall.EPERM
			}
		}
		if uid >= 0 {
			n.uid = uid
		}
		if gid >= 0 {
			n.gid = gid
		}
		return nil
	})
}

// Chtimes sets when the file's content last changed.
func (f *FS) Chtimes(c Cred, p string, mtime time.Time) error {
	return f.attr("chtimes", c, p, true, func(n *node) error {
		if c.UID != 0 && c.UID != n.uid && !allowed(c, n, 2) {
			return syscall.EPERM
		}
		n.mtime = mtime
		return nil
	})
}
