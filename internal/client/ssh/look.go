package ssh

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// maxShells is how many shells for looking a client keeps. With the commands
// that may run at a time they are as many sessions as OpenSSH allows.
const maxShells = 2

// Look runs a script that changes nothing, as Run does, but on a shell that
// stays open for the next: one round trip, and no session, login or sudo for
// each. Many looks may be under way on a shell, which runs them in turn. What a
// shell can't do, or that it went away, makes it one more Run.
func (c *Client) Look(ctx context.Context, cmd Command) (Result, error) {
	if cmd.Stdin != nil || cmd.Stdout != nil || cmd.Stderr != nil || cmd.Dir != "" || cmd.Script == "" {
		return c.Run(ctx, cmd)
	}
	if err := cmd.check(); err != nil {
		return Result{}, err
	}
	sh, err := c.shell(ctx, cmd.As)
	if err != nil {
		return Result{}, err
	}
	if sh == nil {
		return c.Run(ctx, cmd)
	}
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(c.cfg.addr())
	}
	l := newLook(&cmd)
	if !sh.send(l) {
		return c.Run(ctx, cmd)
	}
	if trace != nil {
		if trace.WroteHeaders != nil {
			trace.WroteHeaders()
		}
		if trace.WroteRequest != nil {
			trace.WroteRequest(httptrace.WroteRequestInfo{})
		}
	}
	select {
	case <-l.done:
		if l.gone {
			// A connection may have died since the last look; one that was used for
			// the first time is no better the next.
			if sh.looks() == 1 {
				if err := sh.broke(ctx); err != nil {
					return Result{}, err
				}
			}
			return c.Run(ctx, cmd)
		}
		if l.over {
			sh.kill()
			return Result{Stdout: l.stdout, Stderr: l.stderr, ExitCode: -1}, tooMuch(l.limit)
		}
		return Result{Stdout: l.stdout, Stderr: l.stderr, ExitCode: l.code}, nil
	case <-ctx.Done():
		sh.kill()
		return Result{}, fault.FromContext(ctx)
	}
}

func tooMuch(limit int64) error {
	return fault.Hinted(fault.Limit, "send the output to a file on the host, or raise the limit", "the command wrote more than %d bytes", limit)
}

// A look is one script on a shell.
type look struct {
	mark  string
	text  string
	limit int64

	done           chan struct{} // closed when the rest is set
	parts          int           // streams that have ended
	stdout, stderr []byte
	code           int
	over           bool // it wrote more than it may
	gone           bool // the shell ended before it did
}

func newLook(cmd *Command) *look {
	l := &look{mark: "gsrun-" + strings.ToLower(rand.Text()), limit: cmd.Limit, done: make(chan struct{})}
	if l.limit <= 0 {
		l.limit = defaultLimit
	}
	var b strings.Builder
	b.WriteString("(\n")
	cmd.exports(&b)
	b.WriteString("eval " + Quote(cmd.Script) + "\n) </dev/null\n")
	b.WriteString("printf '\\n%s %s\\n' " + l.mark + " \"$?\"; printf '\\n%s\\n' " + l.mark + " >&2\n")
	l.text = b.String()
	return l
}

// A shell is a remote sh that runs looks.
type shell struct {
	c       *Client
	cn      *conn
	session *ssh.Session
	stdin   io.WriteCloser
	as      string

	sending sync.Mutex // keeps the texts of looks in the order of the looks
	mu      sync.Mutex
	ended   bool
	ready   bool
	pid     int
	sent    int           // looks so far, after the first
	over    chan struct{} // closed when the session has ended
	err     error         // how, once over is closed
	queue   []*look       // begun and not ended, in order
	out     stream
	errOut  stream
}

// shell returns a shell for a user, or nil if there is none and none can be
// made. The one that has the least to do is chosen. The error is that of
// connecting.
func (c *Client) shell(ctx context.Context, as string) (*shell, error) {
	if as == c.cfg.User {
		as = ""
	}
	c.mu.Lock()
	var best *shell
	for _, sh := range c.shells {
		if sh.as == as && sh.isReady() && (best == nil || sh.busy() < best.busy()) {
			best = sh
		}
	}
	full := len(c.shells) >= maxShells
	if best != nil && (best.busy() == 0 || full) || c.noShells || full {
		c.mu.Unlock()
		return best, nil
	}
	sh := &shell{c: c, as: as, over: make(chan struct{})}
	c.shells = append(c.shells, sh)
	c.mu.Unlock()
	ok, err := sh.start(ctx)
	if ok {
		return sh, nil
	}
	c.forget(sh)
	return best, err
}

func (c *Client) forget(sh *shell) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shells = slices.DeleteFunc(c.shells, func(s *shell) bool { return s == sh })
}

// freeShell ends a shell that has nothing to do, so that a command gets its
// session, and makes no more of them. It reports whether there was one.
func (c *Client) freeShell() bool {
	c.mu.Lock()
	var idle *shell
	for _, sh := range c.shells {
		if sh.isReady() && sh.busy() == 0 {
			idle = sh
		}
	}
	if idle != nil {
		c.noShells = true
	}
	c.mu.Unlock()
	if idle == nil {
		return false
	}
	idle.end()
	return true
}

func (sh *shell) busy() int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return len(sh.queue)
}

func (sh *shell) isReady() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.ready && !sh.ended
}

// start opens the shell, and waits until it answers. It reports whether it
// does; a Run then says why not, but for the error of connecting.
func (sh *shell) start(ctx context.Context) (bool, error) {
	c := sh.c
	if err := c.begin(); err != nil {
		return false, err
	}
	defer c.work.Done()
	cn, err := c.connection(ctx)
	if err != nil {
		return false, err
	}
	s, err := cn.open(ctx, c)
	if err != nil {
		return false, nil
	}
	sh.cn, sh.session = cn, s
	sh.out, sh.errOut = stream{sh: sh}, stream{sh: sh, second: true}
	s.Stdout, s.Stderr = &sh.out, &sh.errOut
	if sh.stdin, err = s.StdinPipe(); err == nil {
		err = s.Start((&Command{As: sh.as}).line(c.cfg.User, ""))
	}
	if err != nil {
		s.Close()
		return false, nil
	}
	c.work.Go(func() {
		sh.err = s.Wait()
		close(sh.over)
		sh.end()
	})
	hello := newLook(&Command{Script: "echo $$"})
	if !sh.send(hello) {
		return false, nil
	}
	select {
	case <-hello.done:
	case <-ctx.Done():
		sh.end()
		return false, nil
	}
	// What a login shell said before is in the answer, too.
	lines := strings.Fields(string(hello.stdout))
	if hello.gone || hello.code != 0 || len(lines) == 0 {
		sh.end()
		return false, sh.broke(ctx)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.pid, _ = strconv.Atoi(lines[len(lines)-1]) // 0 kills nothing
	sh.ready = true
	return !sh.ended, nil
}

// broke returns the error of the shell's connection, if that is why it ended.
// A host that is silent doesn't say so.
func (sh *shell) broke(ctx context.Context) error {
	select {
	case <-sh.over:
	case <-sh.cn.dead:
		return sh.c.lost(sh.cn)
	case <-sh.c.ctx.Done():
		return context.Cause(sh.c.ctx)
	case <-ctx.Done():
		return fault.FromContext(ctx)
	}
	var exit *ssh.ExitError
	if sh.err == nil || errors.As(sh.err, &exit) {
		return nil
	}
	if err := sh.c.broken(sh.cn, sh.err); sh.cn.isDead() {
		return err
	}
	return nil
}

// looks returns how many looks the shell was given.
func (sh *shell) looks() int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.sent
}

// send gives the shell a look. False means that it never will run.
func (sh *shell) send(l *look) bool {
	sh.sending.Lock()
	defer sh.sending.Unlock()
	sh.mu.Lock()
	if sh.ended {
		sh.mu.Unlock()
		return false
	}
	sh.queue = append(sh.queue, l)
	if sh.ready {
		sh.sent++
	}
	sh.mu.Unlock()
	if _, err := io.WriteString(sh.stdin, l.text); err != nil {
		sh.end()
	}
	return true
}

// end closes the shell. Looks that it hasn't ended are told that it is gone.
func (sh *shell) end() {
	sh.mu.Lock()
	first := !sh.ended
	sh.ended = true
	for _, l := range sh.queue {
		if l.parts < 2 {
			l.gone, l.parts = true, 2
			close(l.done)
		}
	}
	sh.queue = nil
	sh.mu.Unlock()
	sh.c.forget(sh)
	if first && sh.session != nil {
		sh.session.Close()
	}
}

// kill ends the shell with what it runs.
func (sh *shell) kill() {
	sh.mu.Lock()
	pid, ended := sh.pid, sh.ended
	sh.mu.Unlock()
	if !ended && pid > 1 && !sh.cn.isDead() {
		ctx, cancel := context.WithTimeout(sh.c.ctx, sh.c.cfg.Grace+killPatience)
		defer cancel()
		r := newRunning(sh.c, sh.cn, sh.session, &Command{As: sh.as})
		r.signal(ctx, pid, "KILL")
	}
	sh.end()
}

// A stream is what comes from a shell on one of its outputs.
type stream struct {
	sh     *shell
	second bool // it is standard error
	data   []byte
	from   int // where the mark is looked for next: it isn't before
	ended  int // looks whose end was seen on it, of those in the queue
}

// Write never fails: a shell isn't to be blocked.
func (s *stream) Write(p []byte) (int, error) {
	s.sh.mu.Lock()
	defer s.sh.mu.Unlock()
	s.data = append(s.data, p...)
	for s.ended < len(s.sh.queue) {
		l := s.sh.queue[s.ended]
		mark := []byte("\n" + l.mark)
		i := bytes.Index(s.data[s.from:], mark)
		if i < 0 {
			s.from = max(s.from, len(s.data)-len(mark)) // it may have begun
			s.bound(l)
			return len(p), nil
		}
		i += s.from
		s.from = i // the rest of its line may come later
		end := bytes.IndexByte(s.data[i+1:], '\n')
		if end < 0 {
			return len(p), nil
		}
		status := strings.TrimSpace(string(s.data[i+len(mark) : i+1+end]))
		s.take(l, s.data[:i], status)
		s.data, s.from = s.data[i+1+end+1:], 0
	}
	return len(p), nil
}

// bound ends a look that writes more than it may.
func (s *stream) bound(l *look) {
	if int64(len(s.data)) <= l.limit || l.parts >= 2 {
		return
	}
	l.over, l.parts = true, 2
	if s.second {
		l.stderr = s.data[:l.limit]
	} else {
		l.stdout = s.data[:l.limit]
	}
	close(l.done)
}

// take notes the end of a look on this stream.
func (s *stream) take(l *look, data []byte, status string) {
	s.ended++
	if s.second {
		l.stderr = bytes.Clone(data)
	} else {
		l.stdout = bytes.Clone(data)
		l.code, _ = strconv.Atoi(status) // sh wrote it
	}
	if l.parts++; l.parts == 2 {
		close(l.done)
	}
	sh := s.sh
	for len(sh.queue) > 0 && sh.out.ended > 0 && sh.errOut.ended > 0 {
		sh.queue = sh.queue[1:]
		sh.out.ended--
		sh.errOut.ended--
	}
}
