package ssh_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh"
	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// login returns a server and the configuration that logs in to it.
func login(t *testing.T, opts sshtest.Options) (*sshtest.Server, ssh.Config) {
	t.Helper()
	key := sshtest.NewKey(t, sshtest.Ed25519, "")
	opts.Authorized = append(opts.Authorized, key)
	s := sshtest.NewServer(t, opts)
	return s, ssh.Config{Name: "gw", Address: s.Address, Port: s.Port, User: "debian", Key: key.Private, HostKeys: []string{s.HostKey},
		Timeout: 2 * time.Second, Grace: 300 * time.Millisecond}
}

func connect(t *testing.T, cfg ssh.Config) *ssh.Client {
	t.Helper()
	c, err := ssh.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// want fails unless err is of kind k and its text, with its hint, has all parts.
func want(t *testing.T, err error, k fault.Kind, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one of kind %s", k)
	}
	if got := fault.KindOf(err); got != k {
		t.Errorf("kind of %q is %s, want %s", err, got, k)
	}
	text := err.Error() + "\n" + fault.HintOf(err)
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("error %q lacks %q", text, p)
		}
	}
}

func TestRun(t *testing.T) {
	_, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	res, err := c.Run(bounded(t), ssh.Command{Script: "echo out; echo err >&2; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	if string(res.Stdout) != "out\n" || string(res.Stderr) != "err\n" || res.ExitCode != 3 {
		t.Fatalf("got %q, %q, %d", res.Stdout, res.Stderr, res.ExitCode)
	}
}
