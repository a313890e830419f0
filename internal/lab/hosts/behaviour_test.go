package hosts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// eventually waits for a condition that nothing announces.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

func running(h *hosts.Host, command string) bool {
	for _, p := range h.System().Procs() {
		if strings.Join(p.Title(), " ") == command {
			return true
		}
	}
	return false
}

func TestLogin(t *testing.T) {
	r := newRig(t, hosts.Config{})
	stranger := r.config(r.gateway, "debian")
	stranger.Auth = []ssh.AuthMethod{ssh.PublicKeys(newSigner(t))}
	if _, err := ssh.Dial("tcp", r.addr, stranger); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
		t.Errorf("a key that is nobody's: %v", err)
	}
	for _, user := range []string{"root", "nobody", "bob", ""} {
		if _, err := ssh.Dial("tcp", r.addr, r.config(r.gateway, user)); err == nil {
			t.Errorf("user %q could log in", user)
		}
	}
	password := r.config(r.gateway, "debian")
	password.Auth = []ssh.AuthMethod{ssh.Password("debian")}
	if _, err := ssh.Dial("tcp", r.addr, password); err == nil {
		t.Error("a password was taken")
	}
	c := r.dial()
	ok(t, c, "chmod 666 ~/.ssh/authorized_keys")
	if _, err := ssh.Dial("tcp", r.addr, r.config(r.gateway, "debian")); err == nil {
		t.Error("authorized_keys that anybody may write was taken")
	}
	if _, _, err := c.SendRequest("keepalive@openssh.com", true, nil); err != nil {
		t.Errorf("keepalive: %v", err)
	}
}

func TestSignals(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	for _, sig := range []ssh.Signal{ssh.SIGTERM, ssh.SIGKILL, ssh.SIGINT} {
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start("sleep 600; echo survived"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "sleep runs", func() bool { return running(r.gateway, "/usr/bin/sleep 600") })
		if err := s.Signal(sig); err != nil {
			t.Fatal(err)
		}
		var exit *ssh.ExitError
		if err := s.Wait(); !errors.As(err, &exit) || exit.Signal() != string(sig) {
			t.Errorf("after %s: %v", sig, err)
		}
	}
	if running(r.gateway, "/usr/bin/sleep 600") {
		t.Error("the command lives on")
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.RequestPty("xterm", 24, 80, ssh.TerminalModes{}); err != nil {
		t.Error(err)
	}
	if err := s.Setenv("LC_ALL", "C"); err != nil {
		t.Error(err)
	}
	if err := s.Setenv("EVIL", "x"); err == nil {
		t.Error("any environment is let through")
	}
	out, err := s.Output("echo $LC_ALL$EVIL")
	if err != nil || string(out) != "C\n" {
		t.Errorf("environment: %q, %v", out, err)
	}
}

// TestShell feeds one long-lived shell with scripts in frames, as a client does
// that saves an exec for each.
func TestShell(t *testing.T) {
	r := newRig(t, hosts.Config{})
	for _, command := range []string{"", "sudo -n sh -s"} {
		s, err := r.dial().NewSession()
		if err != nil {
			t.Fatal(err)
		}
		in, err := s.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if command == "" {
			err = s.Shell()
		} else {
			err = s.Start(command)
		}
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1)
		for i := range 50 {
			fmt.Fprintf(in, "( n=%d\ncat <<'E'\nframe\nE\nexit $n )\nprintf 'end %%s\\n' $?\n", i)
			want := fmt.Sprintf("frame\nend %d\n", i)
			var got bytes.Buffer
			for got.Len() < len(want) {
				if _, err := out.Read(buf); err != nil {
					t.Fatalf("frame %d: %v", i, err)
				}
				got.Write(buf)
			}
			if got.String() != want {
				t.Fatalf("frame %d: %q", i, got.String())
			}
		}
		in.Close()
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
	}
}

func TestConnectionEnd(t *testing.T) {
	r := newRig(t, hosts.Config{})
	begin := func(pty bool, command string) *ssh.Client {
		c := r.dial()
		s, err := c.NewSession()
		if err == nil && pty {
			err = s.RequestPty("xterm", 24, 80, nil)
		}
		if err == nil {
			err = s.Start(command)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// On a terminal, a command ends with its connection.
	c := begin(true, "nohup sleep 700 >/dev/null 2>&1 & sleep 600; echo no > survived")
	eventually(t, "both run", func() bool {
		return running(r.gateway, "sleep 700") && running(r.gateway, "/usr/bin/sleep 600")
	})
	c.Close()
	eventually(t, "the command ends with its terminal", func() bool { return !running(r.gateway, "/usr/bin/sleep 600") })
	if !running(r.gateway, "sleep 700") {
		t.Error("nohup didn't keep its command")
	}
	// Without one it goes on, until it writes something.
	c = begin(false, "echo >begun; until [ -e go ]; do sleep 0.01; done; echo >silent; echo hello; echo >survived")
	ok(t, r.dial(), "until [ -e begun ]; do sleep 0.01; done")
	c.Close()
	c = r.dial()
	ok(t, c, "touch go; until [ -e silent ]; do sleep 0.01; done")
	eventually(t, "the command ends by its output", func() bool {
		return !slices.ContainsFunc(r.gateway.System().Procs(), func(p *machine.Proc) bool { return strings.Contains(strings.Join(p.Title(), " "), "survived") })
	})
	ok(t, c, "test ! -e survived; pkill -x sleep")
	// What holds the output keeps the session; what doesn't, doesn't.
	start := time.Now()
	ok(t, c, "nohup sleep 5 >/dev/null 2>&1 </dev/null &")
	if time.Since(start) > 3*time.Second {
		t.Error("a command in the background held the session")
	}
	if got := ok(t, c, "(sleep 0.05; echo late) & echo soon"); got != "soon\nlate\n" {
		t.Errorf("output of the background: %q", got)
	}
}

func TestMaxSessions(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	var open []*ssh.Session
	for i := range 10 {
		s, err := c.NewSession()
		if err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
		open = append(open, s)
	}
	if _, err := c.NewSession(); err == nil || !strings.Contains(err.Error(), "open failed") {
		t.Errorf("the eleventh: %v", err)
	}
	for _, s := range open {
		s.Close()
	}
	r.gateway.SetFaults(hosts.Faults{MaxSessions: 1})
	eventually(t, "sessions are let go", func() bool {
		s, err := c.NewSession()
		if err != nil {
			return false
		}
		defer s.Close()
		_, err = c.NewSession()
		return err != nil
	})
}

func TestConcurrentExecs(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 10 {
				want := fmt.Sprintf("%d-%d\n", i, j)
				got := run(t, c, "f=$(mktemp); cat > $f; sort $f; rm $f", want)
				if got.out != want {
					t.Errorf("got %q, want %q", got.out, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestBigOutput(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	if got := ok(t, c, "head -c 20000000 /dev/zero | tr '\\0' x"); len(got) != 20000000 {
		t.Errorf("%d bytes", len(got))
	}
	in := strings.Repeat("0123456789", 500_000)
	if got := run(t, c, "cat", in); got.out != in {
		t.Errorf("%d of %d bytes came back", len(got.out), len(in))
	}
	// An input that nobody reads doesn't hold the session.
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("true"); err != nil {
		t.Fatal(err)
	}
	var feed sync.WaitGroup
	feed.Go(func() { _, _ = io.WriteString(w, in) }) // fails once the channel is closed
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
	feed.Wait()
}

func TestFaults(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	set := r.gateway.SetFaults
	t.Run("sudo", func(t *testing.T) {
		set(hosts.Faults{NoSudo: true})
		if got := run(t, c, "sudo -n id", ""); got.code != 1 || !strings.Contains(got.err, "a password is required") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("full disk", func(t *testing.T) {
		ok(t, c, "rm -f f; echo old > keep")
		set(hosts.Faults{FullDisk: true})
		if got := run(t, c, "echo x > f; cat keep; cp keep g", ""); got.code != 1 || !strings.Contains(got.err, "No space left on device") || got.out != "old\n" {
			t.Errorf("%+v", got)
		}
		ok(t, c, "rm -f f g; echo x > /run/user-file || test ! -w /run")
		files, err := sftp.NewClient(c)
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		f, err := files.Create("up")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("x")); err == nil {
			t.Error("SFTP wrote to a full disk")
		}
		f.Close()
	})
	t.Run("read only", func(t *testing.T) {
		set(hosts.Faults{ReadOnly: true})
		if got := run(t, c, "touch x", ""); got.code != 1 || !strings.Contains(got.err, "Read-only file system") {
			t.Errorf("%+v", got)
		}
	})
	for _, when := range []hosts.Moment{hosts.BeforeEffect, hosts.OnOutput, hosts.AfterEffect} {
		t.Run("drop "+string(when), func(t *testing.T) {
			set(hosts.Faults{})
			c := r.dial()
			ok(t, c, "rm -f one two")
			set(hosts.Faults{Drops: []hosts.Drop{{Command: "touch one", When: when}}})
			s, err := c.NewSession()
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			s.Stdout = &out
			err = s.Run("touch one; echo; touch two")
			var exit *ssh.ExitError
			if err == nil || errors.As(err, &exit) {
				t.Fatalf("the command had an answer: %v", err)
			}
			c2 := r.dial()
			want := map[hosts.Moment]string{hosts.BeforeEffect: "", hosts.AfterEffect: "one\ntwo\n"}
			got := ok(t, c2, "ls one two 2>/dev/null; true")
			if when == hosts.OnOutput {
				if !strings.HasPrefix(got, "one\n") {
					t.Errorf("left %q", got)
				}
			} else if got != want[when] {
				t.Errorf("left %q, want %q", got, want[when])
			}
			if got := r.gateway.Faults(); len(got.Drops) != 0 {
				t.Error("the drop is left over")
			}
		})
	}
	t.Run("refuse", func(t *testing.T) {
		set(hosts.Faults{Refuse: true})
		if _, err := net.Dial("tcp", r.addr); err == nil {
			t.Error("it listens")
		}
		set(hosts.Faults{})
		r.dial()
	})
	t.Run("mute", func(t *testing.T) {
		set(hosts.Faults{Mute: true})
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %d, %v", n, err)
		}
		set(hosts.Faults{})
	})
	t.Run("host key", func(t *testing.T) {
		old := r.gateway.HostKeys()
		if err := r.gateway.ChangeHostKeys(); err != nil {
			t.Fatal(err)
		}
		cfg := r.config(r.gateway, "debian")
		cfg.HostKeyCallback = func(_ string, _ net.Addr, key ssh.PublicKey) error {
			for _, k := range old {
				if bytes.Equal(k.Marshal(), key.Marshal()) {
					return nil
				}
			}
			return errors.New("host key changed")
		}
		if _, err := ssh.Dial("tcp", r.addr, cfg); err == nil || !strings.Contains(err.Error(), "host key changed") {
			t.Errorf("dial: %v", err)
		}
	})
	t.Run("slow", func(t *testing.T) {
		c := r.dial()
		set(hosts.Faults{Delay: 30 * time.Millisecond})
		start := time.Now()
		ok(t, c, "true")
		if d := time.Since(start); d < 60*time.Millisecond {
			t.Errorf("took %v", d)
		}
		set(hosts.Faults{})
	})
}

func TestLog(t *testing.T) {
	var buf bytes.Buffer
	r := newRig(t, hosts.Config{Log: &buf})
	c := r.dial()
	run(t, c, "cat; exit 4", "secret input")
	ok(t, c, "echo first\necho second")
	cmds := r.fleet.Commands(0)
	if len(cmds) != 2 || cmds[0].Command != "cat; exit 4" || cmds[0].Exit != 4 || cmds[0].Host != "gw" || cmds[0].User != "debian" || cmds[1].Command != "echo first …" {
		t.Errorf("%+v", cmds)
	}
	if got := r.fleet.Commands(1); len(got) != 1 || got[0].Seq != 2 {
		t.Errorf("since 1: %+v", got)
	}
	if strings.Contains(buf.String(), "secret") {
		t.Error("the log has what was sent to a command")
	}
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	var one hosts.Command
	if err := json.Unmarshal([]byte(lines[0]), &one); err != nil || len(lines) != 2 || one.Exit != 4 {
		t.Errorf("lines: %v, %v", lines, err)
	}
	if err := r.fleet.LogError(); err != nil {
		t.Error(err)
	}
}

// TestNoWrite runs what only looks: nothing may count as a change.
func TestNoWrite(t *testing.T) {
	r := newRig(t, hosts.Config{})
	c := r.dial()
	ok(t, c, "sudo apt-get update -qq; sudo apt-get install -y -qq nftables wireguard; echo x > f")
	before := r.gateway.Writes()
	ok(t, c, "cat f /etc/passwd >/dev/null; ls -lR /etc >/dev/null; stat -c '%a %U' f; sha256sum f; sudo nft list ruleset; sudo nft -c 'add table ip x'; systemctl is-active ssh; /usr/sbin/sysctl -n vm.swappiness; "+
		"dpkg-query -W nftables; sudo apt-get install -y nftables; id; getent passwd debian; diff f f; sudo wg show; ip addr; test -w f; sudo apt-get update -qq; sudo usermod -aG adm debian; echo y >/dev/null; find /etc -name x; sudo systemctl enable ssh; sudo hostnamectl set-hostname gw")
	if n := r.gateway.Writes() - before; n != 0 {
		t.Errorf("%d writes", n)
	}
	ok(t, c, "echo y > f")
	if r.gateway.Writes() == before {
		t.Error("a write isn't counted")
	}
}

func TestUserData(t *testing.T) {
	data := "#cloud-config\n" + `hostname: edge
fqdn: edge.lab.invalid
ssh_authorized_keys:
  - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIF6W1XbRcEvMVCzwvGV8KMVNcS4YfdGZgS7a4mVNvbpo extra
users:
  - default
  - name: ops
    groups: [adm, sudo]
    shell: /bin/bash
    sudo: ALL=(ALL) NOPASSWD:ALL
    ssh_authorized_keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIF6W1XbRcEvMVCzwvGV8KMVNcS4YfdGZgS7a4mVNvbpo ops"]
write_files:
  - path: /etc/app/conf
    permissions: "0640"
    owner: root:adm
    content: |
      key = value
  - path: /opt/b64
    encoding: b64
    content: aGVsbG8=
package_update: true
packages: [jq, [curl, 7.88.1-10+deb12u12]]
runcmd:
  - echo ran as $(id -un) > /root/ran
  - [sh, -c, "echo 'two words' >> /root/ran"]
`
	r := newRig(t, hosts.Config{}, func(s *hosts.Spec) {
		if s.ID == "gw" {
			s.UserData = []byte(data)
		} else {
			s.UserData = []byte("#cloud-config\nruncmd: [\"exit 3\"]\n")
		}
	})
	c := r.dial()
	got := ok(t, c, "cloud-init status --wait; hostname; cat /etc/hostname; grep -c edge.lab.invalid /etc/hosts; stat -c '%a %U:%G' /etc/app/conf; sudo cat /etc/app/conf /opt/b64; echo; sudo cat /root/ran; id -Gn ops; sudo -u ops sudo -n id -u; command -v jq; wc -l < .ssh/authorized_keys; sudo stat -c '%a %U' /home/ops/.ssh/authorized_keys")
	want := "status: done\nedge\nedge\n1\n640 root:adm\nkey = value\nhello\nran as root\ntwo words\nops adm sudo\n0\n/usr/bin/jq\n2\n600 ops\n"
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := run(t, r.jump(c), "cloud-init status --wait", ""); got.code != 1 || got.out != "status: error\n" {
		t.Errorf("a failing runcmd: %+v", got)
	}
}

func BenchmarkExec(b *testing.B) {
	signer := newSigner(b)
	f := hosts.New(hosts.Config{})
	defer f.Close()
	h, err := f.Boot(hosts.Spec{ID: "a", Name: "a", AuthorizedKeys: []string{string(ssh.MarshalAuthorizedKey(signer.PublicKey()))}})
	if err != nil {
		b.Fatal(err)
	}
	if err := h.WaitUp(context.Background()); err != nil {
		b.Fatal(err)
	}
	addr := freeAddr(b)
	if err := h.Listen(addr); err != nil {
		b.Fatal(err)
	}
	c, err := ssh.Dial("tcp", addr, &ssh.ClientConfig{User: "debian", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(h.HostKeys()[1]), HostKeyAlgorithms: []string{ssh.KeyAlgoED25519}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for b.Loop() {
		run(b, c, "stat -c '%a %U %s' /etc/passwd", "")
	}
}
