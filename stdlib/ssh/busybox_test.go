package ssh_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// A host with busybox and nothing else will do.
func TestOnBusybox(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	skip.Unless(t, err == nil, "the module on a host with busybox", "it isn't installed")
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name := range strings.FieldsSeq(string(applets)) {
		if name == "busybox" {
			continue
		}
		if err := os.Symlink(busybox, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"host", "run", "file"} {
		s := newSite(t, sshtest.Options{Path: bin})
		startest.Run(t, "testdata/"+name+".star", s.options(nil))
		if strings.Contains(name, "file") && !strings.Contains(s.server.Input(), "sha256sum") {
			t.Error("nothing was sent")
		}
	}
}

// What holds for the servers in this process holds for OpenSSH's.
func TestOnOpenSSH(t *testing.T) {
	d := sshtest.NewDaemon(t)
	s := newSite(t, sshtest.Options{})
	s.server.Address, s.server.Port, s.server.HostKey, s.key = d.Address, d.Port, d.HostKey, d.Key
	skip.Unless(t, d.User == "root", "the module on OpenSSH", "its tests log in as root")
	for _, name := range []string{"host", "run", "file"} {
		s.root = t.TempDir()
		startest.Run(t, "testdata/"+name+".star", s.options(nil))
	}
}
