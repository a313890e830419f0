// Package gitserver serves bare Git repositories over SSH on loopback, with
// deploy keys, as a forge does. The repositories are real and so is the git
// that serves them.
package gitserver

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/inject"
)

// Options of a server; every field may be left out.
type Options struct {
	Addr string           // to listen on; "" is a free port of 127.0.0.1
	Now  func() time.Time // the clock; nil is the system's
	Git  string           // the git executable; "" looks it up
}

// A Server serves the repositories in one folder. Close ends it; the folder
// stays, and New on it serves the same repositories with the same host key.
// Deploy keys have to be added anew.
type Server struct {
	dir      string
	git      string
	now      func() time.Time
	listener net.Listener
	signer   ssh.Signer
	faults   *inject.Set[Fault]

	work sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
	keys   map[string][]deployKey // by repository
	pushes []Push
	access []Access
	seq    int
}

// A deployKey opens one repository.
type deployKey struct {
	key   ssh.PublicKey
	who   string
	write bool
}

// A Push is one ref that was changed by a client.
type Push struct {
	At   time.Time
	Repo string
	Who  string // the name that the deploy key was added by
	Ref  string
	Old  string // 40 zeros if the ref is new
	New  string // 40 zeros if the ref was deleted
}

// An Access is one command that a client ran.
type Access struct {
	At      time.Time
	Repo    string
	Who     string
	Service string // git-upload-pack or git-receive-pack
	Exit    int
	Denied  bool
}

// New serves the repositories below dir, which is made if it isn't there. It
// fails with NotFound if there is no git, and with Unavailable if the address
// can't be listened on.
func New(dir string, opts Options) (*Server, error) {
	fail := func(kind fault.Kind, err error) (*Server, error) {
		return nil, &fault.Error{Op: "starting git server", Target: "gitserver", Kind: kind, Err: err}
	}
	s := &Server{dir: dir, git: opts.Git, now: opts.Now, conns: map[net.Conn]struct{}{}, keys: map[string][]deployKey{}, faults: newFaults()}
	if s.now == nil {
		s.now = time.Now
	}
	if s.git == "" {
		git, err := exec.LookPath("git")
		if err != nil {
			return fail(fault.NotFound, err)
		}
		s.git = git
	}
	if err := os.MkdirAll(filepath.Join(dir, "repositories"), 0o700); err != nil {
		return fail(fault.Internal, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "home"), 0o700); err != nil {
		return fail(fault.Internal, err)
	}
	signer, err := hostKey(filepath.Join(dir, "host_key"))
	if err != nil {
		return fail(fault.Internal, fmt.Errorf("reading host key: %w", err))
	}
	s.signer = signer
	addr := opts.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	if s.listener, err = net.Listen("tcp", addr); err != nil {
		return fail(fault.Unavailable, err)
	}
	s.work.Go(s.accept)
	return s, nil
}

// hostKey reads the server's key, or makes it.
func hostKey(file string) (ssh.Signer, error) {
	data, err := os.ReadFile(file)
	if err == nil {
		return ssh.ParsePrivateKey(data)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "gitserver")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	return ssh.NewSignerFromSigner(key)
}

// Close breaks all connections and waits until what ran for them has ended.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.work.Wait()
	return err
}

// Addr is the address that the server listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// HostKey is the server's public key.
func (s *Server) HostKey() ssh.PublicKey { return s.signer.PublicKey() }

// URL is where a repository is cloned from.
func (s *Server) URL(name string) string { return "ssh://git@" + s.Addr() + "/" + name + ".git" }

// AddKey lets the holder of a key, given as a line of authorized_keys, read a
// repository and, with write, push to it. who names it in the log of pushes.
// It fails with NotFound for a repository that isn't there, and with Invalid
// for what isn't a key. A key that the repository has already is replaced.
func (s *Server) AddKey(repo, line, who string, write bool) error {
	fail := func(kind fault.Kind, err error) error {
		return &fault.Error{Op: "adding deploy key", Target: "git/" + repo, Kind: kind, Err: err}
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return fail(fault.Invalid, err)
	}
	if !s.has(repo) {
		return fail(fault.NotFound, errors.New("no such repository"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range s.keys[repo] {
		if bytes.Equal(k.key.Marshal(), key.Marshal()) {
			s.keys[repo][i] = deployKey{key, who, write}
			return nil
		}
	}
	s.keys[repo] = append(s.keys[repo], deployKey{key, who, write})
	return nil
}

// RemoveKey takes back what AddKey gave to who.
func (s *Server) RemoveKey(repo, who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keep []deployKey
	for _, k := range s.keys[repo] {
		if k.who != who {
			keep = append(keep, k)
		}
	}
	s.keys[repo] = keep
}

// Pushes lists the refs changed after the first n.
func (s *Server) Pushes(n int) []Push {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Push{}, s.pushes[min(max(0, n), len(s.pushes)):]...)
}

// Accesses lists the commands run after the first n.
func (s *Server) Accesses(n int) []Access {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Access{}, s.access[min(max(0, n), len(s.access)):]...)
}

var repoName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)*$`)

// path is a repository's folder.
func (s *Server) path(name string) string {
	return filepath.Join(s.dir, "repositories", filepath.FromSlash(name)+".git")
}

// has reports whether there is a repository of that name.
func (s *Server) has(name string) bool {
	if !repoName.MatchString(name) {
		return false
	}
	_, err := os.Stat(filepath.Join(s.path(name), "HEAD"))
	return err == nil
}
