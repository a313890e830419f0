package gitserver_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/gitserver"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

func start(t *testing.T) *gitserver.Server {
	t.Helper()
	skip.Slow(t, "it starts the git program")
	s, err := gitserver.New(t.TempDir(), gitserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Create("gitops", map[string]string{"README.md": "hello\n", "spokes/a/cluster.yaml": "replicas: 1\n"}); err != nil {
		t.Fatal(err)
	}
	return s
}

type client struct {
	signer ssh.Signer
	auth   *gitssh.PublicKeys
}

func newClient(t *testing.T, s *gitserver.Server) *client {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	auth := &gitssh.PublicKeys{User: "git", Signer: signer}
	auth.HostKeyCallback = ssh.FixedHostKey(s.HostKey())
	return &client{signer, auth}
}

func (c *client) line() string { return string(ssh.MarshalAuthorizedKey(c.signer.PublicKey())) }

func (c *client) clone(t *testing.T, s *gitserver.Server, repo string) (*git.Repository, string) {
	t.Helper()
	dir := t.TempDir()
	r, err := git.PlainClone(dir, false, &git.CloneOptions{URL: s.URL(repo), Auth: c.auth})
	if err != nil {
		t.Fatal(err)
	}
	return r, dir
}

func commit(t *testing.T, r *git.Repository, dir, file, text string) plumbing.Hash {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	w, err := r.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add(file); err != nil {
		t.Fatal(err)
	}
	h, err := w.Commit("Change "+file, &git.CommitOptions{Author: &object.Signature{Name: "t", Email: "t@lab.invalid", When: time.Unix(1, 0)}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestGoGit(t *testing.T) {
	s := start(t)
	reader, writer := newClient(t, s), newClient(t, s)
	if err := errors.Join(s.AddKey("gitops", reader.line(), "argocd", false), s.AddKey("gitops", writer.line(), "operator", true)); err != nil {
		t.Fatal(err)
	}
	r, dir := writer.clone(t, s, "gitops")
	if data, err := os.ReadFile(filepath.Join(dir, "spokes/a/cluster.yaml")); err != nil || string(data) != "replicas: 1\n" {
		t.Errorf("cloned: %q, %v", data, err)
	}
	before, err := s.Resolve("gitops", "main")
	if err != nil {
		t.Fatal(err)
	}
	h := commit(t, r, dir, "spokes/b/cluster.yaml", "replicas: 3\n")
	if err := r.Push(&git.PushOptions{Auth: writer.auth}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ReadFile("gitops", "main", "spokes/b/cluster.yaml"); err != nil || got != "replicas: 3\n" {
		t.Errorf("pushed: %q, %v", got, err)
	}
	pushes := s.Pushes(0)
	if len(pushes) != 1 {
		t.Fatalf("pushes: %+v", pushes)
	}
	if p := pushes[0]; p.Who != "operator" || p.Ref != "refs/heads/main" || p.Old != before || p.New != h.String() || p.Repo != "gitops" {
		t.Errorf("push: %+v", p)
	}
	// Read only: may clone, may not push.
	r2, dir2 := reader.clone(t, s, "gitops")
	commit(t, r2, dir2, "x", "y")
	if err := r2.Push(&git.PushOptions{Auth: reader.auth}); err == nil {
		t.Error("a read-only key could push")
	}
	if got := s.Pushes(1); len(got) != 0 {
		t.Errorf("pushes after the refused one: %+v", got)
	}
	// A key that is nobody's.
	if _, err := git.PlainClone(t.TempDir(), false, &git.CloneOptions{URL: s.URL("gitops"), Auth: newClient(t, s).auth}); err == nil {
		t.Error("an unknown key could clone")
	}
	// A branch, and its deletion.
	if err := r.Push(&git.PushOptions{Auth: writer.auth, RefSpecs: []config.RefSpec{"refs/heads/main:refs/heads/other"}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Push(&git.PushOptions{Auth: writer.auth, RefSpecs: []config.RefSpec{":refs/heads/other"}}); err != nil {
		t.Fatal(err)
	}
	zero := strings.Repeat("0", 40)
	if got := s.Pushes(1); len(got) != 2 || got[0].Old != zero || got[1].New != zero {
		t.Errorf("branch made and deleted: %+v", got)
	}
	s.RemoveKey("gitops", "operator")
	if err := r.Push(&git.PushOptions{Auth: writer.auth, RefSpecs: []config.RefSpec{"refs/heads/main:refs/heads/late"}}); err == nil {
		t.Error("a key that was taken back could push")
	}
}

// TestRace has two writers that start from the same commit: one must lose.
func TestRace(t *testing.T) {
	s := start(t)
	c := newClient(t, s)
	if err := s.AddKey("gitops", c.line(), "operator", true); err != nil {
		t.Fatal(err)
	}
	const writers = 4
	type clone struct {
		r   *git.Repository
		dir string
	}
	var clones []clone
	for i := range writers {
		r, dir := c.clone(t, s, "gitops")
		commit(t, r, dir, fmt.Sprintf("file-%d", i), "x")
		clones = append(clones, clone{r, dir})
	}
	errs := make([]error, writers)
	var wg sync.WaitGroup
	for i, cl := range clones {
		wg.Go(func() { errs[i] = cl.r.Push(&git.PushOptions{Auth: c.auth}) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		}
	}
	if won != 1 || len(s.Pushes(0)) != 1 {
		t.Errorf("%d of %d won, %d in the log: %v", won, writers, len(s.Pushes(0)), errs)
	}
}

func TestNames(t *testing.T) {
	s := start(t)
	for _, name := range []string{"", "../x", "/x", "a/../b", "a b", "-x", ".x", "x.git", "a//b"} {
		var fe *fault.Error
		if err := s.Create(name, nil); !errors.As(err, &fe) || fe.Kind != fault.Invalid {
			t.Errorf("create %q: %v", name, err)
		}
	}
	var fe *fault.Error
	if err := s.Create("gitops", nil); !errors.As(err, &fe) || fe.Kind != fault.Exists {
		t.Errorf("create again: %v", err)
	}
	if err := s.AddKey("none", "ssh-ed25519 AAAA", "x", true); err == nil {
		t.Error("a key for a repository that isn't there")
	}
	for _, file := range []string{"/etc/x", "../x", "a/../x"} {
		if err := s.Commit("gitops", "m", map[string]string{file: "x"}); err == nil {
			t.Errorf("a commit with %q", file)
		}
	}
	if _, err := s.Resolve("gitops", "--help"); err == nil {
		t.Error("an option as a revision")
	}
}

// TestCommands speaks to the server as only an attacker would.
func TestCommands(t *testing.T) {
	s := start(t)
	c := newClient(t, s)
	if err := s.AddKey("gitops", c.line(), "operator", true); err != nil {
		t.Fatal(err)
	}
	conn, err := ssh.Dial("tcp", s.Addr(), &ssh.ClientConfig{User: "git", Auth: []ssh.AuthMethod{ssh.PublicKeys(c.signer)}, HostKeyCallback: ssh.FixedHostKey(s.HostKey()), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, command := range []string{"sh -c id", "git-upload-pack '../../etc'", "git-upload-pack 'none.git'", "git-upload-pack --help", "git-upload-archive 'gitops.git'", "git-upload-pack 'gitops.git'; id"} {
		session, err := conn.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		out, err := session.CombinedOutput(command)
		if err == nil || !strings.HasPrefix(string(out), "ERROR: ") {
			t.Errorf("%s: %q, %v", command, out, err)
		}
		session.Close()
	}
	if _, err := conn.Dial("tcp", "127.0.0.1:1"); err == nil {
		t.Error("the server forwards")
	}
}

// TestGitBinary clones and pushes with git itself. Its ssh is a stand-in that
// this test binary plays, so that no ssh client need be installed.
func TestGitBinary(t *testing.T) {
	s := start(t)
	c := newClient(t, s)
	if err := s.AddKey("gitops", c.line(), "operator", true); err != nil {
		t.Fatal(err)
	}
	proxy := relay(t, s, c)
	dir := t.TempDir()
	gitRun := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_SSH_COMMAND="+os.Args[0], "GIT_SSH_VARIANT=simple", "LAB_SSH_RELAY="+proxy, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
			"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@lab.invalid", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@lab.invalid")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	host := "ssh://git@127.0.0.1/gitops.git"
	gitRun("clone", "-q", host, "work")
	if err := os.WriteFile(filepath.Join(dir, "work", "new"), []byte("by git\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	gitRun("-C", "work", "add", "new")
	gitRun("-C", "work", "commit", "-q", "-m", "Add new")
	gitRun("-C", "work", "push", "-q", "origin", "HEAD:main")
	if got, err := s.ReadFile("gitops", "main", "new"); err != nil || got != "by git\n" {
		t.Errorf("pushed by git: %q, %v", got, err)
	}
	if got := gitRun("ls-remote", host, "refs/heads/main"); !strings.HasPrefix(got, s.Pushes(0)[0].New) {
		t.Errorf("ls-remote: %s", got)
	}
	services := map[string]int{}
	for _, a := range s.Accesses(0) {
		services[a.Service]++
	}
	if services["git-upload-pack"] < 2 || services["git-receive-pack"] != 1 {
		t.Errorf("accesses: %v", services)
	}
}

// relay gives the stand-in a session of the client's: it listens on loopback,
// reads one line, the command, and joins the rest to the command's streams.
func relay(t *testing.T, s *gitserver.Server, c *client) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ssh.Dial("tcp", s.Addr(), &ssh.ClientConfig{User: "git", Auth: []ssh.AuthMethod{ssh.PublicKeys(c.signer)}, HostKeyCallback: ssh.FixedHostKey(s.HostKey()), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { relayOne(conn, in) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		conn.Close()
		wg.Wait()
	})
	return l.Addr().String()
}
