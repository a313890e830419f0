package ssh_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"net"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh"
	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func TestUserKeys(t *testing.T) {
	for _, typ := range []sshtest.KeyType{sshtest.Ed25519, sshtest.RSA, sshtest.ECDSA} {
		for _, passphrase := range []string{"", "open sesame"}[:map[sshtest.KeyType]int{sshtest.Ed25519: 2, sshtest.RSA: 1, sshtest.ECDSA: 1}[typ]] {
			t.Run(fmt.Sprintf("%s/%d", typ, len(passphrase)), func(t *testing.T) {
				key := sshtest.NewKey(t, typ, passphrase)
				_, cfg := login(t, sshtest.Options{Authorized: []sshtest.Key{key}})
				cfg.Key, cfg.Passphrase = key.Private, passphrase
				if err := connect(t, cfg).Connect(bounded(t)); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func TestUserKeyErrors(t *testing.T) {
	encrypted := sshtest.NewKey(t, sshtest.Ed25519, "open sesame")
	cfg := ssh.Config{Address: "127.0.0.1", User: "debian", HostKeys: []string{encrypted.Public}}
	for _, c := range []struct{ key, passphrase, part string }{
		{"", "", "it is empty"},
		{"hunter2hunter2", "", "isn't a private key"},
		{encrypted.Private, "", "it is encrypted"},
		{encrypted.Private, "wrong", "can't be decrypted"},
	} {
		cfg.Key, cfg.Passphrase = c.key, c.passphrase
		_, err := ssh.New(cfg)
		want(t, err, fault.Invalid, c.part)
	}
}

func TestHostKeys(t *testing.T) {
	for _, typ := range []sshtest.KeyType{sshtest.Ed25519, sshtest.RSA, sshtest.ECDSA} {
		key := sshtest.NewKey(t, typ, "")
		s, cfg := login(t, sshtest.Options{HostKeys: []sshtest.Key{sshtest.NewKey(t, sshtest.ECDSA, ""), key}})
		if typ == sshtest.ECDSA { // a server has one key of a type
			s, cfg = login(t, sshtest.Options{HostKeys: []sshtest.Key{key}})
		}
		at := fmt.Sprintf("[%s]:%d", s.Address, s.Port)
		salt := []byte("0123456789abcdefghij")
		mac := hmac.New(sha1.New, salt)
		mac.Write([]byte(at))
		hashed := "|1|" + base64.StdEncoding.EncodeToString(salt) + "|" + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for name, lines := range map[string][]string{
			"key":         {key.Public},
			"comment":     {"# a console\n\n" + key.Public + " root@gw\n"},
			"console":     {"ec2: " + key.Public},
			"known_hosts": {"other,[10.0.0.1]:22 " + sshtest.NewKey(t, sshtest.Ed25519, "").Public + "\n" + at + ",gw " + key.Public},
			"hashed":      {hashed + " " + key.Public},
			"several":     {sshtest.NewKey(t, sshtest.Ed25519, "").Public, key.Public},
		} {
			t.Run(string(typ)+"/"+name, func(t *testing.T) {
				cfg.HostKeys = lines
				if err := connect(t, cfg).Connect(bounded(t)); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func TestHostKeyMismatch(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	other := sshtest.NewKey(t, sshtest.Ed25519, "")
	cfg.HostKeys = []string{other.Public}
	c := connect(t, cfg)
	err := c.Connect(bounded(t))
	want(t, err, fault.Untrusted, "gw (", "the host showed ssh-ed25519 SHA256:", "known is ssh-ed25519 SHA256:", "console")
	if s.Logins() != 0 {
		t.Error("it logged in all the same")
	}
	cfg.HostKeys = []string{sshtest.NewKey(t, sshtest.RSA, "").Public}
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Untrusted, "no key of the known types")
}

func TestHostKeyErrors(t *testing.T) {
	_, cfg := login(t, sshtest.Options{})
	good := cfg.HostKeys[0]
	for _, c := range []struct {
		lines []string
		part  string
	}{
		{nil, "none is accepted blindly"},
		{[]string{"# nothing"}, "none is accepted blindly"},
		{[]string{"other " + good}, "none of the 1 known_hosts lines"},
		{[]string{"what is this"}, "no public key in"},
		{[]string{"ssh-rsa" + good[len("ssh-ed25519"):]}, `the line says "ssh-rsa"`},
	} {
		cfg.HostKeys = c.lines
		_, err := ssh.New(cfg)
		want(t, err, fault.Invalid, c.part)
	}
}

func TestConnectErrors(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, c := range []struct {
		name   string
		faults sshtest.Faults
		edit   func(*ssh.Config)
		kind   fault.Kind
		parts  []string
	}{
		{name: "refused", edit: func(c *ssh.Config) { c.Port = closed.Addr().(*net.TCPAddr).Port }, kind: fault.Unreachable, parts: []string{"connection refused", "has sshd started"}},
		{name: "mute", faults: sshtest.Faults{Mute: true}, kind: fault.Unreachable, parts: []string{"no SSH banner within 300ms", "silent"}},
		{name: "foreign", faults: sshtest.Faults{Greeting: "HTTP/1.1 400 Bad Request\r\n\r\n"}, kind: fault.Invalid, parts: []string{`"HTTP/1.1 400 Bad Request"`, "right port"}},
		{name: "hang up", faults: sshtest.Faults{HangUp: true}, kind: fault.Unreachable, parts: []string{"closed before an SSH banner", "MaxStartups"}},
		{name: "stuck", faults: sshtest.Faults{Frozen: true}, kind: fault.Unreachable, parts: []string{"within 300ms"}},
		{name: "user key", edit: func(c *ssh.Config) { c.Key = sshtest.NewKey(t, sshtest.Ed25519, "").Private }, kind: fault.Denied, parts: []string{`refuses user "debian" with key SHA256:`, "authorized_keys"}},
		{name: "name", edit: func(c *ssh.Config) { c.Address = "no-such-host.invalid" }, kind: fault.Unreachable, parts: []string{"can't be resolved"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, cfg := login(t, sshtest.Options{Faults: c.faults})
			cfg.Timeout = 300 * time.Millisecond
			if c.name == "name" {
				cfg.Timeout = 5 * time.Second
			}
			if c.edit != nil {
				c.edit(&cfg)
			}
			start := time.Now()
			want(t, connect(t, cfg).Connect(bounded(t)), c.kind, append(c.parts, "connecting to gw (")...)
			if d := time.Since(start); d > 6*time.Second {
				t.Errorf("it took %s", d)
			}
		})
	}
}

func TestConnectIsCancelled(t *testing.T) {
	_, cfg := login(t, sshtest.Options{Faults: sshtest.Faults{Mute: true}})
	cfg.Timeout = time.Minute
	c := connect(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	want(t, c.Connect(ctx), fault.Timeout, "gw")
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	want(t, c.Connect(ctx), fault.Cancelled)
}

// chain returns a client for the last of n servers, each reached through the
// one before, with all servers and clients.
func chain(t *testing.T, n int) ([]*sshtest.Server, []*ssh.Client) {
	t.Helper()
	var servers []*sshtest.Server
	var clients []*ssh.Client
	for i := range n {
		s, cfg := login(t, sshtest.Options{})
		cfg.Name = fmt.Sprintf("hop%d", i)
		if i > 0 {
			cfg.Jump = clients[i-1]
		}
		servers, clients = append(servers, s), append(clients, connect(t, cfg))
	}
	return servers, clients
}

func TestJump(t *testing.T) {
	servers, clients := chain(t, 3)
	res, err := clients[2].Run(bounded(t), ssh.Command{Argv: []string{"pwd"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(res.Stdout); got != servers[2].Home+"\n" {
		t.Errorf("it ran in %q, not on the last host", got)
	}
	if got := servers[0].Forwards(); len(got) != 1 || got[0] != servers[1].Addr() {
		t.Errorf("the first host forwarded to %v", got)
	}
	// The way there breaks and is made anew.
	servers[0].Cut()
	if _, err := clients[2].Run(bounded(t), ssh.Command{Argv: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	if n := clients[0].Dials(); n != 2 {
		t.Errorf("%d connections to the first host, want 2", n)
	}
}

func TestJumpErrorsNameTheLeg(t *testing.T) {
	t.Run("jump host down", func(t *testing.T) {
		gone, gw := login(t, sshtest.Options{})
		_ = gone
		gw.Port = 1
		_, cfg := login(t, sshtest.Options{})
		cfg.Name, cfg.Jump = "seed", connect(t, gw)
		want(t, connect(t, cfg).Connect(bounded(t)), fault.Unreachable, "connecting to seed (", "its jump host is the problem: connecting to gw (", "refused")
	})
	t.Run("target down", func(t *testing.T) {
		_, gw := login(t, sshtest.Options{})
		_, cfg := login(t, sshtest.Options{})
		cfg.Name, cfg.Port, cfg.Jump = "seed", 1, connect(t, gw)
		want(t, connect(t, cfg).Connect(bounded(t)), fault.Unreachable, "connecting to seed (127.0.0.1:1) through gw (", "can't connect to 127.0.0.1:1", "gw answers; is seed up")
	})
	t.Run("target mute", func(t *testing.T) {
		_, gw := login(t, sshtest.Options{})
		_, cfg := login(t, sshtest.Options{Faults: sshtest.Faults{Mute: true}})
		cfg.Name, cfg.Jump, cfg.Timeout = "seed", connect(t, gw), 300*time.Millisecond
		want(t, connect(t, cfg).Connect(bounded(t)), fault.Unreachable, "connecting to seed (", "through gw (", "no SSH banner")
	})
	t.Run("no forwarding", func(t *testing.T) {
		_, gw := login(t, sshtest.Options{Faults: sshtest.Faults{NoForward: true}})
		_, cfg := login(t, sshtest.Options{})
		cfg.Jump = connect(t, gw)
		want(t, connect(t, cfg).Connect(bounded(t)), fault.Denied, "doesn't forward")
	})
	t.Run("wrong key behind", func(t *testing.T) {
		_, gw := login(t, sshtest.Options{})
		_, cfg := login(t, sshtest.Options{})
		cfg.Name, cfg.Jump, cfg.HostKeys = "seed", connect(t, gw), []string{sshtest.NewKey(t, sshtest.Ed25519, "").Public}
		want(t, connect(t, cfg).Connect(bounded(t)), fault.Untrusted, "connecting to seed (", "through gw (")
	})
}

func TestForward(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			fmt.Fprintln(c, "hello")
			c.Close()
		}
	}()
	s, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	for range 2 {
		conn, err := c.DialContext(bounded(t), "tcp", echo.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 6)
		if _, err := conn.Read(buf); err != nil || string(buf) != "hello\n" {
			t.Fatalf("read %q, %v", buf, err)
		}
		conn.Close()
	}
	if s.Logins() != 1 {
		t.Errorf("%d logins, want one connection for all", s.Logins())
	}
	_, err = c.DialContext(bounded(t), "tcp", "127.0.0.1:1")
	want(t, err, fault.Unreachable, "gw", "127.0.0.1:1")
	_, err = c.DialContext(bounded(t), "udp", "127.0.0.1:1")
	want(t, err, fault.Invalid, "udp")
}

func TestSilentHostIsGivenUp(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	cfg.Keepalive, cfg.Silence = 30*time.Millisecond, 100*time.Millisecond
	c := connect(t, cfg)
	if err := c.Connect(bounded(t)); err != nil {
		t.Fatal(err)
	}
	s.Set(sshtest.Faults{Frozen: true})
	_, err := c.Run(bounded(t), ssh.Command{Argv: []string{"true"}})
	want(t, err, fault.Unreachable)
	s.Set(sshtest.Faults{})
	if _, err := c.Run(bounded(t), ssh.Command{Argv: []string{"true"}}); err != nil {
		t.Fatalf("after it woke up: %v", err)
	}
}

func TestClose(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(context.Background(), ssh.Command{Script: "echo started; exec sleep 1000"})
		done <- err
	}()
	awaitTrue(t, func() bool { return s.Sessions() == 1 })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the command outlived its client")
	}
	want(t, c.Connect(bounded(t)), fault.Cancelled, "closed")
	_, err := c.Run(bounded(t), ssh.Command{Script: "true"})
	want(t, err, fault.Cancelled, "closed")
}

// awaitTrue waits until cond holds.
func awaitTrue(t *testing.T, cond func() bool) {
	t.Helper()
	ctx := bounded(t)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("the condition never held")
		}
	}
}

func FuzzHostKeys(f *testing.F) {
	key := sshtest.NewKey(f, sshtest.Ed25519, "")
	for _, s := range []string{key.Public, "host " + key.Public, "|1|a|b " + key.Public, "@revoked x", "@cert-authority *.x,!h " + key.Public, "h* " + key.Public, "ssh-ed25519 AAAA", "ssh-rsa", "\n#\n", "a:b,c " + key.Public} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, cfg := range []ssh.Config{{HostKeys: []string{line}}, {KnownHosts: line}} {
			cfg.Address, cfg.User, cfg.Key = "h", "u", key.Private
			c, err := ssh.New(cfg)
			if err == nil {
				c.Close()
			} else if fault.KindOf(err) != fault.Invalid {
				t.Errorf("%q: %v has kind %s", line, err, fault.KindOf(err))
			}
		}
	})
}
