package debian

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// sysctlFiles lists the files of sysctl --system: by name, the first directory
// that has a name wins.
func (s *System) sysctlFiles() []string {
	byName := map[string]string{}
	for _, dir := range []string{"/usr/lib/sysctl.d", "/usr/local/lib/sysctl.d", "/run/sysctl.d", "/etc/sysctl.d"} {
		for _, file := range s.listFiles(dir, ".conf") {
			byName[path.Base(file)] = file
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return append(out, "/etc/sysctl.conf")
}

// parseSysctl reads the lines of a sysctl.conf.
func parseSysctl(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if name, value, ok := strings.Cut(strings.TrimPrefix(line, "-"), "="); ok {
			out[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return out
}

// normalParam writes net/ipv4/ip_forward with dots.
func normalParam(name string) string {
	if strings.Contains(name, "/") {
		return strings.ReplaceAll(strings.TrimPrefix(paramPath(name), "/proc/sys/"), "/", ".")
	}
	return name
}

func (s *System) sysctl(_ context.Context, p *machine.Proc) int {
	o := p.Options("n|values w|write p|load? a|all q|quiet e|ignore N|names system b|binary")
	if o == nil {
		return 1
	}
	code := 0
	show := func(name, value string) {
		switch {
		case o.Has("q"):
		case o.Has("N"):
			p.Printf("%s\n", name)
		case o.Has("n"):
			p.Printf("%s\n", value)
		default:
			p.Printf("%s = %s\n", name, value)
		}
	}
	write := func(name, value string) {
		name = normalParam(name)
		file := paramPath(name)
		if _, err := s.FS.Stat(p.Cred, file, true); err != nil {
			if !o.Has("e") {
				code = p.Fail(255, "cannot stat %s: No such file or directory", file)
			}
			return
		}
		if err := s.FS.WriteFile(p.Cred, file, []byte(value), 0o644); err != nil {
			if machine.Strerror(err) == "Permission denied" {
				code = p.Fail(255, "permission denied on key \"%s\"", name)
			} else {
				code = p.Fail(255, "setting key \"%s\": %s", name, machine.Strerror(err))
			}
			return
		}
		show(name, value)
	}
	load := func(file string) {
		text := ""
		if file == "-" {
			in, err := p.Input(context.Background(), "/dev/stdin")
			if err == nil {
				text = readAll(in)
			}
		} else {
			data, err := s.FS.ReadFile(p.Cred, p.Abs(file))
			if err != nil {
				code = p.Fail(255, "cannot open \"%s\": %s", file, machine.Strerror(err))
				return
			}
			text = string(data)
		}
		for i, line := range strings.Split(text, "\n") {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' || line[0] == ';' {
				continue
			}
			name, value, ok := strings.Cut(strings.TrimPrefix(line, "-"), "=")
			if !ok {
				p.Fail(0, "%s(%d): invalid syntax, continuing...", file, i+1)
				continue
			}
			before := code
			write(strings.TrimSpace(name), strings.TrimSpace(value))
			if strings.HasPrefix(line, "-") {
				code = before
			}
		}
	}
	switch {
	case o.Has("system"):
		for _, file := range s.sysctlFiles() {
			if !s.Exists(file) {
				continue
			}
			if !o.Has("q") {
				p.Printf("* Applying %s ...\n", file)
			}
			load(file)
		}
		return code
	case o.Has("a"):
		s.kernel.mu.Lock()
		all := maps.Clone(s.kernel.params)
		s.kernel.mu.Unlock()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			show(name, all[name])
		}
		return 0
	case o.Has("p"):
		files := o.Args
		if f := o.Get("p"); f != "" {
			files = append([]string{f}, files...)
		}
		if len(files) == 0 {
			files = []string{"/etc/sysctl.conf"}
		}
		for _, file := range files {
			load(file)
		}
		return code
	}
	if len(o.Args) == 0 {
		return p.Fail(1, "no variables specified")
	}
	for _, arg := range o.Args {
		name, value, assign := strings.Cut(arg, "=")
		if assign {
			write(strings.TrimSpace(name), strings.Trim(strings.TrimSpace(value), `"'`))
			continue
		}
		if o.Has("w") {
			code = p.Fail(255, "\"%s\" must be of the form name=value", arg)
			continue
		}
		name = normalParam(name)
		data, err := s.FS.ReadFile(p.Cred, paramPath(name))
		if err != nil {
			if !o.Has("e") {
				code = p.Fail(255, "cannot stat %s: No such file or directory", paramPath(name))
			}
			continue
		}
		show(name, strings.TrimSpace(string(data)))
	}
	return code
}

func (s *System) modprobe(_ context.Context, p *machine.Proc) int {
	o := p.Options("a|all r|remove q|quiet v|verbose n|dry-run f b S:")
	if o == nil {
		return 1
	}
	if p.Cred.UID != 0 && len(o.Args) > 0 {
		return p.Fail(1, "ERROR: could not insert '%s': Operation not permitted", o.Args[0])
	}
	code := 0
	names := o.Args
	if !o.Has("a") && len(names) > 1 {
		names = names[:1] // the rest are parameters
	}
	for _, name := range names {
		if o.Has("n") {
			if _, ok := knownModules()[strings.ReplaceAll(name, "-", "_")]; ok {
				continue
			}
		}
		if o.Has("r") {
			s.kernel.mu.Lock()
			delete(s.kernel.modules, strings.ReplaceAll(name, "-", "_"))
			s.kernel.mu.Unlock()
			for param := range moduleParameters()[strings.ReplaceAll(name, "-", "_")] {
				s.FS.Vanish(paramPath(param))
			}
			continue
		}
		if err := s.kernel.load(name); err != nil {
			code = 1
			if !o.Has("q") {
				p.Fail(1, "FATAL: Module %s not found in directory /lib/modules/%s", name, kernelRelease)
			}
		}
	}
	return code
}

func (s *System) lsmod(_ context.Context, p *machine.Proc) int {
	p.Printf("%-20s %7s  Used by\n", "Module", "Size")
	for line := range strings.SplitSeq(strings.TrimSpace(s.Text("/proc/modules")), "\n") {
		if f := strings.Fields(line); len(f) > 1 {
			p.Printf("%-20s %7s  0\n", f[0], f[1])
		}
	}
	return 0
}

func (s *System) swapoff(_ context.Context, p *machine.Proc) int {
	o := p.Options("a|all v")
	if o == nil {
		return 1
	}
	if p.Cred.UID != 0 {
		return p.Fail(1, "Not superuser.")
	}
	s.kernel.mu.Lock()
	defer s.kernel.mu.Unlock()
	if o.Has("a") {
		clear(s.kernel.swaps)
		return 0
	}
	for _, dev := range o.Args {
		if !s.kernel.swaps[dev] {
			return p.Fail(255, "%s: swapoff failed: Invalid argument", dev)
		}
		delete(s.kernel.swaps, dev)
	}
	return 0
}

func (s *System) swapon(_ context.Context, p *machine.Proc) int {
	o := p.Options("a|all s|summary show? noheadings bytes e p:")
	if o == nil {
		return 1
	}
	if o.Has("show") || o.Has("s") || len(o.Args) == 0 && !o.Has("a") {
		s.kernel.mu.Lock()
		names := slices.Sorted(maps.Keys(s.kernel.swaps))
		s.kernel.mu.Unlock()
		if len(names) > 0 && !o.Has("noheadings") {
			p.Printf("NAME TYPE SIZE USED PRIO\n")
		}
		for _, name := range names {
			p.Printf("%s file 1024M 0B -2\n", name)
		}
		return 0
	}
	if p.Cred.UID != 0 {
		return p.Fail(1, "Not superuser.")
	}
	names := o.Args
	if o.Has("a") {
		for line := range strings.SplitSeq(s.Text("/etc/fstab"), "\n") {
			if f := strings.Fields(line); len(f) > 2 && f[2] == "swap" && f[0][0] != '#' {
				names = append(names, f[0])
			}
		}
	}
	for _, name := range names {
		if _, err := s.FS.Stat(tree.Root(), name, true); err != nil {
			return p.Fail(255, "cannot open %s: No such file or directory", name)
		}
		s.kernel.mu.Lock()
		s.kernel.swaps[name] = true
		s.kernel.mu.Unlock()
	}
	return 0
}

func (s *System) uname(_ context.Context, p *machine.Proc) int {
	o := p.Options("a|all r|kernel-release m|machine s|kernel-name n|nodename v|kernel-version o|operating-system p i")
	if o == nil {
		return 1
	}
	var out []string
	for _, f := range [][2]string{{"s", "Linux"}, {"n", s.Hostname()}, {"r", kernelRelease}, {"v", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.129-1"}, {"m", "x86_64"}, {"o", "GNU/Linux"}} {
		if o.Has("a") || o.Has(f[0]) {
			out = append(out, f[1])
		}
	}
	if len(out) == 0 {
		out = []string{"Linux"}
	}
	p.Printf("%s\n", strings.Join(out, " "))
	return 0
}

func (s *System) hostnameProgram(_ context.Context, p *machine.Proc) int {
	o := p.Options("s|short f|fqdn long I|all-ip-addresses i b F: d")
	if o == nil {
		return 1
	}
	if len(o.Args) > 0 || o.Has("F") {
		if p.Cred.UID != 0 {
			return p.Fail(1, "you must be root to change the host name")
		}
		name := strings.TrimSpace(s.Text(o.Get("F")))
		if len(o.Args) > 0 {
			name = o.Args[0]
		}
		s.setHostname(name)
		return 0
	}
	name := s.Hostname()
	switch {
	case o.Has("I"):
		var all []string
		for _, a := range s.Config.Addresses {
			all = append(all, a.Prefix.Addr().String())
		}
		name = strings.Join(all, " ") + " "
	case o.Has("s"):
		name, _, _ = strings.Cut(name, ".")
	}
	fmt.Fprintln(p, name)
	return 0
}
