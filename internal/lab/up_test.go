package lab

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
	"git.vanillacore.net/govstack/gsrun/internal/lab/control"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// withKubernetes makes the process of a lab start a control plane on a host.
const withKubernetes = "LAB_TEST_KUBERNETES"

// TestMain is the process of a lab where Up starts it as one.
func TestMain(m *testing.M) {
	if len(os.Args) != 5 || os.Args[1] != "lab" || os.Args[2] != "serve" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	serve := Serve
	if os.Getenv(withKubernetes) != "" {
		serve = serveKubernetes
	}
	if err := serve(ctx, os.Args[4], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serveKubernetes(ctx context.Context, dir string, log io.Writer) error {
	l, err := Start(dir, log)
	if err != nil {
		return err
	}
	defer l.Close()
	h, err := l.Hosts.Boot(hosts.Spec{ID: "seed", Name: "seed", Addresses: []hosts.Address{{IP: netip.MustParseAddr("10.20.0.10"), Network: "mgmt", Prefix: 24}}})
	if err != nil {
		return err
	}
	if err := l.world.kubeadm(ctx, h.Info(), nil, filepath.Join(dir, "kubernetes"), control.Config{}, func([]byte) error { return nil }); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// withoutKubernetes lets a lab start at once: it doesn't look for Kubernetes.
func withoutKubernetes(t *testing.T) {
	t.Helper()
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
}

// program is what Up runs: this test.
func program(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func up(t *testing.T, dir string) *Info {
	t.Helper()
	i, err := Up(t.Context(), program(t), dir, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Down(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	return i
}

func down(t *testing.T, dir string) {
	t.Helper()
	if err := Down(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if _, err := Status(dir); fault.KindOf(err) != fault.NotFound {
		t.Errorf("status of a lab that is down: %v", err)
	}
}

// TestUpAtOnce lets many start a lab at once: they all get the same.
func TestUpAtOnce(t *testing.T) {
	withoutKubernetes(t)
	dir := newDir(t)
	infos := make([]*Info, 8)
	var mu sync.Mutex
	waiting := 0
	var all sync.WaitGroup
	for n := range infos {
		all.Go(func() {
			i, err := Up(t.Context(), program(t), dir, func(line string) {
				mu.Lock()
				defer mu.Unlock()
				if strings.HasPrefix(line, "waiting for another gsrun") {
					waiting++
				}
			})
			if err != nil {
				t.Error(err)
				i = &Info{}
			}
			infos[n] = i
		})
	}
	all.Wait()
	for _, i := range infos {
		if *i != *infos[0] {
			t.Errorf("two labs: %+v and %+v", *i, *infos[0])
		}
	}
	if waiting == 0 || waiting >= len(infos) {
		t.Errorf("%d of %d were told that they wait", waiting, len(infos))
	}
	if i, err := Status(dir); err != nil || *i != *infos[0] {
		t.Errorf("status: %+v, %v", i, err)
	}
	if i := up(t, dir); *i != *infos[0] {
		t.Errorf("started again: %+v", *i)
	}
	down(t, dir)
	if err := syscall.Kill(infos[0].PID, 0); err == nil {
		await(t, "the end of the lab's process", func() bool { return syscall.Kill(infos[0].PID, 0) != nil })
	}
	down(t, dir) // which is down
}

// TestUpAndDownAtOnce lets some start a lab while others stop it.
func TestUpAndDownAtOnce(t *testing.T) {
	withoutKubernetes(t)
	dir := newDir(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := Up(t.Context(), program(t), dir, func(string) {}); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if err := Down(t.Context(), dir); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	down(t, dir)
}

// TestUpGoesOn starts a lab where another call did and was killed meanwhile:
// its process is on the way, and nobody waits for it.
func TestUpGoesOn(t *testing.T) {
	withoutKubernetes(t)
	dir := newDir(t)
	cmd := exec.Command(program(t), "lab", "serve", "--dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	await(t, "the process", func() bool {
		_, live := holder(dir)
		return live
	})
	if i := up(t, dir); i.PID != cmd.Process.Pid {
		t.Errorf("process %d, want %d", i.PID, cmd.Process.Pid)
	}
	// A second process in the same folder is refused, and the lab isn't touched.
	out, err := exec.Command(program(t), "lab", "serve", "--dir", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "already runs") {
		t.Errorf("a second process: %v, %s", err, out)
	}
	if _, err := Status(dir); err != nil {
		t.Error(err)
	}
	down(t, dir)
	if err := <-exited; err != nil {
		t.Errorf("the process ended with %v", err)
	}
}

func TestUpFails(t *testing.T) {
	withoutKubernetes(t)
	dir := newDir(t)
	_, err := Up(t.Context(), "/bin/false", dir, func(string) {})
	if fault.KindOf(err) != fault.Failed || !strings.Contains(err.Error(), "ended at once") {
		t.Errorf("a program that fails: %v", err)
	}
	// One that never serves is ended when its caller gives up.
	never := filepath.Join(t.TempDir(), "never")
	if err := os.WriteFile(never, []byte("#!/bin/sh\necho $$ >\"$4/log\"\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := Up(ctx, never, dir, func(string) {})
		gaveUp <- err
	}()
	var pid int
	await(t, "the program", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "log"))
		n, _ := fmt.Sscan(string(text), &pid)
		return n == 1
	})
	cancel()
	if err := <-gaveUp; fault.KindOf(err) != fault.Cancelled {
		t.Errorf("broken off: %v", err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the program goes on")
	}
	down(t, dir)

	other := newDir(t)
	if err := os.MkdirAll(filepath.Join(other, "documents"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{func() error {
		_, err := Up(t.Context(), program(t), other, func(string) {})
		return err
	}(), Down(t.Context(), other)} {
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "documents") {
			t.Errorf("a folder that isn't a lab's: %v", err)
		}
	}
	if !exists(filepath.Join(other, "documents")) {
		t.Error("it was removed")
	}
}

// TestUpWithoutKubernetes starts a lab where its Kubernetes is neither built
// nor can be.
func TestUpWithoutKubernetes(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv(apiserver.SourceVariable, t.TempDir())
	dir := newDir(t)
	var lines []string
	i, err := Up(t.Context(), program(t), dir, func(line string) { lines = append(lines, line) })
	if err != nil || i.PID == 0 {
		t.Fatalf("%+v, %v", i, err)
	}
	if len(lines) != 1 || !strings.Contains(lines[0], "kubeadm init will fail until") || !strings.Contains(lines[0], "of a checkout of gsrun") {
		t.Errorf("told: %q", lines)
	}
	down(t, dir)

	l := startTestLab(t)
	h := hosts.Info{ID: "seed", Name: "seed", Addresses: []hosts.Address{{IP: netip.MustParseAddr("10.20.0.10")}}}
	err = l.world.kubeadm(t.Context(), h, nil, filepath.Join(l.dir, "kubernetes"), control.Config{}, func([]byte) error { return nil })
	if fault.KindOf(err) != fault.NotFound || !strings.Contains(err.Error(), "of a checkout of gsrun") {
		t.Errorf("kubeadm init says %v", err)
	}
}

// TestKilled kills a lab's process while its Kubernetes runs, and starts a lab
// anew at once.
func TestKilled(t *testing.T) {
	skip.Slow(t, "it starts an API server")
	t.Setenv(withKubernetes, "1")
	dir := newDir(t)
	killed := up(t, dir)
	folder := filepath.Join(dir, "kubernetes", "seed")
	await(t, "the API server", func() bool { return exists(filepath.Join(dir, "kubernetes", "seed.sock")) && inside(t, folder) == 1 })
	if err := syscall.Kill(killed.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "its end", func() bool {
		_, live := holder(dir)
		return !live
	})
	if _, err := Status(dir); fault.KindOf(err) != fault.NotFound {
		t.Errorf("status of a lab that was killed: %v", err)
	}
	if !exists(filepath.Join(dir, "kubernetes", "seed.sock")) {
		t.Error("the socket of a lab that was killed is gone: this test tests nothing")
	}
	t.Setenv(withKubernetes, "")
	i := up(t, dir)
	if i.PID == killed.PID || exists(filepath.Join(dir, "kubernetes", "seed")) {
		t.Errorf("the lab that was killed goes on: %+v", i)
	}
	began := time.Now()
	down(t, dir)
	t.Logf("down in %v", time.Since(began))
	await(t, "the end of the API server", func() bool { return inside(t, folder) == 0 })
}
