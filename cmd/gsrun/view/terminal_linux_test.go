package view

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// openTerminal returns both ends of a pseudo-terminal of the given size.
func openTerminal(t *testing.T, width, height uint16) (outer, inner *os.File) {
	t.Helper()
	outer, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	skip.Unless(t, err == nil, "the view on a real terminal", fmt.Sprintf("there are no pseudo-terminals: %v", err))
	t.Cleanup(func() { _ = outer.Close() })
	n, err := unix.IoctlGetInt(int(outer.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(outer.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	inner, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	skip.Unless(t, err == nil, "the view on a real terminal", fmt.Sprintf("there are no pseudo-terminals: %v", err))
	t.Cleanup(func() { _ = inner.Close() })
	if err := unix.IoctlSetWinsize(int(inner.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
		t.Fatal(err)
	}
	return outer, inner
}

// On a real terminal Auto is a tree as wide as it, with the system's clock.
func TestAutoOnATerminal(t *testing.T) {
	outer, inner := openTerminal(t, 33, 10)
	emu := newEmulator(33, 10)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		buf := make([]byte, 4096)
		for {
			n, err := outer.Read(buf)
			if err != nil {
				return
			}
			_, _ = emu.Write(buf[:n])
			if strings.Contains(emu.text(), "not ended") && !emu.isHidden() {
				return
			}
		}
	}()
	env := map[string]string{"TERM": "dumb"}
	getenv := func(name string) string { return env[name] }
	if v, ok := New(Config{Err: inner, Getenv: getenv}).(*plain); !ok || v.Close() != nil {
		t.Errorf("a dumb terminal gets %T", v)
	}
	env["TERM"] = "xterm"
	v := New(Config{Err: inner, Getenv: getenv})
	v.Event(effect.Event{Time: epoch, Kind: effect.StepStart, Step: "build"})
	v.Event(effect.Event{Time: epoch, Kind: effect.Progress, Step: "build", Message: strings.Repeat("long ", 20)})
	v.Event(effect.Event{Time: epoch, Kind: effect.Log, Step: "build", Message: "hello"})
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	<-copied
	lines := strings.Split(emu.text(), "\n")
	if lines[0] != "build: log: hello" || !strings.HasPrefix(lines[1], "■ build") {
		t.Errorf("got %q", lines)
	}
	for _, r := range emu.rows {
		if r.wrapped {
			t.Errorf("a line wraps: %q", lines)
		}
	}
	if len(emu.strange) > 0 {
		t.Errorf("the terminal got %v", emu.strange)
	}
}

func TestDetect(t *testing.T) {
	_, inner := openTerminal(t, 80, 24)
	file, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		file *os.File
		env  map[string]string
		want Terminal
	}{
		{inner, map[string]string{"TERM": "xterm", "LANG": "C.UTF-8"}, Terminal{Tree, true, false}},
		{inner, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, Terminal{Tree, false, false}},
		{inner, map[string]string{"TERM": "xterm", "LANG": "de_DE.UTF-8", "LC_ALL": "C"}, Terminal{Tree, true, true}},
		{inner, map[string]string{"TERM": "dumb"}, Terminal{Plain, false, false}},
		{inner, map[string]string{}, Terminal{Plain, false, false}},
		{file, map[string]string{"TERM": "xterm"}, Terminal{Plain, false, false}},
		{nil, map[string]string{"TERM": "xterm"}, Terminal{Plain, false, false}},
	} {
		if got := Detect(c.file, func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: got %v, want %v", c.env, got, c.want)
		}
	}
}
