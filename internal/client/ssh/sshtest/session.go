package sshtest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
)

func (s *Server) channel(conn *ssh.ServerConn, raw net.Conn, ch ssh.NewChannel) {
	switch ch.ChannelType() {
	case "session":
		s.session(conn, raw, ch)
	case "direct-tcpip":
		s.forward(ch)
	default:
		_ = ch.Reject(ssh.UnknownChannelType, "not here") // the client sees the refusal or is gone
	}
}

func (s *Server) forward(ch ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(ch.ExtraData(), &to); err != nil || s.now().NoForward {
		_ = ch.Reject(ssh.Prohibited, "open failed") // as sshd says it
		return
	}
	addr := net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port)))
	s.mu.Lock()
	s.forwards = append(s.forwards, addr)
	s.mu.Unlock()
	out, err := net.Dial("tcp", addr)
	if err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, "Connection refused") // as sshd says it
		return
	}
	in, reqs, err := ch.Accept()
	if err != nil {
		out.Close()
		return
	}
	s.work.Go(func() { ssh.DiscardRequests(reqs) })
	s.work.Go(func() {
		_, _ = io.Copy(out, in) // ends with either side
		out.Close()
	})
	_, _ = io.Copy(in, out) // ends with either side
	in.Close()
	out.Close()
}

func (s *Server) session(conn *ssh.ServerConn, raw net.Conn, nc ssh.NewChannel) {
	s.mu.Lock()
	if m := s.faults.MaxSessions; m > 0 && s.sessions >= m {
		s.mu.Unlock()
		_ = nc.Reject(ssh.ResourceShortage, "open failed") // as sshd says it
		return
	}
	s.sessions++
	s.most = max(s.most, s.sessions)
	s.mu.Unlock()
	over := sync.OnceFunc(func() {
		s.mu.Lock()
		s.sessions--
		s.mu.Unlock()
	})
	defer over()
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	var cmd *exec.Cmd
	var running sync.WaitGroup
	for req := range reqs {
		switch {
		case req.Type == "exec" && cmd == nil:
			var msg struct{ Line string }
			if err := ssh.Unmarshal(req.Payload, &msg); err != nil {
				_ = req.Reply(false, nil) // the client sees it or is gone
				continue
			}
			replied := make(chan struct{})
			if cmd, err = s.start(conn, raw, ch, msg.Line, replied, &running, over); err != nil {
				_ = req.Reply(false, nil) // the client sees it or is gone
				return
			}
			_ = req.Reply(true, nil) // the client sees it or is gone
			close(replied)
		case req.Type == "signal" && cmd != nil && !s.now().NoSignals:
			var msg struct{ Name string }
			if ssh.Unmarshal(req.Payload, &msg) == nil && msg.Name == "TERM" {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // it may have ended
			}
		default:
			if req.WantReply {
				_ = req.Reply(false, nil) // the client sees it or is gone
			}
		}
	}
	running.Wait()
}

// start runs a command line as sshd does: by a shell, in a session of its own,
// which goes on when the connection breaks. Its end is told after replied is
// closed.
func (s *Server) start(conn *ssh.ServerConn, raw net.Conn, ch ssh.Channel, line string, replied <-chan struct{}, running *sync.WaitGroup, over func()) (*exec.Cmd, error) {
	seen := new(bytes.Buffer)
	s.mu.Lock()
	s.commands = append(s.commands, line)
	s.scripts = append(s.scripts, seen)
	s.mu.Unlock()
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir = s.Home
	cmd.Env = []string{"PATH=" + s.path, "HOME=" + s.Home, "USER=" + conn.User()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout = &cutting{w: ch, s: s, raw: raw}
	cmd.Stderr = ch.Stderr()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.groups[cmd.Process.Pid] = true
	s.mu.Unlock()
	s.work.Go(func() {
		buf := make([]byte, 32<<10)
		for {
			n, err := ch.Read(buf)
			s.mu.Lock()
			seen.Write(buf[:n])
			s.mu.Unlock()
			if _, werr := stdin.Write(buf[:n]); werr != nil || err != nil {
				break
			}
		}
		stdin.Close()
	})
	running.Go(func() {
		status := wait(cmd)
		<-replied
		over()
		if status.Signaled() {
			_, _ = ch.SendRequest("exit-signal", false, ssh.Marshal(struct { // the client sees it or is gone
				Name  string
				Core  bool
				Error string
				Lang  string
			}{Name: signalName(status.Signal())}))
		} else {
			_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status.ExitStatus())})) // the client sees it or is gone
		}
		ch.Close()
	})
	return cmd, nil
}

func wait(cmd *exec.Cmd) syscall.WaitStatus {
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.Sys().(syscall.WaitStatus)
	}
	if ps := cmd.ProcessState; ps != nil {
		return ps.Sys().(syscall.WaitStatus)
	}
	return 0
}

func signalName(s os.Signal) string {
	switch s {
	case syscall.SIGTERM:
		return "TERM"
	case syscall.SIGKILL:
		return "KILL"
	}
	return "INT"
}

// A cutting writer breaks the connection after the bytes that the faults name.
type cutting struct {
	w   io.Writer
	s   *Server
	raw net.Conn
	n   int
}

func (c *cutting) Write(p []byte) (int, error) {
	left, cut := c.s.cuts(c.n, len(p))
	n, err := c.w.Write(p[:left])
	c.n += n
	if cut {
		c.raw.Close()
		return n, io.ErrClosedPipe
	}
	return n, err
}

// cuts says how many of the next more bytes are sent of a command that has
// written n, and whether it loses its connection then.
func (s *Server) cuts(n, more int) (left int, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.CutAfter == 0 || n+more <= s.faults.CutAfter {
		return more, false
	}
	left = max(s.faults.CutAfter-n, 0)
	if s.faults.CutOnce {
		s.faults.CutAfter = 0
	}
	return left, true
}
