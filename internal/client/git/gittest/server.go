// Package gittest is a Git server over SSH and HTTP on loopback, for tests: it
// runs the machine's git on bare repositories in a folder.
package gittest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// A Server serves the repositories in Dir. Its fields are set before it is
// used, but for the hooks, which Hook sets.
type Server struct {
	Dir      string
	Addr     string // host:port of the SSH server
	HostKey  string // its public key, a line of authorized_keys
	WriteKey string // PEM of the private key that may read and write
	ReadKey  string // PEM of the private key that may only read

	t        *testing.T
	config   *ssh.ServerConfig
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	accepted int
	commands []string
	hook     func(service string)
}

// NewServer returns a server that ends with the test. The test is left out
// on a machine without git.
func NewServer(t *testing.T) *Server {
	t.Helper()
	skip.Slow(t, "it starts the git program")
	_, err := exec.LookPath("git")
	skip.Unless(t, err == nil, "a Git server", "there is no git program to serve with")
	s := &Server{Dir: t.TempDir(), t: t, conns: make(map[net.Conn]bool)}
	var write, read ssh.PublicKey
	s.WriteKey, write = newKey(t)
	s.ReadKey, read = newKey(t)
	hostKey, hostPub := newKey(t)
	s.HostKey = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(hostPub)))
	signer, err := ssh.ParsePrivateKey([]byte(hostKey))
	if err != nil {
		t.Fatal(err)
	}
	s.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		switch {
		case bytes.Equal(key.Marshal(), write.Marshal()):
			return &ssh.Permissions{Extensions: map[string]string{"write": "yes"}}, nil
		case bytes.Equal(key.Marshal(), read.Marshal()):
			return &ssh.Permissions{}, nil
		}
		return nil, io.EOF
	}}
	s.config.AddHostKey(signer)
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.Addr = s.listener.Addr().String()
	s.wg.Add(1)
	go s.accept()
	t.Cleanup(s.close)
	return s
}

func newKey(t *testing.T) (string, ssh.PublicKey) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "test")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block)), signer.PublicKey()
}

// NewKey returns the PEM of a private key that the server doesn't know.
func NewKey(t *testing.T) string {
	key, _ := newKey(t)
	return key
}

func (s *Server) close() {
	s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// URL returns the SSH URL of a repository.
func (s *Server) URL(name string) string { return "ssh://git@" + s.Addr + "/" + name + ".git" }

// Init makes an empty bare repository with the branch main as its default.
func (s *Server) Init(name string) string {
	dir := filepath.Join(s.Dir, name+".git")
	s.git("", "init", "-q", "--bare", "-b", "main", dir)
	return dir
}

// Commit adds a commit with the files to a branch, as another client would,
// and returns its SHA. An empty content removes the file.
func (s *Server) Commit(name, branch string, files map[string]string) string {
	dir := filepath.Join(s.Dir, name+".git")
	work := s.t.TempDir()
	s.git("", "clone", "-q", dir, work)
	if out, err := s.try(work, "rev-parse", "--verify", "-q", "origin/"+branch); err == nil && out != "" {
		s.git(work, "checkout", "-q", "-B", branch, "origin/"+branch)
	} else {
		s.git(work, "checkout", "-q", "-B", branch)
	}
	for path, content := range files {
		full := filepath.Join(work, path)
		if content == "" {
			if err := os.Remove(full); err != nil {
				s.t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	s.git(work, "add", "-A")
	s.git(work, "commit", "-q", "-m", "Other's change")
	s.git(work, "push", "-q", "origin", branch)
	return s.git(work, "rev-parse", "HEAD")
}

// CommitSpecial adds a program, a symbolic link and a submodule to main.
func (s *Server) CommitSpecial(name string) {
	dir := filepath.Join(s.Dir, name+".git")
	work := s.t.TempDir()
	s.git("", "clone", "-q", dir, work)
	if err := os.MkdirAll(filepath.Join(work, "bin"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "bin", "tool"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Symlink("README.md", filepath.Join(work, "link")); err != nil {
		s.t.Fatal(err)
	}
	s.git(work, "add", "-A")
	s.git(work, "update-index", "--add", "--cacheinfo", "160000,"+s.git(work, "rev-parse", "HEAD")+",module")
	s.git(work, "commit", "-q", "-m", "Special files")
	s.git(work, "push", "-q", "origin", "main")
}

// WriteHook makes the repository run a script on pushes.
func (s *Server) WriteHook(name, hook, script string) {
	if err := os.WriteFile(filepath.Join(s.Dir, name+".git", "hooks", hook), []byte(script), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// Git runs git on a repository and returns what it prints.
func (s *Server) Git(name string, args ...string) string {
	return s.git(filepath.Join(s.Dir, name+".git"), args...)
}

func (s *Server) git(dir string, args ...string) string {
	out, err := s.try(dir, args...)
	if err != nil {
		s.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

func (s *Server) try(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, s.env()
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// env keeps the configuration of the machine out.
func (s *Server) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Other", "GIT_AUTHOR_EMAIL=other@example.org", "GIT_COMMITTER_NAME=Other", "GIT_COMMITTER_EMAIL=other@example.org"}
}

// Hook makes the server call f when a service is asked for, before it runs.
func (s *Server) Hook(f func(service string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = f
}

// Commands returns the commands that clients ran so far.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.commands...)
}

// Pushes returns how many of the commands were pushes.
func (s *Server) Pushes() int {
	n := 0
	for _, c := range s.Commands() {
		if strings.HasPrefix(c, "git-receive-pack ") {
			n++
		}
	}
	return n
}

// Connections returns how many connections there were so far.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// CloseConnections breaks all connections.
func (s *Server) CloseConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

func (s *Server) accept() {
	defer s.wg.Done()
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.accepted++
		s.mu.Unlock()
		s.wg.Add(1)
		go func() {
			defer s.wg.Done()
			s.serve(conn)
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
		}()
	}
}

func (s *Server) serve(conn net.Conn) {
	defer conn.Close()
	c, chans, reqs, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	defer c.Close()
	go ssh.DiscardRequests(reqs)
	var sessions sync.WaitGroup
	defer sessions.Wait()
	for nc := range chans {
		if nc.ChannelType() != "session" {
			_ = nc.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		ch, creqs, err := nc.Accept()
		if err != nil {
			return
		}
		sessions.Add(1)
		go func() {
			defer sessions.Done()
			s.session(ch, creqs, c.Permissions.Extensions["write"] != "")
		}()
	}
}

func (s *Server) session(ch ssh.Channel, reqs <-chan *ssh.Request, write bool) {
	defer ch.Close()
	for req := range reqs {
		if req.Type != "exec" {
			_ = req.Reply(req.Type == "env", nil)
			continue
		}
		var msg struct{ Command string }
		if err := ssh.Unmarshal(req.Payload, &msg); err != nil {
			_ = req.Reply(false, nil)
			return
		}
		_ = req.Reply(true, nil)
		status := s.run(ch, msg.Command, write)
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		return
	}
}

func (s *Server) run(ch ssh.Channel, command string, write bool) uint32 {
	service, path, _ := strings.Cut(command, " ")
	s.mu.Lock()
	s.commands = append(s.commands, command)
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		hook(service)
	}
	path = filepath.Join(s.Dir, filepath.Clean("/"+strings.Trim(path, "'")))
	if service == "git-receive-pack" && !write {
		io.WriteString(ch.Stderr(), "ERROR: this key may not write: permission denied\n")
		return 1
	}
	cmd := exec.Command("git", strings.TrimPrefix(service, "git-"), path)
	cmd.Env = s.env()
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 255
	}
	if err := cmd.Start(); err != nil {
		return 255
	}
	go func() { // ends with the channel, which the session closes
		_, _ = io.Copy(stdin, ch)
		stdin.Close()
	}()
	if err := cmd.Wait(); err != nil {
		return 128
	}
	return 0
}

// HTTP serves the same repositories by HTTPS to who has the token. It returns
// the base URL and the server's certificate in PEM.
func (s *Server) HTTP(token string) (base, ca string) {
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		s.t.Fatal(err)
	}
	backend := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), Dir: s.Dir,
		Env: []string{"GIT_PROJECT_ROOT=" + s.Dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=test", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + s.Dir}}
	backend.Stderr = io.Discard
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, got, _ := r.BasicAuth(); got != token {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // a test refuses the certificate on purpose
	srv.StartTLS()
	s.t.Cleanup(srv.Close)
	return srv.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
}
