package hosts_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
)

func TestNATs(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	ok(t, c, "sudo apt-get update -qq; sudo apt-get install -y -qq nftables")
	const cidr = "10.20.0.0/24"
	expect := func(want bool, after string) {
		t.Helper()
		ok(t, c, after)
		if got := r.gateway.NATs(cidr); got != want {
			t.Errorf("after %q: %v, want %v\n%s", after, got, want, ok(t, c, "sudo nft list ruleset"))
		}
	}
	load := func(rules string) string { return "sudo nft -f - <<'E'\nflush ruleset\n" + rules + "\nE" }
	nat := "table ip nat {\n chain post {\n  type nat hook postrouting priority srcnat;\n  %s\n }\n}\n"
	expect(false, load(fmt.Sprintf(nat, "oifname ens3 ip saddr 10.20.0.0/24 masquerade")))
	expect(true, "sudo sysctl -q -w net.ipv4.ip_forward=1")
	expect(false, load(fmt.Sprintf(nat, "ip saddr 10.30.0.0/24 masquerade")))
	expect(true, load(fmt.Sprintf(nat, "ip saddr { 10.30.0.0/24, 10.20.0.0/16 } masquerade")))
	expect(true, load(fmt.Sprintf(nat, "ip saddr 10.20.0.0/24 snat to 192.0.2.1")))
	expect(false, load(fmt.Sprintf(nat, "ip saddr != 10.20.0.0/16 masquerade")))
	forward := "table inet f {\n set lan { type ipv4_addr; flags interval; elements = { 10.20.0.0/24 } }\n chain forward {\n  type filter hook forward priority 0; policy drop;\n  ct state established,related accept\n  %s\n }\n}\n"
	all := fmt.Sprintf(nat, "masquerade")
	expect(false, load(all+fmt.Sprintf(forward, "")))
	expect(true, load(all+fmt.Sprintf(forward, "ip saddr @lan accept")))
	expect(true, load(all+fmt.Sprintf(forward, "iifname ens4 accept")))
	expect(false, load(all+fmt.Sprintf(forward, "ip saddr 10.30.0.0/24 accept")))
	expect(false, "sudo nft flush ruleset")
}

func TestNetworks(t *testing.T) {
	f := hosts.New(hosts.Config{})
	defer f.Close()
	boot := func(id, network, ip string) *hosts.Host {
		h, err := f.Boot(hosts.Spec{ID: id, Name: id, Addresses: []hosts.Address{{IP: netip.MustParseAddr(ip), Network: network}}})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	boot("a", "one", "10.0.0.1")
	boot("b", "two", "10.0.0.1") // the same address on another network
	spec := hosts.Spec{ID: "c", Name: "c", Addresses: []hosts.Address{{IP: netip.MustParseAddr("10.0.0.1"), Network: "one"}}}
	var fe *fault.Error
	if _, err := f.Boot(spec); !errors.As(err, &fe) || fe.Kind != fault.Exists {
		t.Errorf("an address twice: %v", err)
	}
	spec.ID = "a"
	if _, err := f.Boot(spec); !errors.As(err, &fe) || fe.Kind != fault.Exists {
		t.Errorf("an id twice: %v", err)
	}
	if _, err := f.Boot(hosts.Spec{}); !errors.As(err, &fe) || fe.Kind != fault.Invalid {
		t.Errorf("an empty spec: %v", err)
	}
	r := newRig(t, hosts.Config{})
	c := r.dial()
	for to, want := range map[string]string{
		"10.20.0.10:23":   "Connection refused",
		"10.20.0.77:22":   "No route to host",
		"10.99.0.1:22":    "Network is unreachable",
		"127.77.0.11:22":  "Network is unreachable",
		"198.51.100.1:80": "Network is unreachable",
		"nowhere:22":      "name resolution",
	} {
		if _, err := c.Dial("tcp", to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("dialling %s: %v", to, err)
		}
	}
	for _, to := range []string{"127.0.0.1:22", "localhost:22", "10.20.0.5:22"} {
		conn, err := c.Dial("tcp", to)
		if err != nil {
			t.Errorf("dialling %s: %v", to, err)
			continue
		}
		banner := make([]byte, 7)
		if _, err := io.ReadFull(conn, banner); err != nil || string(banner) != "SSH-2.0" {
			t.Errorf("%s says %q, %v", to, banner, err)
		}
		conn.Close()
	}
	if err := r.seed.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Dial("tcp", "10.20.0.10:22"); err == nil || !strings.Contains(err.Error(), "No route to host") {
		t.Errorf("a host that is off: %v", err)
	}
}

func TestFloating(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	if err := r.gateway.Unlisten(r.addr); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", r.addr); err == nil {
		t.Error("the address still answers")
	}
	if err := r.seed.Listen(r.addr); err != nil {
		t.Fatal(err)
	}
	moved, err := ssh.Dial("tcp", r.addr, r.config(r.seed, "debian"))
	if err != nil {
		t.Fatal(err)
	}
	defer moved.Close()
	if got := ok(t, moved, "hostname"); got != "seed\n" {
		t.Errorf("the address leads to %q", got)
	}
	ok(t, c, "true") // a connection that stands goes on
	if err := r.gateway.Listen(r.addr); err == nil {
		t.Error("an address that is taken")
	}
}
