package lab

import (
	"bytes"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// TestStartClose starts a lab in this process and ends it: nothing that ran
// does any more.
func TestStartClose(t *testing.T) {
	before := runtime.NumGoroutine()
	dir := newDir(t)
	var log syncBuffer
	l, err := Start(dir, &log)
	if err != nil {
		t.Fatal(err)
	}
	if i, err := Status(dir); err != nil || i.PID != os.Getpid() || i.Site != filepath.Join(dir, "site") {
		t.Errorf("status: %+v, %v", i, err)
	}
	if _, err := Start(dir, &log); fault.KindOf(err) != fault.Locked {
		t.Errorf("a second one in the same folder: %v", err)
	}
	if _, err := Status(dir); err != nil {
		t.Errorf("after a second one was refused: %v", err)
	}
	ten := newTenant(t, l)
	edge := ten.subnet("edge", "10.10.0.0/24", "10.10.0.1")
	ten.route(edge)
	addresses := []string{ten.boot("gateway", ten.port(edge, "10.10.0.5")).float()}
	for _, u := range []string{l.Info.OpenStack, l.Info.Mirror, l.Info.Git} {
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, parsed.Host)
	}
	for _, a := range addresses {
		if c, err := net.Dial("tcp", a); err != nil {
			t.Errorf("while the lab is up: %v", err)
		} else {
			c.Close()
		}
	}
	ten.transport.CloseIdleConnections()
	l.Close()
	for _, a := range addresses {
		if c, err := net.Dial("tcp", a); err == nil {
			c.Close()
			t.Errorf("%s answers after the end of the lab", a)
		}
	}
	if _, err := Status(dir); fault.KindOf(err) != fault.NotFound {
		t.Errorf("status of a lab that ended: %v", err)
	}
	await(t, "the lab's goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
	if strings.Contains(log.String(), "defect") {
		t.Error(log.String())
	}
}

// TestNetworks boots a gateway with a floating address and a host behind it:
// the host is reached through the gateway alone, and gets out only while the
// gateway translates addresses.
func TestNetworks(t *testing.T) {
	l := startTestLab(t)
	ten := newTenant(t, l)
	edge := ten.subnet("edge", "10.10.0.0/24", "10.10.0.1")
	ten.route(edge)
	mgmt := ten.subnet("mgmt", "10.20.0.0/24", "10.20.0.1")
	other := ten.subnet("other", "10.20.0.0/24", "10.20.0.1") // the same addresses, but not the same network
	gateway := ten.boot("gateway", ten.port(edge, "10.10.0.5"), ten.port(mgmt, "10.20.0.1"))
	seed := ten.boot("seed", ten.port(mgmt, "10.20.0.10"))
	ten.boot("stranger", ten.port(other, "10.20.0.20"))

	through := gateway.login(nil, gateway.float())
	if got := run(t, through, "hostname"); got != "gateway\n" {
		t.Errorf("behind the floating address: %q", got)
	}
	inner := seed.login(through, "10.20.0.10:22")
	if got := run(t, inner, "hostname"); got != "seed\n" {
		t.Errorf("through the gateway: %q", got)
	}
	for _, address := range []string{"10.20.0.20:22", "10.20.0.10:6443"} {
		if c, err := through.Dial("tcp", address); err == nil {
			c.Close()
			t.Errorf("%s is reached through the gateway", address)
		}
	}

	out := func() bool { return l.world.egress(seed.id) }
	if !l.world.egress(gateway.id) {
		t.Error("the gateway doesn't get out through the router")
	}
	if out() {
		t.Error("a host gets out that nobody translates for")
	}
	run(t, through, "sudo apt-get update -qq && sudo apt-get install -y -qq nftables >/dev/null && sudo sysctl -qw net.ipv4.ip_forward=1")
	if out() {
		t.Error("a host gets out by forwarding alone")
	}
	const nat = "sudo nft add table ip nat && sudo nft add chain ip nat post '{ type nat hook postrouting priority srcnat; policy accept; }' && sudo nft add rule ip nat post ip saddr 10.20.0.0/24 masquerade"
	run(t, through, nat)
	if !out() {
		t.Error("a host doesn't get out, though the gateway translates")
	}
	run(t, inner, "sudo apt-get update -qq")
	run(t, through, "sudo sysctl -qw net.ipv4.ip_forward=0")
	if out() {
		t.Error("a host gets out, though the gateway doesn't forward any more")
	}
}

// run runs a command on a host.
func run(t *testing.T, c *ssh.Client, command string) string {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out, errs bytes.Buffer
	s.Stdout, s.Stderr = &out, &errs
	if err := s.Run(command); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, errs.String())
	}
	return out.String()
}
