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
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
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
	if !running(dir, i.PID) {
		return nil, fault.Hinted(fault.NotFound, "clear it with gsrun lab down", "the lab in %s ended without being stopped", dir)
	}
	return &i, nil
}

// running reports whether pid is the process of the lab in dir, and not
// another that got its id since.
func running(dir string, pid int) bool {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	// The lab's process holds this lock for as long as it lives.
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		return false
	}
	return syscall.Kill(pid, 0) == nil
}

// lockFile is locked by the lab's process.
const lockFile = "lock"

// Up returns a running lab in dir: the one that is there, or a new one, as a
// process of its own that runs program with the arguments `lab serve --dir
// dir`. What the first start has to build is built here, and told to progress.
func Up(ctx context.Context, program, dir string, progress func(string)) (*Info, error) {
	if i, err := Status(dir); err == nil {
		return i, nil
	}
	if err := clear(dir); err != nil {
		return nil, err
	}
	if err := Prepare(ctx, progress); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &fault.Error{Op: "making", Target: dir, Kind: fault.Invalid, Err: err}
	}
	log, err := os.OpenFile(filepath.Join(dir, "lab.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, &fault.Error{Op: "starting the lab in", Target: dir, Kind: fault.Invalid, Err: err}
	}
	defer log.Close()
	cmd := exec.Command(program, "lab", "serve", "--dir", dir)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, &fault.Error{Op: "starting", Target: program, Kind: fault.Failed, Err: err}
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	return awaitInfo(ctx, dir, exited)
}

// Prepare builds what a lab needs and isn't built yet: its Kubernetes, which
// takes minutes, once. A lab that is started without it builds it when the
// first host makes a control plane.
func Prepare(ctx context.Context, progress func(string)) error {
	if os.Getenv("KUBEBUILDER_ASSETS") != "" {
		return nil
	}
	_, err := apiserver.Build(ctx, "", "", progress)
	return err
}

// awaitInfo waits until the lab in dir serves.
func awaitInfo(ctx context.Context, dir string, exited <-chan error) (*Info, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-exited:
			text, _ := os.ReadFile(filepath.Join(dir, "lab.log"))
			return nil, fault.New(fault.Failed, "the lab ended at once (%v): %s", err, strings.TrimSpace(string(text)))
		case <-ctx.Done():
			return nil, fault.Wrap("waiting for", "the lab", fault.FromContext(ctx))
		case <-tick.C:
			if i, err := Status(dir); err == nil {
				return i, nil
			}
		}
	}
}

// Down stops the lab in dir, if it runs, and removes the folder.
func Down(ctx context.Context, dir string) error {
	i, err := Status(dir)
	if err == nil {
		if err := syscall.Kill(i.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return &fault.Error{Op: "stopping the lab in", Target: dir, Kind: fault.Failed, Err: err}
		}
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for running(dir, i.PID) {
			select {
			case <-ctx.Done():
				return fault.New(fault.Timeout, "the lab's process %d didn't end in 30 s", i.PID)
			case <-tick.C:
			}
		}
	}
	return clear(dir)
}

// clear removes the folder of a lab that doesn't run. It removes nothing that
// isn't one.
func clear(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return &fault.Error{Op: "reading", Target: dir, Kind: fault.Invalid, Err: err}
	}
	ours := map[string]bool{}
	for _, n := range []string{infoFile, lockFile, "lab.log", "site", "log", "git", "hosts", "kubernetes"} {
		ours[n] = true
	}
	for _, e := range entries {
		if !ours[e.Name()] {
			return fault.Hinted(fault.Invalid, "name another folder in "+DirVariable, "%s is not a lab's folder: it holds %s", dir, e.Name())
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return &fault.Error{Op: "removing", Target: dir, Kind: fault.Failed, Err: err}
	}
	return nil
}

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
