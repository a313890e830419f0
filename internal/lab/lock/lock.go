// Package lock keeps processes from doing the same thing at once, by files
// that exist only while somebody has or wants them.
package lock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// poll is how often a lock that somebody else has is tried again.
const poll = 20 * time.Millisecond

// Take takes the lock at path, whose folder is made if it isn't there, and
// returns what frees it. It calls waiting once if somebody else has it. It
// fails with Cancelled or Timeout if ctx ends first. A process that dies frees
// its locks.
func Take(ctx context.Context, path string, waiting func()) (free func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, &fault.Error{Op: "locking", Target: path, Kind: fault.Invalid, Err: err}
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for first := true; ; {
		file, err := try(path)
		if err != nil {
			return nil, &fault.Error{Op: "locking", Target: path, Kind: fault.Invalid, Err: err}
		}
		if file != nil {
			return func() {
				// Whoever has opened it by now sees that it is gone, and makes another.
				_ = os.Remove(path)
				_ = file.Close()
			}, nil
		}
		if first {
			first = false
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fault.Wrap("waiting for", path, fault.FromContext(ctx))
		case <-tick.C:
		}
	}
}

// try returns the locked file at path; it is nil if somebody else has it.
func try(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && same(file, path) {
		return file, nil
	}
	_ = file.Close()
	if err == nil || errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return nil, nil
	}
	return nil, err
}

// same reports whether path still is the file that was opened.
func same(file *os.File, path string) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(opened, named)
}
