package coreutils

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
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

func install(_ context.Context, p *machine.Proc) int {
	o := p.Options("d|directory m|mode: o|owner: g|group: D t|target-directory: T|no-target-directory v|verbose c p s b C|compare backup? S:")
	if o == nil {
		return 1
	}
	fsys := p.Machine.FS
	mode := fs.FileMode(0o755)
	if o.Has("m") {
		m, ok := machine.ParseMode(o.Get("m"), 0, o.Has("d"))
		if !ok {
			return p.Fail(1, "invalid mode '%s'", o.Get("m"))
		}
		mode = m
	}
	uid, gid := -1, -1
	if o.Has("o") {
		u, ok := p.Machine.LookupUser(o.Get("o"))
		if !ok {
			return p.Fail(1, "invalid user '%s'", o.Get("o"))
		}
		uid = u.Cred.UID
	}
	if o.Has("g") {
		g, ok := p.Machine.LookupGroup(o.Get("g"))
		if !ok {
			return p.Fail(1, "invalid group '%s'", o.Get("g"))
		}
		gid = g.GID
	}
	finish := func(name string) error {
		if uid >= 0 || gid >= 0 {
			if err := fsys.Chown(p.Cred, p.Abs(name), uid, gid, true); err != nil {
				return err
			}
		}
		return fsys.Chmod(p.Cred, p.Abs(name), mode)
	}
	code := 0
	if o.Has("d") {
		for _, name := range o.Args {
			err := fsys.MkdirAll(p.Cred, p.Abs(name), 0o755)
			if err == nil {
				err = finish(name)
			}
			if err != nil {
				code = p.Fail(1, "cannot create directory '%s': %s", name, machine.Strerror(err))
			}
		}
		return code
	}
	if o.Has("D") {
		dir := o.Get("t")
		if dir == "" && len(o.Args) > 1 {
			dir = path.Dir(o.Args[len(o.Args)-1])
		}
		if err := fsys.MkdirAll(p.Cred, p.Abs(dir), 0o755); err != nil {
			return p.Fail(1, "cannot create directory '%s': %s", dir, machine.Strerror(err))
		}
	}
	pairs, ok := targets(p, o.Args, o.Get("t"), o.Has("T"))
	if !ok {
		return 1
	}
	for _, pair := range pairs {
		data, err := []byte(nil), error(nil)
		if pair[0] == "/dev/stdin" || pair[0] == "/dev/null" {
			var in io.ReadCloser
			if in, err = p.Open(context.Background(), pair[0], os.O_RDONLY, 0); err == nil {
				data, err = io.ReadAll(in)
				in.Close()
			}
		} else {
			data, err = fsys.ReadFile(p.Cred, p.Abs(pair[0]))
		}
		if err != nil {
			code = p.Fail(1, "cannot stat '%s': %s", pair[0], machine.Strerror(err))
			continue
		}
		// install makes a new file, so that a running program's isn't changed.
		if info, serr := fsys.Stat(p.Cred, p.Abs(pair[1]), false); serr == nil && !info.IsDir() {
			err = fsys.Remove(p.Cred, p.Abs(pair[1]))
		}
		if err == nil {
			err = fsys.WriteFile(p.Cred, p.Abs(pair[1]), data, 0o600)
		}
		if err == nil {
			err = finish(pair[1])
		}
		if err != nil {
			code = p.Fail(1, "cannot create regular file '%s': %s", pair[1], machine.Strerror(err))
		}
	}
	return code
}

func randomText(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	b := make([]byte, n)
	rand.Read(b)
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return string(b)
}

func mktemp(_ context.Context, p *machine.Proc) int {
	o := p.Options("d|directory p: tmpdir? t u|dry-run q|quiet suffix:")
	if o == nil {
		return 1
	}
	template, dir := "tmp.XXXXXXXXXX", ""
	if len(o.Args) > 0 {
		template = o.Args[0]
	}
	if len(o.Args) == 0 || o.Has("p") || o.Has("tmpdir") || o.Has("t") {
		dir = o.Get("p") + o.Get("tmpdir")
		if dir == "" {
			dir = p.Getenv("TMPDIR")
		}
		if dir == "" {
			dir = "/tmp"
		}
		dir += "/"
	}
	end := strings.LastIndex(template, "X") + 1
	start := end
	for start > 0 && template[start-1] == 'X' {
		start--
	}
	if end-start < 3 {
		return p.Fail(1, "too few X's in template '%s'", template)
	}
	for range 100 {
		name := dir + template[:start] + randomText(end-start) + template[end:] + o.Get("suffix")
		var err error
		if o.Has("d") {
			err = p.Machine.FS.Mkdir(p.Cred, p.Abs(name), 0o700)
		} else if !o.Has("u") {
			var f *tree.File
			if f, err = p.Machine.FS.Open(p.Cred, p.Abs(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				err = f.Close()
			}
		}
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			return p.Fail(1, "failed to create file via template '%s': %s", dir+template, machine.Strerror(err))
		}
		p.Printf("%s\n", name)
		return 0
	}
	return p.Fail(1, "failed to create file via template '%s': File exists", dir+template)
}

func truncate(_ context.Context, p *machine.Proc) int {
	o := p.Options("s|size: c|no-create l|length: x")
	if o == nil {
		return 1
	}
	size := o.Get("s") + o.Get("l")
	n, err := count(strings.TrimLeft(size, "+-<>"))
	if err != nil {
		return p.Fail(1, "Invalid number: '%s'", size)
	}
	for _, name := range o.Args {
		f, err := p.Machine.FS.Open(p.Cred, p.Abs(name), os.O_WRONLY|os.O_CREATE, 0o666&^p.Umask)
		if err == nil {
			err = f.Truncate(n)
			f.Close()
		}
		if err != nil {
			return p.Fail(1, "cannot open '%s' for writing: %s", name, machine.Strerror(err))
		}
	}
	return 0
}

func dd(ctx context.Context, p *machine.Proc) int {
	arg := map[string]string{"bs": "512", "count": "-1"}
	for _, a := range p.Args[1:] {
		k, v, ok := strings.Cut(a, "=")
		if !ok {
			return p.Fail(1, "unrecognized operand '%s'", a)
		}
		arg[k] = v
	}
	bs, err1 := count(arg["bs"])
	n, err2 := count(arg["count"])
	if err1 != nil || err2 != nil {
		return p.Fail(1, "invalid number")
	}
	in := io.Reader(p.In(ctx))
	if name := arg["if"]; name != "" {
		f, err := p.Open(ctx, name, os.O_RDONLY, 0)
		if err != nil {
			return p.Fail(1, "failed to open '%s': %s", name, machine.Strerror(err))
		}
		defer f.Close()
		in = f
	}
	out := io.Writer(p)
	if name := arg["of"]; name != "" {
		flag := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
		if strings.Contains(arg["conv"], "notrunc") {
			flag = os.O_WRONLY | os.O_CREATE
		}
		if strings.Contains(arg["oflag"], "append") {
			flag = os.O_WRONLY | os.O_CREATE | os.O_APPEND
		}
		f, err := p.Open(ctx, name, flag, 0o666)
		if err != nil {
			return p.Fail(1, "failed to open '%s': %s", name, machine.Strerror(err))
		}
		defer f.Close()
		out = f
	}
	if skip := arg["skip"]; skip != "" {
		k, err := count(skip)
		if err != nil {
			return p.Fail(1, "invalid number: '%s'", skip)
		}
		if _, err := io.CopyN(io.Discard, in, k*bs); err != nil && err != io.EOF {
			return p.Fail(1, "error reading: %s", machine.Strerror(err))
		}
	}
	if n >= 0 {
		in = io.LimitReader(in, n*bs)
	}
	total, err := io.Copy(out, in)
	if err != nil && ctx.Err() == nil {
		return p.Fail(1, "error writing '%s': %s", arg["of"], machine.Strerror(err))
	}
	if arg["status"] != "none" {
		fmt.Fprintf(p.Stderr, "%d+%d records in\n%d+%d records out\n%d bytes copied\n", total/bs, min(1, total%bs), total/bs, min(1, total%bs), total)
	}
	return 0
}

func syncFiles(_ context.Context, p *machine.Proc) int {
	o := p.Options("f|file-system d|data")
	if o == nil {
		return 1
	}
	code := 0
	for _, name := range o.Args {
		if _, err := p.Machine.FS.Stat(p.Cred, p.Abs(name), true); err != nil {
			code = p.Fail(1, "error opening '%s': %s", name, machine.Strerror(err))
		}
	}
	return code
}
