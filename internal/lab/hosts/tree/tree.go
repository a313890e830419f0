// Package tree is the file system of one simulated host: a POSIX tree of
// directories, files, links and devices that lives in memory, with owners,
// modes and permission checks. Nothing in it touches a file of the machine
// that it runs on, so no path and no link can lead out of it.
//
// Failures are *fs.PathError (or *os.LinkError) around a syscall.Errno, so that
// callers can tell them apart as they would on a real system.
package tree

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Cred is whose rights an operation has. UID 0 may do nearly all.
type Cred struct {
	UID, GID int
	Groups   []int // supplementary
}

// Root is the superuser.
func Root() Cred { return Cred{} }

func (c Cred) member(gid int) bool { return c.GID == gid || slices.Contains(c.Groups, gid) }

// A Volume is one mounted file system of the host.
type Volume int

// The volumes. Faults (full disk, read-only) only concern Disk.
const (
	Disk    Volume = iota // the root file system
	Memory                // /run, /dev: empty after a reboot
	Process               // /proc
	System                // /sys
)

type node struct {
	mode   fs.FileMode // type, permissions, setuid, setgid, sticky
	uid    int
	gid    int
	mtime  time.Time
	ino    uint64
	nlink  int
	vol    Volume
	data   []byte
	target string           // of a symbolic link
	kids   map[string]*node // of a directory
	up     *node            // of a directory: its parent
	read   func() []byte    // of a virtual file: its content now
	write  func([]byte) error
	device string // null, zero, full, urandom
}

func (n *node) dir() bool  { return n.mode.IsDir() }
func (n *node) link() bool { return n.mode&fs.ModeSymlink != 0 }

// An FS is one file tree. It may be used from any goroutine.
type FS struct {
	mu       sync.RWMutex
	root     *node
	now      func() time.Time
	ino      uint64
	writes   atomic.Int64
	used     int64 // bytes on Disk
	full     bool
	readOnly bool
}

// New returns an empty tree whose root directory is root's. The clock now
// dates what is written.
func New(now func() time.Time) *FS {
	f := &FS{now: now}
	f.root = f.node(fs.ModeDir|0o755, Root(), Disk)
	f.root.up = f.root
	return f
}

// Writes counts the changes that were ever made to the tree: content, names
// and attributes, /proc included.
func (f *FS) Writes() int64 { return f.writes.Load() }

// SetFull makes every write to the disk fail with ENOSPC, or ends that.
func (f *FS) SetFull(full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = full
}

// SetReadOnly makes every change on the disk fail with EROFS, or ends that.
func (f *FS) SetReadOnly(ro bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readOnly = ro
}

// Used is how many bytes of content the disk holds.
func (f *FS) Used() int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.used
}

func (f *FS) node(mode fs.FileMode, c Cred, vol Volume) *node {
	f.ino++
	n := &node{mode: mode, uid: c.UID, gid: c.GID, mtime: f.now(), ino: f.ino, nlink: 1, vol: vol}
	if mode.IsDir() {
		n.kids = map[string]*node{}
		n.nlink = 2
	}
	return n
}

// touched records one change.
func (f *FS) touched(n *node) {
	f.writes.Add(1)
	n.mtime = f.now()
}

// writable fails if nothing on n's volume can be changed.
func (f *FS) writable(n *node) error {
	if f.readOnly && n.vol == Disk {
		return syscall.EROFS
	}
	return nil
}

// allowed reports whether c has the rights want (4 read, 2 write, 1 execute) on n.
func allowed(c Cred, n *node, want fs.FileMode) bool {
	perm := n.mode.Perm()
	if c.UID == 0 {
		return want&1 == 0 || n.dir() || perm&0o111 != 0
	}
	switch {
	case c.UID == n.uid:
		perm >>= 6
	case c.member(n.gid):
		perm >>= 3
	}
	return perm&want == want
}

// maxLinks bounds how many symbolic links one lookup follows, as Linux does.
const maxLinks = 40

// lookup walks p from the root. With follow, a link at the end is followed
// too. It returns the directory that holds the last name, that name, and the
// node, which is nil (with no error) if only the last name is missing.
func (f *FS) lookup(c Cred, p string, follow bool) (dir *node, name string, n *node, err error) {
	if p == "" {
		return nil, "", nil, syscall.ENOENT
	}
	links := 0
	dir = f.root
	rest := p
	mustDir := strings.HasSuffix(p, "/")
	for {
		rest = strings.TrimLeft(rest, "/")
		if rest == "" {
			return dir.up, f.nameOf(dir), dir, nil
		}
		name, rest, _ = strings.Cut(rest, "/")
		if len(name) > 255 {
			return nil, "", nil, syscall.ENAMETOOLONG
		}
		if !allowed(c, dir, 1) {
			return nil, "", nil, syscall.EACCES
		}
		last := strings.Trim(rest, "/") == ""
		switch name {
		case ".":
			if last {
				return dir.up, f.nameOf(dir), dir, nil
			}
			continue
		case "..":
			dir = dir.up
			if last {
				return dir.up, f.nameOf(dir), dir, nil
			}
			continue
		}
		n = dir.kids[name]
		if n == nil {
			if last {
				return dir, name, nil, nil
			}
			return nil, "", nil, syscall.ENOENT
		}
		if n.link() && (!last || follow || mustDir) {
			if links++; links > maxLinks {
				return nil, "", nil, syscall.ELOOP
			}
			if strings.HasPrefix(n.target, "/") {
				dir = f.root
			}
			rest = n.target + "/" + rest
			if last && !mustDir {
				rest = n.target
			}
			continue
		}
		if last {
			if mustDir && !n.dir() {
				return nil, "", nil, syscall.ENOTDIR
			}
			return dir, name, n, nil
		}
		if !n.dir() {
			return nil, "", nil, syscall.ENOTDIR
		}
		dir = n
	}
}

// find is lookup for what must exist.
func (f *FS) find(c Cred, p string, follow bool) (*node, error) {
	_, _, n, err := f.lookup(c, p, follow)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	return n, err
}

// nameOf returns the name of a directory in its parent.
func (f *FS) nameOf(d *node) string {
	if d == f.root {
		return "/"
	}
	for name, kid := range d.up.kids {
		if kid == d {
			return name
		}
	}
	return ""
}

// pathOf returns the absolute path of a directory.
func (f *FS) pathOf(d *node) string {
	var parts []string
	for ; d != f.root; d = d.up {
		parts = append(parts, f.nameOf(d))
	}
	slices.Reverse(parts)
	return "/" + strings.Join(parts, "/")
}

// RealPath returns p without links, "." and "..". What p names must exist,
// except, with missingOK, its last element.
func (f *FS) RealPath(c Cred, p string, missingOK bool) (string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	dir, name, n, err := f.lookup(c, p, true)
	if err == nil && n == nil && !missingOK {
		err = syscall.ENOENT
	}
	if err != nil {
		return "", &fs.PathError{Op: "realpath", Path: p, Err: err}
	}
	if n != nil && n.dir() {
		return f.pathOf(n), nil
	}
	return path.Join(f.pathOf(dir), name), nil
}

// Touched counts a change to something of the host's that isn't a file, such
// as the packet filter's rules.
func (f *FS) Touched() { f.writes.Add(1) }
