package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"git.vanillacore.net/govstack/gsrun/internal/skip"
)

const gate = `
def ask():
    """Ask."""
    approve("Go on?")

def second(ask):
    """Ask again."""
    approve("Still?")

main = recipe(steps = [ask, second])
`

// TestPrompt answers at a terminal, by keys, with the tree of steps shown.
func TestPrompt(t *testing.T) {
	for name, c := range map[string]struct {
		keys  []string // one when each question is shown
		code  int
		says  []string
		lacks string
		dumb  bool
	}{
		"yes":       {keys: []string{"y", "Y"}, says: []string{"approved by", "Go on?", "Still?", "waits for approval"}},
		"no":        {keys: []string{"n"}, code: 4, says: []string{"denied by", "denied it: Go on?"}, lacks: "Still?"},
		"enter":     {keys: []string{"\r"}, code: 4, says: []string{"denied it"}, lacks: "Still?"},
		"other key": {keys: []string{"xqy", "zy"}, says: []string{"approved by"}, lacks: "denied"},
		"plain":     {keys: []string{"y", "n"}, dumb: true, code: 4, says: []string{"approved by", "denied it: Still?"}},
		"interrupt": {keys: []string{"\x03"}, code: 130, says: []string{"stopped"}, lacks: "Still?"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"site.yaml": "name: test\n", "gate.star": gate} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(t.TempDir(), "gsrun")
			if err := os.Symlink(program, link); err != nil {
				t.Fatal(err)
			}
			outer, inner := openTerminal(t)
			before, err := unix.IoctlGetTermios(int(inner.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), link, "run", filepath.Join(dir, "gate.star"), "--site", dir)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = inner, inner, inner
			cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=1", "LC_ALL=C.UTF-8")
			if c.dumb {
				cmd.Env = append(cmd.Env, "TERM=dumb")
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			// What is typed before the question is seen doesn't answer it.
			if _, err := outer.WriteString("y"); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			shown := &screen{}
			var reader sync.WaitGroup
			reader.Go(func() { shown.read(outer, c.keys) })
			err = cmd.Wait()
			after, terr := unix.IoctlGetTermios(int(inner.Fd()), unix.TCGETS)
			inner.Close()
			reader.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit code %d, want %d (%v)\n%s", code, c.code, err, shown.text.String())
			}
			for _, want := range c.says {
				if !strings.Contains(shown.text.String(), want) {
					t.Errorf("lacks %q:\n%s", want, shown.text.String())
				}
			}
			if c.lacks != "" && strings.Contains(shown.text.String(), c.lacks) {
				t.Errorf("says %q:\n%s", c.lacks, shown.text.String())
			}
			if terr != nil || *after != *before {
				t.Errorf("the terminal isn't as it was (%v)", terr)
			}
		})
	}
}

// A screen is what a program shows on a terminal.
type screen struct{ text strings.Builder }

// read reads what is shown until the terminal is closed, and types the next of
// keys whenever another question can be answered.
func (s *screen) read(outer *os.File, keys []string) {
	buf := make([]byte, 4096)
	asked := 0
	for {
		n, err := outer.Read(buf)
		s.text.Write(buf[:n])
		if now := strings.Count(s.text.String(), "press y or n here (Enter is n)"); now > asked && asked < len(keys) {
			_, _ = outer.WriteString(keys[asked])
			asked = now
		}
		if err != nil {
			return
		}
	}
}

// openTerminal returns both ends of a pseudo-terminal.
func openTerminal(t *testing.T) (outer, inner *os.File) {
	t.Helper()
	outer, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	skip.Unless(t, err == nil, "answers at a terminal", fmt.Sprintf("there are no pseudo-terminals: %v", err))
	t.Cleanup(func() { outer.Close() })
	n, err := unix.IoctlGetInt(int(outer.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(outer.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	inner, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	skip.Unless(t, err == nil, "answers at a terminal", fmt.Sprintf("there are no pseudo-terminals: %v", err))
	t.Cleanup(func() { inner.Close() })
	err = unix.IoctlSetWinsize(int(inner.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	if err != nil {
		t.Fatal(err)
	}
	return outer, inner
}
