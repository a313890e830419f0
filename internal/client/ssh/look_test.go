package ssh_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh"
	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func TestLook(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	look := func(script string) ssh.Result {
		t.Helper()
		res, err := c.Look(t.Context(), ssh.Command{Script: script, Env: map[string]string{"V": "it's"}})
		if err != nil {
			t.Fatalf("%q: %v", script, err)
		}
		return res
	}
	for script, want := range map[string]string{
		`printf 'no newline'`:               `"no newline" "" 0`,
		`echo out; echo err >&2; exit 3`:    `"out\n" "err\n" 3`,
		`printf '\n\n\n'`:                   `"\n\n\n" "" 0`,
		`cat`:                               `"" "" 0`, // no input
		`echo "$V"; V=2; cd /`:              `"it's\n" "" 0`,
		`exit`:                              `"" "" 0`,
		`( sleep 0.01; echo later ) & wait`: `"later\n" "" 0`,
		`printf 'a\000b'`:                   `"a\x00b" "" 0`,
	} {
		res := look(script)
		if got := fmt.Sprintf("%q %q %d", res.Stdout, res.Stderr, res.ExitCode); got != want {
			t.Errorf("%s: got %s, want %s", script, got, want)
		}
	}
	for _, script := range []string{`if`, `echo 'unclosed`, `no-such-program`} {
		if res := look(script); res.ExitCode == 0 || len(res.Stderr) == 0 {
			t.Errorf("%s: %+v", script, res)
		}
	}
	if got := string(look("pwd").Stdout); strings.TrimSpace(got) == "/" {
		t.Error("a look changed the folder of the next")
	}
	if n := len(s.Commands()); n != 1 {
		t.Errorf("%d sessions for one look after the other", n)
	}
}

func TestManyLooksAtOnce(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			res, err := c.Look(t.Context(), ssh.Command{Script: fmt.Sprintf("echo %d; echo %d >&2; exit %d", i, i+1, i%3)})
			if err != nil || string(res.Stdout) != fmt.Sprintln(i) || string(res.Stderr) != fmt.Sprintln(i+1) || res.ExitCode != i%3 {
				t.Errorf("look %d: %+v, %v", i, res, err)
			}
		})
	}
	all.Wait()
	if c.Dials() != 1 {
		t.Errorf("%d connections", c.Dials())
	}
	if s.Most() > 10 {
		t.Errorf("%d sessions at a time", s.Most())
	}
}

// A shell that goes away, by its own script or with the connection, makes the
// look one that has a session of its own.
func TestLookOutlivesItsShell(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	if res, err := c.Look(t.Context(), ssh.Command{Script: "kill -9 $$; sleep 5"}); err != nil || res.Signal != "KILL" {
		t.Errorf("got %+v, %v", res, err)
	}
	for range 3 {
		if res, err := c.Look(t.Context(), ssh.Command{Script: "echo here"}); err != nil || string(res.Stdout) != "here\n" {
			t.Fatalf("got %+v, %v", res, err)
		}
		s.Cut()
	}
}

func TestLookEnds(t *testing.T) {
	_, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	file := t.TempDir() + "/alive"
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := c.Look(ctx, ssh.Command{Script: "trap '' TERM; sh -c 'echo $$ >" + file + "; exec sleep 1000'"})
	if fault.KindOf(err) != fault.Timeout {
		t.Errorf("got %v", err)
	}
	awaitTrue(t, func() bool { return isGone(t, file) })
	res, err := c.Look(t.Context(), ssh.Command{Script: "yes", Limit: 1000})
	if fault.KindOf(err) != fault.Limit || len(res.Stdout) != 1000 {
		t.Errorf("got %d bytes, %v", len(res.Stdout), err)
	}
	if _, err := c.Look(t.Context(), ssh.Command{Script: "echo", As: "no-such-user-here"}); err == nil {
		t.Error("nobody was asked to become somebody")
	}
}

// Where the server allows one session, commands come first.
func TestLookBesideCommands(t *testing.T) {
	_, cfg := login(t, sshtest.Options{Faults: sshtest.Faults{MaxSessions: 1}})
	c := connect(t, cfg)
	for range 3 {
		if _, err := c.Look(t.Context(), ssh.Command{Script: "echo"}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Run(t.Context(), ssh.Command{Script: "echo"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Look(t.Context(), ssh.Command{}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("nothing was looked for: %v", err)
	}
}
