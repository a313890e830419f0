package debian

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

const aptOptions = "y|yes assume-yes q|quiet? o|option: no-install-recommends allow-downgrades allow-change-held-packages allow-unauthenticated reinstall " +
	"purge auto-remove f|fix-broken s|simulate dry-run download-only d only-upgrade force-yes no-upgrade t|target-release: c: u V fix-missing"

func (s *System) aptGet(ctx context.Context, p *machine.Proc) int {
	// -qq and the like.
	for i, a := range p.Args {
		if i > 0 && len(a) > 2 && strings.Trim(a, "-qyu") == "" && !strings.HasPrefix(a, "--") {
			p.Args[i] = "-q"
			if strings.Contains(a, "y") {
				p.Args[i] = "-y"
			}
		}
	}
	o := p.Options(aptOptions)
	if o == nil || len(o.Args) == 0 {
		return p.Fail(100, "no command")
	}
	verb, names := o.Args[0], o.Args[1:]
	say := func(code int, text string) int { fmt.Fprintln(p.Stderr, text); return code }
	quiet := o.Has("q")
	out := func(format string, args ...any) {
		if !quiet {
			p.Printf(format+"\n", args...)
		}
	}
	pk := s.packages
	if verb != "install" && verb != "update" && verb != "remove" && verb != "purge" && verb != "clean" && verb != "autoremove" && verb != "autoclean" &&
		verb != "upgrade" && verb != "dist-upgrade" && verb != "full-upgrade" && verb != "download" && verb != "list" {
		return say(100, "E: Invalid operation "+verb)
	}
	if p.Cred.UID != 0 && verb != "list" {
		return say(100, "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)\nE: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?")
	}
	pk.lock.Lock()
	defer pk.lock.Unlock()
	switch verb {
	case "update":
		return s.aptUpdate(p, o, out)
	case "clean", "autoclean", "autoremove":
		return 0
	case "upgrade", "dist-upgrade", "full-upgrade":
		pk.mu.Lock()
		for name := range pk.installed {
			if !pk.held[name] {
				names = append(names, name)
			}
		}
		pk.mu.Unlock()
		slices.Sort(names)
		fallthrough
	case "install":
		code := s.aptInstall(ctx, p, names, o, out)
		return code
	case "remove", "purge":
		for _, name := range names {
			pk.mu.Lock()
			one, ok := pk.installed[name]
			held := pk.held[name]
			if left, is := pk.left[name]; is && verb == "purge" {
				one, ok = left, true
			}
			pk.mu.Unlock()
			if !ok {
				if len(pk.versionsOf(name)) == 0 {
					return say(100, "E: Unable to locate package "+name)
				}
				out("Package '%s' is not installed, so not removed", name)
				continue
			}
			if !yes(o) {
				return say(1, "Do you want to continue? [Y/n] Abort.")
			}
			if held && !o.Has("allow-change-held-packages") {
				return say(100, "E: Held packages were changed and -y was used without --allow-change-held-packages.")
			}
			out("Removing %s (%s) ...", name, one.version)
			if err := pk.remove(ctx, p.Cred, one, verb == "purge" || o.Has("purge")); err != nil {
				return say(100, "E: "+machine.Strerror(err))
			}
		}
	}
	return 0
}

func yes(o *machine.Options) bool { return o.Has("y") || o.Has("assume-yes") }

// aptUpdate fetches the lists of all sources, or of those of one file.
func (s *System) aptUpdate(p *machine.Proc, o *machine.Options, out func(string, ...any)) int {
	pk := s.packages
	lists := map[string]bool{}
	sources := s.sources()
	for _, opt := range o.All("o") {
		if file, is := strings.CutPrefix(opt, "Dir::Etc::sourcelist="); is {
			sources = s.sourcesOf(file)
			pk.mu.Lock()
			maps.Copy(lists, pk.lists)
			pk.mu.Unlock()
		}
	}
	code := 0
	n := 0
	open := s.egress()
	for _, src := range sources {
		n++
		name := "main"
		if src.release != "" {
			name = "kubernetes " + src.release
		}
		where := src.url + " " + src.suite
		switch {
		case !open:
			out("Err:%d %s InRelease\n  Temporary failure resolving", n, where)
			fmt.Fprintf(p.Stderr, "W: Failed to fetch %s  Temporary failure resolving\n", src.url)
			pk.mu.Lock()
			if pk.lists[name] {
				lists[name] = true // the old list is used
			}
			pk.mu.Unlock()
		case !s.signed(src):
			out("Err:%d %s InRelease", n, where)
			fmt.Fprintf(p.Stderr, "W: GPG error: %s InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 234654DA9A296436\nE: The repository '%s InRelease' is not signed.\n", where, where)
			code = 100
		default:
			out("Hit:%d %s InRelease", n, where)
			lists[name] = true
		}
	}
	pk.mu.Lock()
	same := maps.Equal(lists, pk.lists)
	pk.lists = lists
	pk.mu.Unlock()
	if !open {
		fmt.Fprintln(p.Stderr, "W: Some index files failed to download. They have been ignored, or old ones used instead.")
		return code
	}
	if !same {
		text := strings.Join(slices.Sorted(maps.Keys(lists)), "\n") + "\n"
		if err := s.FS.WriteFile(p.Cred, "/var/lib/apt/lists/index", []byte(text), 0o644); err != nil {
			fmt.Fprintln(p.Stderr, "E: "+machine.Strerror(err))
			return 100
		}
	}
	out("Reading package lists...")
	return code
}

func (s *System) aptInstall(ctx context.Context, p *machine.Proc, names []string, o *machine.Options, out func(string, ...any)) int {
	pk := s.packages
	say := func(code int, text string) int { fmt.Fprintln(p.Stderr, text); return code }
	out("Reading package lists...\nBuilding dependency tree...\nReading state information...")
	if o.Has("allow-change-held-packages") {
		pk.mu.Lock()
		for _, spec := range names {
			name, _, _ := strings.Cut(spec, "=")
			delete(pk.held, name)
		}
		pk.mu.Unlock()
	}
	var local []pkg
	names = slices.DeleteFunc(names, func(n string) bool {
		if !strings.HasSuffix(n, ".deb") {
			return false
		}
		if one, ok := s.debFile(p, n); ok {
			local = append(local, one)
		}
		return true
	})
	todo, err := pk.plan(names)
	if err != nil {
		return say(100, err.Error())
	}
	for _, one := range todo {
		pk.mu.Lock()
		have, was := pk.installed[one.name]
		pk.mu.Unlock()
		if was && compareVersions(one.version, have.version) < 0 && yes(o) && !o.Has("allow-downgrades") {
			return say(100, "E: Packages were downgraded and -y was used without --allow-downgrades.")
		}
	}
	if o.Has("s") || o.Has("dry-run") {
		for _, one := range todo {
			p.Printf("Inst %s (%s Debian:12 [%s])\n", one.name, one.version, one.arch)
		}
		return 0
	}
	if len(todo) == 0 && len(local) == 0 {
		for _, spec := range names {
			name, _, _ := strings.Cut(spec, "=")
			if v, ok := s.Installed(name); ok {
				out("%s is already the newest version (%s).", name, v)
			}
		}
		out("0 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.")
		return 0
	}
	if !yes(o) && len(todo) > len(names) {
		return say(1, "Do you want to continue? [Y/n] Abort.")
	}
	if !s.egress() && len(todo) > 0 {
		for _, one := range todo {
			fmt.Fprintf(p.Stderr, "E: Failed to fetch pool/%s_%s_%s.deb  Temporary failure resolving\n", one.name, one.version, one.arch)
		}
		return say(100, "E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?")
	}
	out("0 upgraded, %d newly installed, 0 to remove and 0 not upgraded.", len(todo)+len(local))
	for _, one := range append(todo, local...) {
		if ctx.Err() != nil {
			return 100
		}
		out("Setting up %s (%s) ...", one.name, one.version)
		if err := pk.unpack(ctx, p.Cred, one); err != nil {
			return say(100, fmt.Sprintf("dpkg: error processing archive %s (--unpack):\n cannot copy extracted data: %s\nE: Sub-process /usr/bin/dpkg returned an error code (1)", one.name, machine.Strerror(err)))
		}
	}
	pk.mu.Lock()
	for _, spec := range names {
		name, _, _ := strings.Cut(spec, "=")
		pk.manual[name] = true
	}
	pk.mu.Unlock()
	return 0
}

// debFile reads which package a .deb is from its name, name_version_arch.deb.
func (s *System) debFile(p *machine.Proc, file string) (pkg, bool) {
	data, err := s.FS.ReadFile(p.Cred, p.Abs(file))
	if err != nil || len(data) == 0 {
		return pkg{}, false
	}
	parts := strings.Split(strings.TrimSuffix(path.Base(file), ".deb"), "_")
	one := pkg{name: parts[0], version: "1.0", arch: "amd64", source: "local"}
	if len(parts) > 1 {
		one.version = parts[1]
	}
	if k, ok := kubernetesPackage(one.name, one.version); ok {
		k.source = "local"
		return k, true
	}
	if m, ok := s.packages.main[one.name]; ok {
		m.version, m.source = one.version, "local"
		return m, true
	}
	return one, true
}

func (s *System) aptCache(_ context.Context, p *machine.Proc) int {
	o := p.Options(aptOptions)
	if o == nil || len(o.Args) == 0 {
		return 100
	}
	pk := s.packages
	code := 0
	for _, name := range o.Args[1:] {
		versions := pk.versionsOf(name)
		have, installed := s.Installed(name)
		if len(versions) == 0 && !installed {
			if o.Args[0] != "policy" {
				fmt.Fprintf(p.Stderr, "E: No packages found\n")
				code = 100
			}
			continue
		}
		switch o.Args[0] {
		case "policy":
			candidate := have
			if len(versions) > 0 {
				candidate = versions[0].version
			}
			p.Printf("%s:\n  Installed: %s\n  Candidate: %s\n  Version table:\n", name, cmp.Or(have, "(none)"), candidate)
			for _, v := range versions {
				mark := "   "
				if v.version == have {
					mark = "***"
				}
				p.Printf(" %s %s 500\n        500 %s\n", mark, v.version, v.source)
			}
		case "madison":
			for _, v := range versions {
				p.Printf(" %s | %s | %s\n", name, v.version, v.source)
			}
		default:
			for _, v := range versions {
				p.Printf("Package: %s\nVersion: %s\nArchitecture: %s\n\n", name, v.version, v.arch)
			}
		}
	}
	return code
}

func (s *System) aptMark(_ context.Context, p *machine.Proc) int {
	if len(p.Args) < 2 {
		return p.Fail(100, "no command")
	}
	pk := s.packages
	verb, names := p.Args[1], p.Args[2:]
	switch verb {
	case "showhold", "showmanual":
		pk.mu.Lock()
		set := pk.held
		if verb == "showmanual" {
			set = pk.manual
		}
		all := slices.Sorted(maps.Keys(set))
		pk.mu.Unlock()
		for _, name := range all {
			if len(names) == 0 || slices.Contains(names, name) {
				p.Printf("%s\n", name)
			}
		}
		return 0
	case "hold", "unhold", "manual", "auto":
	default:
		return p.Fail(100, "E: Invalid operation %s", verb)
	}
	if p.Cred.UID != 0 {
		fmt.Fprintln(p.Stderr, "E: Could not create temporary file for /var/lib/apt/extended_states - mkstemp (13: Permission denied)")
		return 100
	}
	for _, name := range names {
		if _, ok := s.Installed(name); !ok && len(pk.versionsOf(name)) == 0 {
			fmt.Fprintf(p.Stderr, "E: Unable to locate package %s\nE: No packages found\n", name)
			return 100
		}
		pk.mu.Lock()
		was := pk.held[name]
		switch verb {
		case "hold":
			pk.held[name] = true
		case "unhold":
			delete(pk.held, name)
		case "manual":
			pk.manual[name] = true
		case "auto":
			delete(pk.manual, name)
		}
		changed := was != pk.held[name]
		pk.mu.Unlock()
		switch {
		case verb == "hold" && changed:
			p.Printf("%s set on hold.\n", name)
		case verb == "hold":
			p.Printf("%s was already set on hold.\n", name)
		case verb == "unhold" && changed:
			p.Printf("Canceled hold on %s.\n", name)
		case verb == "unhold":
			p.Printf("%s was already not on hold.\n", name)
		}
		if changed {
			if err := pk.save(tree.Root()); err != nil {
				return p.Fail(100, "%s", machine.Strerror(err))
			}
		}
	}
	return 0
}
