package coreutils

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

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
