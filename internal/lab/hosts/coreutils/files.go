package coreutils

import (
	"context"
	"path"
	"strings"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func mkdir(_ context.Context, p *machine.Proc) int {
	o := p.Options("p|parents m|mode: v|verbose")
	if o == nil {
		return 1
	}
	if len(o.Args) == 0 {
		return p.Fail(1, "missing operand")
	}
	fsys := p.Machine.FS
	code := 0
	for _, name := range o.Args {
		file := p.Abs(name)
		if o.Has("p") {
			if info, err := fsys.Stat(p.Cred, file, true); err == nil && info.IsDir() {
				continue
			}
			if err := fsys.MkdirAll(p.Cred, path.Dir(strings.TrimRight(file, "/")), 0o777&^p.Umask); err != nil {
				code = p.Fail(1, "cannot create directory '%s': %s", name, machine.Strerror(err))
				continue
			}
		}
		err := fsys.Mkdir(p.Cred, file, 0o777&^p.Umask)
		if err == nil && o.Has("m") {
			mode, ok := machine.ParseMode(o.Get("m"), 0o777, true)
			if !ok {
				return p.Fail(1, "invalid mode '%s'", o.Get("m"))
			}
			err = fsys.Chmod(p.Cred, file, mode)
		}
		if err != nil {
			code = p.Fail(1, "cannot create directory '%s': %s", name, machine.Strerror(err))
		}
	}
	return code
}

func rmdir(_ context.Context, p *machine.Proc) int {
	o := p.Options("p|parents ignore-fail-on-non-empty v")
	if o == nil {
		return 1
	}
	code := 0
	for _, name := range o.Args {
		info, err := p.Machine.FS.Stat(p.Cred, p.Abs(name), false)
		if err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
		if err == nil {
			err = p.Machine.FS.Remove(p.Cred, p.Abs(name))
		}
		if err != nil && !o.Has("ignore-fail-on-non-empty") {
			code = p.Fail(1, "failed to remove '%s': %s", name, machine.Strerror(err))
		}
	}
	return code
}

func rm(_ context.Context, p *machine.Proc) int {
	o := p.Options("r|recursive R f|force d|dir v|verbose one-file-system preserve-root i")
	if o == nil {
		return 1
	}
	if len(o.Args) == 0 && !o.Has("f") {
		return p.Fail(1, "missing operand")
	}
	all := o.Has("r") || o.Has("R")
	code := 0
	for _, name := range o.Args {
		file := p.Abs(name)
		info, err := p.Machine.FS.Stat(p.Cred, file, false)
		switch {
		case err != nil:
			if o.Has("f") && strings.Contains("No such file or directory Not a directory", machine.Strerror(err)) {
				continue
			}
		case path.Clean(file) == "/":
			code = p.Fail(1, "it is dangerous to operate recursively on '/'\nrm: use --no-preserve-root to override this failsafe")
			continue
		case info.IsDir() && !all && !o.Has("d"):
			err = syscall.EISDIR
		case all:
			err = p.Machine.FS.RemoveAll(p.Cred, file)
		default:
			err = p.Machine.FS.Remove(p.Cred, file)
		}
		if err != nil {
			code = p.Fail(1, "cannot remove '%s': %s", name, machine.Strerror(err))
		} else if o.Has("v") {
			p.Printf("removed '%s'\n", name)
		}
	}
	return code
}

func touch(_ context.Context, p *machine.Proc) int {
	o := p.Options("c|no-create d|date: t: r|reference: a m h")
	if o == nil {
		return 1
	}
	when := p.Machine.Clock.Now()
	switch {
	case o.Has("r"):
		info, err := p.Machine.FS.Stat(p.Cred, p.Abs(o.Get("r")), true)
		if err != nil {
			return p.Fail(1, "failed to get attributes of '%s': %s", o.Get("r"), machine.Strerror(err))
		}
		when = info.ModTime()
	case o.Has("d"):
		t, ok := parseDate(o.Get("d"), when)
		if !ok {
			return p.Fail(1, "invalid date format '%s'", o.Get("d"))
		}
		when = t
	case o.Has("t"):
		t, err := time.Parse("200601021504.05", o.Get("t"))
		if err != nil {
			if t, err = time.Parse("200601021504", o.Get("t")); err != nil {
				return p.Fail(1, "invalid date format '%s'", o.Get("t"))
			}
		}
		when = t
	}
	code := 0
	for _, name := range o.Args {
		file := p.Abs(name)
		if _, err := p.Machine.FS.Stat(p.Cred, file, true); err != nil {
			if o.Has("c") {
				continue
			}
			if err := p.Machine.FS.WriteFile(p.Cred, file, nil, 0o666&^p.Umask); err != nil {
				code = p.Fail(1, "cannot touch '%s': %s", name, machine.Strerror(err))
				continue
			}
			if !o.Has("d") && !o.Has("t") && !o.Has("r") {
				continue
			}
		}
		if err := p.Machine.FS.Chtimes(p.Cred, file, when); err != nil {
			code = p.Fail(1, "cannot touch '%s': %s", name, machine.Strerror(err))
		}
	}
	return code
}
