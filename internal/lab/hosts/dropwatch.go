package hosts

import (
	"io"
	"path"
	"strings"
	"sync"
	"syscall"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// A dropWatch looks for a drop that a program of a session falls under. What a
// script does isn't told by the command line, if it comes by the standard input.
type dropWatch struct {
	s       *session
	command string // the command line
	login   int    // the parent of the shell that runs the command line

	mu   sync.Mutex
	met  map[string]bool // ids of the faults that decided on this command
	drop *Drop
	hit  *Drop // the drop that all of a block falls under, while it runs
}

// block is called with each script that a shell is given by and by.
func (w *dropWatch) block(*machine.Proc) (ended func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	nothing := func() {}
	if w.drop != nil {
		return nothing
	}
	w.met = make(map[string]bool)
	d := w.s.host.takeDrop(w.command, w.met)
	if d == nil {
		return nothing
	}
	w.drop = d
	if d.When == BeforeEffect {
		w.kill(d)
		return nothing
	}
	w.hit = d
	return func() { w.kill(d) } // unless its output did so
}

// inBlock returns the drop that what runs falls under as a whole, or nil.
func (w *dropWatch) inBlock() *Drop {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hit
}

// begins is called with each program that the session starts.
func (w *dropWatch) begins(p *machine.Proc) (ended func()) {
	nothing := func() {}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.drop != nil || p.Parent == w.login { // the command line itself was looked at
		return nothing
	}
	w.drop = w.s.host.takeDrop(programLine(p.Title()), w.met)
	d := w.drop
	switch {
	case d == nil:
		return nothing
	case d.When == BeforeEffect:
		w.kill(d)
	case d.When == AfterEffect:
		return func() { w.kill(d) }
	default:
		p.Stdout, p.Stderr = w.deadly(p.Stdout), w.deadly(p.Stderr)
	}
	return nothing
}

// kill breaks the connection and ends all that the session runs.
func (w *dropWatch) kill(d *Drop) {
	w.s.cancel(machine.Signal(syscall.SIGHUP))
	w.s.drop(d)
}

// taken returns the drop that a program fell under, or nil.
func (w *dropWatch) taken() *Drop {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.drop
}

func (w *dropWatch) deadly(out io.Writer) io.Writer {
	if out == nil {
		return nil
	}
	return &deadlyWriter{w: w}
}

// A deadlyWriter is the output of a program that is killed by its first byte.
type deadlyWriter struct{ w *dropWatch }

func (o *deadlyWriter) Write([]byte) (int, error) {
	o.w.kill(o.w.taken())
	return 0, syscall.EPIPE
}

// programLine is the command line of a program, without the folder that it
// lies in. The text that a shell is given isn't part of it: each program in it
// is looked at when it starts.
func programLine(args []string) string {
	name := path.Base(args[0])
	if (name == "sh" || name == "bash") && len(args) > 1 && strings.HasPrefix(args[1], "-") {
		return name
	}
	return strings.Join(append([]string{name}, args[1:]...), " ")
}
