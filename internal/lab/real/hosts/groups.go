package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	cgroups     = "/sys/fs/cgroup"
	groupPrefix = "gsrun-hosts-"
)

// hierarchies returns the trees of control groups of this machine: one, or on
// an older machine one for each controller. Those of CPU and memory sets are
// left out: a new group there can't hold a process.
func hierarchies() []string {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.procs")); err == nil {
		return []string{cgroups}
	}
	all, err := filepath.Glob(filepath.Join(cgroups, "*", "cgroup.procs"))
	if err != nil {
		return nil // the pattern is right
	}
	var out []string
	for _, f := range all {
		if dir := filepath.Dir(f); filepath.Base(dir) != "cpuset" {
			out = append(out, dir)
		}
	}
	return out
}

// unified returns the tree that all of version 2 is in.
func unified() string {
	if dir := filepath.Join(cgroups, "unified"); slices.Contains(hierarchies(), dir) {
		return dir
	}
	return cgroups
}

// makeGroups makes a host's control groups.
func (l *Lab) makeGroups(name string) ([]string, error) {
	var out []string
	for _, h := range hierarchies() {
		dir := filepath.Join(h, l.group, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("making a control group: %w", err)
		}
		out = append(out, dir)
	}
	return out, nil
}

// sweepGroups removes control groups that nothing is in: those of this lab,
// and those that killed labs left.
func (l *Lab) sweepGroups() {
	for _, h := range hierarchies() {
		labs, err := filepath.Glob(filepath.Join(h, groupPrefix+"*"))
		if err != nil {
			continue // the pattern is right
		}
		for _, dir := range labs {
			info, err := os.Stat(dir)
			if err == nil && (filepath.Base(dir) == l.group || time.Since(info.ModTime()) > time.Minute) {
				removeGroups(dir)
			}
		}
	}
}

// removeGroups removes a control group with those below it, unless something
// is in them.
func removeGroups(dir string) {
	var dirs []string
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, p)
		}
		return nil
	})
	for _, d := range slices.Backward(dirs) {
		_ = os.Remove(d) // it is in use
	}
}

// freeze stops all processes of a host, or lets them go on.
func (l *Lab) freeze(name string, frozen bool) error {
	value := "0"
	if frozen {
		value = "1"
	}
	return os.WriteFile(filepath.Join(unified(), l.group, name, "cgroup.freeze"), []byte(value), 0o644)
}

// CPU returns how much processor time the hosts have taken.
func (l *Lab) CPU() (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(unified(), l.group, "cpu.stat"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "usage_usec "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return time.Duration(n) * time.Microsecond, err
		}
	}
	return 0, errors.New("the kernel doesn't tell the time of a control group")
}
