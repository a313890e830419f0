package git_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/client/git/gittest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

func TestPlan(t *testing.T) {
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Plan)
	startest.Run(t, "testdata/plan.star", opts)
	planned := opts.Door.Planned()
	if len(planned) != 2 {
		t.Fatalf("%d changes are planned, want 2", len(planned))
	}
	var fields []string
	for _, f := range planned[0].Change.Fields {
		fields = append(fields, fmt.Sprintf("%s: %v -> %v", f.Path, f.Old, f.New))
	}
	want := "README.md: hello\n -> hello, plan\n;address: <nil> -> (known after apply);spokes/us/cluster.yaml: a: 2\n -> <nil>"
	if got := strings.Join(fields, ";"); got != want {
		t.Errorf("the plan shows\n%s\nwant\n%s", got, want)
	}
	if c := planned[0].Change; c.Kind != effect.Update || c.Note != "commit: Plan something" {
		t.Errorf("kind %s, note %q", c.Kind, c.Note)
	}
	if f := planned[1].Change.Fields; len(f) != 1 || f[0].Old != "hello, plan\n" || f[0].New != "more\n" {
		t.Errorf("the second push shows %v", f)
	}
	if s.Pushes() != 0 {
		t.Errorf("the server's log has a push: %v", s.Commands())
	}
}

func TestPlanBeforeItCanBeReached(t *testing.T) {
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Plan)
	startest.Run(t, "testdata/later.star", opts)
	if c := opts.Door.Counts(); c.Later != 3 {
		t.Errorf("the plan has %+v, want 3 for later", c)
	}
	if n := len(s.Commands()); n != 0 {
		t.Errorf("the server was asked: %v", s.Commands())
	}
}

// script runs Starlark statements as a step would.
func script(t *testing.T, opts startest.Options, src string) error {
	t.Helper()
	var body strings.Builder
	for line := range strings.Lines(src) {
		body.WriteString("    " + line)
	}
	names := startest.Predeclared(opts)
	f, err := dialect.Compile("script.star", []byte("def step():\n    pass\n"+body.String()), names.Has)
	if err != nil {
		t.Fatal(err)
	}
	globals, err := f.Init(new(starlark.Thread), names)
	if err != nil {
		t.Fatal(err)
	}
	_, err = startest.Call(t, globals["step"].(starlark.Callable), opts)
	return err
}

const openRepo = "repo = git.repo(url, key = write_key, host_key = host_key)\n"

// A push that loses the race is made again on top of the winner's commit.
func TestLostRace(t *testing.T) {
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Apply)
	var once sync.Once
	s.Hook(func(service string) {
		if service == "git-receive-pack" {
			once.Do(func() { s.Commit("gitops", "main", map[string]string{"theirs": "1\n"}) })
		}
	})
	if err := script(t, opts, openRepo+`repo.write("ours", "1\n")`+"\n"+`repo.commit("Ours")`+"\n"+`st = repo.push()
assert.eq(st.commit, repo.resolve("main"))`+"\n"); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if got := s.Git("gitops", "log", "--format=%s", "main"); got != "Ours\nOther's change\nOther's change" {
		t.Errorf("the log is\n%s", got)
	}
	if got := s.Git("gitops", "ls-tree", "-r", "--name-only", "main"); !strings.Contains(got, "ours\n") || !strings.Contains(got, "theirs") {
		t.Errorf("the files are\n%s", got)
	}
	s.Git("gitops", "fsck", "--strict")
	if s.Pushes() != 2 {
		t.Errorf("%d pushes, want 2", s.Pushes())
	}
}

// A race that is lost every time ends as a conflict; nothing is forced.
func TestAlwaysLosing(t *testing.T) {
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Apply)
	var n atomic.Int32
	s.Hook(func(service string) {
		if service == "git-receive-pack" {
			s.Commit("gitops", "main", map[string]string{"theirs": fmt.Sprintln(n.Add(1))})
		}
	})
	err := script(t, opts, openRepo+"repo.write('ours', '1\\n')\nrepo.commit('Ours')\nrepo.push()\n")
	if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "somebody else pushed first") {
		t.Errorf("got %s %v", fault.KindOf(err), err)
	}
	if n.Load() != 4 || strings.Contains(s.Git("gitops", "log", "--format=%s", "main"), "Ours") {
		t.Errorf("after %d tries the log is\n%s", n.Load(), s.Git("gitops", "log", "--format=%s", "main"))
	}
}

// What was made from a file that somebody else changed since isn't pushed.
func TestReadModifyWriteRace(t *testing.T) {
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Apply)
	opts.Globals["interfere"] = starlark.NewBuiltin("interfere", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		s.Commit("gitops", "main", map[string]string{"spokes/eu/values.yaml": "b: 7\n"})
		return starlark.None, nil
	})
	err := script(t, opts, openRepo+`text = repo.read("spokes/eu/values.yaml")
interfere()
repo.write("spokes/eu/values.yaml", text.replace("1", "2"))
repo.commit("Scale")
repo.push()
`)
	if fault.KindOf(err) != fault.Drift || !strings.Contains(err.Error(), "spokes/eu/values.yaml was changed") {
		t.Errorf("got %v", err)
	}
	if got := s.Git("gitops", "show", "main:spokes/eu/values.yaml"); got != "b: 7" {
		t.Errorf("their change is lost: %s", got)
	}
}

// Many operators at once lose no commit.
func TestManyPushers(t *testing.T) {
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Apply)
	opts.Door.Retry = effect.Retry{Tries: 100, Base: time.Millisecond, Max: 20 * time.Millisecond}
	const pushers = 6
	errs := make(chan error)
	for i := range pushers {
		go func() {
			errs <- script(t, opts, openRepo+fmt.Sprintf("repo.write('f%d', '%d\\n')\nrepo.commit('Change %d')\nrepo.push()\n", i, i, i))
		}()
	}
	for range pushers {
		if err := <-errs; err != nil {
			t.Error(startest.Explain(err))
		}
	}
	log := s.Git("gitops", "log", "--format=%s", "main")
	for i := range pushers {
		if n := strings.Count(log, fmt.Sprintf("Change %d", i)); n != 1 {
			t.Errorf("change %d is there %d times", i, n)
		}
	}
	if merges := s.Git("gitops", "rev-list", "--merges", "main"); merges != "" {
		t.Errorf("there are merges: %s", merges)
	}
}

// A push whose answer is lost is found, not made again.
func TestLostAnswer(t *testing.T) {
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Apply)
	dialer := &breaking{}
	m := module(t)
	opts.Modules = []*builtin.Module{m}
	opts.Globals["way"] = handleOf(t, dialer)
	s.Hook(func(service string) {
		if service == "git-receive-pack" {
			dialer.armed.Store(true)
		}
	})
	if err := script(t, opts, `repo = git.repo(url, key = write_key, host_key = host_key, via = way)
repo.write("once", "1\n")
repo.commit("Once")
repo.push()
`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if log := s.Git("gitops", "log", "--format=%s", "main"); strings.Count(log, "Once") != 1 {
		t.Errorf("the log is\n%s", log)
	}
	if !dialer.broke.Load() {
		t.Error("no connection broke")
	}
}

// A branch that the server protects is Denied, with what its hook said.
func TestHookDeclines(t *testing.T) {
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Apply)
	s.WriteHook("gitops", "pre-receive", "#!/bin/sh\necho 'main is protected: open a pull request' >&2\nexit 1\n")
	err := script(t, opts, openRepo+"repo.write('x', '1')\nrepo.commit('Try')\nrepo.push()\n")
	if fault.KindOf(err) != fault.Denied || !strings.Contains(err.Error(), "open a pull request") {
		t.Errorf("got %s %v", fault.KindOf(err), err)
	}
	if s.Pushes() != 1 {
		t.Errorf("%d pushes, want 1", s.Pushes())
	}
}

func TestHTTPS(t *testing.T) {
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Apply)
	base, ca := s.HTTP(plainToken)
	opts.Globals["base"], opts.Globals["ca"] = starlark.String(base), starlark.String(ca)
	if err := script(t, opts, `
repo = git.repo(base + "/gitops.git", token = token, ca = ca)
assert.eq(repo.read("README.md"), "hello\n")
repo.write("https", "1\n")
repo.commit("By HTTPS")
st = repo.push()
assert.eq(git.repo(base + "/gitops.git", token = token, ca = ca).read("https"), "1\n")
assert.eq(repo.resolve(st.commit[:8]), st.commit)
assert.eq(git.repo(base + "/empty.git", token = token, ca = ca).list(), [])
assert.fails(lambda: git.repo(base + "/gitops.git", ca = ca).read("x"), "401", kind = "denied")
assert.fails(lambda: git.repo(base + "/missing.git", token = token, ca = ca).read("x"), "404", kind = "not_found")
assert.fails(lambda: git.repo(base + "/gitops.git", token = token).read("x"), "certificate", kind = "untrusted")
assert.fails(lambda: git.repo("https://127.0.0.1:1/x.git", token = token).read("x"), "refused", kind = "unreachable")
`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if got := s.Git("gitops", "log", "-1", "--format=%s %an %ae", "main"); got != "By HTTPS gsrun gsrun@localhost" {
		t.Errorf("the commit is %q", got)
	}
}

// A server that hangs ends with the context, promptly.
func TestCancel(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Apply)
	opts.Timeout = 200 * time.Millisecond
	opts.Globals["silent"] = starlark.String("ssh://git@" + l.Addr().String() + "/x.git")
	start := time.Now()
	err = script(t, opts, "git.repo(silent, key = write_key, host_key = host_key).read('x')\n")
	if fault.KindOf(err) != fault.Timeout {
		t.Errorf("got %v", err)
	}
	hang := make(chan struct{})
	s.Hook(func(string) { <-hang })
	defer close(hang)
	if err := script(t, opts, openRepo+"repo.read('x')\n"); fault.KindOf(err) != fault.Timeout {
		t.Errorf("got %v", err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("it took %s", d)
	}
}

// A connection that broke while it was idle is made again; one connection
// serves several conversations.
func TestConnectionReuse(t *testing.T) {
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Apply)
	opts.Globals["disconnect"] = starlark.NewBuiltin("disconnect", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		s.CloseConnections()
		return starlark.None, nil
	})
	if err := script(t, opts, openRepo+`repo.read("README.md")
repo.resolve("main")
disconnect()
repo.resolve("main")
`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if n := s.Connections(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
}

// What a commit doesn't name stays as it is: modes, links, submodules.
func TestKeepsTheRest(t *testing.T) {
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Apply)
	s.CommitSpecial("gitops")
	before := s.Git("gitops", "ls-tree", "-r", "main")
	if err := script(t, opts, openRepo+`
assert.true("module" not in repo.list())
repo.write("bin/tool", "#!/bin/sh\nexit 2\n")
repo.write("a-new-file", "1\n")
repo.commit("Change a program\n\nAnd say why.")
repo.push()
`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	after := s.Git("gitops", "ls-tree", "-r", "main")
	if !strings.Contains(after, "100755 blob") || !strings.Contains(after, "120000 blob") || !strings.Contains(after, "160000 commit") {
		t.Errorf("the tree is\n%s", after)
	}
	if strings.Count(after, "\n") != strings.Count(before, "\n")+1 {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if got := s.Git("gitops", "log", "-1", "--format=%B", "main"); got != "Change a program\n\nAnd say why." {
		t.Errorf("the message is %q", got)
	}
	s.Git("gitops", "fsck", "--strict")
}

func TestResolve(t *testing.T) {
	s := gittest.NewServer(t)
	opts := options(t, s, effect.Apply)
	first := s.Git("gitops", "rev-parse", "main")
	s.Git("gitops", "tag", "-a", "-m", "one", "v1", first)
	second := s.Commit("gitops", "main", map[string]string{"x": "2\n"})
	other := s.Commit("gitops", "feature/x", map[string]string{"y": "1\n"})
	for name, sha := range map[string]string{"first": first, "second": second, "other": other} {
		opts.Globals[name] = starlark.String(sha)
	}
	if err := script(t, opts, openRepo+`
assert.eq(repo.resolve("main"), second)
assert.eq(repo.resolve("refs/heads/main"), second)
assert.eq(repo.resolve("v1"), first)
assert.eq(repo.resolve("refs/tags/v1"), first)
assert.eq(repo.resolve("feature/x"), other)
assert.eq(repo.resolve(first), first)
assert.eq(repo.resolve(first[:7]), first)
assert.fails(lambda: repo.resolve(other), "doesn't contain commit", kind = "not_found")
assert.fails(lambda: repo.resolve("v2"), "no branch or tag", kind = "not_found")
assert.fails(lambda: repo.resolve(""), "empty", kind = "invalid")
`); err != nil {
		t.Fatal(startest.Explain(err))
	}
}
