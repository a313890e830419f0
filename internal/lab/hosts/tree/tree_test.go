package tree_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

var (
	root = tree.Root()
	user = tree.Cred{UID: 1000, GID: 1000, Groups: []int{4}}
)

func newTree(t testing.TB) *tree.FS {
	t.Helper()
	f := tree.New(time.Now)
	for dir, perm := range map[string]fs.FileMode{"/etc": 0o755, "/home/u": 0o755, "/tmp": 0o777 | fs.ModeSticky, "/adm": 0o770, "/run": 0o755} {
		if err := f.MkdirAll(root, dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := f.Chmod(root, dir, perm); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.Chown(root, "/home/u", 1000, 1000, true), f.Chown(root, "/adm", 0, 4, true), f.Mount("/run", tree.Memory, 0o755)); err != nil {
		t.Fatal(err)
	}
	return f
}

func want(t *testing.T, what string, err error, errno syscall.Errno) {
	t.Helper()
	if errno == 0 && err == nil {
		return
	}
	if !errors.Is(err, errno) {
		t.Errorf("%s: %v, want %v", what, err, errno)
	}
}

func TestPermissions(t *testing.T) {
	f := newTree(t)
	put := func(c tree.Cred, p string) error { return f.WriteFile(c, p, []byte("x"), 0o644) }
	want(t, "user in /etc", put(user, "/etc/x"), syscall.EACCES)
	want(t, "root in /etc", put(root, "/etc/x"), 0)
	want(t, "user changes root's file", put(user, "/etc/x"), syscall.EACCES)
	want(t, "user at home", put(user, "/home/u/x"), 0)
	want(t, "user by group", put(user, "/adm/x"), 0)
	want(t, "stranger by group", put(tree.Cred{UID: 7, GID: 7}, "/adm/y"), syscall.EACCES)
	want(t, "removing another's file in /tmp", errors.Join(put(root, "/tmp/r"), nil), 0)
	want(t, "sticky", f.Remove(user, "/tmp/r"), syscall.EPERM)
	want(t, "sticky by rename", f.Rename(user, "/tmp/r", "/tmp/s"), syscall.EPERM)
	want(t, "chmod of another's file", f.Chmod(user, "/etc/x", 0o777), syscall.EPERM)
	want(t, "giving away", f.Chown(user, "/home/u/x", 0, -1, true), syscall.EPERM)
	want(t, "own group", f.Chown(user, "/home/u/x", -1, 4, true), 0)
	want(t, "no execute bit", f.Access(root, "/etc/x", 1), syscall.EACCES)
	want(t, "unreadable", errors.Join(f.Chmod(root, "/etc/x", 0o600)), 0)
	_, err := f.ReadFile(user, "/etc/x")
	want(t, "reading 0600", err, syscall.EACCES)
	want(t, "closed folder", f.Chmod(user, "/home/u", 0o600), 0)
	_, err = f.Stat(user, "/home/u/x", true)
	want(t, "search", err, syscall.EACCES)
}

func TestNames(t *testing.T) {
	f := newTree(t)
	w := func(p, s string) {
		t.Helper()
		want(t, p, f.WriteFile(root, p, []byte(s), 0o644), 0)
	}
	w("/etc/a", "1")
	w("/etc/b", "2")
	want(t, "rename over a file", f.Rename(root, "/etc/a", "/etc/b"), 0)
	data, err := f.ReadFile(root, "/etc/b")
	if string(data) != "1" || err != nil {
		t.Errorf("after the rename: %q, %v", data, err)
	}
	want(t, "folder over file", f.Rename(root, "/tmp", "/etc/b"), syscall.ENOTDIR)
	want(t, "file over folder", f.Rename(root, "/etc/b", "/tmp"), syscall.EISDIR)
	want(t, "into itself", f.Rename(root, "/home", "/home/u/x"), syscall.EINVAL)
	want(t, "other volume", f.Rename(root, "/etc/b", "/run/b"), syscall.EXDEV)
	want(t, "missing", f.Rename(root, "/etc/none", "/etc/c"), syscall.ENOENT)
	want(t, "not empty", f.Remove(root, "/home"), syscall.ENOTEMPTY)
	want(t, "the root", f.RemoveAll(root, "/"), syscall.EBUSY)
	want(t, "exists", f.Mkdir(root, "/etc", 0o755), syscall.EEXIST)
	want(t, "below a file", f.Mkdir(root, "/etc/b/c", 0o755), syscall.ENOTDIR)
	want(t, "slash after a file", f.WriteFile(root, "/etc/b/", nil, 0o644), syscall.ENOTDIR)
	want(t, "long name", f.Mkdir(root, "/"+strings.Repeat("x", 300), 0o755), syscall.ENAMETOOLONG)
	want(t, "link", f.Link(root, "/etc/b", "/etc/hard"), 0)
	info, err := f.Stat(root, "/etc/hard", true)
	if err != nil || info.Links() != 2 {
		t.Errorf("links: %+v, %v", info, err)
	}
	_, err = f.Open(root, "/etc/b", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	want(t, "O_EXCL", err, syscall.EEXIST)
}

func TestLinks(t *testing.T) {
	f := newTree(t)
	want(t, "file", f.WriteFile(root, "/etc/real", []byte("in"), 0o644), 0)
	for link, target := range map[string]string{
		"/tmp/abs": "/etc/real", "/tmp/rel": "../etc/real", "/tmp/far": "../../../../../../etc/real", "/tmp/dir": "/etc", "/tmp/loop": "loop2", "/tmp/loop2": "loop", "/tmp/none": "/none/x",
	} {
		want(t, link, f.Symlink(root, target, link), 0)
	}
	for _, p := range []string{"/tmp/abs", "/tmp/rel", "/tmp/far", "/tmp/dir/real", "/tmp/dir/../etc/real", "/../../etc/real", "//etc//real", "/etc/./real"} {
		data, err := f.ReadFile(root, p)
		if string(data) != "in" || err != nil {
			t.Errorf("%s: %q, %v", p, data, err)
		}
	}
	_, err := f.ReadFile(root, "/tmp/loop")
	want(t, "loop", err, syscall.ELOOP)
	real, err := f.RealPath(root, "/tmp/dir/real", false)
	if real != "/etc/real" || err != nil {
		t.Errorf("real path %q, %v", real, err)
	}
	want(t, "through a dangling link", f.WriteFile(root, "/tmp/none", nil, 0o644), syscall.ENOENT)
	want(t, "removing a link", f.Remove(root, "/tmp/dir"), 0)
	if _, err := f.Stat(root, "/etc/real", true); err != nil {
		t.Errorf("the target went with its link: %v", err)
	}
}

func TestDisk(t *testing.T) {
	f := newTree(t)
	h, err := f.Open(root, "/etc/f", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	write := func(p []byte, off int64) error { _, err := h.WriteAt(p, off); return err }
	want(t, "hole", errors.Join(write([]byte("end"), 10), write([]byte("01234"), 0), write([]byte("XYZW"), 9)), 0)
	got, err := io.ReadAll(io.NewSectionReader(h, 0, 100))
	if string(got) != "01234\x00\x00\x00\x00XYZW" || err != nil {
		t.Errorf("content %q, %v", got, err)
	}
	if f.Used() != 13 {
		t.Errorf("used %d", f.Used())
	}
	f.SetFull(true)
	want(t, "full", write([]byte("x"), 20), syscall.ENOSPC)
	want(t, "full, in memory", f.WriteFile(root, "/run/x", []byte("x"), 0o644), 0)
	f.SetFull(false)
	f.SetReadOnly(true)
	want(t, "read-only write", write([]byte("x"), 20), syscall.EROFS)
	want(t, "read-only mkdir", f.Mkdir(root, "/etc/d", 0o755), syscall.EROFS)
	want(t, "read-only chmod", f.Chmod(root, "/etc/f", 0o600), syscall.EROFS)
	want(t, "read-only remove", f.Remove(root, "/etc/f"), syscall.EROFS)
	f.SetReadOnly(false)
	before := f.Writes()
	want(t, "remove while open", f.Remove(root, "/etc/f"), 0)
	if f.Used() != 0 || f.Writes() != before+1 {
		t.Errorf("used %d, %d writes", f.Used(), f.Writes()-before)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := write([]byte("x"), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("writing to a closed file: %v", err)
	}
}

func TestVirtual(t *testing.T) {
	f := newTree(t)
	value := "0"
	if err := f.Virtual("/proc/sys/x", 0o644, func() []byte { return []byte(value + "\n") }, func(b []byte) error {
		if string(b) != "0" && string(b) != "1" {
			return syscall.EINVAL
		}
		value = string(b)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := f.Seal("/proc", tree.Process); err != nil {
		t.Fatal(err)
	}
	want(t, "write", f.WriteFile(root, "/proc/sys/x", []byte("1\n"), 0o644), 0)
	data, err := f.ReadFile(root, "/proc/sys/x")
	if string(data) != "1\n" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	want(t, "bad value", f.WriteFile(root, "/proc/sys/x", []byte("2"), 0o644), syscall.EINVAL)
	want(t, "as a user", f.WriteFile(user, "/proc/sys/x", []byte("0"), 0o644), syscall.EACCES)
	want(t, "a new name", f.WriteFile(root, "/proc/sys/y", nil, 0o644), syscall.EPERM)
	want(t, "removing", f.Remove(root, "/proc/sys/x"), syscall.EPERM)
}

func TestConcurrent(t *testing.T) {
	f := newTree(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := "/tmp/" + string(rune('a'+i))
			for range 100 {
				if err := f.WriteFile(root, name, []byte(name), 0o644); err != nil {
					t.Error(err)
				}
				if err := f.Rename(root, name, "/tmp/shared"); err != nil {
					t.Error(err)
				}
				if data, err := f.ReadFile(root, "/tmp/shared"); err != nil || len(data) != len(name) {
					t.Errorf("torn: %q, %v", data, err)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzLookup holds the tree against path.Clean: a path without links leads
// where its cleaned form does, and no path leads out.
func FuzzLookup(f *testing.F) {
	for _, p := range []string{"/etc/../etc/x", "..", "/../../x", "//", "/etc/x/", "/tmp/./../etc/x", "a\x00b"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		fsys := newTree(t)
		if err := fsys.WriteFile(root, "/etc/x", []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		info, err := fsys.Stat(root, p, true)
		if err != nil {
			return
		}
		clean := path.Clean("/" + p)
		again, err := fsys.Stat(root, clean, true)
		if err != nil || again.Ino() != info.Ino() {
			t.Errorf("%q and %q differ: %v", p, clean, err)
		}
	})
}
