package ssh_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/ssh"
)

// once runs lines that see the host h, which is trusted at first use, as a run
// of its own.
func (s *site) once(t *testing.T, mode effect.Mode, state, lines string) {
	t.Helper()
	m := ssh.Module(ssh.Config{HostKeys: journal.NewValues(state)})
	defer m.Recv.(*ssh.Pool).Close()
	s.module = m
	src := t.TempDir() + "/step.star"
	text := "def test_it():\n    h = ssh.host(address, user = \"root\", key = key, trust_first_use = True, port = port, name = \"gw\")\n    " + lines + "\n"
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startest.Run(t, src, s.options(startest.NewDoor(mode)))
}

func TestTrustOnFirstUse(t *testing.T) {
	first, second := sshtest.NewKey(t, sshtest.Ed25519, ""), sshtest.NewKey(t, sshtest.Ed25519, "")
	s := newSite(t, sshtest.Options{HostKeys: []sshtest.Key{sshtest.NewKey(t, sshtest.ECDSA, ""), first}})
	state := t.TempDir()
	look := `assert.eq(h.run(["true"], readonly = True).exit_code, 0)`
	kept := func() (file, key string) {
		files, err := filepath.Glob(filepath.Join(state, "ssh", "*"))
		if err != nil || len(files) > 1 {
			t.Fatal(files, err)
		}
		if len(files) == 0 {
			return "", ""
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		return files[0], string(text)
	}

	s.once(t, effect.Plan, state, look)
	if file, _ := kept(); file != "" {
		t.Fatalf("a plan kept %s", file)
	}
	s.once(t, effect.Apply, state, look)
	file, key := kept()
	if key != first.Public {
		t.Fatalf("it kept %q, the host has %q", key, first.Public)
	}
	s.once(t, effect.Apply, state, look)

	// Somebody else answers: with another key, and with one of another type.
	if err := os.WriteFile(file, []byte(second.Public), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []effect.Mode{effect.Plan, effect.Apply} {
		s.once(t, mode, state, fails(`h.run(["true"], readonly = True)`, "the host key doesn't match", fault.Untrusted))
	}
	if _, key := kept(); key != second.Public {
		t.Errorf("it kept %q in place of another", key)
	}
	if err := os.WriteFile(file, []byte(sshtest.NewKey(t, sshtest.RSA, "").Public), 0o600); err != nil {
		t.Fatal(err)
	}
	s.once(t, effect.Apply, state, fails(`h.run(["true"], readonly = True)`, "the host has no key of the known types", fault.Untrusted))
	if err := os.WriteFile(file, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.once(t, effect.Apply, state, fails(`h.run(["true"], readonly = True)`, "the kept key of gw (", fault.Invalid))

	// As the hint says, it is forgotten with the file.
	if !strings.HasPrefix(filepath.Base(file), s.server.Address+":") {
		t.Errorf("the key is in %s", file)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s.once(t, effect.Apply, state, look)
}

// The same address is another host behind another, and a plan and a run share
// connections no more than what is kept.
func TestTrustOnFirstUseOfEachWay(t *testing.T) {
	first := sshtest.NewKey(t, sshtest.Ed25519, "")
	a := newSite(t, sshtest.Options{HostKeys: []sshtest.Key{first}})
	state := t.TempDir()
	m := ssh.Module(ssh.Config{HostKeys: journal.NewValues(state)})
	defer m.Recv.(*ssh.Pool).Close()
	a.module = m
	src := filepath.Join(t.TempDir(), "step.star")
	text := `def test_it():
    h = ssh.host(address, user = "root", key = key, trust_first_use = True, port = port)
    behind = ssh.host(address, user = "root", key = key, trust_first_use = True, port = port, jump = h)
    assert.eq(behind.run(["true"], readonly = True).exit_code, 0)
    t = h.tunnel(address, port)
    same = ssh.host(t.host, user = "root", key = key, trust_first_use = True, port = t.port)
    assert.eq(same.run(["true"], readonly = True).exit_code, 0)
`
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []effect.Mode{effect.Plan, effect.Apply} {
		startest.Run(t, src, a.options(startest.NewDoor(mode)))
	}
	files, err := filepath.Glob(filepath.Join(state, "ssh", "*"))
	if err != nil || len(files) != 2 || !strings.Contains(strings.Join(files, " "), "@127.0.0.1:") {
		t.Errorf("kept are %v, %v: one of each way is right", files, err)
	}
}
