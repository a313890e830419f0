package debian

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func (s *System) dpkgQuery(_ context.Context, p *machine.Proc) int {
	o := p.Options("W|show l|list s|status L|listfiles f|showformat: S|search no-pager")
	if o == nil {
		return 2
	}
	pk := s.packages
	pk.mu.Lock()
	all, held, left := maps.Clone(pk.installed), maps.Clone(pk.held), maps.Clone(pk.left)
	pk.mu.Unlock()
	maps.Copy(all, left)
	names := o.Args
	for name := range held {
		if _, is := all[name]; !is && len(names) > 0 {
			all[name] = pkg{name: name}
		}
	}
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(all))
	}
	format := "${binary:Package}\t${Version}\n"
	if o.Has("f") {
		format = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(o.Get("f"))
	}
	code := 0
	for _, pattern := range names {
		matched := false
		for _, name := range slices.Sorted(maps.Keys(all)) {
			plain, _, _ := strings.Cut(pattern, ":")
			if ok, _ := path.Match(plain, name); !ok { // a bad pattern matches nothing
				continue
			}
			matched = true
			one := all[name]
			want, state, letter := "install", "installed", "ii"
			if _, is := left[name]; is {
				want, state, letter = "deinstall", "config-files", "rc"
			}
			if one.version == "" {
				state, letter = "not-installed", "un"
			}
			if held[name] {
				want, letter = "hold", "h"+letter[1:]
			}
			switch {
			case o.Has("s"):
				p.Printf("Package: %s\nStatus: %s ok %s\nPriority: optional\nArchitecture: %s\nVersion: %s\n\n", name, want, state, one.arch, one.version)
			case o.Has("l"):
				p.Printf("%s  %s %s %s %s\n", letter, name, one.version, one.arch, name)
			case o.Has("L"):
				for _, f := range slices.Sorted(slices.Values(append(slices.Clone(one.programs), slices.Collect(maps.Keys(one.files))...))) {
					p.Printf("%s\n", f)
				}
			default:
				p.Printf("%s", strings.NewReplacer("${Package}", name, "${binary:Package}", name, "${Version}", one.version, "${Architecture}", one.arch,
					"${Status}", want+" ok "+state, "${db:Status-Status}", state, "${db:Status-Abbrev}", letter+" ", "${Status-Want}", want,
					"${db:Status-Want}", want).Replace(format))
			}
		}
		if !matched {
			code = 1
			switch {
			case o.Has("s"):
				fmt.Fprintf(p.Stderr, "dpkg-query: package '%s' is not installed and no information is available\nUse dpkg --info (= dpkg-deb --info) to examine archive files.\n", pattern)
			default:
				fmt.Fprintf(p.Stderr, "dpkg-query: no packages found matching %s\n", pattern)
			}
		}
	}
	return code
}

func (s *System) dpkg(ctx context.Context, p *machine.Proc) int {
	if len(p.Args) < 2 {
		return p.Fail(2, "error: need an action option")
	}
	switch p.Args[1] {
	case "-s", "--status", "-l", "--list", "-L", "--listfiles", "-W":
		return s.dpkgQuery(ctx, p)
	case "--print-architecture":
		p.Printf("amd64\n")
		return 0
	case "--configure", "--audit":
		return 0
	case "--compare-versions":
		if len(p.Args) != 5 {
			return 2
		}
		c := compareVersions(p.Args[2], p.Args[4])
		ok := map[string]bool{"lt": c < 0, "le": c <= 0, "eq": c == 0, "ne": c != 0, "ge": c >= 0, "gt": c > 0}[p.Args[3]]
		if ok {
			return 0
		}
		return 1
	case "-i", "--install", "-r", "--remove", "-P", "--purge":
	default:
		return p.Fail(2, "error: unknown option %s", p.Args[1])
	}
	if p.Cred.UID != 0 {
		return p.Fail(2, "error: requested operation requires superuser privilege")
	}
	pk := s.packages
	pk.lock.Lock()
	defer pk.lock.Unlock()
	for _, name := range p.Args[2:] {
		if p.Args[1] == "-i" || p.Args[1] == "--install" {
			one, ok := s.debFile(p, name)
			if !ok {
				return p.Fail(1, "error: cannot access archive '%s': No such file or directory", name)
			}
			p.Printf("Setting up %s (%s) ...\n", one.name, one.version)
			if err := pk.unpack(ctx, p.Cred, one); err != nil {
				return p.Fail(1, "error processing archive %s (--install):\n %s", name, machine.Strerror(err))
			}
			continue
		}
		pk.mu.Lock()
		one, ok := pk.installed[name]
		pk.mu.Unlock()
		if !ok {
			p.Fail(0, "warning: ignoring request to remove %s which isn't installed", name)
			continue
		}
		if err := pk.remove(ctx, p.Cred, one, p.Args[1] == "-P" || p.Args[1] == "--purge"); err != nil {
			return p.Fail(1, "error: %s", machine.Strerror(err))
		}
	}
	return 0
}
