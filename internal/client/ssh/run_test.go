package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh"
	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func TestRunResults(t *testing.T) {
	_, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	binary := make([]byte, 300000)
	for i := range binary {
		binary[i] = byte(i * 7)
	}
	for _, tc := range []struct {
		name   string
		cmd    ssh.Command
		stdout string
		stderr string
		code   int
		signal string
	}{
		{name: "argv", cmd: ssh.Command{Argv: []string{"printf", "[%s]", "a b", "$HOME", "`id`", "it's", `\n"`, "*", "", "-n", "é"}}, stdout: "[a b][$HOME][`id`][it's][\\n\"][*][][-n][é]"},
		{name: "script", cmd: ssh.Command{Script: "x='a  b'\necho \"$x\" | tr a c\ncat\n"}, stdout: "c  b\n"},
		{name: "exit in script", cmd: ssh.Command{Script: "echo before; exit 7; echo after"}, stdout: "before\n", code: 7},
		{name: "unfinished last line", cmd: ssh.Command{Script: "printf x; printf y >&2"}, stdout: "x", stderr: "y"},
		{name: "no output", cmd: ssh.Command{Script: ":"}},
		{name: "env", cmd: ssh.Command{Script: `echo "$A|$B"`, Env: map[string]string{"A": "a'b\n$c", "B": ""}}, stdout: "a'b\n$c|\n"},
		{name: "dir", cmd: ssh.Command{Argv: []string{"pwd"}, Dir: "/usr/lib"}, stdout: "/usr/lib\n"},
		{name: "stdin", cmd: ssh.Command{Argv: []string{"cat"}, Stdin: strings.NewReader("one\ntwo")}, stdout: "one\ntwo"},
		{name: "binary stdin", cmd: ssh.Command{Argv: []string{"cat"}, Stdin: bytes.NewReader(binary)}, stdout: string(binary)},
		{name: "stdin with quotes before", cmd: ssh.Command{Script: "printf '%s\\n' 'it'\\''s \\n'\ncat", Stdin: strings.NewReader("x")}, stdout: "it's \\n\nx"},
		{name: "stdin unread", cmd: ssh.Command{Script: "exit 4", Stdin: bytes.NewReader(make([]byte, 5<<20))}, code: 4},
		{name: "signal", cmd: ssh.Command{Script: "kill -s KILL $$"}, code: -1, signal: "KILL"},
		{name: "not found", cmd: ssh.Command{Argv: []string{"/no/such/program"}}, code: 127, stderr: "*"},
		{name: "syntax error", cmd: ssh.Command{Script: "if ("}, code: 2, stderr: "*"},
		{name: "open quote", cmd: ssh.Command{Script: "echo 'x"}, code: 2, stderr: "*"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res, err := c.Run(bounded(t), tc.cmd)
			if err != nil {
				t.Fatal(err)
			}
			if string(res.Stdout) != tc.stdout || res.ExitCode != tc.code || res.Signal != tc.signal {
				t.Errorf("got %.200q, status %d, signal %q", res.Stdout, res.ExitCode, res.Signal)
			}
			if tc.stderr != "*" && string(res.Stderr) != tc.stderr || tc.stderr == "*" && len(res.Stderr) == 0 {
				t.Errorf("stderr is %q", res.Stderr)
			}
		})
	}
}

func TestRunRefusesWhatCantBeRun(t *testing.T) {
	_, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	for _, cmd := range []ssh.Command{
		{}, {Argv: []string{"a"}, Script: "b"}, {Argv: []string{""}}, {Argv: []string{"a\x00b"}}, {Script: "a", Env: map[string]string{"A-B": ""}},
		{Script: "a", Env: map[string]string{"A": "\x00"}}, {Script: "a", As: "x; rm"}, {Script: "a", As: "-u"},
	} {
		_, err := c.Run(bounded(t), cmd)
		want(t, err, fault.Invalid)
	}
	_, err := c.Run(bounded(t), ssh.Command{Script: "true", Dir: "/no/such/folder"})
	want(t, err, fault.NotFound, "/no/such/folder")
}

// Nothing of a command is in the remote command line.
func TestRunHidesFromProcessList(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	res, err := c.Run(bounded(t), ssh.Command{Script: `cat; echo "$TOKEN" >/dev/null; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' '`,
		Env: map[string]string{"TOKEN": "hunter2hunter2"}, Stdin: strings.NewReader("")})
	if err != nil {
		t.Fatal(err)
	}
	if text := string(res.Stdout); strings.Contains(text, "hunter2") || strings.Contains(text, `"$TOKEN"`) || !strings.Contains(text, "sh") {
		t.Errorf("the process list shows it: %q", text)
	}
	for _, line := range s.Commands() {
		if strings.Contains(line, "TOKEN") || strings.Contains(line, "hunter2") {
			t.Errorf("the command line has it: %q", line)
		}
	}
}

func TestRunAs(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	s.Program("sudo", `who=; while [ "$1" != -- ]; do [ "$1" = -u ] && who=$2; shift; done; shift; BECAME=$who exec "$@"`)
	for _, in := range []bool{false, true} {
		cmd := ssh.Command{Script: `echo "$BECAME $A $PWD"; cat`, As: "root", Env: map[string]string{"A": "x"}, Dir: "/usr"}
		if in {
			cmd.Stdin = strings.NewReader("in")
		}
		res, err := c.Run(bounded(t), cmd)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(res.Stdout); !strings.HasPrefix(got, "root x /usr\n") || in != strings.HasSuffix(got, "in") {
			t.Errorf("got %q", got)
		}
	}
	res, err := c.Run(bounded(t), ssh.Command{Script: `echo "$BECAME"`, As: cfg.User})
	if err != nil || string(res.Stdout) != "\n" {
		t.Errorf("became somebody though it is the login user: %q, %v", res.Stdout, err)
	}
	s.Program("sudo", "echo 'sudo: a password is required' >&2; exit 1")
	_, err = c.Run(bounded(t), ssh.Command{Script: "true", As: "root"})
	want(t, err, fault.Denied, "a password is required", "NOPASSWD")
	s.Program("sudo", "echo 'sudo: unknown user www' >&2; exit 1")
	_, err = c.Run(bounded(t), ssh.Command{Script: "true", As: "www"})
	want(t, err, fault.NotFound, "www")
}

func TestLoginShellNoise(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	s.Program("sh", "echo 'Welcome!'; printf 'no line end'; echo warning >&2; exec /bin/sh \"$@\"")
	res, err := c.Run(bounded(t), ssh.Command{Script: "echo out; echo err >&2"})
	if err != nil || string(res.Stdout) != "out\n" || string(res.Stderr) != "err\n" {
		t.Errorf("got %q, %q, %v", res.Stdout, res.Stderr, err)
	}
	s.Program("sh", "echo 'This account is currently not available.'; exit 1")
	_, err = c.Run(bounded(t), ssh.Command{Script: "echo out"})
	want(t, err, fault.Failed, "This account is currently not available", "login shell")
}

func TestOneConnectionForAll(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	cfg.MaxSessions = 3
	c := connect(t, cfg)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			res, err := c.Run(bounded(t), ssh.Command{Argv: []string{"echo", strconv.Itoa(i)}})
			if err != nil || string(res.Stdout) != fmt.Sprintln(i) {
				t.Errorf("%d: got %q, %v", i, res.Stdout, err)
			}
		})
	}
	all.Wait()
	if s.Logins() != 1 || s.Most() > 3 {
		t.Errorf("%d logins and %d sessions at a time, want 1 and at most 3", s.Logins(), s.Most())
	}
}

func TestServerAllowsFewerSessions(t *testing.T) {
	_, cfg := login(t, sshtest.Options{Faults: sshtest.Faults{MaxSessions: 1}})
	c := connect(t, cfg)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := c.Run(bounded(t), ssh.Command{Script: "cat </dev/null"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestDialsAgainAfterACut(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	for i := 1; i <= 3; i++ {
		if _, err := c.Run(bounded(t), ssh.Command{Script: "true"}); err != nil {
			t.Fatal(err)
		}
		if c.Dials() != i {
			t.Errorf("%d connections, want %d", c.Dials(), i)
		}
		s.Cut()
	}
}

func TestCutWhileRunning(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	s.Set(sshtest.Faults{CutAfter: 200})
	_, err := c.Run(bounded(t), ssh.Command{Script: "trap '' PIPE; i=0; while [ $i -lt 100 ]; do echo hello; i=$((i+1)); done 2>/dev/null; until [ -e go ]; do sleep 0.01; done"})
	want(t, err, fault.Unreachable, "was lost")
	var lost *ssh.LostError
	if !errors.As(err, &lost) || lost.PID == 0 {
		t.Fatalf("%v doesn't say that the command may be running", err)
	}
	s.Set(sshtest.Faults{})
	if runs, err := c.IsRunning(bounded(t), lost.PID, ""); err != nil || !runs {
		t.Errorf("it is said to have ended (%v)", err)
	}
	if err := os.WriteFile(filepath.Join(s.Home, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	awaitTrue(t, func() bool {
		runs, err := c.IsRunning(bounded(t), lost.PID, "")
		return err == nil && !runs
	})
}

// isGone reports whether the process whose id is in the file has ended.
func isGone(t *testing.T, file string) bool {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(b)) + "/stat")
	// An orphan that nobody has reaped yet is a zombie.
	return errors.Is(err, os.ErrNotExist) || bytes.Contains(stat, []byte(") Z "))
}

func TestCancelKillsTheProcess(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		faults       sshtest.Faults
	}{
		{name: "by signal", script: "sleep 1000 & echo $! >pid; wait"},
		{name: "without signal requests", script: "sleep 1000 & echo $! >pid; wait", faults: sshtest.Faults{NoSignals: true}},
		{name: "ignoring TERM", script: "trap '' TERM; sleep 1000 & echo $! >pid; wait; wait; wait", faults: sshtest.Faults{NoSignals: true}},
		{name: "detached, ignoring TERM", script: "(trap '' TERM; exec sleep 1000 </dev/null >/dev/null 2>&1) & echo $! >pid; wait"},
		{name: "in the foreground", script: "sh -c 'echo $$ >pid; exec sleep 1000'"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, cfg := login(t, sshtest.Options{Faults: tc.faults})
			c := connect(t, cfg)
			file := filepath.Join(s.Home, "pid")
			ctx, cancel := context.WithCancel(bounded(t))
			done := make(chan error, 1)
			go func() {
				_, err := c.Run(ctx, ssh.Command{Script: tc.script})
				done <- err
			}()
			awaitTrue(t, func() bool {
				b, err := os.ReadFile(file)
				return err == nil && bytes.HasSuffix(b, []byte("\n"))
			})
			start := time.Now()
			cancel()
			want(t, <-done, fault.Cancelled)
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("it took %s to stop", d)
			}
			awaitTrue(t, func() bool { return isGone(t, file) })
			if _, err := c.Run(bounded(t), ssh.Command{Script: "true"}); err != nil || c.Dials() != 1 {
				t.Errorf("the connection is of no use any more: %v, %d dials", err, c.Dials())
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	_, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := c.Run(ctx, ssh.Command{Argv: []string{"sleep", "1000"}})
	want(t, err, fault.Timeout)
}

func TestOutputLimit(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	res, err := c.Run(bounded(t), ssh.Command{Script: "echo $$ >pid; yes", Limit: 1000})
	want(t, err, fault.Limit, "more than 1000 bytes")
	if len(res.Stdout) != 1000 {
		t.Errorf("kept %d bytes", len(res.Stdout))
	}
	awaitTrue(t, func() bool { return isGone(t, filepath.Join(s.Home, "pid")) })
	_, err = c.Run(bounded(t), ssh.Command{Script: "printf 12345 >&2", Limit: 4})
	want(t, err, fault.Limit, "more than 4 bytes")
}

func TestOutputIsStreamed(t *testing.T) {
	s, cfg := login(t, sshtest.Options{})
	c := connect(t, cfg)
	var seen lines
	done := make(chan error, 1)
	go func() {
		_, err := c.Run(bounded(t), ssh.Command{Script: "echo first; until [ -e go ]; do :; done; echo second", Stdout: &seen})
		done <- err
	}()
	awaitTrue(t, func() bool { return seen.String() == "first\n" })
	if err := os.WriteFile(filepath.Join(s.Home, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if seen.String() != "first\nsecond\n" {
		t.Errorf("streamed %q", seen.String())
	}
}

// lines is a buffer for two goroutines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *lines) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func FuzzQuote(f *testing.F) {
	_, cfg := login2(f)
	c, err := ssh.New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	for _, s := range []string{"", "a b", "it's", "'", "''", "\\", "\n", "$(id)", "`id`", "!x", "-n", "\x01\xff", "a\\\nb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ReplaceAll(s, "\x00", "") // no program can get one
		res, err := c.Run(context.Background(), ssh.Command{Argv: []string{"printf", "%s", s}, Env: map[string]string{"V": s}})
		if err != nil || string(res.Stdout) != s {
			t.Errorf("%q came back as %q, %v", s, res.Stdout, err)
		}
		res, err = c.Run(context.Background(), ssh.Command{Script: `printf %s "$V"; cat`, Env: map[string]string{"V": s}, Stdin: strings.NewReader(s)})
		if err != nil || string(res.Stdout) != s+s {
			t.Errorf("%q came back as %q, %v", s, res.Stdout, err)
		}
	})
}

func login2(f *testing.F) (*sshtest.Server, ssh.Config) {
	key := sshtest.NewKey(f, sshtest.Ed25519, "")
	s := sshtest.NewServer(f, sshtest.Options{Authorized: []sshtest.Key{key}})
	return s, ssh.Config{Address: s.Address, Port: s.Port, User: "debian", Key: key.Private, HostKeys: []string{s.HostKey}}
}
