package machine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/tree"
)

// A User is one line of /etc/passwd, with the groups that it is in.
type User struct {
	Name   string
	Cred   tree.Cred
	Gecos  string
	Home   string
	Shell  string
	Locked bool
}

// A Group is one line of /etc/group.
type Group struct {
	Name    string
	GID     int
	Members []string
}

// Users reads /etc/passwd.
func (m *Machine) Users() []User {
	groups := m.Groups()
	var out []User
	for line := range strings.SplitSeq(m.Text("/etc/passwd"), "\n") {
		f := strings.Split(line, ":")
		if len(f) != 7 {
			continue
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		if err1 != nil || err2 != nil {
			continue
		}
		u := User{Name: f[0], Gecos: f[4], Home: f[5], Shell: f[6], Cred: tree.Cred{UID: uid, GID: gid}}
		for _, g := range groups {
			if slices.Contains(g.Members, u.Name) && g.GID != gid {
				u.Cred.Groups = append(u.Cred.Groups, g.GID)
			}
		}
		out = append(out, u)
	}
	return out
}

// Groups reads /etc/group.
func (m *Machine) Groups() []Group {
	var out []Group
	for line := range strings.SplitSeq(m.Text("/etc/group"), "\n") {
		f := strings.Split(line, ":")
		if len(f) != 4 {
			continue
		}
		gid, err := strconv.Atoi(f[2])
		if err != nil {
			continue
		}
		g := Group{Name: f[0], GID: gid}
		if f[3] != "" {
			g.Members = strings.Split(f[3], ",")
		}
		out = append(out, g)
	}
	return out
}

// LookupUser finds a user by name or number.
func (m *Machine) LookupUser(name string) (*User, bool) {
	uid, err := strconv.Atoi(name)
	for _, u := range m.Users() {
		if u.Name == name || err == nil && u.Cred.UID == uid {
			return &u, true
		}
	}
	return nil, false
}

// LookupGroup finds a group by name or number.
func (m *Machine) LookupGroup(name string) (*Group, bool) {
	gid, err := strconv.Atoi(name)
	for _, g := range m.Groups() {
		if g.Name == name || err == nil && g.GID == gid {
			return &g, true
		}
	}
	return nil, false
}

// UserName returns the name for a number, or the number.
func (m *Machine) UserName(uid int) string {
	for _, u := range m.Users() {
		if u.Cred.UID == uid {
			return u.Name
		}
	}
	return strconv.Itoa(uid)
}

// GroupName returns the name for a number, or the number.
func (m *Machine) GroupName(gid int) string {
	for _, g := range m.Groups() {
		if g.GID == gid {
			return g.Name
		}
	}
	return strconv.Itoa(gid)
}

// Passwd formats the user's line of /etc/passwd.
func (u User) Passwd() string {
	return fmt.Sprintf("%s:x:%d:%d:%s:%s:%s", u.Name, u.Cred.UID, u.Cred.GID, u.Gecos, u.Home, u.Shell)
}

// SystemPath is root's search path.
const SystemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environ is the environment of a fresh login.
func (u User) Environ() map[string]string {
	env := map[string]string{
		"HOME": u.Home, "USER": u.Name, "LOGNAME": u.Name, "SHELL": u.Shell, "LANG": "C.UTF-8",
		"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/games",
	}
	if u.Cred.UID == 0 {
		env["PATH"] = SystemPath
	}
	return env
}

// Login returns a process to start a user's commands from: it has the user's
// rights, home and environment, and no streams.
func (m *Machine) Login(u User) *Proc {
	return &Proc{
		Machine: m, PID: 1, Args: []string{"init"}, Dir: u.Home, Umask: 0o022, User: u.Name, Cred: u.Cred,
		env: pairs(u.Environ()),
	}
}
