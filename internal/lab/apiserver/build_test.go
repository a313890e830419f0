package apiserver_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

// source writes a module that passes for the lab's Kubernetes, and builds in a moment.
func source(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module git.vanillacore.net/govstack/gsrun/internal/lab/kubernetes\n\ngo 1.26.0\n",
		"go.sum":  "",
		"main.go": program,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const hello = "package main\n\nfunc main() { println(\"hello\") }\n"

func TestBuildOnce(t *testing.T) {
	skip.Slow(t, "it runs the go command")
	from, cache := source(t, hello), t.TempDir()
	var mu sync.Mutex
	built := 0
	progress := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(line, "building the lab's Kubernetes, once") {
			built++
		}
	}
	paths := make([]string, 4)
	var wg sync.WaitGroup
	for i := range paths {
		wg.Go(func() {
			path, err := apiserver.Build(t.Context(), from, cache, progress)
			if err != nil {
				t.Error(err)
			}
			paths[i] = path
		})
	}
	wg.Wait()
	if built != 1 {
		t.Errorf("built %d times", built)
	}
	for _, path := range paths {
		if path != paths[0] {
			t.Errorf("paths %v", paths)
		}
	}
	if out, err := exec.Command(paths[0]).CombinedOutput(); err != nil || string(out) != "hello\n" {
		t.Errorf("the program says %q, %v", out, err)
	}
	// Another source is another program, whose build removes what hasn't been used for long.
	long := time.Now().Add(-30 * 24 * time.Hour)
	if err := os.Chtimes(paths[0], long, long); err != nil {
		t.Fatal(err)
	}
	other, err := apiserver.Build(t.Context(), source(t, strings.Replace(hello, "hello", "hi", 1)), cache, progress)
	if err != nil || other == paths[0] {
		t.Errorf("another source: %s, %v", other, err)
	}
	if _, err := os.Stat(paths[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("unused for long, but there: %v", err)
	}
}

func TestBuildFails(t *testing.T) {
	skip.Slow(t, "it runs the go command")
	cache := t.TempDir()
	_, err := apiserver.Build(t.Context(), source(t, "package main\n\nfunc main() { undefined() }\n"), cache, func(string) {})
	if fault.KindOf(err) != fault.Failed || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("a source that doesn't compile: %v", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := apiserver.Build(stopped, source(t, hello), cache, func(string) {}); fault.KindOf(err) != fault.Cancelled {
		t.Errorf("a build that was stopped: %v", err)
	}
	programs, err := filepath.Glob(filepath.Join(cache, "*", "kubernetes*"))
	if err != nil || len(programs) != 0 {
		t.Errorf("left behind: %v, %v", programs, err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := apiserver.Build(t.Context(), source(t, hello), cache, func(string) {}); fault.KindOf(err) != fault.NotFound || !strings.Contains(fault.HintOf(err), "KUBEBUILDER_ASSETS") {
		t.Errorf("without go: %v", err)
	}
}

func TestFindSource(t *testing.T) {
	dir := source(t, hello)
	t.Setenv(apiserver.SourceVariable, dir)
	if got, err := apiserver.FindSource(); err != nil || got != dir {
		t.Errorf("named: %s, %v", got, err)
	}
	t.Setenv(apiserver.SourceVariable, t.TempDir())
	if _, err := apiserver.FindSource(); fault.KindOf(err) != fault.NotFound || fault.HintOf(err) == "" {
		t.Errorf("named, but it isn't there: %v", err)
	}
	t.Setenv(apiserver.SourceVariable, "")
	got, err := apiserver.FindSource()
	if err != nil || filepath.Base(got) != "kubernetes" {
		t.Errorf("of this checkout: %s, %v", got, err)
	}
}
