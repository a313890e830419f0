package journal

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Holder says who holds a lock.
type Holder struct {
	Run   string    `json:"run"`
	Who   string    `json:"who"` // user@host pid
	Since time.Time `json:"since"`
	Token int64     `json:"token"` // grows with each holder
}

// A Lock keeps a second run of the same recipe from the same store. The
// operating system frees it when its holder dies.
type Lock struct {
	file   *os.File
	holder Holder
}

// Lock takes the lock of that name, or says who has it.
func (s *Store) Lock(name string, h Holder) (*Lock, error) {
	path := filepath.Join(s.dir, "locks", strings.ReplaceAll(name, "/", "+")+".json")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &fault.Error{Op: "taking lock", Target: path, Kind: fault.Invalid, Err: err}
	}
	var before Holder
	_ = json.NewDecoder(f).Decode(&before) // a new or cut lock file has no holder
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &fault.Error{Op: "taking lock", Target: path, Kind: fault.Invalid, Err: err}
		}
		return nil, fault.Hinted(fault.Locked, "wait until it ends; if its process is gone, so is its lock",
			"recipe %s is being run by %s (run %s, since %s)", name, before.Who, before.Run, before.Since.Format(time.RFC3339))
	}
	h.Token = before.Token + 1
	l := &Lock{file: f, holder: h}
	data, err := json.Marshal(h)
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt(append(data, '\n'), 0)
		}
	}
	if err != nil {
		l.Release()
		return nil, &fault.Error{Op: "taking lock", Target: path, Kind: fault.Invalid, Err: err}
	}
	return l, nil
}

// Guard is an effect.Guard. It returns an error if somebody else took the lock.
func (l *Lock) Guard(context.Context) (leave func(), err error) {
	var now Holder
	data := make([]byte, 4096)
	n, _ := l.file.ReadAt(data, 0)
	if err := json.Unmarshal(data[:n], &now); err != nil || now.Token != l.holder.Token || now.Run != l.holder.Run {
		return nil, fault.Hinted(fault.Locked, "run again once that one has ended", "the lock was taken over by %s (run %s)", now.Who, now.Run)
	}
	return func() {}, nil // the lock is held as long as its holder lives
}

// Release frees the lock.
func (l *Lock) Release() { l.file.Close() }
