package debian

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

func (s *System) id(_ context.Context, p *machine.Proc) int {
	o := p.Options("u|user g|group G|groups n|name r|real z")
	if o == nil {
		return 1
	}
	u := &machine.User{Name: p.User, Cred: p.Cred}
	if len(o.Args) > 0 {
		found, ok := s.LookupUser(o.Args[0])
		if !ok {
			return p.Fail(1, "'%s': no such user", o.Args[0])
		}
		u = found
	}
	name := func(n int, of func(int) string) string {
		if o.Has("n") {
			return of(n)
		}
		return strconv.Itoa(n)
	}
	groups := append([]int{u.Cred.GID}, u.Cred.Groups...)
	switch {
	case o.Has("u"):
		p.Printf("%s\n", name(u.Cred.UID, s.UserName))
	case o.Has("g"):
		p.Printf("%s\n", name(u.Cred.GID, s.GroupName))
	case o.Has("G"):
		var out []string
		for _, g := range groups {
			out = append(out, name(g, s.GroupName))
		}
		p.Printf("%s\n", strings.Join(out, " "))
	default:
		var out []string
		for _, g := range groups {
			out = append(out, fmt.Sprintf("%d(%s)", g, s.GroupName(g)))
		}
		p.Printf("uid=%d(%s) gid=%d(%s) groups=%s\n", u.Cred.UID, s.UserName(u.Cred.UID), u.Cred.GID, s.GroupName(u.Cred.GID), strings.Join(out, ","))
	}
	return 0
}

func (s *System) whoami(_ context.Context, p *machine.Proc) int {
	p.Printf("%s\n", s.UserName(p.Cred.UID))
	return 0
}

func (s *System) groupsProgram(ctx context.Context, p *machine.Proc) int {
	p.Args = append([]string{"id", "-Gn"}, p.Args[1:]...)
	return s.id(ctx, p)
}

func (s *System) getent(_ context.Context, p *machine.Proc) int {
	if len(p.Args) < 2 {
		return p.Fail(1, "wrong number of arguments")
	}
	keys := p.Args[2:]
	want := func(names ...string) bool {
		return len(keys) == 0 || slices.ContainsFunc(keys, func(k string) bool { return slices.Contains(names, k) })
	}
	found := 0
	switch p.Args[1] {
	case "passwd":
		for _, u := range s.Users() {
			if want(u.Name, strconv.Itoa(u.Cred.UID)) {
				p.Printf("%s\n", u.Passwd())
				found++
			}
		}
	case "group":
		for _, g := range s.Groups() {
			if want(g.Name, strconv.Itoa(g.GID)) {
				p.Printf("%s:x:%d:%s\n", g.Name, g.GID, strings.Join(g.Members, ","))
				found++
			}
		}
	case "shadow":
		if p.Cred.UID != 0 {
			return 2
		}
		for line := range strings.Lines(s.Text("/etc/shadow")) {
			if name, _, _ := strings.Cut(line, ":"); want(name) {
				p.Printf("%s", line)
				found++
			}
		}
	case "hosts", "ahosts", "ahostsv4":
		for line := range strings.Lines(s.Text("/etc/hosts")) {
			if f := strings.Fields(line); len(f) > 1 && f[0][0] != '#' && want(f...) {
				p.Printf("%-15s %s\n", f[0], strings.Join(f[1:], " "))
				found++
			}
		}
	default:
		return p.Fail(1, "Unknown database: %s", p.Args[1])
	}
	if found == 0 {
		return 2
	}
	return 0
}

func (s *System) useradd(_ context.Context, p *machine.Proc) int {
	o := p.Options("m|create-home M|no-create-home s|shell: d|home-dir: u|uid: g|gid: G|groups: r|system c|comment: N|no-user-group U|user-group p|password: " +
		"e: f: home: ingroup: disabled-password disabled-login no-create-home gecos: shell: uid: group q quiet allow-bad-names")
	if o == nil {
		return 2
	}
	if p.Cred.UID != 0 {
		return p.Fail(1, "Permission denied.\n%s: cannot lock /etc/passwd; try again later.", p.Name())
	}
	if len(o.Args) == 0 {
		return p.Fail(2, "no user name given")
	}
	name := o.Args[0]
	if p.Name() == "adduser" && len(o.Args) == 2 {
		if err := s.join(name, o.Args[1:2], false); err != nil {
			return p.Fail(1, "%s", machine.Strerror(err))
		}
		return 0
	}
	if _, ok := s.LookupUser(name); ok {
		return p.Fail(9, "user '%s' already exists", name)
	}
	if name == "" || strings.ContainsAny(name, ": /") {
		return p.Fail(3, "invalid user name '%s': use --badname to ignore", name)
	}
	u := machine.User{Name: name, Gecos: cmp.Or(o.Get("c"), o.Get("gecos")), Home: cmp.Or(o.Get("d"), o.Get("home"), "/home/"+name), Shell: cmp.Or(o.Get("s"), o.Get("shell"), "/bin/sh")}
	u.Cred.UID = s.freeID(o.Has("r"), false)
	if v := cmp.Or(o.Get("u"), o.Get("uid")); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			return p.Fail(3, "invalid user ID '%s'", v)
		}
		if _, ok := s.LookupUser(v); ok {
			return p.Fail(4, "UID %d is not unique", n)
		}
		u.Cred.UID = n
	}
	u.Cred.GID = -1
	if g := cmp.Or(o.Get("g"), o.Get("ingroup")); g != "" {
		group, ok := s.LookupGroup(g)
		if !ok {
			return p.Fail(6, "group '%s' does not exist", g)
		}
		u.Cred.GID = group.GID
	} else if o.Has("N") {
		u.Cred.GID = 100
	}
	var groups []string
	if v := o.Get("G"); v != "" {
		groups = strings.Split(v, ",")
		for _, g := range groups {
			if _, ok := s.LookupGroup(g); !ok {
				return p.Fail(6, "group '%s' does not exist", g)
			}
		}
	}
	home := o.Has("m") || p.Name() == "adduser" && !o.Has("M") && !o.Has("no-create-home")
	if err := s.addUser(u, groups, home); err != nil {
		return p.Fail(1, "cannot open /etc/passwd: %s", machine.Strerror(err))
	}
	return 0
}

func (s *System) groupadd(_ context.Context, p *machine.Proc) int {
	o := p.Options("g|gid: r|system f|force system")
	if o == nil || len(o.Args) != 1 {
		return 2
	}
	if p.Cred.UID != 0 {
		return p.Fail(10, "Permission denied.\n%s: cannot lock /etc/group; try again later.", p.Name())
	}
	name := o.Args[0]
	if _, ok := s.LookupGroup(name); ok {
		if o.Has("f") {
			return 0
		}
		return p.Fail(9, "group '%s' already exists", name)
	}
	gid := s.freeID(o.Has("r"), true)
	if v := o.Get("g"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			return p.Fail(3, "invalid group ID '%s'", v)
		}
		if _, ok := s.LookupGroup(v); ok {
			return p.Fail(4, "GID '%d' already exists", n)
		}
		gid = n
	}
	if err := s.edit("/etc/group", func(all []string) []string { return append(all, fmt.Sprintf("%s:x:%d:", name, gid)) }); err != nil {
		return p.Fail(10, "cannot open /etc/group: %s", machine.Strerror(err))
	}
	return 0
}

// groupmod changes the number of a group, and of the users whose own it is.
func (s *System) groupmod(_ context.Context, p *machine.Proc) int {
	o := p.Options("g|gid:")
	if o == nil || len(o.Args) != 1 {
		return 2
	}
	if p.Cred.UID != 0 {
		return p.Fail(10, "Permission denied.\n%s: cannot lock /etc/group; try again later.", p.Name())
	}
	name, gid := o.Args[0], o.Get("g")
	old, ok := s.LookupGroup(name)
	if !ok {
		return p.Fail(6, "group '%s' does not exist", name)
	}
	if _, err := strconv.ParseUint(gid, 10, 31); err != nil {
		return p.Fail(3, "invalid group ID '%s'", gid)
	}
	if other, ok := s.LookupGroup(gid); ok && other.Name != name {
		return p.Fail(4, "GID '%s' already exists", gid)
	}
	number := func(field int, is func(f []string) bool) func([]string) []string {
		return func(all []string) []string {
			for i, line := range all {
				if f := strings.Split(line, ":"); len(f) > field && is(f) {
					f[field] = gid
					all[i] = strings.Join(f, ":")
				}
			}
			return all
		}
	}
	err := s.edit("/etc/passwd", number(3, func(f []string) bool { return f[3] == strconv.Itoa(old.GID) }))
	if err == nil {
		err = s.edit("/etc/group", number(2, func(f []string) bool { return f[0] == name }))
	}
	if err != nil {
		return p.Fail(10, "cannot open /etc/group: %s", machine.Strerror(err))
	}
	return 0
}

func (s *System) usermod(_ context.Context, p *machine.Proc) int {
	o := p.Options("a|append G|groups: s|shell: d|home: m|move-home c|comment: L|lock U|unlock g|gid: u|uid: p|password: e: l:")
	if o == nil || len(o.Args) != 1 {
		return 2
	}
	if p.Cred.UID != 0 {
		return p.Fail(1, "Permission denied.\n%s: cannot lock /etc/passwd; try again later.", p.Name())
	}
	u, ok := s.LookupUser(o.Args[0])
	if !ok {
		return p.Fail(6, "user '%s' does not exist", o.Args[0])
	}
	if v := o.Get("G"); o.Has("G") {
		groups := strings.Split(v, ",")
		for _, g := range groups {
			if _, ok := s.LookupGroup(g); !ok && g != "" {
				return p.Fail(6, "group '%s' does not exist", g)
			}
		}
		if err := s.join(u.Name, groups, !o.Has("a")); err != nil {
			return p.Fail(1, "%s", machine.Strerror(err))
		}
	}
	changed := *u
	changed.Shell = cmp.Or(o.Get("s"), u.Shell)
	changed.Home = cmp.Or(o.Get("d"), u.Home)
	if o.Has("c") {
		changed.Gecos = o.Get("c")
	}
	if v := o.Get("g"); v != "" {
		g, ok := s.LookupGroup(v)
		if !ok {
			return p.Fail(6, "group '%s' does not exist", v)
		}
		changed.Cred.GID = g.GID
	}
	if v := o.Get("u"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			return p.Fail(3, "invalid user ID '%s'", v)
		}
		changed.Cred.UID = n
	}
	err := s.edit("/etc/passwd", func(all []string) []string {
		for i, line := range all {
			if strings.HasPrefix(line, u.Name+":") {
				all[i] = changed.Passwd()
			}
		}
		return all
	})
	if err == nil && o.Has("m") && changed.Home != u.Home {
		err = s.FS.Rename(tree.Root(), u.Home, changed.Home)
	}
	if err != nil {
		return p.Fail(1, "%s", machine.Strerror(err))
	}
	return 0
}

func (s *System) userdel(_ context.Context, p *machine.Proc) int {
	o := p.Options("r|remove f|force remove-home q|quiet")
	if o == nil || len(o.Args) != 1 {
		return 2
	}
	if p.Cred.UID != 0 {
		return p.Fail(1, "Permission denied.\n%s: cannot lock /etc/passwd; try again later.", p.Name())
	}
	name := o.Args[0]
	drop := func(file string) error {
		return s.edit(file, func(all []string) []string {
			return slices.DeleteFunc(all, func(line string) bool { return strings.HasPrefix(line, name+":") })
		})
	}
	if path.Base(p.Args[0]) == "groupdel" {
		g, ok := s.LookupGroup(name)
		if !ok {
			return p.Fail(6, "group '%s' does not exist", name)
		}
		for _, u := range s.Users() {
			if u.Cred.GID == g.GID {
				return p.Fail(8, "cannot remove the primary group of user '%s'", u.Name)
			}
		}
		if err := drop("/etc/group"); err != nil {
			return p.Fail(10, "%s", machine.Strerror(err))
		}
		return 0
	}
	u, ok := s.LookupUser(name)
	if !ok {
		return p.Fail(6, "user '%s' does not exist", name)
	}
	for _, err := range []error{drop("/etc/passwd"), drop("/etc/shadow"), s.join(name, nil, true), drop("/etc/group")} {
		if err != nil {
			return p.Fail(1, "%s", machine.Strerror(err))
		}
	}
	if o.Has("r") {
		if err := s.FS.RemoveAll(tree.Root(), u.Home); err != nil {
			return p.Fail(12, "error removing directory %s", u.Home)
		}
	}
	return 0
}

func (s *System) chpasswd(ctx context.Context, p *machine.Proc) int {
	if p.Cred.UID != 0 {
		return p.Fail(1, "cannot lock /etc/passwd; try again later.")
	}
	for line := range strings.Lines(readAll(p.In(ctx))) {
		name, _, ok := strings.Cut(line, ":")
		if _, known := s.LookupUser(name); !ok || !known {
			return p.Fail(1, "line 1: user '%s' does not exist", name)
		}
		// The password itself is of no use here: only keys open the host.
		err := s.edit("/etc/shadow", func(all []string) []string {
			for i, l := range all {
				if rest, ok := strings.CutPrefix(l, name+":"); ok {
					_, rest, _ = strings.Cut(rest, ":")
					all[i] = name + ":$y$j9T$set:" + rest
				}
			}
			return all
		})
		if err != nil {
			return p.Fail(1, "%s", machine.Strerror(err))
		}
	}
	return 0
}
