package hosts

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// session serves one session channel: an exec, a shell or a subsystem.
func (c *connection) session(nc ssh.NewChannel) {
	limit := c.host.health().MaxSessions
	if limit == 0 {
		limit = defaultMaxSessions
	}
	if int(c.sessions.Add(1)) > limit {
		c.sessions.Add(-1)
		_ = nc.Reject(ssh.ResourceShortage, "open failed")
		return
	}
	ch, requests, err := nc.Accept()
	if err != nil {
		c.sessions.Add(-1)
		return
	}
	ctx, cancel := context.WithCancelCause(c.power)
	s := &session{connection: c, ch: ch, ctx: ctx, cancel: cancel, env: map[string]string{}, begun: make(chan string, 1)}
	c.work.Go(func() {
		defer c.sessions.Add(-1)
		s.run()
	})
	c.work.Go(func() { s.requests(requests) })
}

type session struct {
	*connection
	ch     ssh.Channel
	ctx    context.Context // of what runs; it ends by signals
	cancel context.CancelCauseFunc
	pty    bool // set before begun gets a command
	env    map[string]string
	kind   string // exec, shell or sftp
	begun  chan string

	dropped sync.Once
}

// requests answers what the client asks for, until the channel closes.
func (s *session) requests(in <-chan *ssh.Request) {
	started := false
	for req := range in {
		ok := false
		switch req.Type {
		case "env":
			var kv struct{ Name, Value string }
			// sshd only lets locales through unless it is told otherwise.
			if ssh.Unmarshal(req.Payload, &kv) == nil && !started && (strings.HasPrefix(kv.Name, "LC_") || kv.Name == "LANG") {
				s.env[kv.Name] = kv.Value
				ok = true
			}
		case "pty-req":
			ok, s.pty = true, true
		case "window-change":
			ok = true
		case "exec":
			var cmd struct{ Command string }
			if ok = ssh.Unmarshal(req.Payload, &cmd) == nil && !started; ok {
				started = true
				s.kind = "exec"
				s.reply(req, true)
				s.begun <- cmd.Command
				continue
			}
		case "shell":
			if ok = !started; ok {
				started = true
				s.kind = "shell"
				s.reply(req, true)
				s.begun <- ""
				continue
			}
		case "subsystem":
			var sub struct{ Name string }
			if ok = ssh.Unmarshal(req.Payload, &sub) == nil && !started && sub.Name == "sftp"; ok {
				started = true
				s.kind = "sftp"
				s.reply(req, true)
				s.begun <- ""
				continue
			}
		case "signal":
			var sig struct{ Name string }
			if ssh.Unmarshal(req.Payload, &sig) == nil {
				if n, known := machine.ParseSignal(sig.Name); known {
					s.cancel(n)
					ok = true
				}
			}
		}
		s.reply(req, ok)
	}
	// The channel is gone. What runs on a terminal, and what moves files, ends
	// with it; anything else doesn't know, until it writes something.
	if s.pty || s.kind == "sftp" || !started {
		s.cancel(machine.Signal(syscall.SIGHUP))
	}
	close(s.begun)
}

func (s *session) reply(req *ssh.Request, ok bool) {
	if req.WantReply {
		// Fails only when the connection is gone, which ends the loop.
		_ = req.Reply(ok, nil)
	}
}

func (s *session) run() {
	defer s.ch.Close()
	defer s.cancel(nil)
	command, ok := <-s.begun
	if !ok {
		return
	}
	if s.kind == "sftp" {
		s.sftp()
		return
	}
	s.exec(command)
}

// exec runs a command line by the user's shell, or the shell on the channel's input.
func (s *session) exec(command string) {
	h := s.host
	w := &dropWatch{s: s, command: command, met: make(map[string]bool)}
	// A shell that is given its scripts by and by may be given many: each is a
	// command.
	streams := s.kind == "shell" || strings.HasSuffix(command, "sh -s")
	var drop *Drop
	if !streams {
		drop = h.takeDrop(command, w.met)
	}
	if drop != nil && drop.When == BeforeEffect {
		s.drop(drop)
		return
	}
	u, ok := h.sys.LookupUser(s.user)
	if !ok {
		return
	}
	in, feed, err := os.Pipe()
	if err != nil {
		return
	}
	defer in.Close()
	s.work.Go(func() {
		_, _ = io.Copy(feed, s.ch) // ends when either side is closed
		feed.Close()
	})
	out, errOut := &output{w: s.ch, s: s, drop: drop, block: w.inBlock}, &output{w: s.ch.Stderr(), s: s, drop: drop, block: w.inBlock}
	env := u.Environ()
	for k, v := range s.env {
		env[k] = v
	}
	env["SSH_CONNECTION"] = "192.0.2.1 50000 192.0.2.2 22"
	args := []string{u.Shell, "-c", command}
	if s.kind == "shell" {
		args = []string{u.Shell, "-s"}
		command = "-" + u.Shell
	}
	start := h.fleet.cfg.Clock.Now()
	login := h.sys.Login(*u)
	if _, err := h.sys.FS.Stat(u.Cred, login.Dir, true); err != nil {
		login.Dir = "/"
	}
	ctx := s.ctx
	if drop == nil {
		w.login = login.PID
		ctx = machine.WithWatch(ctx, w.begins)
		if streams {
			ctx = machine.WithBlocks(ctx, w.block)
		}
	}
	code, err := login.Run(ctx, machine.Cmd{Args: args, Env: env, Stdin: in, Stdout: out, Stderr: errOut})
	if err != nil {
		code = 1
	}
	h.sys.WaitReleased(s.ctx, out, errOut)
	if drop == nil {
		drop = w.taken()
	}
	var sig machine.Signal
	if s.ctx.Err() != nil {
		errors.As(context.Cause(s.ctx), &sig)
	}
	record := Command{
		At: start, Host: h.spec.ID, User: s.user, Kind: s.kind, Command: headOf(command), Exit: code,
		Millis: h.fleet.cfg.Clock.Now().Sub(start).Milliseconds(),
	}
	if sig != 0 {
		record.Signal = machine.Name(sig)
	}
	if drop != nil {
		record.Dropped = true
	}
	h.fleet.log.add(record)
	if drop != nil {
		s.drop(drop)
		return
	}
	// What fails from here on fails because the client has gone.
	if sig != 0 {
		_, _ = s.ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal     string
			CoreDumped bool
			Error      string
			Lang       string
		}{Signal: machine.Name(sig)}))
		return
	}
	_ = s.ch.CloseWrite()
	_, _ = s.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(code)}))
}

// output is a session's stdout or stderr. With a drop in the middle of a
// command, the first output breaks the connection.
type output struct {
	w    io.Writer
	s    *session
	drop *Drop

	block func() *Drop // that of what a shell runs now
}

// drop breaks the connection, which both outputs and the end of a command may ask for.
func (s *session) drop(d *Drop) {
	s.dropped.Do(func() {
		if d.Reboot {
			s.host.rebootItself(false)
		}
		s.conn.Close()
	})
}

func (o *output) Write(b []byte) (int, error) {
	drop := o.drop
	if drop == nil {
		drop = o.block()
	}
	if drop != nil && drop.When == OnOutput {
		o.s.drop(drop)
		return 0, syscall.EPIPE
	}
	if drop != nil {
		return len(b), nil
	}
	n, err := o.w.Write(b)
	if err != nil { // the client has gone
		err = syscall.EPIPE
	}
	return n, err
}

func (s *session) sftp() {
	h := s.host
	u, ok := h.sys.LookupUser(s.user)
	if !ok {
		return
	}
	start := h.fleet.cfg.Clock.Now()
	before := h.Writes()
	files := &files{fs: h.sys.FS, cred: u.Cred, host: h.sys}
	server := sftp.NewRequestServer(s.ch, sftp.Handlers{FileGet: files, FilePut: files, FileCmd: files, FileList: files},
		sftp.WithStartDirectory(u.Home))
	stop := context.AfterFunc(s.ctx, func() { s.ch.Close() })
	defer stop()
	code := 0
	if err := server.Serve(); err != nil && err != io.EOF {
		code = 255
	}
	h.fleet.log.add(Command{
		At: start, Host: h.spec.ID, User: s.user, Kind: "sftp", Command: "sftp", Exit: code, Writes: h.Writes() - before,
		Millis: h.fleet.cfg.Clock.Now().Sub(start).Milliseconds(),
	})
	_, _ = s.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(code)}))
}
