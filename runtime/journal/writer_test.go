package journal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// TestMain lets the tests start this program again, as another run.
func TestMain(m *testing.M) {
	switch os.Getenv("JOURNAL_TEST_AS") {
	case "writer":
		os.Exit(write(os.Args[1:]))
	case "nothing":
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// write is a run that makes changes as the door does: STORE RECIPE RUN TTL
// CHANGES POINT. It says what it does, and pauses itself at the point, if it is
// one of "within" and "between". It ends with 0 if it made all changes, and
// with the exit code of its error.
func write(args []string) int {
	err := changes(args)
	if err != nil {
		fmt.Println("error", err)
	}
	return map[bool]int{true: 0, false: fault.KindOf(err).ExitCode()}[err == nil]
}

func changes(args []string) error {
	dir, recipe, run, point := args[0], args[1], args[2], args[5]
	ttl, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[4])
	if err != nil {
		return err
	}
	s, err := Open(dir)
	if err != nil {
		return err
	}
	// The world, which everything appends to, and a witness that tells two
	// writers, whatever the lock says.
	world, err := os.OpenFile(filepath.Join(dir, recipe+".world"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	witness, err := os.OpenFile(filepath.Join(dir, recipe+".witness"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	l, err := s.Lock(Holder{Site: "lab", Recipe: recipe, Run: run, Who: run, Since: time.Now(), TTL: ttl})
	for ; fault.KindOf(err) == fault.Locked; l, err = s.Lock(Holder{Site: "lab", Recipe: recipe, Run: run, Who: run, Since: time.Now(), TTL: ttl}) {
		if point == "once" {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	defer l.Release()
	fmt.Println("holds", l.holder.Token)
	for i := range n {
		if point == "between" && i == n/2 {
			pause()
		}
		if err := change(l, world, witness, point == "within" && i == n/2); err != nil {
			return err
		}
	}
	if point == "hold" {
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is told to end
	}
	return nil
}

func change(l *Lock, world, witness *os.File, stop bool) error {
	leave, err := l.Guard(context.Background())
	if err != nil {
		return err
	}
	defer leave()
	if flock(witness, syscall.LOCK_EX) != nil {
		fmt.Fprintln(world, "double", l.holder.Token, l.holder.Run)
	}
	defer func() { _ = flock(witness, syscall.LOCK_UN) }()
	fmt.Fprintln(world, "enter", l.holder.Token, l.holder.Run)
	if stop {
		pause()
	}
	time.Sleep(time.Millisecond)
	fmt.Fprintln(world, "leave", l.holder.Token, l.holder.Run)
	return nil
}

// pause stops this process until somebody wakes it.
func pause() {
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, syscall.SIGCONT)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-woken // it may take a moment until it stops
}

// A writer is a process that the test started.
type writer struct {
	*exec.Cmd
	stdin io.Closer
	out   *bufio.Scanner
}

func startWriter(t *testing.T, args ...string) *writer {
	t.Helper()
	w := &writer{Cmd: exec.Command(os.Args[0], args...)}
	w.Env = append(os.Environ(), "JOURNAL_TEST_AS=writer", "GORACE=atexit_sleep_ms=0")
	w.Stderr = os.Stderr
	stdin, err := w.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.stdin, w.out = stdin, bufio.NewScanner(out)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if w.ProcessState == nil {
			_ = w.Process.Kill()
			_ = w.Wait()
		}
	})
	return w
}

// says waits until the writer says something that begins so.
func (w *writer) says(t *testing.T, text string) string {
	t.Helper()
	for w.out.Scan() {
		if strings.HasPrefix(w.out.Text(), text) {
			return w.out.Text()
		}
	}
	t.Fatalf("the writer never said %q: %v", text, w.out.Err())
	return ""
}

// stopped waits until the writer's process is stopped.
func (w *writer) stopped(t *testing.T) {
	t.Helper()
	for {
		state, _, ok := procStat(w.Process.Pid)
		if !ok || state == "Z" {
			t.Fatal("it ended")
		}
		if state == "T" {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// wake lets a process that is stopped go on.
func (w *writer) wake(t *testing.T) {
	t.Helper()
	if err := w.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// ends waits for the writer's end and returns its exit code, and what it said
// last.
func (w *writer) ends(t *testing.T) (code int, last string) {
	t.Helper()
	for w.out.Scan() {
		last = w.out.Text()
	}
	_ = w.Wait() // the code says it
	return w.ProcessState.ExitCode(), last
}

// exited returns the id of a process that has ended.
func exited(t *testing.T) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "JOURNAL_TEST_AS=nothing", "GORACE=atexit_sleep_ms=0")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// zombie returns a process that has ended, which nobody was told.
func zombie(t *testing.T) process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "JOURNAL_TEST_AS=nothing", "GORACE=atexit_sleep_ms=0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	for {
		state, start, ok := procStat(cmd.Process.Pid)
		if ok && state == "Z" {
			me := thisProcess()
			return process{me.Host, me.Boot, me.Space, cmd.Process.Pid, start}
		}
		time.Sleep(time.Millisecond)
	}
}
