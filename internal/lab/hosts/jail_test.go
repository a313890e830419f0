package hosts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pkg/sftp"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
)

// TestJail tries the ways out of a host's file tree. A file of the machine's
// own, known by its content, must be seen by none of them, and none may make
// one.
func TestJail(t *testing.T) {
	real := t.TempDir()
	secret := filepath.Join(real, "secret")
	if err := os.WriteFile(secret, []byte("of the machine"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, hosts.Config{})
	c := r.dial()
	up := strings.Repeat("../", 40)
	for _, script := range []string{
		"cat " + secret,
		"cat " + up + secret,
		"cat < " + secret,
		"ln -s " + secret + " l; cat l",
		"ln -s " + up + secret[1:] + " l2; cat l2; cat /proc/self/root" + secret,
		"ln -s / up; cat up" + secret,
		"ln -s " + real + " dir; cat dir/secret; ls dir",
		"cd " + real + " && ls",
		". " + secret,
		"source " + secret,
		"sh " + secret,
		secret,
		"echo " + real + "/*",
		"test -e " + secret + " && echo of the machine",
		"[ -d " + real + " ] && echo of the machine",
		"[[ -r " + secret + " ]] && echo of the machine",
		"command -v " + secret + " | sed 's/$/ of the machine/'",
		"type " + secret + " && echo of the machine",
		"read x < " + secret + "; echo $x",
		"x=$(<" + secret + "); echo \"$x\"",
		"mapfile -t a < " + secret + "; echo ${a[0]}",
		"echo out > " + real + "/made",
		"echo out > /tmp/sh-interp-made; ls /tmp",
		"TMPDIR=" + real + " bash -c 'cat <(echo out)'",
		"export TMPDIR=" + real + "; bash -c 'echo out > " + real + "/sh-interp-made; cat " + real + "/sh-interp-made'",
		"eval 'cat <(cat " + secret + ")'",
		"tar cf - " + secret,
		"find " + real,
		"sed -n p " + secret, "awk '{print}' " + secret, "grep . " + secret, "dd if=" + secret, "cp " + secret + " x; cat x", "install " + secret + " x; cat x", "head " + secret,
		"sudo cat " + secret, "sudo sh -c 'cd " + real + "; cat secret'",
		"pushd " + real,
		"exec cat " + secret,
		"env cat " + secret + "; xargs cat < /dev/null; echo " + secret + " | xargs cat",
		"PATH=" + real + ":/bin; secret",
		"trap 'cat " + secret + "' EXIT",
		"printf '%s' \"$(cat " + secret + ")\"",
		"HOME=" + real + "; cat ~/secret; cd; cat secret",
		"nft -f " + secret, "sudo apt-get install " + secret, "curl file://" + secret,
		"kill -0 1; /usr/bin/env -i " + secret,
	} {
		got := run(t, c, script, "")
		if strings.Contains(got.out+got.err, "of the machine") {
			t.Errorf("%s: out came %q %q", script, got.out, got.err)
		}
	}
	files, err := sftp.NewClient(c)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if err := files.Symlink(secret, "/home/debian/sl"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{secret, up + secret, "/home/debian/sl", "/home/debian/" + up + secret} {
		if f, err := files.Open(name); err == nil {
			f.Close()
			t.Errorf("SFTP opened %s", name)
		}
	}
	if _, err := files.Create(real + "/made"); err == nil {
		t.Error("SFTP created a file in a folder that the host doesn't have")
	}
	entries, err := os.ReadDir(real)
	if err != nil || len(entries) != 1 {
		t.Errorf("the machine's folder now has %v, %v", entries, err)
	}
	if matches, err := filepath.Glob(filepath.Join(os.TempDir(), "sh-interp-*")); err != nil || len(matches) > 0 {
		t.Errorf("files of the interpreter on the machine: %v, %v", matches, err)
	}
	if got := ok(t, c, "cat /etc/hostname"); got != "gw\n" {
		t.Errorf("the host's own file: %q", got)
	}
}
