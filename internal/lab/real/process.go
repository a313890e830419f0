package real

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const poll = 20 * time.Millisecond

// process is a program that the lab has started. Its id and the time at which
// it started, which together nobody else can have, are kept in run/NAME.pid.
type process struct {
	pid     int
	started string
	done    chan struct{} // closed once it has ended, nil if another process started it
}

// spawn starts a program in a process group of its own, with its output in
// log/NAME.log.
func (l *Lab) spawn(name string, env []string, argv ...string) (*process, error) {
	log, err := os.OpenFile(l.path("log", name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer log.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = l.cfg.Dir
	cmd.Env = append(l.environment(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &process{pid: cmd.Process.Pid, started: startTime(cmd.Process.Pid), done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // why it ended stands in its log
		close(p.done)
	}()
	if err := os.WriteFile(l.pidFile(name), fmt.Appendf(nil, "%d %s\n", p.pid, p.started), 0o600); err != nil {
		p.end(0)
		return nil, fmt.Errorf("recording %s: %w", name, err)
	}
	return p, nil
}

// environment is what every program gets, and nothing of the caller's.
func (l *Lab) environment() []string {
	return []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=" + l.path("data"), "PYTHONPATH=" + l.python,
		"XDG_CACHE_HOME=" + filepath.Join(l.cfg.Cache, "python"), "TMPDIR=" + l.path("run")}
}

func (l *Lab) pidFile(name string) string { return l.path("run", name+".pid") }

// recorded reads what spawn has written; nil if there is no such process any more.
func recorded(file string) *process {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	id, started, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	pid, err := strconv.Atoi(id)
	if err != nil || pid <= 1 || started == "" {
		return nil
	}
	if p := (&process{pid: pid, started: started}); p.alive() {
		return p
	}
	return nil
}

// startTime is when a process started, in the kernel's ticks; "" if there is
// none, or only what its parent hasn't asked for yet.
func startTime(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name, in brackets, may hold spaces and brackets.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || string(fields[0]) == "Z" {
		return ""
	}
	return string(fields[19])
}

func (p *process) alive() bool {
	if p == nil {
		return false
	}
	if p.done != nil {
		select {
		case <-p.done:
			return false
		default:
		}
	}
	return startTime(p.pid) == p.started
}

// signal sends a signal to the process and all that it has started.
func (p *process) signal(s syscall.Signal) error { return syscall.Kill(-p.pid, s) }

// end asks the process to end and makes it after grace.
func (p *process) end(grace time.Duration) {
	if p.alive() {
		_ = p.signal(syscall.SIGCONT) // one that is paused can't end
		_ = syscall.Kill(p.pid, syscall.SIGTERM)
		for until := time.Now().Add(grace); p.alive() && time.Now().Before(until); {
			time.Sleep(poll)
		}
		_ = p.signal(syscall.SIGKILL)
	}
	if p.done != nil {
		<-p.done
	}
	for p.alive() {
		time.Sleep(poll)
	}
}

// usage is what the process and its group hold and have used. Memory that is
// shared is divided among those who share it.
func (p *process) usage() (memory int64, cpu time.Duration) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is a good one
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		if len(fields) < 20 || fields[2] != strconv.Itoa(p.pid) {
			continue
		}
		for _, ticks := range fields[11:13] {
			n, _ := strconv.ParseInt(ticks, 10, 64)
			cpu += time.Duration(n) * 10 * time.Millisecond // USER_HZ is 100
		}
		rollup, err := os.ReadFile(filepath.Join(filepath.Dir(file), "smaps_rollup"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(rollup)) {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
				n, _ := strconv.ParseInt(f[1], 10, 64)
				memory += n << 10
			}
		}
	}
	return memory, cpu
}

// until asks ready until it is satisfied, the process p has ended, or ctx
// has. log is what an error quotes.
func until(ctx context.Context, p *process, what, log string, ready func() bool) error {
	tick := time.NewTicker(poll * 2)
	defer tick.Stop()
	for {
		if ready() {
			return nil
		}
		if p != nil && !p.alive() {
			return fmt.Errorf("starting %s: it ended: %s", what, logTail(log))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("starting %s: %w: %s", what, context.Cause(ctx), logTail(log))
		case <-tick.C:
		}
	}
}

func logTail(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return "(no log)"
	}
	return tail(data)
}

// run runs a program to its end, with its output in log/NAME.log.
func (l *Lab) run(ctx context.Context, name string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = l.cfg.Dir, l.environment()
	out, err := cmd.CombinedOutput()
	if werr := os.WriteFile(l.path("log", name+".log"), out, 0o600); werr != nil {
		err = errors.Join(err, werr)
	}
	if err != nil {
		return fmt.Errorf("running %s: %w: %s", name, err, tail(out))
	}
	return nil
}
