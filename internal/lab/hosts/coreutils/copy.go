package coreutils

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

// targets pairs each source of cp, mv, ln and install with where it goes.
func targets(p *machine.Proc, args []string, dir string, noDir bool) ([][2]string, bool) {
	if dir == "" {
		switch len(args) {
		case 0:
			p.Fail(1, "missing file operand")
			return nil, false
		case 1:
			p.Fail(1, "missing destination file operand after '%s'", args[0])
			return nil, false
		}
		last := args[len(args)-1]
		info, err := p.Machine.FS.Stat(p.Cred, p.Abs(last), true)
		isDir := err == nil && info.IsDir() && !noDir
		if len(args) > 2 && !isDir {
			p.Fail(1, "target '%s': %s", last, "Not a directory")
			return nil, false
		}
		args = args[:len(args)-1]
		if !isDir {
			return [][2]string{{args[0], last}}, true
		}
		dir = last
	} else if info, err := p.Machine.FS.Stat(p.Cred, p.Abs(dir), true); err != nil || !info.IsDir() {
		p.Fail(1, "target directory '%s': No such file or directory", dir)
		return nil, false
	}
	var out [][2]string
	for _, a := range args {
		out = append(out, [2]string{a, strings.TrimRight(dir, "/") + "/" + path.Base(a)})
	}
	return out, true
}

func mv(_ context.Context, p *machine.Proc) int {
	o := p.Options("f|force n|no-clobber i v|verbose T|no-target-directory t|target-directory: u b|backup?")
	if o == nil {
		return 1
	}
	pairs, ok := targets(p, o.Args, o.Get("t"), o.Has("T"))
	if !ok {
		return 1
	}
	fsys := p.Machine.FS
	code := 0
	for _, pair := range pairs {
		from, to := p.Abs(pair[0]), p.Abs(pair[1])
		if _, err := fsys.Stat(p.Cred, from, false); err != nil {
			code = p.Fail(1, "cannot stat '%s': %s", pair[0], machine.Strerror(err))
			continue
		}
		if _, err := fsys.Stat(p.Cred, to, false); err == nil {
			if o.Has("n") {
				continue
			}
			if o.Has("b") {
				if err := fsys.Rename(p.Cred, to, to+"~"); err != nil {
					code = p.Fail(1, "cannot backup '%s': %s", pair[1], machine.Strerror(err))
					continue
				}
			}
		}
		err := fsys.Rename(p.Cred, from, to)
		if errors.Is(err, syscall.EXDEV) {
			c := copier{p: p, all: true, preserve: true}
			if err = c.copy(from, to); err == nil {
				err = fsys.RemoveAll(p.Cred, from)
			}
		}
		if err != nil {
			code = p.Fail(1, "cannot move '%s' to '%s': %s", pair[0], pair[1], machine.Strerror(err))
		} else if o.Has("v") {
			p.Printf("renamed '%s' -> '%s'\n", pair[0], pair[1])
		}
	}
	return code
}

// copier copies files as cp does.
type copier struct {
	p        *machine.Proc
	all      bool // directories too
	preserve bool // mode, owner, time
	links    bool // links as links
	force    bool
}

func (c copier) copy(from, to string) error {
	fsys := c.p.Machine.FS
	info, err := fsys.Stat(c.p.Cred, from, !c.links && !c.preserve)
	if err != nil {
		return err
	}
	perm := info.Mode().Perm()
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := fsys.Readlink(c.p.Cred, from)
		if err != nil {
			return err
		}
		if old, err := fsys.Stat(c.p.Cred, to, false); err == nil && !old.IsDir() {
			if err := fsys.Remove(c.p.Cred, to); err != nil {
				return err
			}
		}
		return fsys.Symlink(c.p.Cred, target, to)
	case info.IsDir():
		if err := fsys.MkdirAll(c.p.Cred, to, perm&^c.p.Umask); err != nil {
			return err
		}
		kids, err := fsys.ReadDir(c.p.Cred, from)
		if err != nil {
			return err
		}
		for _, kid := range kids {
			if err := c.copy(from+"/"+kid.Name(), to+"/"+kid.Name()); err != nil {
				return err
			}
		}
	default:
		data, err := fsys.ReadFile(c.p.Cred, from)
		if err != nil {
			return err
		}
		err = fsys.WriteFile(c.p.Cred, to, data, perm&^c.p.Umask)
		if err != nil && c.force && fsys.Remove(c.p.Cred, to) == nil {
			err = fsys.WriteFile(c.p.Cred, to, data, perm&^c.p.Umask)
		}
		if err != nil {
			return err
		}
	}
	if c.preserve {
		// Only root can give files away; cp doesn't mind.
		_ = fsys.Chown(c.p.Cred, to, info.UID(), info.GID(), true)
		if err := fsys.Chmod(c.p.Cred, to, info.Mode()); err != nil {
			return err
		}
		return fsys.Chtimes(c.p.Cred, to, info.ModTime())
	}
	return nil
}

func cp(_ context.Context, p *machine.Proc) int {
	o := p.Options("a|archive r|recursive R p preserve? f|force n|no-clobber u|update v|verbose T|no-target-directory " +
		"t|target-directory: d P|no-dereference L|dereference H i b|backup? reflink? x")
	if o == nil {
		return 1
	}
	pairs, ok := targets(p, o.Args, o.Get("t"), o.Has("T"))
	if !ok {
		return 1
	}
	c := copier{
		p: p, all: o.Has("a") || o.Has("r") || o.Has("R"), preserve: o.Has("a") || o.Has("p") || o.Has("preserve"),
		links: o.Has("a") || o.Has("d") || o.Has("P") || (o.Has("r") || o.Has("R")) && !o.Has("L"), force: o.Has("f"),
	}
	fsys := p.Machine.FS
	code := 0
	for _, pair := range pairs {
		from, to := p.Abs(pair[0]), p.Abs(pair[1])
		info, err := fsys.Stat(p.Cred, from, true)
		if err != nil && !c.links {
			code = p.Fail(1, "cannot stat '%s': %s", pair[0], machine.Strerror(err))
			continue
		}
		if err == nil && info.IsDir() && !c.all {
			code = p.Fail(1, "-r not specified; omitting directory '%s'", pair[0])
			continue
		}
		if old, oerr := fsys.Stat(p.Cred, to, true); oerr == nil {
			if o.Has("n") || o.Has("u") && err == nil && !info.ModTime().After(old.ModTime()) {
				continue
			}
			if err == nil && old.Ino() == info.Ino() {
				code = p.Fail(1, "'%s' and '%s' are the same file", pair[0], pair[1])
				continue
			}
			if o.Has("b") {
				if err := fsys.Rename(p.Cred, to, to+"~"); err != nil {
					code = p.Fail(1, "cannot backup '%s': %s", pair[1], machine.Strerror(err))
					continue
				}
			}
		}
		if err := c.copy(from, to); err != nil {
			code = p.Fail(1, "cannot create regular file '%s': %s", pair[1], machine.Strerror(err))
		} else if o.Has("v") {
			p.Printf("'%s' -> '%s'\n", pair[0], pair[1])
		}
	}
	return code
}

func ln(_ context.Context, p *machine.Proc) int {
	o := p.Options("s|symbolic f|force n|no-dereference v|verbose T|no-target-directory t|target-directory: r|relative")
	if o == nil {
		return 1
	}
	args := o.Args
	if len(args) == 1 {
		args = append(args, path.Base(args[0]))
	}
	noDir := o.Has("T")
	if o.Has("n") && len(args) == 2 {
		// A link to a directory is replaced, not entered.
		if info, err := p.Machine.FS.Stat(p.Cred, p.Abs(args[1]), false); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			noDir = true
		}
	}
	pairs, ok := targets(p, args, o.Get("t"), noDir)
	if !ok {
		return 1
	}
	fsys := p.Machine.FS
	code := 0
	for _, pair := range pairs {
		to := p.Abs(pair[1])
		var err error
		make := func(at string) error {
			if o.Has("s") {
				return fsys.Symlink(p.Cred, pair[0], at)
			}
			return fsys.Link(p.Cred, p.Abs(pair[0]), at)
		}
		if old, serr := fsys.Stat(p.Cred, to, false); serr == nil && o.Has("f") && !old.IsDir() {
			// As ln does it: a link beside, then renamed over the old one.
			tmp := to + ".lab" + randomText(6)
			if err = make(tmp); err == nil {
				err = fsys.Rename(p.Cred, tmp, to)
			}
		} else {
			err = make(to)
		}
		if err != nil {
			kind := "hard"
			if o.Has("s") {
				kind = "symbolic"
			}
			code = p.Fail(1, "failed to create %s link '%s': %s", kind, pair[1], machine.Strerror(err))
		}
	}
	return code
}
