package coreutils

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"path"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func basename(_ context.Context, p *machine.Proc) int {
	o := p.Options("+a|multiple s|suffix: z")
	if o == nil || len(o.Args) == 0 {
		return p.Fail(1, "missing operand")
	}
	suffix := o.Get("s")
	names := o.Args
	if !o.Has("a") && suffix == "" {
		names = names[:1]
		if len(o.Args) > 1 {
			suffix = o.Args[1]
		}
	}
	for _, name := range names {
		base := path.Base(name)
		if base != suffix {
			base = strings.TrimSuffix(base, suffix)
		}
		p.Printf("%s\n", base)
	}
	return 0
}

func dirname(_ context.Context, p *machine.Proc) int {
	if len(p.Args) < 2 {
		return p.Fail(1, "missing operand")
	}
	for _, name := range p.Args[1:] {
		trimmed := strings.TrimRight(name, "/")
		if trimmed == "" && name != "" {
			trimmed = "/"
		}
		p.Printf("%s\n", path.Dir(trimmed))
	}
	return 0
}

func readlink(_ context.Context, p *machine.Proc) int {
	o := p.Options("f|canonicalize e|canonicalize-existing m|canonicalize-missing n|no-newline q s v z")
	if o == nil {
		return 1
	}
	code := 0
	for _, name := range o.Args {
		out := ""
		var err error
		switch {
		case o.Has("m"):
			if out, err = p.Machine.FS.RealPath(p.Cred, p.Abs(name), true); err != nil {
				out, err = path.Clean(p.Abs(name)), nil
			}
		case o.Has("f"), o.Has("e"):
			out, err = p.Machine.FS.RealPath(p.Cred, p.Abs(name), o.Has("f"))
		default:
			out, err = p.Machine.FS.Readlink(p.Cred, p.Abs(name))
		}
		if err != nil {
			code = 1
			continue
		}
		if o.Has("n") {
			p.Printf("%s", out)
		} else {
			p.Printf("%s\n", out)
		}
	}
	return code
}

func realpath(_ context.Context, p *machine.Proc) int {
	o := p.Options("e|canonicalize-existing m|canonicalize-missing s|no-symlinks q z relative-to:")
	if o == nil {
		return 1
	}
	code := 0
	for _, name := range o.Args {
		out := path.Clean(p.Abs(name))
		if !o.Has("s") {
			real, err := p.Machine.FS.RealPath(p.Cred, p.Abs(name), !o.Has("e"))
			if err == nil {
				out = real
			} else if !o.Has("m") {
				code = p.Fail(1, "%s: %s", name, machine.Strerror(err))
				continue
			}
		}
		p.Printf("%s\n", out)
	}
	return code
}

func newHash(name string) hash.Hash {
	switch name {
	case "md5sum":
		return md5.New()
	case "sha1sum":
		return sha1.New()
	case "sha512sum":
		return sha512.New()
	case "cksum":
		return crc32.NewIEEE()
	}
	return sha256.New()
}

func checksum(ctx context.Context, p *machine.Proc) int {
	o := p.Options("c|check b|binary t|text status quiet w|warn strict ignore-missing z tag")
	if o == nil {
		return 1
	}
	sum := func(r io.Reader) (string, error) {
		h := newHash(p.Name())
		_, err := io.Copy(h, r)
		return hex.EncodeToString(h.Sum(nil)), err
	}
	if !o.Has("c") {
		return p.Each(ctx, o.Args, func(name string, r io.Reader) error {
			s, err := sum(r)
			if err == nil {
				p.Printf("%s  %s\n", s, name)
			}
			return err
		})
	}
	bad, malformed, seen := 0, 0, 0
	code := p.Each(ctx, o.Args, func(name string, r io.Reader) error {
		return machine.Lines(r, func(line string, _ bool) bool {
			want, file, ok := strings.Cut(line, " ")
			if !ok || len(want) != newHash(p.Name()).Size()*2 {
				malformed++
				return true
			}
			seen++
			file = strings.TrimLeft(file, " *")
			f, err := p.Input(ctx, file)
			got := ""
			if err == nil {
				got, err = sum(f)
				f.Close()
			}
			switch {
			case err != nil:
				bad++
				p.Fail(1, "%s: %s", file, machine.Strerror(err))
				if !o.Has("status") {
					p.Printf("%s: FAILED open or read\n", file)
				}
			case got != strings.ToLower(want):
				bad++
				if !o.Has("status") {
					p.Printf("%s: FAILED\n", file)
				}
			case !o.Has("status") && !o.Has("quiet"):
				p.Printf("%s: OK\n", file)
			}
			return true
		})
	})
	switch {
	case seen == 0:
		return p.Fail(1, "%s: no properly formatted checksum lines found", cmp.Or(strings.Join(o.Args, " "), "-"))
	case bad > 0 && !o.Has("status"):
		plural := "s"
		if bad == 1 {
			plural = ""
		}
		p.Fail(1, "WARNING: %d computed checksum%s did NOT match", bad, plural)
	}
	if bad > 0 || malformed > 0 && o.Has("strict") {
		return 1
	}
	return code
}

func base64Text(ctx context.Context, p *machine.Proc) int {
	o := p.Options("d|decode w|wrap: i|ignore-garbage D")
	if o == nil {
		return 1
	}
	width, err := strconv.Atoi(cmp.Or(o.Get("w"), "76"))
	if err != nil {
		return p.Fail(1, "invalid wrap size: '%s'", o.Get("w"))
	}
	name := "-"
	if len(o.Args) > 0 {
		name = o.Args[0]
	}
	in, err := p.Input(ctx, name)
	if err != nil {
		return p.Fail(1, "%s: %s", name, machine.Strerror(err))
	}
	defer in.Close()
	if o.Has("d") || o.Has("D") {
		data, err := io.ReadAll(in)
		if err != nil {
			return p.Fail(1, "read error: %s", machine.Strerror(err))
		}
		data = bytes.Map(func(r rune) rune {
			if r == '\n' || r == '\r' {
				return -1
			}
			return r
		}, data)
		out, err := base64.StdEncoding.DecodeString(string(data))
		_, _ = p.Write(out)
		if err != nil {
			return p.Fail(1, "invalid input")
		}
		return 0
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return p.Fail(1, "read error: %s", machine.Strerror(err))
	}
	text := base64.StdEncoding.EncodeToString(data)
	if width == 0 {
		p.Printf("%s", text)
		return 0
	}
	w := newBatch(p)
	for len(text) > 0 {
		n := min(width, len(text))
		w.add(fmt.Sprintf("%s\n", text[:n]))
		text = text[n:]
	}
	w.flush()
	return 0
}
