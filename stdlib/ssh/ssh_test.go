package ssh_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
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
	other  sshtest.Key // of nobody
	module *builtin.Module
	root   string           // a folder on the host that tests may use
	fetch  effect.LocalFile // a file as artifact.fetch leaves it
}

func newSite(t *testing.T, opts sshtest.Options) *site {
	t.Helper()
	key := sshtest.NewKey(t, sshtest.Ed25519, "")
	opts.Authorized = append(opts.Authorized, key)
	s := &site{server: sshtest.NewServer(t, opts), key: key, other: sshtest.NewKey(t, sshtest.Ed25519, ""), root: t.TempDir(),
		module: ssh.Module(ssh.Config{Grace: 300 * time.Millisecond})}
	t.Cleanup(func() {
		if err := s.module.Recv.(*ssh.Pool).Close(); err != nil {
			t.Error(err)
		}
	})
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * i >> 3)
	}
	sum := sha256.Sum256(data)
	s.fetch = effect.LocalFile{Path: filepath.Join(t.TempDir(), "artifact"), SHA256: hex.EncodeToString(sum[:])}
	if err := os.WriteFile(s.fetch.Path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// options returns what the recipes of a test see.
func (s *site) options(door *effect.Door) startest.Options {
	if door == nil {
		door = startest.NewDoor(effect.Apply)
	}
	return startest.Options{
		Modules: []*builtin.Module{s.module}, Door: door,
		Files: func(name string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata", name)) },
		Globals: starlark.StringDict{
			"address": starlark.String(s.server.Address), "port": starlark.MakeInt(s.server.Port), "host_key": starlark.String(s.server.HostKey),
			"key": effect.SecretOf(s.key.Private, "test:key"), "root": starlark.String(s.root), "unknown": effect.Unknown{Of: "something"},
			"hidden":        effect.SecretOf("correct horse battery", "test:hidden"),
			"other_key":     starlark.String(s.other.Public),
			"other_private": starlark.String(s.other.Private),
			"fetched":       effect.NewObject("artifact.file", map[string]any{"path": s.fetch.Path, "sha256": s.fetch.SHA256}),
			"changed":       function("changed", func(string) starlark.Value { return starlark.MakeInt(door.Counts().Changed()) }),
		},
	}
}

func function(name string, f func(arg string) starlark.Value) starlark.Value {
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		arg := ""
		if len(args) == 1 {
			arg, _ = starlark.AsString(args[0])
		}
		return f(arg), nil
	})
}

func TestOnHost(t *testing.T) {
	for _, name := range []string{"host", "run", "file"} {
		s := newSite(t, sshtest.Options{})
		startest.Run(t, "testdata/"+name+".star", s.options(nil))
	}
}

// Every text of the module is there, and the zero Config suffices for them.
func TestTexts(t *testing.T) {
	m := ssh.Module(ssh.Config{})
	for _, text := range []string{m.Markdown(), m.Stub()} {
		for _, part := range []string{"wireguard", "reload_on", "cloud_init"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s is missing", part)
			}
		}
	}
	if err := m.Recv.(*ssh.Pool).Close(); err != nil {
		t.Error(err)
	}
}

// A secret is neither in a command line nor in an argument of a process, and
// neither in events nor in errors.
func TestSecretsStayHidden(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	door := startest.NewDoor(effect.Apply)
	secret := "correct horse battery"
	door.Redactor.Add(secret)
	var seen strings.Builder
	door.Emit = func(e effect.Event) {
		seen.WriteString(e.Message + e.Target)
		if e.Err != nil {
			seen.WriteString(e.Err.Error())
		}
	}
	src := t.TempDir() + "/secrets.star"
	text := `def test_it():
    h = ssh.host(address, user = "root", key = key, host_key = host_key, port = port)
    h.file.ensure(root + "/secret", content = "token: " + hidden, mode = "0600")
    h.line.ensure(root + "/secret", hidden)
    h.run(sh = 'cat /proc/[0-9]*/cmdline | tr "\\0" " " >>%s/ps; test -n "$T"' % root, env = {"T": hidden}, stdin = hidden)

def test_error():
    h = ssh.host(address, user = "root", key = key, host_key = host_key, port = port)
    assert.fails(lambda: h.run(sh = 'echo "$T" >&2; exit 1', env = {"T": hidden}), "exit status 1")
`
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startest.Run(t, src, s.options(door))
	ps, err := os.ReadFile(s.root + "/ps")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"the process list": string(ps), "the command lines": strings.Join(s.server.Commands(), "\n"), "the events": seen.String()} {
		if strings.Contains(text, "horse") {
			t.Errorf("the secret is in %s", name)
		}
	}
	// cat sees itself; what else there is by then is chance.
	if !strings.Contains(string(ps), "/cmdline") || !strings.Contains(seen.String(), "***") {
		t.Error("the test has seen nothing")
	}
	if got, err := os.ReadFile(s.root + "/secret"); err != nil || string(got) != "token: "+secret+"\n"+secret+"\n" {
		t.Errorf("the file has %q, %v", got, err)
	}
}
