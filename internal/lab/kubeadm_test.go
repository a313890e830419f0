package lab

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/control"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// newDir returns a folder for a lab. A socket's path is short, and that of a
// test's own folder may not be.
func newDir(t *testing.T) string {
	t.Helper()
	parent, err := os.MkdirTemp("", "lab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	return filepath.Join(parent, "w")
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// startTestLab starts a lab in this process, which must end without a defect.
func startTestLab(t *testing.T) *Lab {
	t.Helper()
	var log syncBuffer
	l, err := Start(newDir(t), &log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close()
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "defect") {
				t.Errorf("the lab: %s", line)
			}
		}
	})
	return l
}

// await waits until ok.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// inside counts the processes whose working folder is dir: those of a cluster.
func inside(t *testing.T, dir string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil && strings.TrimSuffix(cwd, " (deleted)") == dir {
			n++
		}
	}
	return n
}

// TestKubeadmBrokenOff breaks kubeadm init off at several moments, and begins
// again at once each time.
func TestKubeadmBrokenOff(t *testing.T) {
	skip.Slow(t, "it starts API servers")
	if err := Prepare(t.Context(), func(line string) { t.Log(line) }); err != nil {
		t.Fatal(err)
	}
	l := startTestLab(t)
	h, err := l.Hosts.Boot(hosts.Spec{ID: "seed", Name: "seed", Addresses: []hosts.Address{{IP: netip.MustParseAddr("10.20.0.10"), Network: "mgmt", Prefix: 24}}})
	if err != nil {
		t.Fatal(err)
	}
	kubernetes := filepath.Join(l.dir, "kubernetes")
	folder := filepath.Join(kubernetes, "seed")
	nothing := func([]byte) error { return nil }
	initialize := func(ctx context.Context, written func([]byte) error) error {
		return l.world.kubeadm(ctx, h.Info(), nil, kubernetes, control.Config{}, written)
	}

	refused := errors.New("no space left on device")
	if err := initialize(t.Context(), func([]byte) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("files that can't be written: %v", err)
	}
	for _, moment := range []string{"pki/ca.crt", "etcd/member/wal", "audit.log"} {
		for _, reset := range []bool{false, true} {
			if reset && moment != "etcd/member/wal" {
				continue // once is enough for what doesn't depend on the moment
			}
			ctx, cancel := context.WithCancel(t.Context())
			broken := make(chan error, 1)
			go func() { broken <- initialize(ctx, nothing) }()
			await(t, moment, func() bool { return exists(filepath.Join(folder, moment)) })
			cancel()
			if reset {
				if err := l.world.kubeadmReset(t.Context(), h.Info(), kubernetes); err != nil {
					t.Fatal(err)
				}
				if exists(folder) || inside(t, folder) != 0 {
					t.Errorf("%s: left behind by a reset", moment)
				}
			}
			if err := initialize(t.Context(), nothing); err != nil {
				t.Fatalf("after one that was broken off at %s: %v", moment, err)
			}
			if err := <-broken; fault.KindOf(err) != fault.Cancelled {
				t.Errorf("broken off at %s: %v", moment, err)
			}
			if n := inside(t, folder); n != 1 {
				t.Errorf("%s: %d processes of one control plane", moment, n)
			}
			if err := initialize(t.Context(), nothing); fault.KindOf(err) != fault.Conflict {
				t.Errorf("over one that runs: %v", err)
			}
			address := l.world.clusterOf("seed").api.Address
			if err := l.world.kubeadmReset(t.Context(), h.Info(), kubernetes); err != nil {
				t.Fatal(err)
			}
			if exists(folder) || inside(t, folder) != 0 {
				t.Error("left behind by a reset")
			}
			if c, err := net.Dial("tcp", address); err == nil {
				c.Close()
				t.Error("after a reset, the API server answers")
			}
		}
	}
}
