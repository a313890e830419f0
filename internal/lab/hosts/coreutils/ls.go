package coreutils

import (
	"context"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

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
