package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
	"git.vanillacore.net/govstack/gsrun/internal/lab/lock"
)

const (
	startTime = time.Minute      // until a lab serves
	endTime   = 30 * time.Second // until a lab that was told to has ended
	clearTime = 10 * time.Second // until its folder can be removed
	poll      = 10 * time.Millisecond
)

// Up returns a running lab in dir: the one that is there, or a new one, as a
// process of its own that runs program with the arguments `lab serve --dir
// dir`. What the first start has to build is built here, and told to progress;
// if that fails, so does kubeadm init in the lab, and nothing else. Several
// that call it at once get the same lab.
func Up(ctx context.Context, program, dir string, progress func(string)) (*Info, error) {
	if i, err := Status(dir); err == nil {
		return i, nil
	}
	if err := check(dir); err != nil {
		return nil, err
	}
	if err := Prepare(ctx, progress); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		line := fmt.Sprintf("%v: kubeadm init will fail until that is mended", err)
		if hint := fault.HintOf(err); hint != "" {
			line += ": " + hint
		}
		progress(line)
	}
	free, err := lock.Take(ctx, guard(dir), func() { progress("waiting for another gsrun that starts or stops the lab") })
	if err != nil {
		return nil, err
	}
	defer free()
	if i, err := settle(ctx, dir); i != nil || err != nil {
		return i, err
	}
	if err := clear(ctx, dir); err != nil {
		return nil, err
	}
	return launch(ctx, program, dir)
}

// guard is the lock of who starts or stops the lab in dir. It lies beside the
// folder, which comes and goes.
func guard(dir string) string { return filepath.Clean(dir) + ".lock" }

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

// settle waits while a process that nobody waits for any more starts or ends a
// lab in dir, and returns the lab if there is one then.
func settle(ctx context.Context, dir string) (*Info, error) {
	var i *Info
	err := poller(ctx, startTime, func() bool {
		if i, _ = Status(dir); i != nil {
			return true
		}
		_, live := holder(dir)
		return !live
	})
	if fault.KindOf(err) == fault.Timeout {
		return nil, fault.New(fault.Locked, "a process holds the lab in %s, and neither serves nor ends", dir)
	}
	return i, err
}

// poller waits until done, for no longer than limit.
func poller(ctx context.Context, limit time.Duration, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return fault.FromContext(ctx)
		case <-tick.C:
		}
	}
	return nil
}

// launch starts the process of a lab, and waits until it serves. If that
// fails, the process is ended.
func launch(ctx context.Context, program, dir string) (*Info, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, &fault.Error{Op: "making", Target: dir, Kind: fault.Invalid, Err: err}
	}
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
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
	exited := make(chan struct{})
	var exit error
	go func() {
		defer close(exited)
		exit = cmd.Wait()
	}()
	var i *Info
	ended := false
	err = poller(ctx, startTime, func() bool {
		select {
		case <-exited:
			ended = true
		default:
			i, _ = Status(dir)
		}
		return ended || i != nil
	})
	switch {
	case ended:
		text, _ := os.ReadFile(filepath.Join(dir, logFile))
		return nil, fault.New(fault.Failed, "the lab ended at once (%v): %s", exit, strings.TrimSpace(string(text)))
	case err != nil:
		// It serves nobody and keeps nothing yet.
		_ = cmd.Process.Kill()
		<-exited
		return nil, fault.Wrap("waiting for", "the lab", err)
	}
	return i, nil
}

// Down stops the lab in dir, if it runs, and removes the folder. It waits for
// whoever starts or stops the lab.
func Down(ctx context.Context, dir string) error {
	_, err := os.Stat(dir)
	_, lerr := os.Stat(guard(dir))
	if errors.Is(err, fs.ErrNotExist) && errors.Is(lerr, fs.ErrNotExist) {
		return nil
	}
	free, err := lock.Take(ctx, guard(dir), func() {})
	if err != nil {
		return err
	}
	defer free()
	if err := end(ctx, dir); err != nil {
		return err
	}
	return clear(ctx, dir)
}

// end tells the process of the lab in dir to end, and waits for it.
func end(ctx context.Context, dir string) error {
	var failed error
	told := 0
	err := poller(ctx, endTime, func() bool {
		pid, live := holder(dir)
		if live && pid != 0 && pid != told {
			told = pid
			if failed = syscall.Kill(pid, syscall.SIGTERM); errors.Is(failed, syscall.ESRCH) {
				failed = nil
			}
		}
		return !live || failed != nil
	})
	switch {
	case failed != nil:
		return &fault.Error{Op: "stopping the lab in", Target: dir, Kind: fault.Failed, Err: failed}
	case fault.KindOf(err) == fault.Timeout:
		return fault.New(fault.Timeout, "the lab's process %d didn't end in %s", told, endTime)
	}
	return fault.Wrap("stopping the lab in", dir, err)
}

// check refuses a folder that isn't a lab's. One that isn't there is fine.
func check(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fault.Error{Op: "reading", Target: dir, Kind: fault.Invalid, Err: err}
	}
	ours := []string{infoFile, infoFile + ".new", lockFile, logFile, "site", "log", "git", "hosts", "kubernetes"}
	for _, e := range entries {
		if !slices.Contains(ours, e.Name()) {
			return fault.Hinted(fault.Invalid, "name another folder in "+DirVariable, "%s is not a lab's folder: it holds %s", dir, e.Name())
		}
	}
	return nil
}

// clear removes the folder of a lab that doesn't run. It removes nothing that
// isn't one.
func clear(ctx context.Context, dir string) error {
	if err := check(dir); err != nil {
		return err
	}
	// The Kubernetes of a lab that was killed ends a moment later, and writes until then.
	var failed error
	err := poller(ctx, clearTime, func() bool {
		failed = os.RemoveAll(dir)
		return !errors.Is(failed, syscall.ENOTEMPTY)
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		return &fault.Error{Op: "removing", Target: dir, Kind: fault.Failed, Err: err}
	}
	return nil
}
