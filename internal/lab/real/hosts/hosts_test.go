package hosts_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/lab/real/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/lab/real/hosts/hoststest"
)

func TestMain(m *testing.M) { os.Exit(hoststest.Main(m)) }

// dial logs in over the network, checking the host's key.
func dial(t *testing.T, l *hosts.Lab, h *hosts.Host, user string) (*ssh.Client, error) {
	t.Helper()
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(h.HostKey))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(h.Address(), "22"), 2*time.Second)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	c, channels, requests, err := ssh.NewClientConn(conn, h.Name, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(l.User.Signer)}, HostKeyCallback: ssh.FixedHostKey(key),
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), conn.SetDeadline(time.Time{})
}

func output(t *testing.T, l *hosts.Lab, h *hosts.Host, user, command string) string {
	t.Helper()
	c, err := dial(t, l, h, user)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.CombinedOutput(command)
	if err != nil {
		t.Errorf("%s: %v: %s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestHosts(t *testing.T) {
	l := hoststest.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	all, err := l.Boot(ctx,
		hosts.Spec{Name: "gw", Legs: []hosts.Leg{{Network: "public", Address: "203.0.113.2/24"}, {Network: "private", Address: "10.77.0.1/16"}}},
		hosts.Spec{Name: "seed", Legs: []hosts.Leg{{Network: "private", Address: "10.77.0.5/16"}}, Gateway: "10.77.0.1"},
		hosts.Spec{Name: "sd", Legs: []hosts.Leg{{Network: "public", Address: "203.0.113.3/24"}}, Systemd: true},
		hosts.Spec{Name: "bare", Legs: []hosts.Leg{{Network: "public", Address: "203.0.113.4/24"}}, Lacks: []string{"python3*", "perl*"}, Busybox: true, Disk: 8},
	)
	if err != nil {
		t.Fatal(err)
	}
	gw, sd, bare := all[0], all[2], all[3]
	if got := output(t, l, gw, "debian", "sudo id -u; hostname; id -un"); got != "0\ngw\ndebian" {
		t.Errorf("the gateway says %q", got)
	}
	if got := output(t, l, sd, "root", "systemctl is-system-running --wait; systemctl is-active ssh; cat /proc/1/comm"); got != "running\nactive\nsystemd" {
		t.Errorf("systemd says %q", got)
	}
	if got := output(t, l, bare, "root", "ls -l /bin/sh /usr/bin/cat | sed 's/.*-> //'; which python3 perl || echo none"); got != "busybox\nbusybox\nnone" {
		t.Errorf("the bare host says %q", got)
	}
	// The private network is reached through the gateway alone.
	if _, err := net.DialTimeout("tcp", "10.77.0.5:22", 200*time.Millisecond); err == nil {
		t.Error("the private network is reached directly")
	}
	if got := output(t, l, gw, "root", "timeout 5 bash -c 'exec 3<>/dev/tcp/10.77.0.5/22; head -c 4 <&3'"); got != "SSH-" {
		t.Errorf("the seed greets the gateway with %q", got)
	}
}

func one(t *testing.T, spec hosts.Spec) (*hosts.Lab, *hosts.Host, context.Context) {
	t.Helper()
	l := hoststest.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	spec.Name, spec.Legs = "h1", []hosts.Leg{{Network: "public", Address: "203.0.113.21/24"}}
	all, err := l.Boot(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	return l, all[0], ctx
}

func TestPower(t *testing.T) {
	for name, systemd := range map[string]bool{"sshd": false, "systemd": true} {
		t.Run(name, func(t *testing.T) {
			l, h, ctx := one(t, hosts.Spec{Systemd: systemd})
			output(t, l, h, "root", "echo kept > /var/mark; sync")
			if err := h.Kill(); err != nil {
				t.Fatal(err)
			}
			if _, err := dial(t, l, h, "root"); err == nil {
				t.Error("a killed host answers")
			}
			if err := h.Start(ctx); err != nil {
				t.Fatal(err)
			}
			if got := output(t, l, h, "root", "cat /var/mark"); got != "kept" {
				t.Errorf("after a failure of its power the host has %q", got)
			}
			// A reboot ends the connection, with or without an answer.
			if c, err := dial(t, l, h, "root"); err == nil {
				if s, err := c.NewSession(); err == nil {
					_ = s.Run("python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x1234567)' || systemctl reboot")
				}
				c.Close()
			}
			for h.Boots() < 3 {
				select {
				case <-time.After(10 * time.Millisecond):
				case <-ctx.Done():
					t.Fatal("the host didn't reboot: ", h.Console())
				}
			}
			if err := h.Start(ctx); err != nil {
				t.Fatal(err)
			}
			if err := h.Freeze(true); err != nil {
				t.Fatal(err)
			}
			if _, err := dial(t, l, h, "root"); err == nil {
				t.Error("a frozen host lets somebody in")
			}
			if err := h.Freeze(false); err != nil {
				t.Fatal(err)
			}
			output(t, l, h, "root", "true")
		})
	}
}

func TestNetwork(t *testing.T) {
	l, h, _ := one(t, hosts.Spec{})
	ping := func() (time.Duration, error) {
		start := time.Now()
		c, err := net.DialTimeout("tcp", h.Address()+":22", 2*time.Second)
		if err == nil {
			c.Close()
		}
		return time.Since(start), err
	}
	repair, err := h.Degrade(0, hosts.Quality{Delay: 60 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := ping(); err != nil || d < 120*time.Millisecond {
		t.Errorf("over a slow wire it takes %s, %v", d, err)
	}
	if got := output(t, l, h, "root", "head -c 300000 /dev/zero | tr '\\0' x | wc -c"); got != "300000" {
		t.Errorf("got %q", got)
	}
	if err := repair(); err != nil {
		t.Fatal(err)
	}
	repair, err = h.Degrade(0, hosts.Quality{Loss: 100})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.DialTimeout("tcp", h.Address()+":22", 100*time.Millisecond); err == nil {
		t.Error("nothing is lost")
	}
	if err := repair(); err != nil {
		t.Fatal(err)
	}
	if _, err := ping(); err != nil {
		t.Errorf("the wire isn't repaired: %v", err)
	}
	if err := h.Cut(0, true); err != nil {
		t.Fatal(err)
	}
	if _, err := net.DialTimeout("tcp", h.Address()+":22", 100*time.Millisecond); err == nil {
		t.Error("a cut wire carries something")
	}
	if err := h.Cut(0, false); err != nil {
		t.Fatal(err)
	}
	if _, err := ping(); err != nil {
		t.Errorf("the wire isn't put back: %v", err)
	}
}

// TestPackets has a gateway do what gateways do, and looks at what arrives.
func TestPackets(t *testing.T) {
	l := hoststest.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all, err := l.Boot(ctx,
		hosts.Spec{Name: "gw", Legs: []hosts.Leg{{Network: "public", Address: "203.0.113.2/24"}, {Network: "private", Address: "10.77.0.1/16"}}},
		hosts.Spec{Name: "seed", Legs: []hosts.Leg{{Network: "private", Address: "10.77.0.5/16"}}, Gateway: "10.77.0.1"},
		hosts.Spec{Name: "out", Legs: []hosts.Leg{{Network: "public", Address: "203.0.113.9/24"}}})
	if err != nil {
		t.Fatal(err)
	}
	gw, seed, out := all[0], all[1], all[2]
	run := func(h *hosts.Host, script string) string {
		t.Helper()
		s, err := h.Run(ctx, script)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(s)
	}
	run(gw, `sysctl -qw net.ipv4.ip_forward=1
nft -f - <<'END'
table ip nat {
	chain pre {
		type nat hook prerouting priority dstnat;
		iifname eth0 tcp dport 2222 dnat to 10.77.0.5:22
	}
	chain post {
		type nat hook postrouting priority srcnat;
		oifname eth0 masquerade
	}
}
END`)
	if got := run(seed, "timeout 5 bash -c 'exec 3<>/dev/tcp/203.0.113.9/22; head -c 4 <&3'"); got != "SSH-" {
		t.Errorf("from behind the gateway: %q", got)
	}
	if got := run(out, "timeout 5 bash -c 'exec 3<>/dev/tcp/203.0.113.2/2222; head -c 4 <&3'"); got != "SSH-" {
		t.Errorf("to behind the gateway: %q", got)
	}
	for i, h := range []*hosts.Host{gw, out} {
		run(h, "umask 077; wg genkey > /etc/key; wg pubkey < /etc/key > /etc/pub; wireguard-go wg0; ip address add 10.99.0."+string(rune('1'+i))+"/24 dev wg0; wg set wg0 listen-port 51820 private-key /etc/key; ip link set wg0 up")
	}
	run(gw, "wg set wg0 peer "+run(out, "cat /etc/pub")+" allowed-ips 10.99.0.2/32")
	run(out, "wg set wg0 peer "+run(gw, "cat /etc/pub")+" allowed-ips 10.99.0.1/32 endpoint 203.0.113.2:51820")
	if got := run(out, "ping -c 1 -W 5 10.99.0.1 | grep -c '1 received'"); got != "1" {
		t.Errorf("nothing passes through WireGuard: %q", got)
	}
}

// TestFleet is how many hosts a machine holds.
func TestFleet(t *testing.T) {
	l := hoststest.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var specs []hosts.Spec
	for i := range 50 {
		specs = append(specs, hosts.Spec{Name: fmt.Sprintf("h%d", i), Legs: []hosts.Leg{{Network: "public", Address: fmt.Sprintf("203.0.113.%d/24", 100+i)}}})
	}
	all, err := l.Boot(ctx, specs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		if got := output(t, l, h, "root", "hostname"); got != h.Name {
			t.Errorf("%s is called %q", h.Name, got)
		}
	}
	if cpu, err := l.CPU(); err != nil || cpu == 0 {
		t.Errorf("they took %s, %v", cpu, err)
	}
}
