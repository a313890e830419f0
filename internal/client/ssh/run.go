package ssh

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http/httptrace"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A LostError says that the connection broke after a command was sent: nobody
// knows whether it ran, and it may be running still.
type LostError struct {
	Err error
	PID int // of the command's shell on the host; 0 if it isn't known to have begun
}

func (e *LostError) Error() string { return e.Err.Error() }
func (e *LostError) Unwrap() error { return e.Err }

// Run runs a command and waits until it ends. An exit status is no error. When
// ctx ends, the remote process is killed; Run returns once it is gone, or
// after twice the grace time and killPatience.
//
// An httptrace.ClientTrace of ctx is told of the command as of a request: when
// a connection is asked for (GetConn), when a shell was started (WroteHeaders),
// and when it got all of its input (WroteRequest).
//
// Errors: those of Connect; Denied if sudo refuses; NotFound if there is no
// folder Dir or no user As; Failed if there is no shell; Limit for too much output; Timeout and Cancelled as
// ctx says; Unreachable, with a LostError, if the connection breaks.
func (c *Client) Run(ctx context.Context, cmd Command) (Result, error) {
	if err := cmd.check(); err != nil {
		return Result{}, err
	}
	if err := c.begin(); err != nil {
		return Result{}, err
	}
	defer c.work.Done()
	if err := c.gate.enter(ctx); err != nil {
		return Result{}, err
	}
	defer c.gate.leave()
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(c.cfg.addr())
	}
	s, cn, err := c.session(ctx)
	if err != nil {
		return Result{}, err
	}
	r := newRunning(c, cn, s, &cmd)
	if trace != nil {
		r.began, r.sent = trace.WroteHeaders, trace.WroteRequest
	}
	return r.wait(ctx, r.start())
}

// IsRunning looks, on a new connection if need be, whether a command whose
// connection was lost still runs. As is the user that it ran as.
func (c *Client) IsRunning(ctx context.Context, pid int, as string) (bool, error) {
	res, err := c.Run(ctx, Command{Script: fmt.Sprintf("kill -s 0 %d 2>/dev/null", pid), As: as})
	return res.ExitCode == 0 && err == nil, err
}

// running is one command on one session.
type running struct {
	c              *Client
	cn             *conn
	session        *ssh.Session
	cmd            *Command
	mark           string
	full           chan struct{}
	stdout, stderr *output
	began          func()                           // nil if nobody asks
	sent           func(httptrace.WroteRequestInfo) // the same
}

func newRunning(c *Client, cn *conn, s *ssh.Session, cmd *Command) *running {
	r := &running{c: c, cn: cn, session: s, cmd: cmd, mark: "gsrun-" + strings.ToLower(rand.Text()), full: make(chan struct{}, 1)}
	limit := cmd.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	r.stdout = &output{mark: []byte(r.mark), limit: limit, tee: cmd.Stdout, full: r.full, begun: make(chan struct{})}
	r.stderr = &output{mark: []byte(r.mark), limit: limit, tee: cmd.Stderr, full: r.full, begun: make(chan struct{})}
	s.Stdout, s.Stderr = r.stdout, r.stderr
	return r
}

// start sends the command. The channel gets its end.
func (r *running) start() <-chan error {
	ended := make(chan error, 1)
	r.c.work.Go(func() {
		stdin, err := r.session.StdinPipe()
		if err == nil {
			err = r.session.Start(r.cmd.line(r.c.cfg.User, r.mark))
		}
		if err != nil {
			ended <- fmt.Errorf("starting a shell: %w", err)
			return
		}
		if r.began != nil {
			r.began()
		}
		r.c.work.Go(func() {
			// A command that doesn't read its input is no failure; one whose
			// input could not be sent doesn't get the end of it, and
			// notices by that.
			_, err := io.Copy(stdin, r.cmd.input(r.mark))
			if err == nil {
				_ = stdin.Close()
			}
			if r.sent != nil {
				r.sent(httptrace.WroteRequestInfo{Err: err})
			}
		})
		ended <- r.session.Wait()
	})
	return ended
}

func (r *running) wait(ctx context.Context, ended <-chan error) (Result, error) {
	defer r.session.Close()
	select {
	case err := <-ended:
		return r.result(err)
	case <-ctx.Done():
		r.kill(ended)
		return Result{}, fault.FromContext(ctx)
	case <-r.full:
		r.kill(ended)
		return Result{Stdout: r.stdout.bytes(), Stderr: r.stderr.bytes(), ExitCode: -1},
			tooMuch(r.stdout.limit)
	}
}

func (r *running) result(err error) (Result, error) {
	res := Result{Stdout: r.stdout.bytes(), Stderr: r.stderr.bytes()}
	var exit *ssh.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		res.ExitCode, res.Signal = exit.ExitStatus(), exit.Signal()
		if res.Signal != "" {
			res.ExitCode = -1
		}
	default:
		_, pid := r.stdout.state()
		return res, &LostError{Err: r.c.broken(r.cn, err), PID: pid}
	}
	outStarted, _ := r.stdout.state()
	errStarted, _ := r.stderr.state()
	if !outStarted || !errStarted {
		return res, r.notStarted(outStarted, res)
	}
	select {
	case <-r.full:
		return res, tooMuch(r.stdout.limit)
	default:
	}
	return res, nil
}

// broken says how a command's connection or session broke.
func (c *Client) broken(cn *conn, err error) error {
	var missing *ssh.ExitMissingError
	if errors.As(err, &missing) || errors.Is(err, io.EOF) {
		select {
		case <-cn.dead:
			return c.lost(cn)
		case <-time.After(50 * time.Millisecond): // the session may have ended a moment before its connection shows it
		}
		if cn.isDead() {
			return c.lost(cn)
		}
		return fault.New(fault.Unreachable, "%s ended the session without an exit status", c.cfg.label())
	}
	if cn.isDead() {
		return c.lost(cn)
	}
	return fault.New(fault.Unreachable, "%s: %v", c.cfg.label(), err)
}

// notStarted explains why the command never ran.
func (r *running) notStarted(entered bool, res Result) error {
	said := shorten(oneLine(strings.TrimSpace(r.stderr.before()+"\n"+r.stdout.before())), 300)
	label, as := r.c.cfg.label(), r.cmd.As
	switch {
	case entered:
		return fault.New(fault.NotFound, "%s: the folder %q can't be entered: %s", label, r.cmd.Dir, said)
	case as != "" && as != r.c.cfg.User && strings.Contains(said, "unknown user"):
		return fault.New(fault.NotFound, "%s: there is no user %s to become: %s", label, as, said)
	case as != "" && as != r.c.cfg.User && strings.Contains(said, "sudo"):
		return fault.Hinted(fault.Denied, fmt.Sprintf("let %s run sudo without a password (NOPASSWD), or log in as %s", r.c.cfg.User, as),
			"%s: sudo refuses to become %s: %s", label, as, said)
	case said == "":
		said = fmt.Sprintf("exit status %d", res.ExitCode)
	}
	return fault.Hinted(fault.Failed, fmt.Sprintf("does %s have a POSIX shell as its login shell?", r.c.cfg.User), "%s: no shell could be started: %s", label, said)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// killPatience is what a busy host gets to deliver signals.
const killPatience = 2 * time.Second

// kill ends the remote process: the signal request, then the process group by
// its id, first softly and then not. It returns when the process is gone, or
// when its time is up.
func (r *running) kill(ended <-chan error) {
	if r.cn.isDead() {
		return
	}
	ctx, cancel := context.WithTimeout(r.c.ctx, 2*r.c.cfg.Grace+killPatience)
	defer cancel()
	r.c.work.Go(func() { _ = r.session.Signal(ssh.SIGTERM) }) // not every server knows it
	select {                                                  // the process id may be on its way
	case <-r.stdout.begun:
	case <-ended:
		return
	case <-r.cn.dead:
		return
	case <-ctx.Done():
		return
	}
	_, pid := r.stdout.state()
	for _, sig := range []string{"TERM", "KILL"} {
		if pid > 1 {
			r.signal(ctx, pid, sig)
		}
		timer := time.NewTimer(r.c.cfg.Grace)
		defer timer.Stop()
		select {
		case <-ended:
			if sig == "TERM" && pid > 1 { // children that let go of the outputs may ignore it
				r.signal(ctx, pid, "KILL")
			}
			return
		case <-r.cn.dead:
			return
		case <-ctx.Done():
			return
		case <-timer.C:
		}
	}
}

// signal sends a signal to the process group of a remote shell, on a session
// of its own. That the process is gone already is no failure.
func (r *running) signal(ctx context.Context, pid int, sig string) {
	script := fmt.Sprintf(`g=%d
if read -r _ _ _ _ x _ </proc/$g/stat 2>/dev/null && [ "$x" -gt 1 ]; then g=$x; fi
kill -s %s -- "-$g" 2>/dev/null || kill -s %s "$g" 2>/dev/null || :`, pid, sig, sig)
	s, err := r.cn.open(ctx, r.c)
	if err != nil {
		return
	}
	k := newRunning(r.c, r.cn, s, &Command{Script: script, As: r.cmd.As})
	done := k.start()
	defer s.Close()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
