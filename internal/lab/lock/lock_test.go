package lock_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/lock"
)

// TestTake lets many take one lock many times: never two at once, and the file
// is gone in the end.
func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "lock")
	var inside atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				free, err := lock.Take(t.Context(), path, func() {})
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have the lock", n)
				}
				inside.Add(-1)
				free()
			}
		})
	}
	all.Wait()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}

func TestTakeIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	free, err := lock.Take(t.Context(), path, func() { t.Error("waits for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := 0
	if _, err := lock.Take(ctx, path, func() { waits++; cancel() }); fault.KindOf(err) != fault.Cancelled || waits != 1 {
		t.Errorf("told %d times, %v", waits, err)
	}
	free()
	free, err = lock.Take(t.Context(), path, func() { t.Error("it is free") })
	if err != nil {
		t.Fatal(err)
	}
	free()
}
