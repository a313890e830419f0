package coreutils

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

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

// modeText is a mode as ls -l shows it.
func modeText(m fs.FileMode) string {
	out := []byte("-rwxrwxrwx")
	switch {
	case m.IsDir():
		out[0] = 'd'
	case m&fs.ModeSymlink != 0:
		out[0] = 'l'
	case m&fs.ModeCharDevice != 0:
		out[0] = 'c'
	}
	for i := range 9 {
		if m&(1<<(8-i)) == 0 {
			out[i+1] = '-'
		}
	}
	special := func(at int, set bool, with, without byte) {
		if set {
			if out[at] == 'x' {
				out[at] = with
			} else {
				out[at] = without
			}
		}
	}
	special(3, m&fs.ModeSetuid != 0, 's', 'S')
	special(6, m&fs.ModeSetgid != 0, 's', 'S')
	special(9, m&fs.ModeSticky != 0, 't', 'T')
	return string(out)
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

func ls(_ context.Context, p *machine.Proc) int {
	o := p.Options("l a|all A|almost-all 1 d|directory R|recursive t r n|numeric-uid-gid h i S F p L Z|context color? full-time time-style: group-directories-first g o")
	if o == nil {
		return 2
	}
	names := o.Args
	if len(names) == 0 {
		names = []string{"."}
	}
	long := o.Has("l") || o.Has("n") || o.Has("full-time")
	line := func(dir, name string, info *tree.Info) {
		if o.Has("i") {
			p.Printf("%d ", info.Ino())
		}
		if !long {
			p.Printf("%s\n", name)
			return
		}
		user, group := p.Machine.UserName(info.UID()), p.Machine.GroupName(info.GID())
		if o.Has("n") {
			user, group = strconv.Itoa(info.UID()), strconv.Itoa(info.GID())
		}
		target := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			t, _ := p.Machine.FS.Readlink(p.Cred, path.Join(dir, name)) // it was a link just now
			target = " -> " + t
		}
		p.Printf("%s %d %s %s %5d %s %s%s\n", modeText(info.Mode()), info.Links(), user, group, info.Size(),
			info.ModTime().UTC().Format("Jan _2 15:04"), name, target)
	}
	code := 0
	var list func(name string, title bool)
	list = func(name string, title bool) {
		file := p.Abs(name)
		kids, err := p.Machine.FS.ReadDir(p.Cred, file)
		if err != nil {
			code = p.Fail(2, "cannot open directory '%s': %s", name, machine.Strerror(err))
			return
		}
		if title {
			p.Printf("%s:\n", name)
		}
		if long {
			p.Printf("total %d\n", len(kids)*4)
		}
		if o.Has("a") {
			for _, dot := range []string{".", ".."} {
				if info, err := p.Machine.FS.Stat(p.Cred, file+"/"+dot, true); err == nil {
					line(file, dot, info)
				}
			}
		}
		if o.Has("t") {
			sortBy(kids, func(a, b *tree.Info) bool { return a.ModTime().After(b.ModTime()) })
		}
		if o.Has("r") {
			for i, j := 0, len(kids)-1; i < j; i, j = i+1, j-1 {
				kids[i], kids[j] = kids[j], kids[i]
			}
		}
		for _, kid := range kids {
			if strings.HasPrefix(kid.Name(), ".") && !o.Has("a") && !o.Has("A") {
				continue
			}
			line(file, kid.Name(), kid)
		}
		if o.Has("R") {
			for _, kid := range kids {
				if kid.IsDir() {
					p.Printf("\n")
					list(strings.TrimRight(name, "/")+"/"+kid.Name(), true)
				}
			}
		}
	}
	for i, name := range names {
		info, err := p.Machine.FS.Stat(p.Cred, p.Abs(name), !long)
		if err != nil {
			info, err = p.Machine.FS.Stat(p.Cred, p.Abs(name), false)
		}
		switch {
		case err != nil:
			code = p.Fail(2, "cannot access '%s': %s", name, machine.Strerror(err))
		case info.IsDir() && !o.Has("d"):
			if i > 0 && len(names) > 1 {
				p.Printf("\n")
			}
			list(name, len(names) > 1 || o.Has("R"))
		default:
			line(path.Dir(p.Abs(name)), name, info)
		}
	}
	return code
}

func sortBy(infos []*tree.Info, less func(a, b *tree.Info) bool) {
	for i := range infos {
		for j := i; j > 0 && less(infos[j], infos[j-1]); j-- {
			infos[j], infos[j-1] = infos[j-1], infos[j]
		}
	}
}

// parseDate reads what date -d and touch -d take, as far as scripts use it.
func parseDate(s string, now time.Time) (time.Time, bool) {
	if sec, ok := strings.CutPrefix(s, "@"); ok {
		n, err := strconv.ParseInt(sec, 10, 64)
		return time.Unix(n, 0), err == nil
	}
	switch s {
	case "now", "":
		return now, true
	case "today":
		return now, true
	case "yesterday":
		return now.AddDate(0, 0, -1), true
	case "tomorrow":
		return now.AddDate(0, 0, 1), true
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02", time.RFC1123Z, time.RFC1123,
		time.UnixDate, "Jan _2 15:04:05 2006 MST"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	f := strings.Fields(s)
	if len(f) >= 2 {
		n, err := strconv.Atoi(f[0])
		if len(f) == 3 && f[2] == "ago" {
			n = -n
		}
		if err == nil {
			switch strings.TrimSuffix(f[1], "s") {
			case "second", "sec":
				return now.Add(time.Duration(n) * time.Second), true
			case "minute", "min":
				return now.Add(time.Duration(n) * time.Minute), true
			case "hour":
				return now.Add(time.Duration(n) * time.Hour), true
			case "day":
				return now.AddDate(0, 0, n), true
			case "week":
				return now.AddDate(0, 0, 7*n), true
			}
		}
	}
	return time.Time{}, false
}
