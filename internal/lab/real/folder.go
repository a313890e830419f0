package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/lock"
)

// stopGrace is how long a service has to end by itself: uwsgi waits for the
// requests that it is serving.
const stopGrace = 5 * time.Second

// firstPort is where free ports are looked for: below those that the kernel
// gives to outgoing connections.
const firstPort, lastPort = 20000, 32000

// open makes a lab's folder and takes its lock. The process that made it
// holds the lock, so that others know when it has died.
func open(ctx context.Context, cfg Config, paste string) (*Lab, error) {
	l := &Lab{cfg: cfg, paste: paste, procs: map[string]*process{}}
	var err error
	if l.python, err = preparePython(cfg.Cache); err != nil {
		return nil, err
	}
	if err := l.claimFolder(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(l.claimPorts(), l.startWarden()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// claimFolder makes the folder, after those of labs whose process has died
// were removed.
func (l *Lab) claimFolder(ctx context.Context) error {
	free, err := lock.Take(ctx, filepath.Join(l.cfg.Cache, "labs.lock"), func() {})
	if err != nil {
		return err
	}
	defer free()
	labs := filepath.Join(l.cfg.Cache, "labs")
	if err := os.MkdirAll(labs, 0o700); err != nil {
		return fmt.Errorf("making the lab's folder: %w", err)
	}
	if err := sweep(labs); err != nil {
		return err
	}
	if l.cfg.Dir == "" {
		if l.cfg.Dir, err = os.MkdirTemp(labs, ""); err != nil {
			return fmt.Errorf("making the lab's folder: %w", err)
		}
		l.temp = true
	} else if err := own(l.cfg.Dir); err != nil {
		return err
	}
	if l.lock, err = claim(filepath.Join(l.cfg.Dir, "lock")); err != nil {
		return err
	}
	if l.lock == nil {
		return fault.New(fault.Locked, "another process runs a lab in %s", l.cfg.Dir)
	}
	return errors.Join(endRecorded(l.cfg.Dir), os.RemoveAll(l.path("data")))
}

// own makes a folder, or says that the one that is there is no lab's.
func own(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the lab's folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("making the lab's folder: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil && len(entries) > 0 {
		return fault.New(fault.Invalid, "%s holds something else than a lab", dir)
	}
	return nil
}

// claimPorts finds the ports. Two labs that start at once don't take the same:
// each holds a lock by the number of its first port.
func (l *Lab) claimPorts() error {
	first, last := firstPort, lastPort
	if l.cfg.Port != 0 {
		first, last = l.cfg.Port, l.cfg.Port
	}
	for port := first; port <= last; port += span {
		file, err := claim(filepath.Join(l.cfg.Cache, "ports-"+strconv.Itoa(port)))
		if err != nil {
			return err
		}
		if file == nil {
			continue
		}
		if portsFree(port) {
			l.port, l.portLock = port, file
			return nil
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
	return fault.New(fault.Conflict, "none of the ports from %d to %d is free", first, last+span)
}

// claim takes the lock that a file is, until it is closed; nil if another
// process has it.
func claim(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("locking %s: %w", file, err)
	}
	return f, nil
}

// sweep ends the labs below a folder whose process has died, and removes what
// they have left.
func sweep(labs string) error {
	entries, err := os.ReadDir(labs)
	if err != nil {
		return fmt.Errorf("looking for labs that were left behind: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(labs, e.Name())
		held, err := claim(filepath.Join(dir, "lock"))
		if err != nil {
			return err
		}
		if held == nil {
			continue
		}
		err = errors.Join(endRecorded(dir), os.RemoveAll(dir), held.Close())
		if err != nil {
			return fmt.Errorf("removing a lab that was left behind: %w", err)
		}
	}
	return nil
}

// endRecorded ends what an earlier process has started in a lab's folder.
func endRecorded(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "run", "*.pid"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if p := recorded(file); p != nil {
			p.end(0)
		}
		if err := os.Remove(file); err != nil {
			return fmt.Errorf("ending a lab that was left behind: %w", err)
		}
	}
	return nil
}

// stop ends one program of the lab.
func (l *Lab) stop(name string, grace time.Duration) {
	if p := l.process(name); p != nil {
		p.end(grace)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.procs, name)
	_ = os.Remove(l.pidFile(name))
}

// stopAll ends every program, the database last: it gets dbGrace to write what
// it has, and all others get grace.
func (l *Lab) stopAll(grace, dbGrace time.Duration) {
	l.mu.Lock()
	var names []string
	for name := range l.procs {
		if name != "mariadb" {
			names = append(names, name)
		}
	}
	l.mu.Unlock()
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() { l.stop(name, grace) })
	}
	all.Wait()
	l.stop("mariadb", dbGrace)
}

// Close ends everything that the lab has started and removes its data, and its
// folder if Start has chosen it.
func (l *Lab) Close() error {
	l.stopAll(0, 0)
	left := l.cfg.Dir
	// A start that failed may have made more than it knows.
	errs := []error{endRecorded(l.cfg.Dir)}
	if !l.temp {
		left = l.path("data")
		errs = append(errs, os.RemoveAll(l.path("lab.json")))
	}
	return errors.Join(append(errs, os.RemoveAll(left), l.unlock())...)
}

// unlock lets others have the folder and the ports.
func (l *Lab) unlock() error {
	errs := []error{l.warden.leave()}
	l.warden = nil
	for _, f := range []*os.File{l.portLock, l.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	l.portLock, l.lock = nil, nil
	return errors.Join(errs...)
}
