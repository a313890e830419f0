package ssh_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/client/ssh/sshtest"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
)

// A relay carries connections to a server, and can cut them all, as the death
// of a client does.
type relay struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l}
	t.Cleanup(func() { l.Close(); r.cut() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, in, out)
			r.mu.Unlock()
			go func() { _, _ = io.Copy(in, out); in.Close() }()
			go func() { _, _ = io.Copy(out, in); out.Close() }()
		}
	}()
	return r
}

func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}

// A command that still runs when its gsrun dies goes on. The next gsrun waits
// for it, and finds its work done.
func TestRunWaitsForWhatADeadGsrunLeft(t *testing.T) {
	d := sshtest.NewDaemon(t)
	skip.Unless(t, d.User == "root", "commands that outlive their gsrun, on OpenSSH", "its tests log in as root")
	for name, guard := range map[string]string{"creates": `creates = root + "/done"`, "unless": `unless = "test -e '%s/done'" % root`} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, sshtest.Options{})
			r := newRelay(t, net.JoinHostPort(d.Address, strconv.Itoa(d.Port)))
			s.server.Address, s.server.Port, s.server.HostKey, s.key = "127.0.0.1", r.Addr().(*net.TCPAddr).Port, d.HostKey, d.Key
			src := filepath.Join(t.TempDir(), "step.star")
			text := `
def test_it():
    host = ssh.host(address, user = "root", key = key, host_key = host_key, port = port, name = "gw")
    def act():
        host.run(sh = "cd '%s'; echo x >>count; until [ -e go ]; do sleep 0.05; done; touch done" % root, ` + guard + `)
    assert.fails(act, "while the command was running", kind = "failed")
    act()
    assert.eq(host.read(root + "/count"), "x\n")
`
			if err := os.WriteFile(src, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var watching sync.WaitGroup
			defer watching.Wait()
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			count := filepath.Join(s.root, "count")
			watching.Go(func() {
				defer os.WriteFile(filepath.Join(s.root, "go"), nil, 0o600)
				if !await(ctx, func() bool { return lines(count) == 1 }) {
					return
				}
				r.cut()
				var lock string
				if await(ctx, func() bool { lock = contended(t); return lock != "" || lines(count) > 1 }) && lock != "" {
					os.Remove(lock)
				}
			})
			startest.Run(t, src, s.options(nil))
		})
	}
}

func await(ctx context.Context, done func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func lines(file string) int {
	data, _ := os.ReadFile(file) // there is none before the command runs
	return strings.Count(string(data), "\n")
}

// contended returns the lock of commands that two processes of this machine
// hold or wait for.
func contended(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Error(err)
	}
	seen := make(map[string]bool)
	for _, file := range files {
		data, _ := os.ReadFile(file) // it may have ended
		words := strings.Split(string(data), "\x00")
		if words[0] != "flock" {
			continue
		}
		for _, w := range words {
			if strings.Contains(w, "/gsrun/run-") {
				if seen[w] {
					return w
				}
				seen[w] = true
			}
		}
	}
	return ""
}
