package hosts_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
)

func TestFreeze(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	r.gateway.Freeze()
	done := make(chan string, 1)
	go func() {
		s, err := c.NewSession()
		if err != nil {
			done <- err.Error()
			return
		}
		out, err := s.Output("echo back")
		done <- fmt.Sprint(string(out), err)
	}()
	select {
	case got := <-done:
		t.Fatalf("a frozen host answered: %s", got)
	case <-time.After(100 * time.Millisecond):
	}
	r.gateway.Thaw()
	if got := <-done; got != "back\n<nil>" {
		t.Errorf("after the thaw: %q", got)
	}
}

func TestPower(t *testing.T) {
	var mu sync.Mutex
	var power []string
	r := newRig(t, hosts.Config{Power: func(id string, up bool) {
		mu.Lock()
		defer mu.Unlock()
		power = append(power, fmt.Sprint(id, " ", up))
	}})
	c := r.dial()
	ok(t, c, `echo kept > keep; echo x > /tmp/gone; sudo touch /run/gone; sudo sysctl -q -w net.ipv4.ip_forward=1 vm.swappiness=7
echo 'vm.swappiness = 9' | sudo tee /etc/sysctl.d/x.conf >/dev/null; echo br_netfilter | sudo tee /etc/modules-load.d/k.conf >/dev/null
sudo apt-get update -qq; sudo apt-get install -y -qq nftables; printf 'table ip on_boot {\n}\n' | sudo tee /etc/nftables.conf >/dev/null; sudo systemctl -q enable nftables
sudo nft add table ip by_hand; cat /proc/sys/kernel/random/boot_id > id; nohup sleep 900 >/dev/null 2>&1 &`)
	keys := r.gateway.HostKeys()
	// The answer to reboot may come or not.
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Run("sudo reboot")
	if err := c.Wait(); err == nil {
		t.Error("the connection survived a reboot")
	}
	if err := r.gateway.WaitUp(r.ctx()); err != nil {
		t.Fatal(err)
	}
	c = r.dial()
	got := ok(t, c, "cat keep; ls -A /tmp; ls /run/gone 2>/dev/null; /usr/sbin/sysctl -n net.ipv4.ip_forward vm.swappiness net.bridge.bridge-nf-call-iptables; sudo nft list tables; cmp -s id /proc/sys/kernel/random/boot_id || echo new boot; pgrep -x sleep || echo none; systemctl is-active ssh")
	if want := "kept\n0\n9\n1\ntable ip on_boot\nnew boot\nnone\nactive\n"; got != want {
		t.Errorf("after the reboot: %q, want %q", got, want)
	}
	if !bytes.Equal(keys[0].Marshal(), r.gateway.HostKeys()[0].Marshal()) {
		t.Error("a reboot changed the host keys")
	}
	if n := strings.Count(r.gateway.ConsoleLog(), "BEGIN SSH HOST KEY KEYS"); n != 1 {
		t.Errorf("host keys printed %d times", n)
	}
	if err := r.gateway.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", r.addr); err == nil {
		t.Error("a host that is off listens")
	}
	if r.gateway.Up() {
		t.Error("it says that it is up")
	}
	r.gateway.Start()
	if err := r.gateway.WaitUp(r.ctx()); err != nil {
		t.Fatal(err)
	}
	ok(t, r.dial(), "cat keep")
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(power, ","); !strings.Contains(got, "gw false,gw true") {
		t.Errorf("power: %s", got)
	}
	if err := r.gateway.Close(); err != nil {
		t.Fatal(err)
	}
	if _, found := r.fleet.Host("gw"); found {
		t.Error("a closed host is still in the fleet")
	}
}

func TestConsole(t *testing.T) {
	clock := newClock()
	f := hosts.New(hosts.Config{Clock: clock, BootDelay: time.Minute})
	defer f.Close()
	h, err := f.Boot(hosts.Spec{ID: "a", Name: "Alpha"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the kernel speaks", func() bool { return strings.Contains(h.ConsoleLog(), "Linux version") })
	if strings.Contains(h.ConsoleLog(), "HOST KEY") || h.Up() {
		t.Error("up before the boot delay")
	}
	clock.advance(t, time.Minute)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.WaitUp(ctx); err != nil {
		t.Fatal(err)
	}
	log := h.ConsoleLog()
	_, block, found := strings.Cut(log, "-----BEGIN SSH HOST KEY KEYS-----\n")
	block, _, end := strings.Cut(block, "-----END SSH HOST KEY KEYS-----\n")
	if !found || !end {
		t.Fatalf("no keys on the console:\n%s", log)
	}
	var got []string
	for line := range strings.Lines(block) {
		key, comment, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || comment != "root@alpha" {
			t.Errorf("line %q: %v", line, err)
			continue
		}
		got = append(got, ssh.FingerprintSHA256(key))
	}
	var want []string
	for _, k := range h.HostKeys() {
		want = append(want, ssh.FingerprintSHA256(k))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("keys on the console %v, of the server %v", got, want)
	}
	if !strings.Contains(log, "[   60.0") {
		t.Errorf("the console doesn't tell the time:\n%s", log)
	}
}

// clock is a clock that stands still.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	waits map[chan time.Time]time.Time
}

func newClock() *clock {
	return &clock{now: time.Unix(1_800_000_000, 0), waits: map[chan time.Time]time.Time{}}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	if d <= 0 {
		ch <- c.now
		return ch
	}
	c.waits[ch] = c.now.Add(d)
	return ch
}

// advance waits until somebody waits, and lets the time pass.
func (c *clock) advance(t *testing.T, d time.Duration) {
	t.Helper()
	eventually(t, "somebody waits for the clock", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.waits) > 0
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for ch, at := range c.waits {
		if !at.After(c.now) {
			ch <- c.now
			delete(c.waits, ch)
		}
	}
}

// TestPowerStorm switches hosts from several sides at once: nothing may be left
// running in a host that is off, and the last word holds.
func TestPowerStorm(t *testing.T) {
	r := newRig(t, hosts.Config{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 10 {
				var err error
				switch i % 3 {
				case 0:
					err = r.gateway.Stop()
				case 1:
					r.gateway.Start()
				case 2:
					err = r.gateway.Reboot()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := r.gateway.Stop(); err != nil {
		t.Fatal(err)
	}
	if procs := r.gateway.System().Procs(); len(procs) > 0 {
		t.Errorf("%d processes in a host that is off: %v", len(procs), procs[0].Title())
	}
	r.gateway.Start()
	if err := r.gateway.WaitUp(r.ctx()); err != nil {
		t.Fatal(err)
	}
	if got := ok(t, r.dial(), "systemctl is-active ssh"); got != "active\n" {
		t.Errorf("ssh is %q", got)
	}
}

func TestManyHosts(t *testing.T) {
	f := hosts.New(hosts.Config{})
	start := time.Now()
	var all []*hosts.Host
	for i := range 50 {
		h, err := f.Boot(hosts.Spec{ID: fmt.Sprint(i), Name: fmt.Sprint("host-", i)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, h := range all {
		if err := h.WaitUp(ctx); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("50 hosts are up after %v", time.Since(start))
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
