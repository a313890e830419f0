package debian

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// packages is what dpkg and apt know.
type packages struct {
	sys  *System
	main map[string]pkg

	lock sync.Mutex // the dpkg lock: one change at a time

	mu        sync.Mutex
	installed map[string]pkg
	held      map[string]bool
	left      map[string]pkg // removed, but for their configuration
	manual    map[string]bool
	lists     map[string]bool // fetched by apt-get update
}

func newPackages(s *System) *packages {
	p := &packages{sys: s, main: catalogue(), installed: map[string]pkg{}, held: map[string]bool{}, left: map[string]pkg{}, manual: map[string]bool{}, lists: map[string]bool{}}
	for entry := range strings.FieldsSeq(baseInstalled) {
		name, version, _ := strings.Cut(entry, "=")
		p.installed[name] = pkg{name: name, version: version, source: "main", arch: "amd64"}
		p.manual[name] = true
	}
	return p
}

func (p *packages) install() error {
	if err := p.sys.Install("/usr/sbin/update-ca-certificates", "update-ca-certificates"); err != nil {
		return err
	}
	return p.save(tree.Root())
}

// save writes /var/lib/dpkg/status.
func (p *packages) save(c tree.Cred) error {
	p.mu.Lock()
	var sb strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.installed)) {
		one := p.installed[name]
		want := "install"
		if p.held[name] {
			want = "hold"
		}
		fmt.Fprintf(&sb, "Package: %s\nStatus: %s ok installed\nArchitecture: %s\nVersion: %s\n\n", name, want, one.arch, one.version)
	}
	for _, name := range slices.Sorted(maps.Keys(p.left)) {
		fmt.Fprintf(&sb, "Package: %s\nStatus: deinstall ok config-files\nArchitecture: %s\nVersion: %s\n\n", name, p.left[name].arch, p.left[name].version)
	}
	p.mu.Unlock()
	const file = "/var/lib/dpkg/status"
	if err := p.sys.FS.WriteFile(c, file+"-new", []byte(sb.String()), 0o644); err != nil {
		return err
	}
	return p.sys.FS.Rename(c, file+"-new", file)
}

// Installed returns the version of an installed package.
func (s *System) Installed(name string) (version string, ok bool) {
	s.packages.mu.Lock()
	defer s.packages.mu.Unlock()
	one, ok := s.packages.installed[name]
	return one.version, ok
}

// unpack puts a package's files into the tree. Configuration files that are
// there stay as they are.
func (p *packages) unpack(ctx context.Context, c tree.Cred, one pkg) error {
	s := p.sys
	for _, file := range one.programs {
		if err := s.FS.MkdirAll(c, path.Dir(file), 0o755); err != nil {
			return err
		}
		if err := s.FS.WriteFile(c, file, machine.Stub(path.Base(file)), 0o755); err != nil {
			return err
		}
	}
	for _, file := range slices.Sorted(maps.Keys(one.files)) {
		if strings.HasPrefix(file, "/etc/") && s.Exists(file) {
			continue
		}
		if err := s.FS.MkdirAll(c, path.Dir(file), 0o755); err != nil {
			return err
		}
		if err := s.FS.WriteFile(c, file, []byte(one.files[file]), 0o644); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.installed[one.name] = one
	delete(p.left, one.name)
	p.mu.Unlock()
	if err := p.save(c); err != nil {
		p.mu.Lock()
		delete(p.installed, one.name)
		p.mu.Unlock()
		return err
	}
	s.services.reload()
	for _, unit := range one.enable {
		if u := s.readUnit(unit); u != nil && !u.masks {
			if _, err := s.enable(c, u); err != nil {
				return err
			}
			s.services.tryStart(ctx, unit)
		}
	}
	return nil
}

// remove takes a package's programs and units out of the tree, and with purge
// its configuration.
func (p *packages) remove(ctx context.Context, c tree.Cred, one pkg, purge bool) error {
	s := p.sys
	for _, unit := range one.enable {
		// A unit that doesn't run needn't be stopped.
		_ = s.services.halt(ctx, unit)
		if _, err := s.disable(c, unit); err != nil {
			return err
		}
	}
	for _, file := range one.programs {
		if err := s.FS.RemoveAll(c, file); err != nil {
			return err
		}
	}
	configured := false
	for file := range one.files {
		configured = configured || strings.HasPrefix(file, "/etc/")
		if !strings.HasPrefix(file, "/etc/") || purge {
			if err := s.FS.RemoveAll(c, file); err != nil {
				return err
			}
		}
	}
	p.mu.Lock()
	delete(p.installed, one.name)
	delete(p.held, one.name)
	if delete(p.left, one.name); configured && !purge {
		p.left[one.name] = one
	}
	p.mu.Unlock()
	s.services.reload()
	return p.save(c)
}

// plan resolves what installing the given names ("a" or "a=1.2") takes, in
// order, dependencies first.
func (p *packages) plan(names []string) ([]pkg, error) {
	var out []pkg
	seen := map[string]bool{}
	var add func(spec string, asked bool) error
	add = func(spec string, asked bool) error {
		name, version, pinned := strings.Cut(spec, "=")
		name, _, _ = strings.Cut(name, ":") // name:amd64
		if seen[name] {
			return nil
		}
		seen[name] = true
		p.mu.Lock()
		have, installed := p.installed[name]
		held := p.held[name]
		p.mu.Unlock()
		if installed && !asked {
			return nil
		}
		versions := p.versionsOf(name)
		if len(versions) == 0 {
			if installed && !pinned {
				return nil
			}
			if !installed {
				return fmt.Errorf("E: Unable to locate package %s", name)
			}
		}
		var pick *pkg
		for _, v := range versions {
			if !pinned || v.version == version || strings.HasSuffix(version, "*") && strings.HasPrefix(v.version, strings.TrimSuffix(version, "*")) {
				pick = &v
				break
			}
		}
		if pick == nil {
			return fmt.Errorf("E: Version '%s' for '%s' was not found", version, name)
		}
		if installed && (have.version == pick.version || held && !pinned) {
			return nil
		}
		if installed && held {
			return fmt.Errorf("E: Held packages were changed and -y was used without --allow-change-held-packages.")
		}
		if installed && compareVersions(pick.version, have.version) < 0 && !pinned {
			return nil
		}
		for _, dep := range pick.depends {
			if err := add(dep, false); err != nil {
				return err
			}
		}
		out = append(out, *pick)
		return nil
	}
	for _, spec := range names {
		if err := add(spec, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}
