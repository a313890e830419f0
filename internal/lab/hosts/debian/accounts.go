package debian

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// edit changes a file of colon-separated lines, all at once, as root.
func (s *System) edit(file string, change func(lines []string) []string) error {
	s.accounts.Lock()
	defer s.accounts.Unlock()
	old := s.Text(file)
	var all []string
	for line := range strings.SplitSeq(strings.TrimSuffix(old, "\n"), "\n") {
		if line != "" {
			all = append(all, line)
		}
	}
	text := strings.Join(change(all), "\n") + "\n"
	if text == old {
		return nil
	}
	info, err := s.FS.Stat(tree.Root(), file, true)
	if err != nil {
		return err
	}
	tmp := file + "+"
	if err := s.FS.WriteFile(tree.Root(), tmp, []byte(text), info.Mode().Perm()); err != nil {
		// What was written of it is of no use.
		_ = s.FS.Remove(tree.Root(), tmp)
		return err
	}
	if err := s.FS.Chown(tree.Root(), tmp, info.UID(), info.GID(), true); err != nil {
		return err
	}
	return s.FS.Rename(tree.Root(), tmp, file)
}

func (s *System) freeID(system bool, group bool) int {
	from, to := 1000, 60000
	if system {
		from, to = 100, 999
	}
	used := map[int]bool{}
	for _, u := range s.Users() {
		used[u.Cred.UID] = true
	}
	for _, g := range s.Groups() {
		used[g.GID] = true
	}
	if system {
		for id := to; id >= from; id-- {
			if !used[id] {
				return id
			}
		}
	}
	for id := from; id <= to; id++ {
		if !used[id] {
			return id
		}
	}
	return to
}

// join adds a user to groups.
func (s *System) join(user string, groups []string, only bool) error {
	return s.edit("/etc/group", func(all []string) []string {
		for i, line := range all {
			f := strings.Split(line, ":")
			if len(f) != 4 {
				continue
			}
			var members []string
			if f[3] != "" {
				members = strings.Split(f[3], ",")
			}
			has := slices.Contains(members, user)
			wants := slices.Contains(groups, f[0])
			switch {
			case wants && !has:
				members = append(members, user)
			case only && has && !wants:
				members = slices.DeleteFunc(members, func(m string) bool { return m == user })
			}
			f[3] = strings.Join(members, ",")
			all[i] = strings.Join(f, ":")
		}
		return all
	})
}

// AddUser makes a user with a group of the same name.
func (s *System) addUser(u machine.User, groups []string, home bool) error {
	if u.Cred.GID < 0 {
		gid := u.Cred.UID
		if _, taken := s.LookupGroup(strconv.Itoa(gid)); taken {
			gid = s.freeID(u.Cred.UID < 1000, true)
		}
		u.Cred.GID = gid
		if err := s.edit("/etc/group", func(all []string) []string { return append(all, fmt.Sprintf("%s:x:%d:", u.Name, gid)) }); err != nil {
			return err
		}
	}
	if err := s.edit("/etc/passwd", func(all []string) []string { return append(all, u.Passwd()) }); err != nil {
		return err
	}
	if err := s.edit("/etc/shadow", func(all []string) []string { return append(all, u.Name+":!:19800:0:99999:7:::") }); err != nil {
		return err
	}
	if err := s.join(u.Name, groups, false); err != nil {
		return err
	}
	if !home || s.Exists(u.Home) {
		return nil
	}
	if err := s.FS.MkdirAll(tree.Root(), u.Home, 0o755); err != nil {
		return err
	}
	for _, file := range []string{".bashrc", ".profile"} {
		if err := s.Put(u.Home+"/"+file, "", 0o644); err != nil {
			return err
		}
		if err := s.FS.Chown(tree.Root(), u.Home+"/"+file, u.Cred.UID, u.Cred.GID, true); err != nil {
			return err
		}
	}
	return s.FS.Chown(tree.Root(), u.Home, u.Cred.UID, u.Cred.GID, true)
}
