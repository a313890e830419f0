package debian

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func (s *System) systemctl(ctx context.Context, p *machine.Proc) int {
	if slices.Contains(p.Args, "--version") {
		p.Printf("systemd 252 (252.38-1~deb12u1)\n")
		return 0
	}
	o := p.Options("now q|quiet p|property: value no-pager no-block f|force t|type: all a state: l|full n|lines: no-legend plain P: runtime s|signal: " +
		"system user no-reload kill-who: wait no-ask-password H: o|output: show-types r root: i ignore-inhibitors no-warn")
	if o == nil {
		return 1
	}
	verb := "list-units"
	names := o.Args
	if len(names) > 0 {
		verb, names = names[0], names[1:]
	}
	m := s.services
	say := func(text string) { fmt.Fprintln(p.Stderr, text) }
	if p.Cred.UID != 0 {
		switch verb {
		case "start", "stop", "restart", "reload", "enable", "disable", "mask", "unmask", "daemon-reload", "try-restart", "kill", "reset-failed",
			"reload-or-restart", "try-reload-or-restart", "daemon-reexec", "reenable", "set-default", "reboot", "poweroff", "halt":
			what := verb
			if len(names) > 0 {
				what += " " + unitName(names[0])
			}
			say("Failed to " + what + ": " + errNotRoot.Error())
			return 1
		}
	}
	each := func(job func(context.Context, string) error) int {
		if len(names) == 0 {
			say("Too few arguments.")
			return 1
		}
		code := 0
		for _, name := range names {
			if svc := m.load(name); svc != nil && !o.Has("q") && m.stale(svc) {
				say(fmt.Sprintf("Warning: The unit file, source configuration file or drop-ins of %s changed on disk. Run 'systemctl daemon-reload' to reload units.", unitName(name)))
			}
			if err := job(ctx, name); err != nil {
				var je *jobError
				code = 1
				if errors.As(err, &je) {
					code = je.code
				}
				say(err.Error())
			}
		}
		return code
	}
	switch verb {
	case "daemon-reload", "daemon-reexec":
		m.reload()
		return 0
	case "start":
		return each(m.start)
	case "stop":
		return each(m.halt)
	case "restart":
		return each(m.restart)
	case "reload":
		return each(m.refresh)
	case "try-restart", "condrestart":
		return each(func(ctx context.Context, name string) error {
			if s.Active(name) {
				return m.restart(ctx, name)
			}
			return nil
		})
	case "reload-or-restart", "try-reload-or-restart":
		return each(func(ctx context.Context, name string) error {
			svc := m.load(name)
			if svc != nil && s.Active(name) && len(m.state(svc).unit.keys["Service.ExecReload"]) > 0 {
				return m.refresh(ctx, name)
			}
			if verb == "try-reload-or-restart" && !s.Active(name) {
				return nil
			}
			return m.restart(ctx, name)
		})
	case "enable", "reenable", "disable", "mask", "unmask":
		return s.unitFiles(ctx, p, verb, names, o.Has("now"), o.Has("q"))
	case "is-active", "is-failed":
		code := 3
		for _, name := range names {
			state := "inactive"
			if svc := m.load(name); svc != nil {
				state = m.state(svc).active
			}
			if !o.Has("q") {
				p.Printf("%s\n", state)
			}
			if state == "active" && verb == "is-active" || state == "failed" && verb == "is-failed" {
				code = 0
			}
		}
		if code != 0 && verb == "is-failed" {
			code = 1
		}
		return code
	case "is-enabled":
		code := 1
		for _, name := range names {
			state := s.enablement(unitName(name))
			if state == "" {
				say(fmt.Sprintf("Failed to get unit file state for %s: No such file or directory", unitName(name)))
				continue
			}
			if !o.Has("q") {
				p.Printf("%s\n", state)
			}
			if slices.Contains([]string{"enabled", "static", "indirect", "alias"}, state) {
				code = 0
			}
		}
		return code
	case "is-system-running":
		p.Printf("running\n")
		return 0
	case "get-default":
		p.Printf("multi-user.target\n")
		return 0
	case "show":
		return s.showUnits(p, o, names)
	case "status":
		return s.unitStatus(p, names)
	case "cat":
		for _, name := range names {
			u := s.readUnit(unitName(name))
			if u == nil {
				say(fmt.Sprintf("No files found for %s.", unitName(name)))
				return 1
			}
			p.Printf("# %s\n%s\n", u.file, strings.TrimRight(u.text, "\n"))
		}
		return 0
	case "list-unit-files":
		return s.listUnitFiles(p, o, names)
	case "list-units":
		for _, name := range s.loadedUnits() {
			if st := m.state(m.load(name)); st.active != "inactive" || o.Has("all") {
				p.Printf("%-40s loaded %-8s %-8s %s\n", name, st.active, st.sub, st.unit.get("Unit.Description"))
			}
		}
		return 0
	case "reset-failed":
		for _, name := range s.loadedUnits() {
			svc := m.load(name)
			if m.state(svc).active == "failed" && (len(names) == 0 || slices.Contains(names, name) || slices.Contains(names, strings.TrimSuffix(name, ".service"))) {
				m.set(svc, "inactive", "dead", "success", 0)
			}
		}
		return 0
	case "kill":
		sig, ok := machine.ParseSignal(cmp.Or(o.Get("s"), "TERM"))
		if !ok {
			say("Failed to parse signal string " + o.Get("s") + ".")
			return 1
		}
		return each(func(_ context.Context, name string) error {
			svc := m.load(name)
			if svc == nil {
				return &jobError{fmt.Sprintf("Failed to kill unit %s: Unit %[1]s not loaded.", unitName(name)), 1}
			}
			if st := m.state(svc); st.stop != nil && sig != machine.Signal(syscall.SIGHUP) {
				st.stop(sig)
			}
			return nil
		})
	case "reboot", "poweroff", "halt":
		return s.reboot(ctx, p)
	case "set-default":
		return 0
	}
	say("Unknown command verb " + verb + ".")
	return 1
}

func (s *System) loadedUnits() []string {
	s.services.mu.Lock()
	defer s.services.mu.Unlock()
	return slices.Sorted(maps.Keys(s.services.units))
}

func (s *System) unitFiles(ctx context.Context, p *machine.Proc, verb string, names []string, now, quiet bool) int {
	m := s.services
	code := 0
	for _, name := range names {
		name = unitName(name)
		u := s.readUnit(name)
		var out []string
		var err error
		switch verb {
		case "enable", "reenable":
			switch {
			case u == nil:
				err = fmt.Errorf("Failed to %s unit: Unit file %s does not exist.", verb, name)
			case u.masks:
				err = fmt.Errorf("Failed to %s unit: Unit file %s is masked.", verb, u.file)
			case len(u.linksOf()) == 0:
				out = []string{"The unit files have no installation config (WantedBy=, RequiredBy=, Also=,\nAlias= settings in the [Install] section, and DefaultInstance= for template\nunits). This means they are not meant to be enabled or disabled using systemctl."}
			default:
				out, err = s.enable(p.Cred, u)
			}
		case "disable":
			if u == nil {
				err = fmt.Errorf("Failed to disable unit: Unit file %s does not exist.", name)
			} else {
				out, err = s.disable(p.Cred, name)
			}
		case "mask":
			link := "/etc/systemd/system/" + name
			if u != nil && u.masks {
				break
			}
			if s.Exists(link) {
				err = fmt.Errorf("Failed to mask unit: File %s already exists.", link)
			} else if err = s.FS.Symlink(p.Cred, "/dev/null", link); err == nil {
				out = []string{"Created symlink " + link + " → /dev/null."}
			}
		case "unmask":
			link := "/etc/systemd/system/" + name
			if u != nil && u.masks {
				if err = s.FS.Remove(p.Cred, link); err == nil {
					out = []string{"Removed \"" + link + "\"."}
				}
			}
		}
		if err != nil {
			fmt.Fprintln(p.Stderr, machine.Strerror(err))
			code = 1
			continue
		}
		for _, line := range out {
			if !quiet {
				fmt.Fprintln(p.Stderr, line)
			}
		}
		// These verbs read the unit files anew, as systemctl does by itself.
		m.reload()
		if now {
			job := m.start
			if verb == "disable" || verb == "mask" {
				job = m.halt
			}
			if err := job(ctx, name); err != nil {
				fmt.Fprintln(p.Stderr, err.Error())
				code = 1
			}
		}
	}
	return code
}

// reboot is the program reboot, and its kin by their names.
func (s *System) reboot(_ context.Context, p *machine.Proc) int {
	if p.Cred.UID != 0 {
		return p.Fail(1, "Failed to set wall message, ignoring: %s", errNotRoot)
	}
	all := strings.Join(p.Args, " ")
	halt := strings.Contains(all, "poweroff") || strings.Contains(all, "halt") || strings.Contains(all, "shutdown") && !strings.Contains(all, "-r")
	if s.Config.Reboot != nil {
		s.Config.Reboot(halt)
	}
	return 0
}
