// Package machine runs the processes of one simulated host. A process is a Go
// function (a Program) or a shell script; both see only the host's own file
// tree, users and processes. No program of the real machine is ever executed
// and none of its files is ever opened.
package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// A Program is the code of an executable. It returns the exit status. It ends
// when ctx does; the reason is then a Signal.
type Program func(ctx context.Context, p *Proc) int

// A Signal ended a process. It is the cause of its context's end.
type Signal syscall.Signal

func (s Signal) Error() string { return "killed by signal " + Name(s) }

// Name returns TERM for SIGTERM, and so on.
func Name(s Signal) string {
	for name, n := range signals() {
		if n == syscall.Signal(s) {
			return name
		}
	}
	return fmt.Sprint(int(s))
}

// ParseSignal reads "TERM", "SIGTERM" or "15".
func ParseSignal(s string) (Signal, bool) {
	if n, ok := signals()[strings.TrimPrefix(strings.ToUpper(s), "SIG")]; ok {
		return Signal(n), true
	}
	var n int
	if _, err := fmt.Sscanf(s, "%d", &n); err != nil || n < 0 || n > 64 {
		return 0, false
	}
	return Signal(n), true
}

func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "PIPE": syscall.SIGPIPE, "ALRM": syscall.SIGALRM,
		"TERM": syscall.SIGTERM, "CONT": syscall.SIGCONT, "STOP": syscall.SIGSTOP,
	}
}

// A Machine has a file tree, programs and processes.
type Machine struct {
	FS    *tree.FS
	Clock Clock

	programs map[string]Program
	ctx      context.Context
	stop     context.CancelCauseFunc

	work sync.WaitGroup // shells that wait for their background

	mu    sync.Mutex
	idle  *sync.Cond // signalled when a process ends
	procs map[int]*Proc
	pid   int
	locks map[string]*flock
}

// A Clock tells the time and waits; tests give their own.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// New returns a machine without a process, whose executables are made of
// programs by name. It runs until Halt.
func New(fsys *tree.FS, clock Clock, programs map[string]Program) *Machine {
	m := &Machine{FS: fsys, Clock: clock, programs: programs, procs: map[int]*Proc{}, locks: map[string]*flock{}}
	m.idle = sync.NewCond(&m.mu)
	m.Start()
	return m
}

// Start lets a halted machine run again.
func (m *Machine) Start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ctx, m.stop = context.WithCancelCause(context.Background())
	m.pid = 600
}

// Context ends when the machine halts.
func (m *Machine) Context() context.Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ctx
}

// Halt kills every process and waits until they have ended.
func (m *Machine) Halt() {
	m.mu.Lock()
	defer m.work.Wait()
	defer m.mu.Unlock()
	m.stop(Signal(syscall.SIGKILL))
	for _, p := range m.procs {
		p.cancel(Signal(syscall.SIGKILL))
	}
	for len(m.procs) > 0 {
		m.idle.Wait()
	}
}

// Procs lists the processes by id.
func (m *Machine) Procs() []*Proc {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*Proc, 0, len(m.procs))
	for _, p := range m.procs {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *Proc) int { return a.PID - b.PID })
	return out
}

// Kill sends a signal; 0 only asks whether the process is there. It fails with
// ESRCH or EPERM.
func (m *Machine) Kill(c tree.Cred, pid int, s Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.procs[pid]
	switch {
	case p == nil:
		return syscall.ESRCH
	case c.UID != 0 && c.UID != p.Cred.UID:
		return syscall.EPERM
	case s == 0 || s == Signal(syscall.SIGCONT):
		return nil
	}
	p.cancel(s)
	return nil
}

// stub begins the content of an executable whose code is a Program.
const stub = "\x7fELF\x02\x01\x01\x00gsrun-lab:"

// Stub is the content of an executable file that runs the program name.
func Stub(name string) []byte { return []byte(stub + name + "\n") }

// Install puts the executable of a program into the tree.
func (m *Machine) Install(file, program string) error {
	if err := m.FS.MkdirAll(tree.Root(), path.Dir(file), 0o755); err != nil {
		return err
	}
	return m.FS.WriteFile(tree.Root(), file, Stub(program), 0o755)
}

// Find looks an executable up as execvp does, in the search path given, and
// returns where it is. It fails with ENOENT or EACCES.
func (m *Machine) Find(c tree.Cred, dir, search, name string) (string, error) {
	check := func(file string) error {
		info, err := m.FS.Stat(c, file, true)
		if err != nil {
			return errno(err)
		}
		if info.IsDir() || m.FS.Access(c, file, 1) != nil {
			return syscall.EACCES
		}
		return nil
	}
	if strings.Contains(name, "/") {
		file := Abs(dir, name)
		return file, check(file)
	}
	found := error(syscall.ENOENT)
	for elem := range strings.SplitSeq(search, ":") {
		file := Abs(dir, elem) + "/" + name
		err := check(file)
		if err == nil {
			return file, nil
		}
		if err == syscall.EACCES {
			found = err
		}
	}
	return "", found
}

// load returns the code of an executable file.
func (m *Machine) load(c tree.Cred, file string) (Program, []string, error) {
	data, err := m.FS.ReadFile(tree.Root(), file)
	if err != nil {
		return nil, nil, errno(err)
	}
	if name, ok := bytes.CutPrefix(data, []byte(stub)); ok {
		if prog := m.programs[strings.TrimSpace(string(name))]; prog != nil {
			return prog, nil, nil
		}
		return nil, nil, syscall.ENOEXEC
	}
	if line, ok := bytes.CutPrefix(data, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		words := strings.Fields(string(line))
		if len(words) == 0 {
			return nil, nil, syscall.ENOEXEC
		}
		interp, err := m.Find(c, "/", "", words[0])
		if err != nil {
			return nil, nil, syscall.ENOENT
		}
		prog, _, err := m.load(c, interp)
		return prog, append(words, file), err
	}
	// What a mirror serves in an executable's place runs as the program of
	// the same name.
	if prog := m.programs[path.Base(file)]; prog != nil && len(data) > 0 {
		return prog, nil, nil
	}
	if utf8Text(data) {
		return m.programs["sh"], []string{"sh", file}, nil
	}
	return nil, nil, syscall.ENOEXEC
}

func utf8Text(data []byte) bool {
	return bytes.IndexByte(data[:min(len(data), 512)], 0) < 0 && !bytes.HasPrefix(data, []byte("\x7fELF"))
}

// errno returns the system error in err, or EIO.
func errno(err error) error {
	var n syscall.Errno
	if errors.As(err, &n) {
		return n
	}
	return syscall.EIO
}

// Strerror says what went wrong in the words of the C library.
func Strerror(err error) string {
	var n syscall.Errno
	if !errors.As(err, &n) {
		switch {
		case errors.Is(err, os.ErrClosed):
			return "Bad file descriptor"
		case errors.Is(err, io.ErrClosedPipe):
			return "Broken pipe"
		}
		return err.Error()
	}
	s := n.Error()
	if n == syscall.EXDEV {
		return "Invalid cross-device link"
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// Abs returns p as an absolute path; a relative one is taken from dir. It
// doesn't resolve "..", which may follow a link.
func Abs(dir, p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	if p == "" {
		return ""
	}
	return strings.TrimRight(dir, "/") + "/" + p
}

// Text reads a file of the host's as root; it is empty if there is none.
func (m *Machine) Text(file string) string {
	data, err := m.FS.ReadFile(tree.Root(), file)
	if err != nil {
		return ""
	}
	return string(data)
}

// Exists reports whether there is a file at p.
func (m *Machine) Exists(p string) bool {
	_, err := m.FS.Stat(tree.Root(), p, true)
	return err == nil
}

// Put writes a file of root's with its parents and exactly these permissions.
func (m *Machine) Put(file, content string, perm fs.FileMode) error {
	if err := m.FS.MkdirAll(tree.Root(), path.Dir(file), 0o755); err != nil {
		return err
	}
	if err := m.FS.WriteFile(tree.Root(), file, []byte(content), perm); err != nil {
		return err
	}
	return m.FS.Chmod(tree.Root(), file, perm)
}

// WaitReleased waits until no process has one of the writers as its output, or
// until ctx ends. The writers must be comparable.
func (m *Machine) WaitReleased(ctx context.Context, writers ...io.Writer) {
	stop := context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.idle.Broadcast()
	})
	defer stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for ctx.Err() == nil {
		held := false
		for _, p := range m.procs {
			held = held || slices.Contains(writers, p.outputs[0]) || slices.Contains(writers, p.outputs[1])
		}
		if !held {
			return
		}
		m.idle.Wait()
	}
}
