package git_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/git"
	"git.vanillacore.net/govstack/gsrun/internal/client/git/gittest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func TestParseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"ssh://git@git.example.org:2222/a/b.git": "git.example.org:2222/a/b",
		"git@git.example.org:a/b.git":            "git.example.org/a/b",
		"git.example.org:a/b":                    "git.example.org/a/b",
		"git@git.example.org:/a/b.git":           "git.example.org/a/b",
		"https://git.example.org/a/b.git":        "git.example.org/a/b",
		"http://127.0.0.1:3000/a/b":              "127.0.0.1:3000/a/b",
	} {
		u, err := git.ParseURL(raw)
		if err != nil || git.Name(u) != want {
			t.Errorf("%s: got %v (%v), want %s", raw, u, err, want)
		}
	}
	for raw, want := range map[string]string{"git@h:a/b.git": "a/b.git", "git@h:/a/b.git": "/a/b.git", "ssh://h/a/b.git": "/a/b.git"} {
		if u, err := git.ParseURL(raw); err != nil || u.Path != want {
			t.Errorf("%s: got the path %v (%v), want %s", raw, u, err, want)
		}
	}
	for _, bad := range []string{"", "x", "/path/to/repo", "file:///x", "https://", "https://host", "https://host/", "ssh://host/a b", "https://u:hunter2@h/p", "https://h/p?x=1", "git@host:a\nb", "https://h/%zz"} {
		u, err := git.ParseURL(bad)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: got %v, %v", bad, u, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows a password: %v", err)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"ssh://git@h:1/p", "git@h:p", "https://h/p.git", "[::1]:p", "h:", "a@b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := git.ParseURL(s)
		if err != nil {
			return
		}
		if u.Host == "" || git.Name(u) == "" {
			t.Errorf("%q gives %v", s, u)
		}
		if strings.ContainsAny(u.Path, "\n\r\x00") && strings.ContainsAny(s, "\n\r\x00") {
			t.Errorf("%q has control characters", s)
		}
	})
}

func TestCheckPath(t *testing.T) {
	for _, good := range []string{"a", "a/b.c", ".github/x", "a b", ".gitignore", "ä"} {
		if err := git.CheckPath(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "/a", "a/", "a//b", "./a", "a/../b", "..", ".git/config", "a/.GIT/x", "a\\b", "a\x00", "a\nb"} {
		if err := git.CheckPath(bad); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	key, host := gittest.NewKey(t), "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2pS8hqjBSUt4yR6ZCDqJ4O3kqvcIyqVq0JbE0Hnbmr"
	for name, o := range map[string]git.Options{
		"no key":         {HostKeys: host},
		"not a key":      {Key: "x", HostKeys: host},
		"no host key":    {Key: key, HostKeys: "# a comment\n\n"},
		"not a host key": {Key: key, HostKeys: "ssh-ed25519 AAAA"},
		"revoked":        {Key: key, HostKeys: "@revoked h " + host},
	} {
		if _, err := git.NewRemote("ssh://git@h/p", o); fault.KindOf(err) != fault.Invalid || fault.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, lines := range map[string]string{"authorized_keys": host + " comment", "known_hosts": "git.example.org,10.0.0.1 " + host, "several": host + "\n" + host + "\n"} {
		if _, err := git.NewRemote("git@h:p", git.Options{Key: key, HostKeys: lines}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := git.NewRemote("https://h/p", git.Options{CA: "x"}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a bad CA: %v", err)
	}
}

func remote(t *testing.T, s *gittest.Server, name string) *git.Remote {
	t.Helper()
	r, err := git.NewRemote(s.URL(name), git.Options{Key: s.WriteKey, HostKeys: s.HostKey})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func draft(message string, edits map[string]git.Edit) git.Draft {
	return git.Draft{Message: message + "\n", Name: "Ada", Email: "ada@example.org", When: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Edits: edits}
}

func write(s string) git.Edit { return git.Edit{Content: []byte(s)} }

// The objects that are made are byte for byte those of git: git itself checks
// them, and gives the same tree the same name.
func TestCommitsAreGits(t *testing.T) {
	ctx := context.Background()
	s := gittest.NewServer(t)
	s.Init("r")
	o := git.NewObjects()
	r := remote(t, s, "r")
	head, objects, err := o.Commit(git.Hash{}, []git.Draft{
		draft("One", map[string]git.Edit{"a/b/c": write("1\n"), "a.b": write("2\n"), "a0": write("3\n"), "z": write("")}),
		draft("Nothing", map[string]git.Edit{"z": write(""), "gone": {Remove: true}, "no/such/folder": {Remove: true}}),
		draft("Two", map[string]git.Edit{"a/b/c": {Remove: true}, "z": write("4\n"), "z2/y": write("5\n")}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Push(ctx, o, "main", git.Hash{}, head, objects); err != nil {
		t.Fatal(err)
	}
	s.Git("r", "fsck", "--strict", "--full")
	if got := s.Git("r", "log", "--format=%s|%an|%ae|%at", "main"); got != "Two|Ada|ada@example.org|1796040000\nOne|Ada|ada@example.org|1796040000" {
		t.Errorf("the log is\n%s", got)
	}
	if got := s.Git("r", "ls-tree", "-r", "--name-only", "main"); got != "a.b\na0\nz\nz2/y" {
		t.Errorf("the files are\n%s", got)
	}
	if s.Git("r", "rev-parse", "main") != head.String() {
		t.Error("main isn't what was pushed")
	}
	// The same drafts on top change nothing.
	again, objects, err := o.Commit(head, []git.Draft{draft("Two", map[string]git.Edit{"z": write("4\n"), "z2/y": write("5\n")})})
	if err != nil || again != head || len(objects) != 0 {
		t.Errorf("got %s with %d objects (%v)", again, len(objects), err)
	}
	// The last file goes: a commit of the empty tree.
	empty, objects, err := o.Commit(head, []git.Draft{draft("Empty", map[string]git.Edit{"a.b": {Remove: true}, "a0": {Remove: true}, "z": {Remove: true}, "z2/y": {Remove: true}})})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Push(ctx, o, "main", head, empty, objects); err != nil {
		t.Fatal(err)
	}
	s.Git("r", "fsck", "--strict", "--full")
	if got := s.Git("r", "ls-tree", "-r", "main"); got != "" {
		t.Errorf("the files are\n%s", got)
	}
}

// Fetching without history brings one commit; with it, all.
func TestFetchDepth(t *testing.T) {
	ctx := context.Background()
	s := gittest.NewServer(t)
	s.Init("r")
	var shas []string
	for i := range 5 {
		shas = append(shas, s.Commit("r", "main", map[string]string{"f": fmt.Sprintln(i)}))
	}
	r := remote(t, s, "r")
	refs, err := r.Refs(ctx)
	if err != nil || refs.Branches["main"].String() != shas[4] || refs.Default != "main" {
		t.Fatalf("%+v (%v)", refs, err)
	}
	head := refs.Branches["main"]
	count := func(o *git.Objects) (n int, err error) {
		err = o.Ancestors(head, func(git.Hash) bool { n++; return true })
		return n, err
	}
	shallow, full := git.NewObjects(), git.NewObjects()
	if err := r.Fetch(ctx, shallow, head, false); err != nil {
		t.Fatal(err)
	}
	if n, err := count(shallow); n != 2 || err == nil { // the second isn't there
		t.Errorf("without history: %d commits (%v)", n, err)
	}
	if err := r.Fetch(ctx, full, head, true); err != nil {
		t.Fatal(err)
	}
	if n, err := count(full); n != 5 || err != nil {
		t.Errorf("with history: %d commits (%v)", n, err)
	}
	before := len(s.Commands())
	if err := r.Fetch(ctx, full, head, true); err != nil || len(s.Commands()) != before {
		t.Errorf("what is there was fetched again (%v)", err)
	}
}

// A push to a branch that moved is a conflict, whether the server or the
// client finds out.
func TestPushConflicts(t *testing.T) {
	ctx := context.Background()
	s := gittest.NewServer(t)
	s.Init("r")
	s.Commit("r", "main", map[string]string{"f": "1\n"})
	r := remote(t, s, "r")
	refs, err := r.Refs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	base := refs.Branches["main"]
	o := git.NewObjects()
	if err := r.Fetch(ctx, o, base, false); err != nil {
		t.Fatal(err)
	}
	head, objects, err := o.Commit(base, []git.Draft{draft("Ours", map[string]git.Edit{"g": write("1\n")})})
	if err != nil {
		t.Fatal(err)
	}
	// The branch moves between the server's references and the update.
	s.WriteHook("r", "pre-receive", "#!/bin/sh\nunset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES\ngit update-ref refs/heads/main $(git commit-tree -p main -m Theirs main^{tree})\n")
	if err := r.Push(ctx, o, "main", base, head, objects); fault.KindOf(err) != fault.Conflict {
		t.Errorf("the server found out: %s %v", fault.KindOf(err), err)
	}
	if err := r.Push(ctx, o, "main", base, head, objects); fault.KindOf(err) != fault.Conflict {
		t.Errorf("the client found out: %s %v", fault.KindOf(err), err)
	}
	if err := r.Push(ctx, o, "main", git.Hash{}, head, objects); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a branch that is there already: %s %v", fault.KindOf(err), err)
	}
	if got := s.Git("r", "log", "-1", "--format=%s", "main"); got != "Theirs" {
		t.Errorf("main is at %q", got)
	}
}

// A large file goes both ways.
func TestLargeFile(t *testing.T) {
	ctx := context.Background()
	s := gittest.NewServer(t)
	s.Init("r")
	o := git.NewObjects()
	r := remote(t, s, "r")
	big := bytes.Repeat([]byte("0123456789abcdef-"), 500_000)
	for i := range big {
		big[i] ^= byte(i * i >> 7)
	}
	head, objects, err := o.Commit(git.Hash{}, []git.Draft{draft("Big", map[string]git.Edit{"big": {Content: big}})})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Push(ctx, o, "main", git.Hash{}, head, objects); err != nil {
		t.Fatal(err)
	}
	back := git.NewObjects()
	if err := r.Fetch(ctx, back, head, false); err != nil {
		t.Fatal(err)
	}
	files, err := back.Files(head)
	if err != nil {
		t.Fatal(err)
	}
	got, err := back.Read(files["big"].Hash)
	if err != nil || !bytes.Equal(got, big) {
		t.Errorf("got %d bytes back (%v)", len(got), err)
	}
}

func TestCancelled(t *testing.T) {
	s := gittest.NewServer(t)
	s.Init("r")
	r := remote(t, s, "r")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	if _, err := r.Refs(ctx); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("got %s %v", fault.KindOf(err), err)
	}
	if _, err := r.Refs(context.Background()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
