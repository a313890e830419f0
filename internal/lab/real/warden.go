package real

import (
	_ "embed"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

//go:embed warden.sh
var wardenScript string

// warden is a process that ends the lab if this one dies, so that a test that
// was killed doesn't leave a cloud behind.
type warden struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

func (l *Lab) startWarden() error {
	left := l.path("data")
	if l.temp {
		left = l.cfg.Dir
	}
	cmd := exec.Command("/bin/sh", "-c", wardenScript, "warden", l.cfg.Dir, left)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir, cmd.Env = "/", l.environment()
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("starting the lab's warden: %w", err)
	}
	l.warden = &warden{cmd, stdin}
	return nil
}

// leave has the warden go without doing anything.
func (w *warden) leave() error {
	if w == nil {
		return nil
	}
	if _, err := io.WriteString(w.stdin, "done\n"); err != nil {
		return fmt.Errorf("ending the lab's warden: %w", err)
	}
	return w.cmd.Wait()
}
