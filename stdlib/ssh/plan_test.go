package ssh_test

import (
	"os"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

func TestPlan(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	startest.Run(t, "testdata/plan.star", s.options(startest.NewDoor(effect.Plan)))
	left, err := os.ReadDir(s.root)
	if err != nil || len(left) > 0 {
		t.Errorf("the plan left %v, %v", left, err)
	}
	if strings.Contains(s.server.Input(), "gsrun-XXXXXX") {
		t.Error("the plan sent a script that writes")
	}
}

// A plan says what it can, without dialling, of a host that isn't there yet.
func TestPlanDialsNoHostToCome(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	door := startest.NewDoor(effect.Plan)
	opts := s.options(door)
	src := t.TempDir() + "/host.star"
	text := `def test_it():
    h = ssh.host(address, user = "root", key = unknown, host_key = host_key, port = port, name = "gw")
    conf = h.file.ensure("/etc/a", content = "new\n")
    h.run(["make", "it so"])
    h.run(["make"], unless = "true")
    h.service.ensure("a", reload_on = [conf])
`
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startest.Run(t, src, opts)
	if s.server.Logins() != 0 {
		t.Error("it dialled")
	}
	var got []string
	for _, p := range door.Planned() {
		got = append(got, string(p.Change.Kind)+" "+p.Target.String()+" "+p.Change.Note)
	}
	const after = "what the plan installs or runs there before may change it"
	want := []string{"later ssh/gw/file/etc/a the host isn't known yet", "run ssh/gw/run/make 'it so' at least once",
		"later ssh/gw/run/make " + after, "later ssh/gw/service/a " + after}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("planned\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What a package or a command may change besides isn't claimed to be known.
func TestPlanAfterPackages(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	if err := os.WriteFile(s.root+"/conf", []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	door := startest.NewDoor(effect.Plan)
	src := t.TempDir() + "/host.star"
	text := `def test_it():
    h = ssh.host(address, user = "root", key = key, host_key = host_key, port = port, name = "gw")
    h.file.ensure(root + "/before", content = "new\n")
    h.run(["make", "it so"])
    h.file.ensure(root + "/conf", content = "new\n")
    h.file.ensure(root + "/conf", content = "new\n")
`
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startest.Run(t, src, s.options(door))
	var got []string
	for _, p := range door.Planned() {
		got = append(got, string(p.Change.Kind)+" "+strings.ReplaceAll(p.Target.String(), s.root, "")+" "+p.Change.Note)
	}
	want := "create ssh/gw/file/before \nrun ssh/gw/run/make 'it so' at least once\n" +
		"later ssh/gw/file/conf what the plan installs or runs there before may change it"
	if strings.Join(got, "\n") != want {
		t.Errorf("planned\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestPlanShowsTexts(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	if err := os.WriteFile(s.root+"/conf", []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	door := startest.NewDoor(effect.Plan)
	src := t.TempDir() + "/text.star"
	text := `def test_it():
    h = ssh.host(address, user = "root", key = key, host_key = host_key, port = port)
    h.file.ensure(root + "/conf", content = "new\n", mode = "0644")
    h.file.ensure(root + "/conf", content = hidden, mode = "0600")
    h.line.ensure(root + "/conf", hidden)
    h.file.ensure(root + "/fresh", content = hidden)
`
	if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	startest.Run(t, src, s.options(door))
	p := door.Planned()
	if len(p) != 4 {
		t.Fatalf("%d changes planned, want 4", len(p))
	}
	if f := p[0].Change.Fields; len(f) != 2 || f[0] != (effect.Field{Path: "content", Old: "old\n", New: "new\n"}) || f[1] != (effect.Field{Path: "mode", Old: "0600", New: "0644"}) {
		t.Errorf("the first is %v", f)
	}
	for _, c := range p[1:3] {
		f := c.Change.Fields
		if _, secret := f[0].New.(*effect.Secret); len(f) != 1 || f[0].Old != effect.Mask || !secret && f[0].New != effect.Mask {
			t.Errorf("a secret shows in %v", f)
		}
	}
	if _, secret := p[3].Change.After["sha256"].(*effect.Secret); !secret {
		t.Errorf("the digest of a secret shows in %v", p[3].Change.After)
	}
}
