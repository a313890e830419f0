package coreutils

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// walk runs fn on a file and, with all, on what is below it.
func walk(p *machine.Proc, file string, all bool, fn func(file string, info *tree.Info) error) error {
	info, err := p.Machine.FS.Stat(p.Cred, file, !all)
	if err != nil {
		return err
	}
	if err := fn(file, info); err != nil {
		return err
	}
	if !all || !info.IsDir() {
		return nil
	}
	kids, err := p.Machine.FS.ReadDir(p.Cred, file)
	if err != nil {
		return err
	}
	for _, kid := range kids {
		if err := walk(p, strings.TrimRight(file, "/")+"/"+kid.Name(), true, fn); err != nil {
			return err
		}
	}
	return nil
}

func chmod(_ context.Context, p *machine.Proc) int {
	// A mode such as -w looks like an option.
	for i, a := range p.Args {
		if i > 0 && len(a) > 1 && a[0] == '-' && strings.Trim(a[1:], "rwxXst") == "" {
			p.Args[i] = "a" + a
		}
	}
	o := p.Options("R|recursive v|verbose c|changes f|silent reference: preserve-root")
	if o == nil {
		return 1
	}
	spec, args := "", o.Args
	if o.Has("reference") {
		info, err := p.Machine.FS.Stat(p.Cred, p.Abs(o.Get("reference")), true)
		if err != nil {
			return p.Fail(1, "failed to get attributes of '%s': %s", o.Get("reference"), machine.Strerror(err))
		}
		spec = fmt.Sprintf("%o", tree.UnixMode(info.Mode())&0o7777)
	} else {
		if len(args) < 2 {
			return p.Fail(1, "missing operand")
		}
		spec, args = args[0], args[1:]
	}
	if _, ok := machine.ParseMode(spec, 0, false); !ok {
		return p.Fail(1, "invalid mode: '%s'", spec)
	}
	code := 0
	for _, name := range args {
		err := walk(p, p.Abs(name), o.Has("R"), func(file string, info *tree.Info) error {
			if info.Mode()&fs.ModeSymlink != 0 {
				return nil
			}
			mode, _ := machine.ParseMode(spec, info.Mode(), info.IsDir()) // checked above
			return p.Machine.FS.Chmod(p.Cred, file, mode)
		})
		if err != nil {
			what := "changing permissions of"
			if machine.Strerror(err) == "No such file or directory" {
				what = "cannot access"
			}
			code = p.Fail(1, "%s '%s': %s", what, name, machine.Strerror(err))
		}
	}
	return code
}

func chown(_ context.Context, p *machine.Proc) int {
	o := p.Options("R|recursive h|no-dereference v|verbose c|changes f|silent reference: from: P L H")
	if o == nil {
		return 1
	}
	uid, gid := -1, -1
	args := o.Args
	if o.Has("reference") {
		info, err := p.Machine.FS.Stat(p.Cred, p.Abs(o.Get("reference")), true)
		if err != nil {
			return p.Fail(1, "failed to get attributes of '%s': %s", o.Get("reference"), machine.Strerror(err))
		}
		uid, gid = info.UID(), info.GID()
	} else {
		if len(args) < 2 {
			return p.Fail(1, "missing operand")
		}
		user, group, colon := strings.Cut(args[0], ":")
		if p.Name() == "chgrp" {
			user, group = "", args[0]
		}
		if user != "" {
			if u, ok := p.Machine.LookupUser(user); ok {
				uid = u.Cred.UID
				if colon && group == "" {
					gid = u.Cred.GID
				}
			} else if n, err := strconv.Atoi(user); err == nil {
				uid = n
			} else {
				return p.Fail(1, "invalid user: '%s'", args[0])
			}
		}
		if group != "" {
			if g, ok := p.Machine.LookupGroup(group); ok {
				gid = g.GID
			} else if n, err := strconv.Atoi(group); err == nil {
				gid = n
			} else {
				return p.Fail(1, "invalid group: '%s'", args[0])
			}
		}
		args = args[1:]
	}
	code := 0
	for _, name := range args {
		err := walk(p, p.Abs(name), o.Has("R"), func(file string, _ *tree.Info) error {
			return p.Machine.FS.Chown(p.Cred, file, uid, gid, !o.Has("h") && !o.Has("R"))
		})
		if err != nil {
			what := "changing ownership of"
			if machine.Strerror(err) == "No such file or directory" {
				what = "cannot access"
			}
			code = p.Fail(1, "%s '%s': %s", what, name, machine.Strerror(err))
		}
	}
	return code
}

func kindOf(info *tree.Info) string {
	switch m := info.Mode(); {
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	case m&fs.ModeCharDevice != 0:
		return "character special file"
	case info.Size() == 0:
		return "regular empty file"
	}
	return "regular file"
}

func stat(_ context.Context, p *machine.Proc) int {
	o := p.Options("c|format: printf: L|dereference f|file-system t|terse")
	if o == nil {
		return 1
	}
	format := o.Get("c") + "\n"
	if o.Has("printf") {
		format = unescape(o.Get("printf"))
	}
	if o.Has("f") && !o.Has("c") {
		format = "  File: \"%n\"\n    ID: 0 Namelen: 255 Type: ext2/ext3\n"
	} else if !o.Has("c") && !o.Has("printf") {
		format = "  File: %N\n  Size: %s\tBlocks: %b IO Block: 4096   %F\nInode: %i\tLinks: %h\nAccess: (%04a/%A)  Uid: (%u/%U)   Gid: (%g/%G)\nModify: %y\n"
	}
	code := 0
	for _, name := range o.Args {
		info, err := p.Machine.FS.Stat(p.Cred, p.Abs(name), o.Has("L"))
		if err != nil {
			code = p.Fail(1, "cannot statx '%s': %s", name, machine.Strerror(err))
			continue
		}
		p.Printf("%s", statText(p, format, name, info))
	}
	return code
}

func statText(p *machine.Proc, format, name string, info *tree.Info) string {
	var sb strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			sb.WriteByte(format[i])
			continue
		}
		i++
		flags := ""
		for i < len(format)-1 && strings.IndexByte("0123456789-#+ ", format[i]) >= 0 {
			flags += format[i : i+1]
			i++
		}
		value := ""
		switch format[i] {
		case '%':
			value = "%"
		case 'n':
			value = name
		case 'N':
			value = "'" + name + "'"
			if info.Mode()&fs.ModeSymlink != 0 {
				target, _ := p.Machine.FS.Readlink(p.Cred, p.Abs(name)) // it was a link just now
				value += " -> '" + target + "'"
			}
		case 'a':
			value = fmt.Sprintf("%o", tree.UnixMode(info.Mode())&0o7777)
		case 'A':
			value = modeText(info.Mode())
		case 'f':
			value = fmt.Sprintf("%x", tree.UnixMode(info.Mode()))
		case 'F':
			value = kindOf(info)
		case 'u':
			value = strconv.Itoa(info.UID())
		case 'g':
			value = strconv.Itoa(info.GID())
		case 'U':
			value = known(p.Machine.UserName(info.UID()))
		case 'G':
			value = known(p.Machine.GroupName(info.GID()))
		case 's':
			value = strconv.FormatInt(info.Size(), 10)
		case 'b':
			value = strconv.FormatInt((info.Size()+511)/512, 10)
		case 'B':
			value = "512"
		case 'h':
			value = strconv.Itoa(info.Links())
		case 'i':
			value = strconv.FormatUint(info.Ino(), 10)
		case 'd':
			value = strconv.Itoa(int(info.Volume()) + 254)
		case 'X', 'Y', 'Z':
			value = strconv.FormatInt(info.ModTime().Unix(), 10)
		case 'x', 'y', 'z':
			value = info.ModTime().UTC().Format("2006-01-02 15:04:05.000000000 -0700")
		case 'T':
			value = "ext2/ext3"
			if info.Volume() == tree.Memory {
				value = "tmpfs"
			}
		case 'm':
			value = "/"
		default:
			value = "?"
		}
		if width, err := strconv.Atoi(strings.TrimLeft(flags, "0-#+ ")); err == nil && len(value) < width {
			fill := " "
			if strings.HasPrefix(flags, "0") {
				fill = "0"
			}
			value = strings.Repeat(fill, width-len(value)) + value
		}
		sb.WriteString(value)
	}
	return sb.String()
}

func known(name string) string {
	if _, err := strconv.Atoi(name); err == nil {
		return "UNKNOWN"
	}
	return name
}
