package hosts_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
)

// TestEveryProgram calls each program of the image, and of all packages, in
// ways that it may not expect: it must neither crash nor hang.
func TestEveryProgram(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	ok(t, c, "echo 'deb [trusted=yes] https://packages.lab.invalid/core:/stable:/v1.37/deb/ /' | sudo tee /etc/apt/sources.list.d/k.list; sudo apt-get update -qq; sudo apt-get install -y nftables wireguard containerd curl wget gnupg conntrack socat ethtool iptables chrony jq git netcat-openbsd rsync python3 kubeadm kubelet kubectl")
	names := strings.Fields(ok(t, c, "ls /usr/bin /usr/sbin"))
	skip := []string{"/usr/bin:", "/usr/sbin:", "reboot", "poweroff", "halt", "shutdown", "containerd-shim-runc-v2"}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(skip, name) })
	if len(names) < 150 {
		t.Errorf("only %d programs", len(names))
	}
	var wg sync.WaitGroup
	work := make(chan string)
	for range 4 {
		wg.Go(func() {
			for name := range work {
				for _, args := range []string{"", "-", "--bogus", "x", "x y", "x y z", "'' ''", "-n", "-f x", "-c x", "-s", "/ /tmp", "'(' ')'", "show x", "-e '['", "'s/(/)/' f"} {
					got := run(t, c, "cd /tmp; PATH=$PATH:/usr/sbin; timeout -s KILL 0.03 "+name+" "+args+" </dev/null | head -c 1000 >/dev/null", "")
					if strings.Contains(got.err, "panic") {
						t.Errorf("%s %s: %s", name, args, got.err)
					}
				}
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	wg.Wait()
	if got := ok(t, c, "echo alive"); got != "alive\n" {
		t.Errorf("afterwards: %q", got)
	}
}
