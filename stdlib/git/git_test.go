package git_test

import (
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/client/git/gittest"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/git"
)

const plainToken = "tok-5f2a9c77e1d04b"

// options returns what the test files see: a server with a repository that
// has some files, and an empty one.
func options(t *testing.T, s *gittest.Server, mode effect.Mode) startest.Options {
	s.Init("gitops")
	s.Init("empty")
	s.Commit("gitops", "main", map[string]string{"README.md": "hello\n", "spokes/eu/cluster.yaml": "a: 1\n",
		"spokes/eu/values.yaml": "b: 1\n", "spokes/us/cluster.yaml": "a: 2\n"})
	door := startest.NewDoor(mode)
	door.Redactor.Add(plainToken)
	str := func(v string) starlark.Value { return starlark.String(v) }
	other := gittest.NewServer(t)
	return startest.Options{Door: door, Modules: []*builtin.Module{module(t)}, Globals: starlark.StringDict{
		"url": str(s.URL("gitops")), "empty_url": str(s.URL("empty")), "missing_url": str(s.URL("missing")),
		"dead_url": str("ssh://git@127.0.0.1:1/x.git"),
		"host_key": str(s.HostKey), "other_host_key": str(other.HostKey),
		"write_key": effect.SecretOf(s.WriteKey, ""), "read_key": effect.SecretOf(s.ReadKey, ""), "unknown_key": effect.SecretOf(gittest.NewKey(t), ""),
		"token": effect.SecretOf(plainToken, ""), "revealed": str(plainToken), "unknown": effect.Unknown{Of: "an address"},
	}}
}

func module(t *testing.T) *builtin.Module {
	m := git.Module(git.Config{})
	t.Cleanup(func() {
		if err := m.Recv.(*git.Git).Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestRepo(t *testing.T) {
	startest.Run(t, "testdata/repo.star", options(t, gittest.NewServer(t), effect.Apply))
}
