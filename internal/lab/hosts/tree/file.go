package tree

import (
	"bytes"
	"crypto/rand"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
)

// A File is an open file. Like a file descriptor it stays valid when its name
// is moved or removed.
type File struct {
	fs     *FS
	n      *node
	name   string
	flag   int
	mu     sync.Mutex // guards off and closed
	off    int64
	closed bool
	sent   []byte // of a virtual file: its content when it was opened
	buf    []byte // of a virtual file: what was written, applied on Close
	wrote  bool
}

// Open opens the file at p as os.OpenFile does, with flags of package os. perm
// is used when the file is made.
func (f *FS) Open(c Cred, p string, flag int, perm fs.FileMode) (*File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fail := func(err error) (*File, error) { return nil, &fs.PathError{Op: "open", Path: p, Err: err} }
	dir, name, n, err := f.lookup(c, p, flag&os.O_EXCL == 0)
	if err != nil {
		return fail(err)
	}
	write := flag&(os.O_WRONLY|os.O_RDWR) != 0
	if n == nil {
		if flag&os.O_CREATE == 0 {
			return fail(syscall.ENOENT)
		}
		if err := f.mayChange(c, dir); err != nil {
			return fail(err)
		}
		n = f.node(perm&permMask, c, dir.vol)
		if dir.mode&fs.ModeSetgid != 0 {
			n.gid = dir.gid
		}
		f.add(dir, name, n)
		return &File{fs: f, n: n, name: path.Base(p), flag: flag}, nil
	}
	if flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL {
		return fail(syscall.EEXIST)
	}
	if n.dir() {
		if write || flag&os.O_CREATE != 0 {
			return fail(syscall.EISDIR)
		}
	}
	want := fs.FileMode(4)
	switch {
	case flag&os.O_RDWR != 0:
		want = 6
	case flag&os.O_WRONLY != 0:
		want = 2
	}
	if !allowed(c, n, want) {
		return fail(syscall.EACCES)
	}
	file := &File{fs: f, n: n, name: path.Base(p), flag: flag}
	if write && n.device == "" {
		if err := f.writable(n); err != nil {
			return fail(err)
		}
		if n.read != nil && n.write == nil {
			return fail(syscall.EACCES)
		}
		if flag&os.O_TRUNC != 0 && n.read == nil && len(n.data) > 0 {
			f.resize(n, 0)
			f.touched(n)
		}
	}
	if n.read != nil {
		file.sent = n.read()
	}
	return file, nil
}

// resize sets the length of n's content; the caller has checked the space.
func (f *FS) resize(n *node, size int64) {
	if n.vol == Disk {
		f.used += size - int64(len(n.data))
	}
	switch {
	case size == 0:
		n.data = nil
	case size <= int64(len(n.data)):
		n.data = n.data[:size]
	default:
		n.data = append(n.data, make([]byte, size-int64(len(n.data)))...)
	}
}

// Info describes the open file.
func (h *File) Info() *Info {
	h.fs.mu.RLock()
	defer h.fs.mu.RUnlock()
	return h.n.info(h.name)
}

// Read reads on from where the last Read or Write ended.
func (h *File) Read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.readAt(p, h.off)
	h.off += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// ReadAt reads from an offset.
func (h *File) ReadAt(p []byte, off int64) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readAt(p, off)
}

func (h *File) readAt(p []byte, off int64) (int, error) {
	fail := func(err error) (int, error) { return 0, &fs.PathError{Op: "read", Path: h.name, Err: err} }
	switch {
	case h.closed:
		return fail(fs.ErrClosed)
	case h.flag&os.O_WRONLY != 0:
		return fail(syscall.EBADF)
	case h.n.dir():
		return fail(syscall.EISDIR)
	}
	switch h.n.device {
	case "null":
		return 0, io.EOF
	case "zero", "full":
		clear(p)
		return len(p), nil
	case "urandom":
		return rand.Read(p)
	}
	h.fs.mu.RLock()
	defer h.fs.mu.RUnlock()
	data := h.n.data
	if h.n.read != nil {
		data = h.sent
	}
	if off >= int64(len(data)) {
		return 0, io.EOF
	}
	n := copy(p, data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Write writes on from where the last Read or Write ended, or at the end if
// the file was opened with O_APPEND.
func (h *File) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.writeAt(p, h.off, h.flag&os.O_APPEND != 0)
	h.off += int64(n)
	return n, err
}

// WriteAt writes at an offset.
func (h *File) WriteAt(p []byte, off int64) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.writeAt(p, off, false)
}

func (h *File) writeAt(p []byte, off int64, end bool) (int, error) {
	fail := func(err error) (int, error) { return 0, &fs.PathError{Op: "write", Path: h.name, Err: err} }
	switch {
	case h.closed:
		return fail(fs.ErrClosed)
	case h.flag&(os.O_WRONLY|os.O_RDWR) == 0:
		return fail(syscall.EBADF)
	}
	switch h.n.device {
	case "full":
		return fail(syscall.ENOSPC)
	case "":
	default:
		return len(p), nil
	}
	if h.n.read != nil {
		h.buf = append(h.buf, p...)
		h.wrote = true
		return len(p), nil
	}
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if err := h.fs.writable(h.n); err != nil {
		return fail(err)
	}
	if h.fs.full && h.n.vol == Disk && len(p) > 0 {
		return fail(syscall.ENOSPC)
	}
	size := int64(len(h.n.data))
	if end {
		off = size
	}
	if need := off + int64(len(p)); need > size {
		h.fs.resize(h.n, off)
		h.n.data = append(h.n.data, p...)
		if h.n.vol == Disk {
			h.fs.used += int64(len(p))
		}
	} else {
		copy(h.n.data[off:], p)
	}
	h.fs.touched(h.n)
	return len(p), nil
}

// Truncate sets the length of the content.
func (h *File) Truncate(size int64) error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	if size > int64(len(h.n.data)) && h.fs.full && h.n.vol == Disk {
		return &fs.PathError{Op: "truncate", Path: h.name, Err: syscall.ENOSPC}
	}
	h.fs.resize(h.n, size)
	h.fs.touched(h.n)
	return nil
}

// Close ends the use of the file. What was written to a file of the kernel's
// takes effect here, and may be refused here.
func (h *File) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return &fs.PathError{Op: "close", Path: h.name, Err: fs.ErrClosed}
	}
	h.closed = true
	if h.n.write == nil || !h.wrote {
		return nil
	}
	if err := h.n.write(bytes.TrimSpace(h.buf)); err != nil {
		return &fs.PathError{Op: "write", Path: h.name, Err: err}
	}
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	h.fs.touched(h.n)
	return nil
}

// ReadFile returns the content of the file at p.
func (f *FS) ReadFile(c Cred, p string) ([]byte, error) {
	h, err := f.Open(c, p, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if h.n.dir() {
		return nil, &fs.PathError{Op: "read", Path: p, Err: syscall.EISDIR}
	}
	if h.n.device != "" {
		return nil, &fs.PathError{Op: "read", Path: p, Err: syscall.EINVAL}
	}
	if h.n.read != nil {
		return h.sent, nil
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	return bytes.Clone(h.n.data), nil
}

// WriteFile makes content the content of the file at p, which is made if it
// isn't there; a file that is there keeps its mode and owner.
func (f *FS) WriteFile(c Cred, p string, content []byte, perm fs.FileMode) error {
	h, err := f.Open(c, p, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = h.Write(content)
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	return err
}

// Virtual puts a file of the kernel's at p: read gives its content, write (nil
// if it can't be written) takes a new one, without the white space around it.
// Folders that are missing are made. Neither function may use the tree.
func (f *FS) Virtual(p string, perm fs.FileMode, read func() []byte, write func([]byte) error) error {
	return f.place(p, perm, func(n *node) { n.read, n.write = read, write })
}

// Device puts a character device at p: null, zero, full or urandom.
func (f *FS) Device(p, kind string) error {
	return f.place(p, fs.ModeDevice|fs.ModeCharDevice|0o666, func(n *node) { n.device = kind })
}

func (f *FS) place(p string, mode fs.FileMode, set func(*node)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir := f.root
	up, name := path.Split(path.Clean(p))
	for elem := range strings.SplitSeq(strings.Trim(up, "/"), "/") {
		kid := dir.kids[elem]
		if kid == nil {
			kid = f.node(fs.ModeDir|0o755, Root(), dir.vol)
			kid.up = dir
			dir.kids[elem] = kid
			dir.nlink++
		}
		if !kid.dir() {
			return &fs.PathError{Op: "mknod", Path: p, Err: syscall.ENOTDIR}
		}
		dir = kid
	}
	n := f.node(mode, Root(), dir.vol)
	set(n)
	dir.kids[name] = n
	return nil
}

// Vanish takes away a file or folder of the kernel's.
func (f *FS) Vanish(p string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	dir, name, n, err := f.lookup(Root(), p, false)
	if err == nil && n != nil {
		delete(dir.kids, name)
	}
}

// Seal makes all below p belong to a volume; on Process and System nobody can
// add or remove a name.
func (f *FS) Seal(p string, vol Volume) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.find(Root(), p, true)
	if err != nil {
		return &fs.PathError{Op: "mount", Path: p, Err: err}
	}
	var seal func(*node)
	seal = func(n *node) {
		n.vol = vol
		for _, kid := range n.kids {
			seal(kid)
		}
	}
	seal(n)
	return nil
}
