// Package lab is a whole world on loopback for trying and testing recipes: an
// OpenStack cloud, the SSH hosts that its servers are, a Git server, a mirror
// of upstream files, and a real Kubernetes API server.
//
// It runs as one background process; everything it keeps lies in one folder.
package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// DirVariable names the environment variable that says where the lab lies.
const DirVariable = "GSRUN_LAB_DIR"

// infoFile is written once everything serves.
const infoFile = "lab.json"

// An Info says where a running lab's parts are.
type Info struct {
	Dir       string    `json:"dir"`
	Site      string    `json:"site"` // the folder of the lab's own site
	PID       int       `json:"pid"`
	Started   time.Time `json:"started"`
	OpenStack string    `json:"openstack"` // base URL of the APIs
	Mirror    string    `json:"mirror"`
	Control   string    `json:"control"`  // where faults are added, for Remote
	Git       string    `json:"git"`      // URL of the repository of spokes
	SSHPort   int       `json:"ssh_port"` // of the servers' floating addresses
}

// Dir returns the folder of this user's lab: what GSRUN_LAB_DIR says, else one
// in the user's cache folder.
func Dir() (string, error) {
	if dir := os.Getenv(DirVariable); dir != "" {
		return filepath.Abs(dir)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fault.Hinted(fault.Invalid, "set "+DirVariable, "no folder for the lab: %v", err)
	}
	return filepath.Join(cache, "gsrun", "lab", "world"), nil
}

// Status returns where the parts of the lab in dir are, or an error of kind
// NotFound if it isn't up.
func Status(dir string) (*Info, error) {
	data, err := os.ReadFile(filepath.Join(dir, infoFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Hinted(fault.NotFound, "start it with gsrun lab up", "no lab in %s", dir)
	}
	if err != nil {
		return nil, &fault.Error{Op: "reading", Target: dir, Kind: fault.Invalid, Err: err}
	}
	var i Info
	if err := json.Unmarshal(data, &i); err != nil {
		return nil, &fault.Error{Op: "reading", Target: filepath.Join(dir, infoFile), Kind: fault.Invalid, Err: err}
	}
	if _, live := holder(dir); !live {
		return nil, fault.Hinted(fault.NotFound, "clear it with gsrun lab down", "the lab in %s ended without being stopped", dir)
	}
	return &i, nil
}

const (
	lockFile = "lock"    // locked by the lab's process for as long as it lives; holds its id
	logFile  = "lab.log" // what the lab's process writes
)

// holder returns the id of the process of the lab in dir; 0 if it didn't say
// yet. Live tells whether there is one, whether it starts, serves or ends.
func holder(dir string) (pid int, live bool) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	// Shared, so that several who look at once don't take each other for the lab.
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return 0, false
	}
	_, _ = fmt.Fscan(f, &pid)
	return pid, true
}

// hold takes the lock of the lab's process in dir. Its error is of kind Locked
// if there is another.
func hold(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &fault.Error{Op: "locking", Target: dir, Kind: fault.Invalid, Err: err}
	}
	// Who looks whether it is taken takes it for a moment.
	err = poller(ctx, holdTime, func() bool { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil })
	if err != nil {
		_ = f.Close()
		return nil, fault.New(fault.Locked, "a lab already runs in %s", dir)
	}
	// What is there is of one that was killed.
	err = errors.Join(f.Truncate(0), os.RemoveAll(filepath.Join(dir, infoFile)))
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		_ = f.Close()
		return nil, &fault.Error{Op: "locking", Target: dir, Kind: fault.Invalid, Err: err}
	}
	return f, nil
}

// holdTime is longer than anybody who looks at the lock has it.
const holdTime = time.Second

// writeInfo says that the lab serves.
func writeInfo(i Info) error {
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("writing %s: %w", infoFile, err)
	}
	tmp := filepath.Join(i.Dir, infoFile+".new")
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(i.Dir, infoFile))
}
