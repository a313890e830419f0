package coreutils

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

func tarProgram(ctx context.Context, p *machine.Proc) int {
	// The first word may lack its dash: tar xzf file.
	if len(p.Args) > 1 && p.Args[1] != "" && p.Args[1][0] != '-' {
		p.Args[1] = "-" + p.Args[1]
	}
	o := p.Options("x|extract c|create t|list f|file: z|gzip v|verbose C|directory: p|same-permissions k|keep-old-files strip-components: owner: group: " +
		"no-same-owner same-owner no-same-permissions overwrite exclude: mode: mtime: sort: numeric-owner a|auto-compress O|to-stdout J|xz j one-top-level? transform: T|files-from: m")
	if o == nil {
		return 64
	}
	dir := p.Dir
	if o.Has("C") {
		dir = p.Abs(o.Get("C"))
		if info, err := p.Machine.FS.Stat(p.Cred, dir, true); err != nil || !info.IsDir() {
			return p.Fail(2, "%s: Cannot open: No such file or directory\ntar: Error is not recoverable: exiting now", o.Get("C"))
		}
	}
	file := o.Get("f")
	if file == "" {
		file = "-"
	}
	switch {
	case o.Has("c"):
		return tarCreate(ctx, p, o, file, dir)
	case o.Has("x"), o.Has("t"):
		return tarExtract(ctx, p, o, file, dir)
	}
	return p.Fail(2, "You must specify one of the '-Acdtrux', '--delete' or '--test-label' options")
}

func tarExtract(ctx context.Context, p *machine.Proc, o *machine.Options, file, dir string) int {
	in, err := p.Input(ctx, file)
	if err != nil {
		return p.Fail(2, "%s: Cannot open: %s\ntar: Error is not recoverable: exiting now", file, machine.Strerror(err))
	}
	defer in.Close()
	var r io.Reader = bufio.NewReader(in)
	if magic, err := r.(*bufio.Reader).Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		zr, err := gzip.NewReader(r)
		if err != nil {
			return p.Fail(2, "This does not look like a tar archive")
		}
		r = zr
	}
	strip := 0
	for _, c := range o.Get("strip-components") {
		strip = strip*10 + int(c-'0')
	}
	code, seen := 0, 0
	fsys := p.Machine.FS
	for tr := tar.NewReader(r); ctx.Err() == nil; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return p.Fail(2, "This does not look like a tar archive\ntar: Exiting with failure status due to previous errors")
		}
		seen++
		name := path.Clean("/" + h.Name)[1:]
		for range strip {
			_, name, _ = strings.Cut(name, "/")
		}
		if name == "" || len(o.Args) > 0 && !slices.ContainsFunc(o.Args, func(a string) bool {
			a = path.Clean("/" + a)[1:]
			full := path.Clean("/" + h.Name)[1:]
			return full == a || strings.HasPrefix(full, a+"/")
		}) {
			continue
		}
		if o.Has("t") || o.Has("v") {
			p.Printf("%s\n", h.Name)
		}
		if o.Has("t") {
			continue
		}
		if o.Has("O") {
			if _, err := io.Copy(p, tr); err != nil {
				return 2
			}
			continue
		}
		if err := extract(p, o, tr, h, dir+"/"+name, dir); err != nil {
			code = p.Fail(2, "%s: Cannot open: %s", h.Name, machine.Strerror(err))
		}
	}
	if seen == 0 && code == 0 && file != "-" {
		if info, err := fsys.Stat(p.Cred, p.Abs(file), true); err == nil && info.Size() == 0 {
			return p.Fail(2, "This does not look like a tar archive\ntar: Exiting with failure status due to previous errors")
		}
	}
	return code
}

// extract makes one entry of an archive.
func extract(p *machine.Proc, o *machine.Options, tr *tar.Reader, h *tar.Header, to, dir string) error {
	fsys := p.Machine.FS
	perm := tree.PermOf(uint32(h.Mode))
	if p.Cred.UID != 0 && !o.Has("p") {
		perm &^= p.Umask
	}
	if err := fsys.MkdirAll(p.Cred, path.Dir(to), 0o777&^p.Umask); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := fsys.MkdirAll(p.Cred, to, perm); err != nil {
			return err
		}
	case tar.TypeSymlink:
		if err := fsys.RemoveAll(p.Cred, to); err != nil {
			return err
		}
		return fsys.Symlink(p.Cred, h.Linkname, to)
	case tar.TypeLink:
		if err := fsys.RemoveAll(p.Cred, to); err != nil {
			return err
		}
		return fsys.Link(p.Cred, dir+"/"+path.Clean("/" + h.Linkname)[1:], to)
	default:
		// A new file, so that a link that stands there isn't followed.
		if info, err := fsys.Stat(p.Cred, to, false); err == nil && !info.IsDir() {
			if o.Has("k") {
				return nil
			}
			if err := fsys.Remove(p.Cred, to); err != nil {
				return err
			}
		}
		f, err := fsys.Open(p.Cred, to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, tr)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	if p.Cred.UID == 0 && !o.Has("no-same-owner") {
		if err := fsys.Chown(p.Cred, to, h.Uid, h.Gid, true); err != nil {
			return err
		}
	}
	if err := fsys.Chmod(p.Cred, to, perm); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		return nil
	}
	return fsys.Chtimes(p.Cred, to, h.ModTime)
}

func tarCreate(ctx context.Context, p *machine.Proc, o *machine.Options, file, dir string) int {
	if len(o.Args) == 0 {
		return p.Fail(2, "Cowardly refusing to create an empty archive")
	}
	var buf bytes.Buffer
	var w io.WriteCloser = nopCloser{&buf}
	if o.Has("z") || o.Has("a") && (strings.HasSuffix(file, ".tgz") || strings.HasSuffix(file, ".gz")) {
		w = gzip.NewWriter(&buf)
	}
	tw := tar.NewWriter(w)
	code := 0
	for _, name := range o.Args {
		root := machine.Abs(dir, name)
		err := walk(p, root, true, func(at string, info *tree.Info) error {
			member := strings.TrimPrefix(name, "/") + strings.TrimPrefix(at, root)
			if slices.ContainsFunc(o.All("exclude"), func(glob string) bool {
				ok, _ := path.Match(glob, path.Base(at)) // a bad pattern matches nothing
				return ok
			}) {
				return nil
			}
			if o.Has("v") {
				p.Printf("%s\n", member)
			}
			h := &tar.Header{Name: member, Mode: int64(tree.UnixMode(info.Mode()) & 0o7777), Uid: info.UID(), Gid: info.GID(), ModTime: info.ModTime(),
				Uname: p.Machine.UserName(info.UID()), Gname: p.Machine.GroupName(info.GID())}
			var data []byte
			switch {
			case info.IsDir():
				h.Typeflag = tar.TypeDir
				h.Name += "/"
			case info.Mode()&fs.ModeSymlink != 0:
				h.Typeflag = tar.TypeSymlink
				var err error
				if h.Linkname, err = p.Machine.FS.Readlink(p.Cred, at); err != nil {
					return err
				}
			default:
				h.Typeflag = tar.TypeReg
				var err error
				if data, err = p.Machine.FS.ReadFile(p.Cred, at); err != nil {
					return err
				}
				h.Size = int64(len(data))
			}
			if err := tw.WriteHeader(h); err != nil {
				return err
			}
			_, err := tw.Write(data)
			return err
		})
		if err != nil {
			code = p.Fail(2, "%s: Cannot stat: %s", name, machine.Strerror(err))
		}
	}
	if err := errors.Join(tw.Close(), w.Close()); err != nil {
		return p.Fail(2, "%v", err)
	}
	if file == "-" {
		_, _ = p.Write(buf.Bytes())
		return code
	}
	if err := p.Machine.FS.WriteFile(p.Cred, p.Abs(file), buf.Bytes(), 0o666&^p.Umask); err != nil {
		return p.Fail(2, "%s: Cannot open: %s", file, machine.Strerror(err))
	}
	return code
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// gzipFiles is gzip, gunzip and zcat.
func gzipFiles(ctx context.Context, p *machine.Proc) int {
	o := p.Options("d|decompress c|stdout k|keep f|force n|no-name 1 9 q t|test v")
	if o == nil {
		return 1
	}
	unpack := o.Has("d") || p.Name() != "gzip"
	stdout := o.Has("c") || p.Name() == "zcat" || len(o.Args) == 0
	convert := func(r io.Reader) ([]byte, error) {
		var buf bytes.Buffer
		if unpack {
			zr, err := gzip.NewReader(r)
			if err != nil {
				return nil, errors.New("not in gzip format")
			}
			_, err = buf.ReadFrom(zr)
			return buf.Bytes(), err
		}
		zw := gzip.NewWriter(&buf)
		_, err := io.Copy(zw, r)
		if cerr := zw.Close(); err == nil {
			err = cerr
		}
		return buf.Bytes(), err
	}
	if stdout {
		return p.Each(ctx, o.Args, func(_ string, r io.Reader) error {
			out, err := convert(r)
			_, _ = p.Write(out)
			return err
		})
	}
	code := 0
	for _, name := range o.Args {
		info, err := p.Machine.FS.Stat(p.Cred, p.Abs(name), true)
		if err != nil {
			code = p.Fail(1, "%s: %s", name, machine.Strerror(err))
			continue
		}
		to := name + ".gz"
		if unpack {
			trimmed, ok := strings.CutSuffix(name, ".gz")
			if !ok {
				code = p.Fail(2, "%s: unknown suffix -- ignored", name)
				continue
			}
			to = trimmed
		}
		data, err := p.Machine.FS.ReadFile(p.Cred, p.Abs(name))
		if err == nil {
			data, err = convert(bytes.NewReader(data))
		}
		if err == nil {
			err = p.Machine.FS.WriteFile(p.Cred, p.Abs(to), data, info.Mode().Perm())
		}
		if err == nil && !o.Has("k") {
			err = p.Machine.FS.Remove(p.Cred, p.Abs(name))
		}
		if err != nil {
			code = p.Fail(1, "%s: %s", name, machine.Strerror(err))
		}
	}
	return code
}
