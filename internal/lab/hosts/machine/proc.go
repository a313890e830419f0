package machine

import (
	"bufio"
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

// A Proc is one process: what it runs, as whom, where, with which streams. Its
// program may change Args and the streams; other processes look at Title.
type Proc struct {
	Machine *Machine
	PID     int
	Parent  int
	Args    []string // Args[0] is the name that it was called by
	File    string   // the executable
	Dir     string
	Umask   fs.FileMode
	User    string
	Cred    tree.Cred
	Stdin   io.Reader // an *os.File, or nil
	Stdout  io.Writer
	Stderr  io.Writer
	Started time.Time
	Notify  func() // tells the service manager that a daemon is ready; may be nil

	// What others may see of the process while its program runs, which may
	// change the fields above.
	title   []string
	outputs [2]io.Writer

	env    func(yield func(name, value string) bool)
	cancel context.CancelCauseFunc
	broken error // of the first failed write to Stdout
	mu     sync.Mutex
}

// A Cmd is a process to be: the fields that are zero are taken from the parent.
type Cmd struct {
	Args   []string
	Env    map[string]string // nil: the parent's
	Dir    string
	User   *User
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Umask  *fs.FileMode
	Notify func()
	// Started is called with the process once it has an id, before its program
	// runs; it may be nil.
	Started func(*Proc)
	// Detach lets the process live on when its parent's context ends, until
	// the machine halts.
	Detach bool

	program Program // of a shell's builtin, instead of a file's
	env     func(yield func(name, value string) bool)
}

// ErrNotFound and ErrNotExecutable say why a command couldn't be run.
var (
	ErrNotFound      = errors.New("No such file or directory")
	ErrNotExecutable = errors.New("Permission denied")
	ErrFormat        = errors.New("Exec format error")
)

// Run starts a command and waits for it. Its exit status is 128 and the
// signal's number if a signal ended it. An error means that nothing was run.
func (p *Proc) Run(ctx context.Context, cmd Cmd) (int, error) {
	m := p.Machine
	child := &Proc{
		Machine: m, Parent: p.PID, Args: cmd.Args, Dir: p.Dir, Umask: p.Umask, User: p.User, Cred: p.Cred,
		Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, env: p.env, Notify: cmd.Notify,
	}
	if cmd.Dir != "" {
		child.Dir = cmd.Dir
	}
	if cmd.User != nil {
		child.User, child.Cred = cmd.User.Name, cmd.User.Cred
	}
	if cmd.Stdin != nil {
		child.Stdin = cmd.Stdin
	}
	if cmd.Stdout != nil {
		child.Stdout = cmd.Stdout
	}
	if cmd.Stderr != nil {
		child.Stderr = cmd.Stderr
	}
	if cmd.Umask != nil {
		child.Umask = *cmd.Umask
	}
	switch {
	case cmd.env != nil:
		child.env = cmd.env
	case cmd.Env != nil:
		child.env = pairs(cmd.Env)
	}
	prog := cmd.program
	if prog == nil {
		search := child.Getenv("PATH")
		if search == "" {
			search = "/bin:/usr/bin"
		}
		file, err := m.Find(child.Cred, child.Dir, search, cmd.Args[0])
		switch {
		case err == syscall.EACCES:
			return 126, ErrNotExecutable
		case err != nil:
			return 127, ErrNotFound
		}
		var prefix []string
		prog, prefix, err = m.load(child.Cred, file)
		switch {
		case err == syscall.ENOEXEC:
			return 126, ErrFormat
		case err != nil:
			return 127, ErrNotFound
		}
		child.File = file
		if prefix != nil {
			if strings.Contains(cmd.Args[0], "/") {
				prefix[len(prefix)-1] = cmd.Args[0]
			}
			child.Args = append(prefix, cmd.Args[1:]...)
		}
	}
	if cmd.Detach {
		ctx = m.Context()
	}
	return m.run(ctx, child, prog, cmd.Started), nil
}

// A Watch is called with each process that runs an executable, before its
// program does; it may change the process's streams. What it returns is called
// once the program has run.
type Watch func(p *Proc) (ended func())

type watchKey struct{}

// WithWatch returns a context whose processes w is called with, but for those
// that are detached. Several goroutines may call w at once.
func WithWatch(ctx context.Context, w Watch) context.Context {
	return context.WithValue(ctx, watchKey{}, w)
}

type blockKey struct{}

// WithBlocks returns a context in which w is called with a shell that is given
// its script by and by, on its standard input, before each block in parentheses
// that isn't part of another.
func WithBlocks(ctx context.Context, w Watch) context.Context {
	return context.WithValue(ctx, blockKey{}, w)
}

// run is the life of a process.
func (m *Machine) run(ctx context.Context, p *Proc, prog Program, started func(*Proc)) int {
	ctx, p.cancel = context.WithCancelCause(ctx)
	defer p.cancel(nil)
	p.Started = m.Clock.Now()
	p.title, p.outputs = slices.Clone(p.Args), [2]io.Writer{p.Stdout, p.Stderr}
	m.mu.Lock()
	if err := m.ctx.Err(); err != nil {
		m.mu.Unlock()
		return 137
	}
	m.pid++
	p.PID = m.pid
	m.procs[p.PID] = p
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.procs, p.PID)
		m.idle.Broadcast()
		m.mu.Unlock()
	}()
	if started != nil {
		started(p)
	}
	ended := func() {}
	if watch, ok := ctx.Value(watchKey{}).(Watch); ok && p.File != "" {
		ended = watch(p)
	}
	code := 0
	if ctx.Err() == nil { // the watch may have ended it
		code = m.call(ctx, p, prog)
	}
	ended()
	if ctx.Err() != nil {
		return 128 + int(p.signal(ctx))
	}
	if p.broken != nil && code == 0 {
		return 1
	}
	return code
}

// call runs a program. A defect in one is that process's crash, not the lab's.
func (m *Machine) call(ctx context.Context, p *Proc, prog Program) (code int) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(p.Stderr, "%s: Segmentation fault (panic in the lab: %v)\n", p.title[0], r)
			code = 139
		}
	}()
	return prog(ctx, p)
}

// signal is what ended ctx; a context that ended for another reason counts as
// a hang-up.
func (p *Proc) signal(ctx context.Context) syscall.Signal {
	var s Signal
	if errors.As(context.Cause(ctx), &s) {
		return syscall.Signal(s)
	}
	return syscall.SIGHUP
}

func pairs(env map[string]string) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		for name, value := range env {
			if !yield(name, value) {
				return
			}
		}
	}
}

// Title is the process's command line as ps shows it.
func (p *Proc) Title() []string { return p.title }

// Getenv returns a variable of the environment.
func (p *Proc) Getenv(name string) string {
	found := ""
	if p.env != nil {
		p.env(func(n, v string) bool {
			if n == name {
				found = v
				return false
			}
			return true
		})
	}
	return found
}

// Environ copies the environment.
func (p *Proc) Environ() map[string]string {
	out := map[string]string{}
	if p.env != nil {
		p.env(func(n, v string) bool { out[n] = v; return true })
	}
	return out
}

// Name is what the process calls itself in messages.
func (p *Proc) Name() string { return path.Base(p.Args[0]) }

// Fail writes "name: message" to the standard error and returns code.
func (p *Proc) Fail(code int, format string, args ...any) int {
	fmt.Fprintf(p.Stderr, "%s: %s\n", p.Name(), fmt.Sprintf(format, args...))
	return code
}

// Printf writes to the standard output.
func (p *Proc) Printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// Write writes to the standard output. Once that has failed, Broken tells. A
// process whose output leads nowhere any more (EPIPE) ends by SIGPIPE.
func (p *Proc) Write(b []byte) (int, error) {
	n, err := p.Stdout.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		p.cancel(Signal(syscall.SIGPIPE))
	}
	if err != nil {
		p.mu.Lock()
		if p.broken == nil {
			p.broken = err
		}
		p.mu.Unlock()
	}
	return n, err
}

// Broken reports whether the standard output can't be written any more.
func (p *Proc) Broken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken != nil
}

// Abs returns the absolute path of a file that the process names.
func (p *Proc) Abs(name string) string { return Abs(p.Dir, name) }

// In reads the standard input until its end or until ctx ends.
func (p *Proc) In(ctx context.Context) io.Reader {
	if p.Stdin == nil {
		return strings.NewReader("")
	}
	if f, ok := p.Stdin.(*os.File); ok {
		return &patient{ctx, f}
	}
	return p.Stdin
}

// patient reads a pipe, and gives up when its context ends.
type patient struct {
	ctx context.Context
	f   *os.File
}

func (r *patient) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(r.ctx, func() {
		// A file without deadlines is never blocked on: it is no pipe.
		_ = r.f.SetReadDeadline(time.Unix(1, 0))
		close(stopped)
	})
	n, err := r.f.Read(b)
	if !stop() {
		<-stopped
		_ = r.f.SetReadDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = r.ctx.Err()
	}
	return n, err
}

// Open opens a file, with /dev/stdin and its kin as the process's own streams.
func (p *Proc) Open(ctx context.Context, name string, flag int, perm fs.FileMode) (io.ReadWriteCloser, error) {
	switch name {
	case "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0":
		return stream{Reader: p.In(ctx)}, nil
	case "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1":
		return stream{Writer: p.Stdout}, nil
	case "/dev/stderr", "/dev/fd/2", "/proc/self/fd/2":
		return stream{Writer: p.Stderr}, nil
	}
	return p.Machine.FS.Open(p.Cred, p.Abs(name), flag, perm&^p.Umask)
}

type stream struct {
	io.Reader
	io.Writer
}

func (stream) Close() error { return nil }

// Input opens a file for reading; "-" is the standard input.
func (p *Proc) Input(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(p.In(ctx)), nil
	}
	f, err := p.Open(ctx, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	if h, ok := f.(*tree.File); ok && h.Info().IsDir() {
		f.Close()
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	return f, nil
}

// Each runs fn over the files named, or over the standard input if there are
// none. A file that can't be read is reported; the result is then 1.
func (p *Proc) Each(ctx context.Context, names []string, fn func(name string, r io.Reader) error) int {
	if len(names) == 0 {
		names = []string{"-"}
	}
	code := 0
	for _, name := range names {
		f, err := p.Input(ctx, name)
		if err == nil {
			err = fn(name, f)
			f.Close()
		}
		if err != nil && ctx.Err() == nil && !p.Broken() {
			code = p.Fail(1, "%s: %s", name, Strerror(err))
		}
	}
	return code
}

// Lines runs fn over the lines of r, without their ends; last tells that a
// line had none. fn returns false to stop.
func Lines(r io.Reader, fn func(line string, last bool) bool) error {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			if line != "" && !fn(line, true) {
				return nil
			}
			if err == io.EOF {
				return nil
			}
			return err
		}
		if !fn(line[:len(line)-1], false) {
			return nil
		}
	}
}

// WithArgs is a view of the process with other arguments, to read options from.
func (p *Proc) WithArgs(args []string) *Proc {
	return &Proc{Machine: p.Machine, Args: args, Dir: p.Dir, User: p.User, Cred: p.Cred, Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, env: p.env}
}
