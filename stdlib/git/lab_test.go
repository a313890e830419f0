package git_test

import (
	"os/exec"
	"strings"
	"testing"

	"go.starlark.net/starlark"
	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/client/git/gittest"
	"git.vanillacore.net/govstack/gsrun/internal/lab/gitserver"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// The lab's Git server is one more server that the module must get on with.
func TestLabServer(t *testing.T) {
	skip.Slow(t, "it starts the git program")
	_, err := exec.LookPath("git")
	skip.Unless(t, err == nil, "the lab's Git server", "there is no git program to serve with")
	s, err := gitserver.New(t.TempDir(), gitserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Create("gitops", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Create("site", map[string]string{"README.md": "hello\n"}); err != nil {
		t.Fatal(err)
	}
	opts := startest.Options{Door: startest.NewDoor(effect.Apply), Modules: []*builtin.Module{module(t)}, Globals: starlark.StringDict{
		"gitops": starlark.String(s.URL("gitops")), "site": starlark.String(s.URL("site")), "missing": starlark.String(s.URL("missing")),
		"host_key": starlark.String(ssh.MarshalAuthorizedKey(s.HostKey()))}}
	for name, write := range map[string]bool{"writer": true, "reader": false} {
		key := gittest.NewKey(t)
		signer, err := ssh.ParsePrivateKey([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		for _, repo := range []string{"gitops", "site"} {
			if err := s.AddKey(repo, string(ssh.MarshalAuthorizedKey(signer.PublicKey())), name, write); err != nil {
				t.Fatal(err)
			}
		}
		opts.Globals[name] = effect.SecretOf(key, "")
	}
	opts.Globals["stranger"] = effect.SecretOf(gittest.NewKey(t), "")
	if err := script(t, opts, `
repo = git.repo(gitops, key = writer, host_key = host_key)
assert.eq(repo.list(), [])
for name in ["one", "two"]:
    repo.write("spokes/" + name + "/cluster.yaml", name + "\n")
    repo.commit("Add " + name)
st = repo.push()
again = git.repo(gitops, key = writer, host_key = host_key)
again.write("spokes/one/cluster.yaml", "one\n")
again.commit("Add one")
assert.eq(again.push().commit, st.commit)
assert.eq(again.resolve("main"), st.commit)
assert.eq(again.resolve(st.commit[:12]), st.commit)
read = git.repo(site, key = reader, host_key = host_key)
assert.eq(read.read("README.md"), "hello\n")
read.write("x", "1\n")
read.commit("Try")
assert.fails(read.push, "", kind = "denied")
assert.fails(lambda: git.repo(gitops, key = stranger, host_key = host_key).read("x"), "", kind = "denied")
assert.fails(lambda: git.repo(missing, key = writer, host_key = host_key).read("x"), "", kind = "not_found")
`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	pushes := s.Pushes(0)
	if len(pushes) != 1 || pushes[0].Repo != "gitops" || pushes[0].Who != "writer" || pushes[0].Ref != "refs/heads/main" || strings.Trim(pushes[0].Old, "0") != "" {
		t.Errorf("the server's log has %+v", pushes)
	}
	files, err := s.Files("gitops", "main")
	if err != nil || strings.Join(files, " ") != "spokes/one/cluster.yaml spokes/two/cluster.yaml" {
		t.Errorf("the files are %v (%v)", files, err)
	}
}
