package sshtest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Options says how a server behaves. Faults can be changed later by Server.Set.
type Options struct {
	HostKeys   []Key  // empty means one of type ed25519
	Authorized []Key  // who may log in; empty means nobody
	Path       string // PATH of the commands; empty means the test's own, after the server's folder bin
	Faults     Faults
}

// Faults are what a server does wrong.
type Faults struct {
	Mute        bool   // accepts connections, and never says anything
	Greeting    string // says this instead of speaking SSH, and hangs up
	HangUp      bool   // closes new connections at once
	MaxSessions int    // refuses further sessions at the same time; 0 means no limit
	NoForward   bool   // refuses to forward
	NoSignals   bool   // ignores signal requests
	Frozen      bool   // stops answering on connections that exist
	CutAfter    int    // cuts the connection once a command has written so many bytes of output; 0 means never
	CutOnce     bool   // does so for one command only
}

// A Server is one SSH server on loopback. It ends with the test.
type Server struct {
	Address string
	Port    int
	Home    string // where commands run
	HostKey string // its first public host key

	t        testing.TB
	config   *ssh.ServerConfig
	path     string
	listener net.Listener
	work     sync.WaitGroup

	mu       sync.Mutex
	thaw     *sync.Cond
	faults   Faults
	conns    map[net.Conn]bool
	groups   map[int]bool // the process groups of commands
	sessions int
	most     int
	logins   int
	commands []string
	forwards []string
	scripts  []*bytes.Buffer
}

// NewServer starts a server on 127.0.0.1.
func NewServer(t testing.TB, opts Options) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if len(opts.HostKeys) == 0 {
		opts.HostKeys = []Key{NewKey(t, Ed25519, "")}
	}
	s := &Server{Address: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Home: t.TempDir(), HostKey: opts.HostKeys[0].Public,
		t: t, listener: l, faults: opts.Faults, conns: make(map[net.Conn]bool), groups: make(map[int]bool)}
	s.thaw = sync.NewCond(&s.mu)
	s.path = opts.Path
	if s.path == "" {
		bin := filepath.Join(s.Home, "bin")
		if err := os.Mkdir(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		s.path = bin + ":" + os.Getenv("PATH")
	}
	s.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		for _, k := range opts.Authorized {
			if bytes.Equal(k.Signer.PublicKey().Marshal(), key.Marshal()) {
				return nil, nil
			}
		}
		return nil, errors.New("not authorized")
	}}
	for _, k := range opts.HostKeys {
		s.config.AddHostKey(k.Signer)
	}
	s.work.Go(s.accept)
	t.Cleanup(s.close)
	return s
}

// Program puts an executable script called name into the commands' PATH.
func (s *Server) Program(name, script string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.Home, "bin", name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// Set changes the faults. What is frozen and no longer should be goes on.
func (s *Server) Set(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
	s.thaw.Broadcast()
}

// Cut breaks every connection.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// Logins returns how many connections have logged in.
func (s *Server) Logins() int { s.mu.Lock(); defer s.mu.Unlock(); return s.logins }

// Most returns the largest number of sessions at one time.
func (s *Server) Most() int { s.mu.Lock(); defer s.mu.Unlock(); return s.most }

// Sessions returns the number of open sessions.
func (s *Server) Sessions() int { s.mu.Lock(); defer s.mu.Unlock(); return s.sessions }

// Commands returns the command lines that were asked for.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.commands...)
}

// Input returns all that was sent to the standard input of commands.
func (s *Server) Input() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	for _, buf := range s.scripts {
		b.Write(buf.Bytes())
	}
	return b.String()
}

// Forwards returns the addresses that connections were forwarded to.
func (s *Server) Forwards() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.forwards...)
}

func (s *Server) now() Faults { s.mu.Lock(); defer s.mu.Unlock(); return s.faults }

func (s *Server) close() {
	s.Set(Faults{})
	s.listener.Close()
	s.Cut()
	s.mu.Lock()
	for g := range s.groups {
		_ = syscall.Kill(-g, syscall.SIGKILL) // it may have ended
	}
	s.mu.Unlock()
	s.work.Wait()
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.work.Go(func() { s.serve(c) })
	}
}

func (s *Server) serve(raw net.Conn) {
	c := &freezing{Conn: raw, s: s}
	s.mu.Lock()
	s.conns[raw] = true
	s.mu.Unlock()
	defer func() {
		raw.Close()
		s.mu.Lock()
		delete(s.conns, raw)
		s.mu.Unlock()
	}()
	switch f := s.now(); {
	case f.HangUp:
		return
	case f.Greeting != "":
		_, _ = io.WriteString(raw, f.Greeting) // the test sees what arrived
		return
	case f.Mute:
		_, _ = io.Copy(io.Discard, raw) // until the client gives up
		return
	}
	conn, chans, reqs, err := ssh.NewServerConn(c, s.config)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.logins++
	s.mu.Unlock()
	s.work.Go(func() { ssh.DiscardRequests(reqs) })
	for ch := range chans {
		s.work.Go(func() { s.channel(conn, raw, ch) })
	}
}

// A freezing connection stops while the server is frozen.
type freezing struct {
	net.Conn
	s *Server
}

func (f *freezing) wait() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	for f.s.faults.Frozen {
		f.s.thaw.Wait()
	}
}

func (f *freezing) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	f.wait()
	return n, err
}

func (f *freezing) Write(p []byte) (int, error) { f.wait(); return f.Conn.Write(p) }

// Addr returns host and port.
func (s *Server) Addr() string { return net.JoinHostPort(s.Address, strconv.Itoa(s.Port)) }
