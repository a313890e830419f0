package ssh_test

import (
	"os"
	"path/filepath"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// What apt says when somebody else holds its locks, as a host that boots does.
func TestPackageLocks(t *testing.T) {
	s := newSite(t, sshtest.Options{})
	s.server.Program("sleep", "exit 0")
	s.server.Program("apt-mark", "exit 0")
	s.server.Program("dpkg-query", `[ -e installed ] && echo 'install ok installed 1.0'`)
	s.server.Program("apt-get", `for a; do last=$verb; case $a in install | update) verb=$a ;; esac; done
echo "$verb" >>log
case $verb in
install)
	[ -e lists ] || { echo "E: Unable to locate package jq"; exit 100; }
	[ "$(grep -c install log)" -gt 2 ] || { echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)"; exit 100; }
	touch installed ;;
update)
	[ "$(grep -c update log)" -gt 3 ] || { echo "E: Unable to lock directory /var/lib/apt/lists/"; exit 100; }
	touch lists ;;
esac`)
	s.step(t, nil, `assert.eq(h.package.ensure("jq").version, "1.0")`)
	log, err := os.ReadFile(filepath.Join(s.server.Home, "log"))
	if want := "install\nupdate\nupdate\nupdate\nupdate\ninstall\ninstall\n"; err != nil || string(log) != want {
		t.Errorf("apt-get was asked to %q, want %q (%v)", log, want, err)
	}
	s.server.Program("apt-get", `echo "E: Could not get lock /var/lib/dpkg/lock-frontend"; exit 100`)
	s.server.Program("dpkg-query", "exit 1")
	s.step(t, nil, fails(`h.package.ensure("jq")`, "Could not get lock", fault.Conflict))
}
