package tree

import (
	"io/fs"
	"syscall"
	"time"
)

// An Info describes one file. Its Sys is a *syscall.Stat_t with the owner, the
// inode and the number of links filled in.
type Info struct {
	name   string
	size   int64
	mode   fs.FileMode
	mtime  time.Time
	uid    int
	gid    int
	ino    uint64
	nlink  int
	volume Volume
}

var (
	_ fs.FileInfo = (*Info)(nil)
	_ fs.DirEntry = (*Info)(nil)
)

// Name is the last element of the file's path.
func (i *Info) Name() string { return i.name }

// Size is the length of the content in bytes; 4096 for a directory.
func (i *Info) Size() int64 { return i.size }

// Mode has the type and the permissions.
func (i *Info) Mode() fs.FileMode { return i.mode }

// Type is the mode's type bits.
func (i *Info) Type() fs.FileMode { return i.mode.Type() }

// ModTime is when the content last changed.
func (i *Info) ModTime() time.Time { return i.mtime }

// IsDir reports whether this is a directory.
func (i *Info) IsDir() bool { return i.mode.IsDir() }

// Info returns i itself.
func (i *Info) Info() (fs.FileInfo, error) { return i, nil }

// UID is the owner.
func (i *Info) UID() int { return i.uid }

// GID is the group.
func (i *Info) GID() int { return i.gid }

// Ino is the inode number: equal for two names of one file.
func (i *Info) Ino() uint64 { return i.ino }

// Links is the number of names.
func (i *Info) Links() int { return i.nlink }

// Volume is the file system that the file is on.
func (i *Info) Volume() Volume { return i.volume }

// Sys returns a *syscall.Stat_t.
func (i *Info) Sys() any {
	sec := syscall.NsecToTimespec(i.mtime.UnixNano())
	return &syscall.Stat_t{
		Ino: i.ino, Nlink: uint64(i.nlink), Mode: UnixMode(i.mode),
		Uid: uint32(i.uid), Gid: uint32(i.gid), Size: i.size,
		Atim: sec, Mtim: sec, Ctim: sec,
	}
}

func (n *node) info(name string) *Info {
	i := &Info{
		name: name, mode: n.mode, mtime: n.mtime, uid: n.uid, gid: n.gid,
		ino: n.ino, nlink: n.nlink, volume: n.vol, size: int64(len(n.data)),
	}
	switch {
	case n.dir():
		i.size = 4096
	case n.link():
		i.size = int64(len(n.target))
	}
	return i
}

// UnixMode returns m as the kernel writes it: type and permission bits.
func UnixMode(m fs.FileMode) uint32 {
	u := uint32(m.Perm())
	switch {
	case m.IsDir():
		u |= syscall.S_IFDIR
	case m&fs.ModeSymlink != 0:
		u |= syscall.S_IFLNK
	case m&fs.ModeCharDevice != 0:
		u |= syscall.S_IFCHR
	default:
		u |= syscall.S_IFREG
	}
	if m&fs.ModeSetuid != 0 {
		u |= syscall.S_ISUID
	}
	if m&fs.ModeSetgid != 0 {
		u |= syscall.S_ISGID
	}
	if m&fs.ModeSticky != 0 {
		u |= syscall.S_ISVTX
	}
	return u
}

// PermOf turns the lower twelve bits of a Unix mode into Go's permissions.
func PermOf(u uint32) fs.FileMode {
	m := fs.FileMode(u & 0o777)
	if u&0o4000 != 0 {
		m |= fs.ModeSetuid
	}
	if u&0o2000 != 0 {
		m |= fs.ModeSetgid
	}
	if u&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// permMask is the part of a mode that chmod changes.
const permMask = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
