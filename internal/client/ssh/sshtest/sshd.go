package sshtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// A Daemon is a real OpenSSH server on loopback, with keys and a configuration
// of its own. It ends with the test.
type Daemon struct {
	Address string
	Port    int
	User    string // who can log in: the user who runs the test
	Key     Key    // of that user
	HostKey string // "ssh-ed25519 AAAA..."
	Dir     string // a folder for tests
}

// NewDaemon starts sshd with further lines of configuration. The test is
// left out where OpenSSH's server isn't installed.
func NewDaemon(t testing.TB, lines ...string) *Daemon {
	t.Helper()
	skip.Slow(t, "it starts sshd")
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd, err = exec.LookPath("/usr/sbin/sshd")
		skip.Unless(t, err == nil, "against a real sshd", "openssh-server isn't installed")
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if me.Uid == "0" { // sshd insists on it, and a service manager would make it
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := NewKey(t, Ed25519, "")
	d := &Daemon{Address: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, User: me.Username, Key: NewKey(t, Ed25519, ""), HostKey: host.Public, Dir: t.TempDir()}
	l.Close()
	files := map[string]string{
		"host": host.Private, "authorized": d.Key.Public + "\n",
		"config": fmt.Sprintf("Port %d\nListenAddress 127.0.0.1\nHostKey %s/host\nAuthorizedKeysFile %s/authorized\nPidFile none\nStrictModes no\nUsePAM no\n"+
			"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nSetEnv HOME=%s\n%s\n", d.Port, d.Dir, d.Dir, d.Dir, strings.Join(lines, "\n")),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(d.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.run(t, sshd)
	return d
}

func (d *Daemon) run(t testing.TB, sshd string) {
	var log lockedBuffer
	cmd := exec.Command(sshd, "-D", "-e", "-f", filepath.Join(d.Dir, "config"))
	cmd.Stderr = &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
		if t.Failed() {
			t.Logf("sshd says:\n%s", log.String())
		}
	})
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := net.Dial("tcp", net.JoinHostPort(d.Address, strconv.Itoa(d.Port)))
		if err == nil {
			c.Close()
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("sshd ended: %v\n%s", err, log.String())
		case <-deadline.C:
			t.Fatalf("sshd doesn't listen: %v\n%s", err, log.String())
		case <-tick.C:
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
