package ssh_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/ssh"
)

// site is a test's world: a host, and what a recipe needs to reach it.
type site struct {
	server *sshtest.Server
	key    sshtest.Key
	module *builtin.Module
	root   string // a folder on the host that tests may use
}

func newSite(t *testing.T, opts sshtest.Options) *site {
	t.Helper()
	key := sshtest.NewKey(t, sshtest.Ed25519, "")
	opts.Authorized = append(opts.Authorized, key)
	s := &site{server: sshtest.NewServer(t, opts), key: key, root: t.TempDir(), module: ssh.Module(ssh.Config{Grace: 300 * time.Millisecond})}
	t.Cleanup(func() {
		if err := s.module.Recv.(*ssh.Pool).Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// options returns what the recipes of a test see: address, port, key, host_key, root.
func (s *site) options(door *effect.Door) startest.Options {
	return startest.Options{
		Modules: []*builtin.Module{s.module}, Door: door,
		Files: func(name string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata", name)) },
		Globals: starlark.StringDict{
			"address": starlark.String(s.server.Address), "port": starlark.MakeInt(s.server.Port), "host_key": starlark.String(s.server.HostKey),
			"key": effect.SecretOf(s.key.Private, "test:key"), "root": starlark.String(s.root), "unknown": effect.Unknown{Of: "something"},
			"hidden": effect.SecretOf("correct horse battery", "test:hidden"),
		},
	}
}

func TestOnHost(t *testing.T) {
	for _, name := range []string{"run", "file"} {
		s := newSite(t, sshtest.Options{})
		startest.Run(t, "testdata/"+name+".star", s.options(nil))
	}
}
