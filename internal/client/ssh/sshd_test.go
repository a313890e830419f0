package ssh_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh"
	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func daemon(t *testing.T, lines ...string) (*sshtest.Daemon, ssh.Config) {
	t.Helper()
	d := sshtest.NewDaemon(t, lines...)
	return d, ssh.Config{Name: "real", Address: d.Address, Port: d.Port, User: d.User, Key: d.Key.Private, HostKeys: []string{d.HostKey},
		Timeout: 5 * time.Second, Grace: 500 * time.Millisecond}
}

// What holds for the server in this process holds for OpenSSH's.
func TestOpenSSH(t *testing.T) {
	d, cfg := daemon(t, "MaxSessions 2")
	c := connect(t, cfg)
	big := bytes.Repeat([]byte("0123456789\x00\xff\n"), 100000)
	res, err := c.Run(bounded(t), ssh.Command{Script: "cat; echo err >&2; exit 5", Stdin: bytes.NewReader(big), Env: map[string]string{"A": "x"}, Dir: d.Dir})
	if err != nil || !bytes.Equal(res.Stdout, big) || string(res.Stderr) != "err\n" || res.ExitCode != 5 {
		t.Fatalf("got %d bytes, %q, %d, %v", len(res.Stdout), res.Stderr, res.ExitCode, err)
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := c.Run(bounded(t), ssh.Command{Argv: []string{"true"}}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if c.Dials() != 1 {
		t.Errorf("%d connections", c.Dials())
	}
	behind := cfg
	behind.Name, behind.Jump = "behind", c
	if res, err := connect(t, behind).Run(bounded(t), ssh.Command{Argv: []string{"echo", "hi"}}); err != nil || string(res.Stdout) != "hi\n" {
		t.Errorf("through itself: %q, %v", res.Stdout, err)
	}
	cfg.HostKeys = []string{sshtest.NewKey(t, sshtest.Ed25519, "").Public}
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Untrusted, "doesn't match")
	cfg.HostKeys, cfg.Key = []string{d.HostKey}, sshtest.NewKey(t, sshtest.Ed25519, "").Private
	want(t, connect(t, cfg).Connect(bounded(t)), fault.Denied, "refuses user")
}

func TestOpenSSHCancel(t *testing.T) {
	d, cfg := daemon(t)
	c := connect(t, cfg)
	for i, script := range []string{"echo $$ >$F; exec sleep 1000", "trap '' TERM; sh -c 'echo $$ >$F; exec sleep 1000'"} {
		file := filepath.Join(d.Dir, "pid"+strings.Repeat("x", i))
		ctx, cancel := context.WithCancel(bounded(t))
		done := make(chan error, 1)
		go func() {
			_, err := c.Run(ctx, ssh.Command{Script: script, Env: map[string]string{"F": file}})
			done <- err
		}()
		awaitTrue(t, func() bool {
			b, err := os.ReadFile(file)
			return err == nil && bytes.HasSuffix(b, []byte("\n"))
		})
		cancel()
		want(t, <-done, fault.Cancelled)
		if i == 1 { // the first script's $$ is the shell that reads it
			awaitTrue(t, func() bool { return isGone(t, file) })
		}
	}
	if _, err := c.Run(bounded(t), ssh.Command{Script: "true"}); err != nil || c.Dials() != 1 {
		t.Errorf("the connection is of no use any more: %v, %d dials", err, c.Dials())
	}
}

func TestOpenSSHForbidsForwarding(t *testing.T) {
	_, cfg := daemon(t, "AllowTcpForwarding no")
	c := connect(t, cfg)
	_, err := c.DialContext(bounded(t), "tcp", "127.0.0.1:1")
	want(t, err, fault.Denied, "AllowTcpForwarding")
}

// BenchmarkOpenSSH gives the cost of one command on a connection that is
// there, on a real server.
func BenchmarkOpenSSH(b *testing.B) {
	d := sshtest.NewDaemon(b)
	c, err := ssh.New(ssh.Config{Address: d.Address, Port: d.Port, User: d.User, Key: d.Key.Private, HostKeys: []string{d.HostKey}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for _, bc := range []struct {
		name  string
		stdin bool
	}{{"script", false}, {"script with input", true}} {
		b.Run(bc.name, func(b *testing.B) {
			for b.Loop() {
				cmd := ssh.Command{Script: strings.Repeat("# a script of some length\n", 40) + "echo hi\n"}
				if bc.stdin {
					cmd.Stdin = strings.NewReader("input")
				}
				if _, err := c.Run(context.Background(), cmd); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
