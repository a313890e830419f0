package debian

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// A jobError is why a job of the service manager failed.
type jobError struct {
	text string
	code int // of systemctl
}

// start starts a unit, and what it requires, and waits until it is up.
func (m *services) start(ctx context.Context, name string) error {
	name = unitName(name)
	svc := m.load(name)
	if svc == nil {
		return &jobError{fmt.Sprintf("Failed to start %s: Unit %s not found.", name, name), 5}
	}
	svc.op.Lock()
	defer svc.op.Unlock()
	return m.startLocked(ctx, svc)
}

func (m *services) startLocked(ctx context.Context, svc *service) error {
	now := m.state(svc)
	u := now.unit
	if u.masks {
		return &jobError{fmt.Sprintf("Failed to start %s: Unit %s is masked.", svc.name, svc.name), 1}
	}
	if now.active == "active" || now.active == "activating" && now.sub != "auto-restart" {
		return nil
	}
	for _, need := range append(u.words("Unit.Requires"), u.words("Unit.BindsTo")...) {
		if need = unitName(need); need != svc.name && path.Ext(need) == ".service" {
			if err := m.start(ctx, need); err != nil {
				return &jobError{fmt.Sprintf("A dependency job for %s failed. See 'journalctl -xe' for details.", svc.name), 1}
			}
		}
	}
	m.mu.Lock()
	m.count++
	svc.invocation = m.count
	m.mu.Unlock()
	for _, cond := range u.words("Unit.ConditionPathExists") {
		want := !strings.HasPrefix(cond, "!")
		if m.sys.Exists(strings.TrimPrefix(cond, "!")) != want {
			m.set(svc, "inactive", "dead", "success", 0)
			return nil
		}
	}
	if path.Ext(svc.name) != ".service" {
		m.set(svc, "active", map[string]string{".timer": "waiting", ".socket": "listening", ".mount": "mounted"}[path.Ext(svc.name)], "success", 0)
		return nil
	}
	failed := &jobError{fmt.Sprintf("Job for %[1]s failed because the control process exited with error code.\nSee \"systemctl status %[1]s\" and \"journalctl -xeu %[1]s\" for details.", svc.name), 1}
	if len(u.keys["Service.ExecStart"]) == 0 {
		return &jobError{fmt.Sprintf("Failed to start %s: Unit %s has a bad unit file setting.\nSee system logs and 'systemctl status %s' for details.", svc.name, svc.name, svc.name), 1}
	}
	m.journal(svc.name, "systemd", "Starting "+m.title(u)+"...")
	fail := func(code int) error {
		result := "exit-code"
		m.set(svc, "failed", "failed", result, code)
		m.journal(svc.name, "systemd", fmt.Sprintf("%s: Failed with result '%s'.", svc.name, result))
		return failed
	}
	for _, line := range u.keys["Service.ExecStartPre"] {
		if code := m.run(ctx, svc, u, line, nil, nil); code != 0 {
			return fail(code)
		}
	}
	kind := u.get("Service.Type")
	if kind == "oneshot" || kind == "forking" {
		for _, line := range u.keys["Service.ExecStart"] {
			if code := m.run(ctx, svc, u, line, nil, nil); code != 0 {
				return fail(code)
			}
		}
		switch {
		case kind == "forking":
			m.set(svc, "active", "running", "success", 0)
		case u.get("Service.RemainAfterExit") == "yes" || u.get("Service.RemainAfterExit") == "true":
			m.set(svc, "active", "exited", "success", 0)
		default:
			m.set(svc, "inactive", "dead", "success", 0)
		}
	} else if err := m.daemon(svc, u, kind); err != nil {
		return err
	}
	for _, line := range u.keys["Service.ExecStartPost"] {
		if code := m.run(ctx, svc, u, line, nil, nil); code != 0 {
			return fail(code)
		}
	}
	m.journal(svc.name, "systemd", "Started "+m.title(u)+".")
	return nil
}

func (m *services) title(u *unit) string {
	if d := u.get("Unit.Description"); d != "" {
		return u.name + " - " + d
	}
	return u.name
}

// daemon starts a service's main process and waits until it says that it is
// ready, if it is of that kind.
func (m *services) daemon(svc *service, u *unit, kind string) error {
	ctx, stop := context.WithCancelCause(m.sys.Context())
	ended, ready := make(chan struct{}), make(chan struct{})
	var once sync.Once
	notify := func() { once.Do(func() { close(ready) }) }
	m.mu.Lock()
	svc.stop, svc.ended = stop, ended
	m.mu.Unlock()
	m.set(svc, "activating", "start", "success", 0)
	line := u.get("Service.ExecStart")
	var status int
	running := make(chan struct{})
	m.work.Go(func() {
		defer stop(nil)
		status = m.run(ctx, svc, u, line, notify, func(p *machine.Proc) {
			m.mu.Lock()
			svc.pid = p.PID
			m.mu.Unlock()
			close(running)
		})
		killed := ctx.Err() != nil
		m.exited(svc, u, status, killed)
		close(ended)
	})
	if kind != "notify" {
		select {
		case <-running:
			m.up(svc)
		case <-ended: // there is no such program
		}
		return nil
	}
	select {
	case <-ready:
		m.up(svc)
		return nil
	case <-ended:
	}
	return &jobError{fmt.Sprintf("Job for %[1]s failed because the control process exited with error code.\nSee \"systemctl status %[1]s\" and \"journalctl -xeu %[1]s\" for details.", svc.name), 1}
}

func (m *services) up(svc *service) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if svc.active == "activating" && svc.sub == "start" {
		svc.active, svc.sub, svc.since = "active", "running", m.sys.Clock.Now()
	}
}

// exited records the end of a main process, and starts it again if its unit
// says so.
func (m *services) exited(svc *service, u *unit, status int, killed bool) {
	m.mu.Lock()
	svc.pid = 0
	stopping := svc.active == "deactivating"
	m.mu.Unlock()
	if killed || stopping {
		m.set(svc, "inactive", "dead", "success", 0)
		return
	}
	again := false
	switch u.get("Service.Restart") {
	case "always":
		again = true
	case "on-failure", "on-abnormal":
		again = status != 0
	case "on-success":
		again = status == 0
	}
	if status != 0 {
		m.journal(svc.name, "systemd", fmt.Sprintf("%s: Main process exited, code=exited, status=%d", svc.name, status))
	}
	if !again {
		if status != 0 {
			m.set(svc, "failed", "failed", "exit-code", status)
		} else {
			m.set(svc, "inactive", "dead", "success", 0)
		}
		return
	}
	m.set(svc, "activating", "auto-restart", "exit-code", status)
	delay, err := time.ParseDuration(strings.TrimSuffix(u.get("Service.RestartSec"), "s") + "s")
	if err != nil {
		delay = 100 * time.Millisecond
	}
	ctx, stop := context.WithCancelCause(m.sys.Context())
	m.mu.Lock()
	svc.stop = stop
	svc.restarts++
	m.mu.Unlock()
	m.work.Go(func() {
		defer stop(nil)
		select {
		case <-m.sys.Clock.After(delay):
		case <-ctx.Done():
			return
		}
		svc.op.Lock()
		defer svc.op.Unlock()
		if now := m.state(svc); now.sub == "auto-restart" && ctx.Err() == nil {
			// A failure is in the unit's state.
			_ = m.startLocked(ctx, svc)
		}
	})
}

// halt stops a unit and waits until it is down.
func (m *services) halt(ctx context.Context, name string) error {
	name = unitName(name)
	svc := m.load(name)
	if svc == nil {
		return &jobError{fmt.Sprintf("Failed to stop %s: Unit %s not loaded.", name, name), 5}
	}
	svc.op.Lock()
	defer svc.op.Unlock()
	return m.haltLocked(ctx, svc)
}

func (m *services) haltLocked(ctx context.Context, svc *service) error {
	now := m.state(svc)
	if now.active == "inactive" || now.active == "failed" {
		return nil
	}
	m.journal(svc.name, "systemd", "Stopping "+m.title(now.unit)+"...")
	for _, line := range now.unit.keys["Service.ExecStop"] {
		m.run(ctx, svc, now.unit, line, nil, nil)
	}
	running := now.sub == "running" || now.sub == "start"
	m.set(svc, "deactivating", "stop-sigterm", now.result, now.code)
	if now.stop != nil {
		now.stop(machine.Signal(syscall.SIGTERM))
		if running && now.ended != nil {
			<-now.ended
		}
	}
	m.set(svc, "inactive", "dead", "success", 0)
	m.journal(svc.name, "systemd", "Stopped "+m.title(now.unit)+".")
	return nil
}

// restart is halt and start as one job.
func (m *services) restart(ctx context.Context, name string) error {
	name = unitName(name)
	svc := m.load(name)
	if svc == nil {
		return &jobError{fmt.Sprintf("Failed to restart %s: Unit %s not found.", name, name), 5}
	}
	svc.op.Lock()
	defer svc.op.Unlock()
	if err := m.haltLocked(ctx, svc); err != nil {
		return err
	}
	return m.startLocked(ctx, svc)
}

// refresh runs a unit's ExecReload.
func (m *services) refresh(ctx context.Context, name string) error {
	name = unitName(name)
	svc := m.load(name)
	if svc == nil {
		return &jobError{fmt.Sprintf("Failed to reload %s: Unit %s not found.", name, name), 5}
	}
	svc.op.Lock()
	defer svc.op.Unlock()
	now := m.state(svc)
	if now.active != "active" {
		return &jobError{fmt.Sprintf("%s is not active, cannot reload.", name), 1}
	}
	if len(now.unit.keys["Service.ExecReload"]) == 0 {
		return &jobError{fmt.Sprintf("Failed to reload %s: Job type reload is not applicable for unit %s.", name, name), 1}
	}
	for _, line := range now.unit.keys["Service.ExecReload"] {
		if code := m.run(ctx, svc, now.unit, line, nil, nil); code != 0 {
			return &jobError{fmt.Sprintf("Job for %[1]s failed.\nSee \"systemctl status %[1]s\" and \"journalctl -xeu %[1]s\" for details.", name), 1}
		}
	}
	return nil
}

var errNotRoot = errors.New("Interactive authentication required.")

// daemon is the code of a service that needs none.
func daemon(ctx context.Context, p *machine.Proc) int {
	if p.Notify != nil {
		p.Notify()
	}
	<-ctx.Done()
	return 0
}
