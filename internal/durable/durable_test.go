package durable_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/durable"
)

// names lists what lies in dir, temporary files included.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func check(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != content {
		t.Errorf("%s holds %q, %v; want %q", path, got, err, content)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != mode {
		t.Errorf("%s: mode %v, %v; want %v", path, info.Mode(), err, mode)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	for i, mode := range []fs.FileMode{0o644, 0o600} {
		content := fmt.Sprint("content ", i)
		if err := durable.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		check(t, path, content, mode)
	}
	if err := durable.WriteFile(filepath.Join(dir, "none", "a"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a folder that isn't there: %v", err)
	}
	// A folder can't be replaced by a file: it stays, and so does nothing else.
	full := filepath.Join(dir, "full")
	if err := durable.MkdirAll(filepath.Join(full, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(full, nil, 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"a", "full"}) {
		t.Errorf("there are %v", got)
	}
}

// Readers of a file that is being replaced see one content or the other.
func TestWriteFileIsAtomic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	long, short := make([]byte, 1<<16), []byte("short")
	if err := durable.WriteFile(path, long, 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			got, err := os.ReadFile(path)
			if err != nil || len(got) != len(long) && len(got) != len(short) {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for i := range 50 {
		if err := durable.WriteFile(path, [][]byte{short, long}[i%2], 0o600); err != nil {
			t.Error(err)
		}
	}
	close(done)
	wg.Wait()
}

func TestCreateFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	const racers = 16
	won := make([]bool, racers)
	got := make([][]byte, racers)
	var wg sync.WaitGroup
	for i := range racers {
		wg.Go(func() {
			var err error
			if got[i], won[i], err = durable.CreateFile(path, fmt.Append(nil, i), 0o640); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	first := slices.Index(won, true)
	if first < 0 || slices.Contains(won[first+1:], true) {
		t.Fatalf("who created it: %v", won)
	}
	check(t, path, fmt.Sprint(first), 0o640)
	for i, stored := range got {
		if string(stored) != fmt.Sprint(first) {
			t.Errorf("%d was told that %q is stored, not %d", i, stored, first)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"a"}) {
		t.Errorf("there are %v", got)
	}
	if _, _, err := durable.CreateFile(filepath.Join(dir, "none", "a"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a folder that isn't there: %v", err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	if _, created, err := durable.CreateFile(filepath.Join(dir, "dangling"), nil, 0o600); created || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("where a dangling link is: created %v, %v", created, err)
	}
}

func TestCommit(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "part"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("whole"); err != nil {
		t.Fatal(err)
	}
	if err := durable.Commit(f, filepath.Join(dir, "a"), 0o444); err != nil {
		t.Fatal(err)
	}
	check(t, filepath.Join(dir, "a"), "whole", 0o444)
	if got := names(t, dir); !slices.Equal(got, []string{"a"}) {
		t.Errorf("there are %v", got)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closing it again: %v", err)
	}
	if err := durable.Commit(f, filepath.Join(dir, "b"), 0o600); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a closed file: %v", err)
	}
}

func TestMkdirAllAndRemove(t *testing.T) {
	dir := t.TempDir()
	deep := filepath.Join(dir, "a", "b")
	for range 2 {
		if err := durable.MkdirAll(deep, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(deep, "file")
	if err := durable.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.MkdirAll(filepath.Join(path, "c"), 0o700); err == nil {
		t.Error("a folder was made below a file")
	}
	for range 2 {
		if err := durable.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, deep); len(got) != 0 {
		t.Errorf("there are %v", got)
	}
	if err := durable.Remove(filepath.Join(dir, "a")); err == nil {
		t.Error("a folder that isn't empty was removed")
	}
}

// Of many processes that write at once and die, the last write sweeps up what
// the dead ones left, and nothing that is being written.
func TestTemp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "odd [name]*")
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	dead, err := durable.Temp(dir)
	if err != nil {
		t.Fatal(err)
	}
	dead.Close() // as the end of its process does
	alive, err := durable.Temp(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{filepath.Base(alive.Name())}) {
		t.Errorf("there are %v", got)
	}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			if err := durable.WriteFile(filepath.Join(dir, fmt.Sprint(i%3)), []byte("x"), 0o600); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := durable.Commit(alive, filepath.Join(dir, "3"), 0o600); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
		t.Errorf("there are %v", got)
	}
}
