package gitserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			conn.Close()
			return
		}
		s.conns[conn] = struct{}{}
		s.mu.Unlock()
		s.work.Go(func() {
			s.serve(conn)
			conn.Close()
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
		})
	}
}

var errKey = errors.New("permission denied (publickey)")

// serve is one connection, until it ends.
func (s *Server) serve(conn net.Conn) {
	cfg := &ssh.ServerConfig{
		ServerVersion: "SSH-2.0-lab",
		PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if meta.User() != "git" || !s.known(key) {
				return nil, errKey
			}
			return &ssh.Permissions{Extensions: map[string]string{"key": string(key.Marshal())}}, nil
		},
	}
	cfg.AddHostKey(s.signer)
	sc, channels, requests, err := ssh.NewServerConn(conn, cfg)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { ssh.DiscardRequests(requests) })
	for nc := range channels {
		if nc.ChannelType() != "session" {
			// The peer is gone if this fails; the loop then ends.
			_ = nc.Reject(ssh.UnknownChannelType, "unknown channel type")
			continue
		}
		ch, reqs, err := nc.Accept()
		if err != nil {
			continue
		}
		work.Go(func() { s.session(ctx, conn, ch, reqs, []byte(sc.Permissions.Extensions["key"])) })
	}
	cancel()
	work.Wait()
}

// known reports whether a key opens any repository.
func (s *Server) known(key ssh.PublicKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, keys := range s.keys {
		for _, k := range keys {
			if bytes.Equal(k.key.Marshal(), key.Marshal()) {
				return true
			}
		}
	}
	return false
}

// rights returns what a key may do with a repository.
func (s *Server) rights(repo string, key []byte) (who string, read, write bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys[repo] {
		if bytes.Equal(k.key.Marshal(), key) {
			return k.who, true, k.write
		}
	}
	return "", false, false
}

// session runs the one command of a channel.
func (s *Server) session(ctx context.Context, conn net.Conn, ch ssh.Channel, requests <-chan *ssh.Request, key []byte) {
	defer ch.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	version := ""
	var done chan struct{}
	for req := range requests {
		ok := false
		var start func()
		switch req.Type {
		case "env":
			var kv struct{ Name, Value string }
			if ok = ssh.Unmarshal(req.Payload, &kv) == nil && kv.Name == "GIT_PROTOCOL"; ok {
				version = kv.Value
			}
		case "exec":
			var cmd struct{ Command string }
			if ok = ssh.Unmarshal(req.Payload, &cmd) == nil && done == nil; ok {
				done = make(chan struct{})
				start = func() {
					defer close(done)
					code := s.run(ctx, conn, ch, cmd.Command, version, key)
					// Fails only if the client has gone.
					_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(code)}))
					ch.Close()
				}
			}
		}
		if req.WantReply {
			// Fails only if the connection is gone, which ends the loop.
			_ = req.Reply(ok, nil)
		}
		// The reply comes first: a client whose command ends before it takes
		// the connection for broken.
		if start != nil {
			go start()
		}
	}
	cancel()
	if done != nil {
		<-done
	}
}

// parse reads git-upload-pack '/name.git'.
func parse(command string) (service, repo string, ok bool) {
	service, arg, _ := strings.Cut(command, " ")
	if rest, found := strings.CutPrefix(command, "git upload-pack "); found {
		service, arg = "git-upload-pack", rest
	} else if rest, found := strings.CutPrefix(command, "git receive-pack "); found {
		service, arg = "git-receive-pack", rest
	}
	arg = strings.Trim(strings.TrimSpace(arg), "'")
	repo = strings.TrimSuffix(strings.TrimPrefix(arg, "/"), ".git")
	return service, repo, (service == "git-upload-pack" || service == "git-receive-pack") && repoName.MatchString(repo)
}

func (s *Server) run(ctx context.Context, conn net.Conn, ch ssh.Channel, command, version string, key []byte) int {
	service, repo, ok := parse(command)
	deny := func(who, text string) int {
		s.note(Access{Repo: repo, Who: who, Service: service, Exit: 1, Denied: true})
		fmt.Fprintf(ch.Stderr(), "ERROR: %s\n", text)
		return 1
	}
	if !ok {
		return deny("", "only git-upload-pack and git-receive-pack are served here")
	}
	who, read, write := s.rights(repo, key)
	if !read || !s.has(repo) {
		return deny(who, "Repository not found.")
	}
	if service == "git-receive-pack" && !write {
		return deny(who, "The key you are authenticating with has been marked as read only.")
	}
	f := s.spoiled(service, repo)
	if f.DelayMS > 0 && !wait(ctx, time.Duration(f.DelayMS)*time.Millisecond) {
		return 1
	}
	switch {
	case f.Reset == "before":
		s.note(Access{Repo: repo, Who: who, Service: service, Exit: 1})
		conn.Close()
		return 1
	case f.Refuse != "":
		return deny(who, f.Refuse)
	case f.Race == "early":
		if err := s.compete(repo, f); err != nil {
			return deny(who, err.Error())
		}
	}
	s.mu.Lock()
	s.seq++
	tag := fmt.Sprintf("push-%d", s.seq)
	s.mu.Unlock()
	cmd := s.command(tag, strings.TrimPrefix(service, "git-"), s.path(repo))
	if version != "" && service == "git-upload-pack" {
		cmd.Env = append(cmd.Env, "GIT_PROTOCOL="+version)
	}
	commands := &commandReader{}
	answer := &answer{w: ch, commands: commands}
	cmd.Stdout, cmd.Stderr = answer, ch.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(ch.Stderr(), "ERROR: %v\n", err)
		return 1
	}
	stop := context.AfterFunc(ctx, func() {
		// It may have ended by itself.
		_ = cmd.Process.Kill()
	})
	defer stop()
	var sent io.Reader = ch
	if f.Race == "late" {
		sent = &late{r: ch, do: func() error { return s.compete(repo, f) }}
	}
	var feed sync.WaitGroup
	feed.Go(func() {
		_, _ = io.Copy(io.MultiWriter(commands, in), sent) // ends with either side; git sees nothing that commands has not
		in.Close()
	})
	code := 0
	if err := cmd.Wait(); err != nil {
		code = 1
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code = max(1, exit.ExitCode())
		}
	}
	// The client may keep its side open; what it sends now goes nowhere. The
	// commands were complete before git could answer them.
	s.note(Access{Repo: repo, Who: who, Service: service, Exit: code})
	if service == "git-receive-pack" {
		s.record(repo, who, tag, commands.list())
	}
	if f.Reset == "after" {
		conn.Close()
	}
	answer.release()
	// Wait for the feeder without waiting for the client: closing the channel
	// ends it.
	s.work.Go(feed.Wait)
	return code
}

// An answer holds back what git says about a push until it is in the log, so
// that a client which knows that its push went through finds it there.
type answer struct {
	w        io.Writer
	commands *commandReader
	held     bytes.Buffer
}

func (a *answer) Write(b []byte) (int, error) {
	if a.commands.complete() {
		return a.held.Write(b)
	}
	return a.w.Write(b)
}

// release sends on what was held back; git has ended.
func (a *answer) release() {
	// Fails only if the client has gone.
	_, _ = a.held.WriteTo(a.w)
}

func (s *Server) note(a Access) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.At = s.now()
	s.access = append(s.access, a)
}

// An update is one command of a push.
type update struct{ old, new, ref string }

// commandReader reads the commands that a push begins with: packets up to the
// first flush.
type commandReader struct {
	mu   sync.Mutex
	buf  []byte
	all  []update
	done bool
}

func (c *commandReader) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return len(b), nil
	}
	c.buf = append(c.buf, b...)
	for len(c.buf) >= 4 {
		n, err := strconv.ParseUint(string(c.buf[:4]), 16, 16)
		if err != nil || n == 0 {
			c.done, c.buf = true, nil
			break
		}
		if n < 4 || int(n) > len(c.buf) {
			break
		}
		line, _, _ := strings.Cut(string(c.buf[4:n]), "\x00")
		c.buf = c.buf[n:]
		if f := strings.Fields(line); len(f) == 3 && len(f[0]) == len(f[1]) {
			c.all = append(c.all, update{f[0], f[1], f[2]})
		}
	}
	return len(b), nil
}

// complete reports whether the commands of a push have all been read. What a
// client fetches doesn't count: its packets are no commands.
func (c *commandReader) complete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done && len(c.all) > 0
}

func (c *commandReader) list() []update {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]update{}, c.all...)
}

// record notes the commands of a push that git carried out: those that it
// wrote into the ref's log under the push's tag, and deletions.
func (s *Server) record(repo, who, tag string, updates []update) {
	for _, u := range updates {
		done := false
		if strings.Trim(u.new, "0") == "" {
			_, err := s.output("", "--git-dir", s.path(repo), "show-ref", "--verify", "--quiet", u.ref)
			done = err != nil
		} else if log, err := os.ReadFile(filepath.Join(s.path(repo), "logs", filepath.FromSlash(u.ref))); err == nil {
			done = strings.Contains(string(log), u.old+" "+u.new+" "+tag+" ")
		}
		if !done {
			continue
		}
		s.mu.Lock()
		s.pushes = append(s.pushes, Push{At: s.now(), Repo: repo, Who: who, Ref: u.ref, Old: u.old, New: u.new})
		s.mu.Unlock()
	}
}
