package debian

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// services is the service manager.
type services struct {
	sys  *System
	work sync.WaitGroup // of the services' main processes

	mu    sync.Mutex
	units map[string]*service
	log   []entry
	count int // invocations
}

// A service is the state of one unit.
type service struct {
	op *sync.Mutex // one job at a time

	// The rest is guarded by services.mu.
	name       string
	unit       *unit // as it was when it was loaded
	active     string
	sub        string
	result     string
	code       int
	pid        int
	since      time.Time
	invocation int
	restarts   int
	stop       context.CancelCauseFunc
	ended      chan struct{}
}

func newServices(s *System) *services { return &services{sys: s, units: map[string]*service{}} }

func (m *services) install() error {
	s := m.sys
	service := func(desc, exec, more string) string {
		return "[Unit]\nDescription=" + desc + "\n\n[Service]\n" + exec + "\n\n[Install]\n" + more + "\n"
	}
	wanted := "WantedBy=multi-user.target"
	units := map[string]string{
		"ssh.service":                          service("OpenBSD Secure Shell server", "Type=notify\nExecStart=/usr/sbin/sshd -D\nExecReload=/usr/sbin/sshd -t\nRestart=on-failure", wanted+"\nAlias=sshd.service"),
		"systemd-networkd.service":             service("Network Configuration", "Type=notify\nExecStart=/usr/lib/systemd/systemd-networkd\nExecReload=/bin/true", wanted),
		"systemd-resolved.service":             service("Network Name Resolution", "Type=notify\nExecStart=/usr/lib/systemd/systemd-resolved", wanted),
		"systemd-timesyncd.service":            service("Network Time Synchronization", "Type=notify\nExecStart=/usr/lib/systemd/systemd-timesyncd", wanted),
		"systemd-journald.service":             service("Journal Service", "Type=notify\nExecStart=/usr/lib/systemd/systemd-journald", ""),
		"systemd-sysctl.service":               service("Apply Kernel Variables", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/usr/lib/systemd/systemd-sysctl", ""),
		"systemd-modules-load.service":         service("Load Kernel Modules", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/usr/lib/systemd/systemd-modules-load", ""),
		"cron.service":                         service("Regular background program processing daemon", "ExecStart=/usr/sbin/cron -f\nRestart=on-failure", wanted),
		"cloud-init.service":                   service("Initial cloud-init job", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true", wanted),
		"cloud-final.service":                  service("Execute cloud user/final scripts", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true", wanted),
		"systemd-networkd-wait-online.service": service("Wait for Network to be Configured", "Type=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true", "WantedBy=network-online.target"),
		"apt-daily.timer":                      "[Unit]\nDescription=Daily apt download activities\n[Timer]\nOnCalendar=*-*-* 6,18:00\n[Install]\nWantedBy=timers.target\n",
		"apt-daily-upgrade.timer":              "[Unit]\nDescription=Daily apt upgrade and clean activities\n[Timer]\nOnCalendar=*-*-* 6:00\n[Install]\nWantedBy=timers.target\n",
		"multi-user.target":                    "[Unit]\nDescription=Multi-User System\n",
		"network-online.target":                "[Unit]\nDescription=Network is Online\n",
		"network.target":                       "[Unit]\nDescription=Network\n",
		"timers.target":                        "[Unit]\nDescription=Timer Units\n",
	}
	for _, name := range slices.Sorted(maps.Keys(units)) {
		if err := s.Put("/usr/lib/systemd/system/"+name, units[name], 0o644); err != nil {
			return err
		}
		if strings.Contains(units[name], "WantedBy") {
			if _, err := s.enable(tree.Root(), s.readUnit(name)); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{"systemd-networkd", "systemd-resolved", "systemd-timesyncd", "systemd-journald", "systemd-sysctl", "systemd-modules-load"} {
		if err := s.Install("/usr/lib/systemd/"+name, name); err != nil {
			return err
		}
	}
	return nil
}

// boot starts what is enabled.
func (m *services) boot(ctx context.Context) {
	m.mu.Lock()
	m.units = map[string]*service{}
	m.mu.Unlock()
	for _, name := range []string{"systemd-journald.service", "systemd-sysctl.service", "systemd-modules-load.service", "multi-user.target", "network.target", "timers.target"} {
		m.tryStart(ctx, name)
	}
	for _, target := range []string{"sysinit.target", "network-online.target", "multi-user.target", "timers.target"} {
		kids, err := m.sys.FS.ReadDir(tree.Root(), "/etc/systemd/system/"+target+".wants")
		if err != nil {
			continue
		}
		for _, kid := range kids {
			m.tryStart(ctx, kid.Name())
		}
	}
}

func (m *services) tryStart(ctx context.Context, name string) {
	if err := m.start(ctx, name); err != nil {
		m.sys.console("systemd[1]: %v", err)
	}
}

// down waits for the services that Halt is about to kill.
func (m *services) down() {
	m.mu.Lock()
	var stops []context.CancelCauseFunc
	for _, svc := range m.units {
		if svc.stop != nil {
			stops = append(stops, svc.stop)
		}
		svc.active = "deactivating"
	}
	m.mu.Unlock()
	for _, stop := range stops {
		stop(machine.Signal(syscall.SIGTERM))
	}
	m.work.Wait()
}

func (e *jobError) Error() string { return e.text }

// load returns the state of a unit, reading its files if it is new. It is nil
// for a unit that isn't there.
func (m *services) load(name string) *service {
	name = unitName(name)
	m.mu.Lock()
	svc := m.units[name]
	m.mu.Unlock()
	if svc != nil {
		return svc
	}
	u := m.sys.readUnit(name)
	if u == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if svc := m.units[name]; svc != nil {
		return svc
	}
	svc = &service{op: new(sync.Mutex), name: name, unit: u, active: "inactive", sub: "dead", result: "success", since: m.sys.Clock.Now()}
	m.units[name] = svc
	return svc
}

// reload reads all unit files anew.
func (m *services) reload() {
	m.mu.Lock()
	names := slices.Collect(maps.Keys(m.units))
	m.mu.Unlock()
	for _, name := range names {
		u := m.sys.readUnit(name)
		m.mu.Lock()
		svc := m.units[name]
		switch {
		case u != nil:
			svc.unit = u
		case svc.active == "inactive" || svc.active == "failed":
			delete(m.units, name)
		}
		m.mu.Unlock()
	}
}

// stale reports whether a unit's files have changed since they were read.
func (m *services) stale(svc *service) bool {
	u := m.sys.readUnit(svc.name)
	m.mu.Lock()
	defer m.mu.Unlock()
	return u == nil || u.text != svc.unit.text || u.masks != svc.unit.masks
}

func (m *services) set(svc *service, active, sub, result string, code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	svc.active, svc.sub, svc.result, svc.code = active, sub, result, code
	svc.since = m.sys.Clock.Now()
}

func (m *services) state(svc *service) service {
	m.mu.Lock()
	defer m.mu.Unlock()
	return service{name: svc.name, unit: svc.unit, active: svc.active, sub: svc.sub, result: svc.result, code: svc.code, pid: svc.pid,
		since: svc.since, invocation: svc.invocation, restarts: svc.restarts, stop: svc.stop, ended: svc.ended}
}

// run runs one command line of a unit, with its output in the journal.
func (m *services) run(ctx context.Context, svc *service, u *unit, line string, notify func(), started func(*machine.Proc)) int {
	lenient := strings.HasPrefix(line, "-")
	env := map[string]string{"PATH": machine.SystemPath, "LANG": "C.UTF-8", "INVOCATION_ID": fmt.Sprintf("%032x", svc.invocation)}
	for _, set := range u.keys["Service.Environment"] {
		for _, kv := range command(set) {
			if name, value, ok := strings.Cut(kv, "="); ok {
				env[name] = value
			}
		}
	}
	for _, file := range u.keys["Service.EnvironmentFile"] {
		text := m.sys.Text(strings.TrimPrefix(file, "-"))
		for l := range strings.SplitSeq(text, "\n") {
			if name, value, ok := strings.Cut(strings.TrimSpace(l), "="); ok && !strings.HasPrefix(name, "#") {
				env[name] = strings.Trim(value, `"'`)
			}
		}
	}
	var args []string
	for _, a := range command(line) {
		if name, ok := strings.CutPrefix(a, "$"); ok && !strings.HasPrefix(name, "{") && len(args) > 0 {
			args = append(args, strings.Fields(env[name])...)
			continue
		}
		for name, value := range env {
			a = strings.ReplaceAll(a, "${"+name+"}", value)
		}
		if strings.HasPrefix(a, "${") {
			a = ""
		}
		args = append(args, a)
	}
	name := u.get("Service.User")
	if name == "" {
		name = "root"
	}
	user, ok := m.sys.LookupUser(name)
	if !ok {
		m.journal(svc.name, "systemd", "Failed to determine user credentials: No such process")
		return 217
	}
	dir := u.get("Service.WorkingDirectory")
	if dir == "" {
		dir = "/"
	}
	tag := path.Base(args[0])
	out := &journalWriter{m: m, unit: svc.name, tag: tag}
	login := m.sys.Login(*user)
	code, err := login.Run(ctx, machine.Cmd{Args: args, Env: env, Dir: dir, Stdout: out, Stderr: out, Notify: notify, Started: started})
	out.flush()
	if err != nil {
		m.journal(svc.name, "systemd", fmt.Sprintf("%s: Failed to execute %s: %v", svc.name, args[0], err))
		code = 203
	}
	if lenient {
		return 0
	}
	return code
}

// command splits a command line of a unit and drops the prefixes of its program.
func command(line string) []string { return machine.Words(strings.TrimLeft(line, "-@:+!")) }

// Active reports whether a unit runs.
func (s *System) Active(name string) bool {
	svc := s.services.load(name)
	return svc != nil && s.services.state(svc).active == "active"
}
