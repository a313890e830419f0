package debian

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts/machine"
)

func readAll(r io.Reader) string {
	data, err := io.ReadAll(r)
	if err != nil {
		return string(data)
	}
	return string(data)
}

// rights is what the sudoers files give a user: whether they may, and whether
// without a password.
func (s *System) rights(u *machine.User) (may, free bool) {
	files := append([]string{"/etc/sudoers"}, s.listFiles("/etc/sudoers.d", "")...)
	for _, file := range files {
		for line := range strings.Lines(s.Text(file)) {
			f := strings.Fields(line)
			if len(f) < 2 || strings.HasPrefix(f[0], "#") || strings.HasPrefix(f[0], "@") || strings.HasPrefix(f[0], "Defaults") {
				continue
			}
			who := f[0]
			match := who == u.Name || who == "ALL"
			if group, ok := strings.CutPrefix(who, "%"); ok {
				if g, ok := s.LookupGroup(group); ok {
					match = u.Cred.GID == g.GID || slices.Contains(u.Cred.Groups, g.GID)
				}
			}
			if !match {
				continue
			}
			may = true
			// The last line that matches counts.
			free = strings.Contains(line, "NOPASSWD:")
		}
	}
	return may, free || u.Cred.UID == 0
}

func (s *System) sudo(ctx context.Context, p *machine.Proc) int {
	o := p.Options("+n|non-interactive u|user: g|group: E|preserve-env? H|set-home S|stdin p|prompt: i|login s|shell v|validate l|list k|reset-timestamp K b|background A D|chdir: C: T:")
	if o == nil {
		return 1
	}
	me, ok := s.LookupUser(p.User)
	if !ok {
		return p.Fail(1, "you do not exist in the passwd database")
	}
	may, free := s.rights(me)
	refused := p.Cred.UID != 0 && s.Config.RefuseSudo != nil && s.Config.RefuseSudo()
	switch {
	case (refused || may && !free) && o.Has("n"):
		return p.Fail(1, "a password is required")
	case refused || may && !free:
		return p.Fail(1, "a terminal is required to read the password; either use the -S option to read from standard input or configure an askpass helper\nsudo: a password is required")
	case !may && o.Has("n"):
		return p.Fail(1, "a password is required")
	case !may:
		return p.Fail(1, "%s is not in the sudoers file.", p.User)
	}
	if o.Has("v") || o.Has("k") && len(o.Args) == 0 {
		return 0
	}
	if o.Has("l") {
		p.Printf("User %s may run the following commands on %s:\n    (ALL) NOPASSWD: ALL\n", p.User, s.Hostname())
		return 0
	}
	name := "root"
	if v := o.Get("u"); v != "" {
		name = strings.TrimPrefix(v, "#")
	}
	target, ok := s.LookupUser(name)
	if !ok {
		return p.Fail(1, "unknown user %s", name)
	}
	old := p.Environ()
	env := map[string]string{}
	if o.Has("E") {
		if list := o.Get("E"); list != "" {
			for n := range strings.SplitSeq(list, ",") {
				if v, ok := old[n]; ok {
					env[n] = v
				}
			}
		} else {
			env = maps.Clone(old)
		}
	}
	for _, n := range []string{"LANG", "LC_ALL", "TERM", "DISPLAY"} {
		if v, ok := old[n]; ok {
			env[n] = v
		}
	}
	env["PATH"] = machine.SystemPath
	if !o.Has("E") || o.Has("H") || o.Has("i") {
		env["HOME"] = target.Home
	}
	env["USER"], env["LOGNAME"], env["SHELL"] = target.Name, target.Name, target.Shell
	env["SUDO_USER"], env["SUDO_UID"], env["SUDO_GID"] = p.User, fmt.Sprint(p.Cred.UID), fmt.Sprint(p.Cred.GID)
	args := o.Args
	for len(args) > 0 {
		n, v, ok := strings.Cut(args[0], "=")
		if !ok || strings.Contains(n, "/") {
			break
		}
		env[n] = v
		args = args[1:]
	}
	env["SUDO_COMMAND"] = strings.Join(args, " ")
	dir := o.Get("D")
	switch {
	case o.Has("i"):
		dir = target.Home
		shell := []string{target.Shell, "-l"}
		if len(args) > 0 {
			shell = append(shell, "-c", strings.Join(quoteAll(args), " "))
		}
		args = shell
	case o.Has("s"):
		shell := []string{me.Shell}
		if len(args) > 0 {
			shell = append(shell, "-c", strings.Join(quoteAll(args), " "))
		}
		args = shell
	case len(args) == 0:
		fmt.Fprintln(p.Stderr, "usage: sudo [-ABbEHnPS] [-u user] [VAR=value] [-i | -s] [command [arg ...]]")
		return 1
	}
	code, err := p.Run(ctx, machine.Cmd{Args: args, User: target, Env: env, Dir: dir})
	if err == machine.ErrNotFound {
		return p.Fail(1, "%s: command not found", args[0])
	}
	if err != nil {
		return p.Fail(1, "unable to execute %s: %v", args[0], err)
	}
	return code
}

func quoteAll(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return out
}

// su is su and runuser.
func (s *System) su(ctx context.Context, p *machine.Proc) int {
	o := p.Options("l|login c|command: s|shell: m p|preserve-environment u|user: g: G:")
	if o == nil {
		return 1
	}
	args := o.Args
	login := o.Has("l")
	if len(args) > 0 && args[0] == "-" {
		login, args = true, args[1:]
	}
	name := "root"
	if v := o.Get("u"); v != "" {
		name = v
	} else if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	if p.Cred.UID != 0 {
		return p.Fail(1, "Authentication failure")
	}
	u, ok := s.LookupUser(name)
	if !ok {
		return p.Fail(1, "user %s does not exist or the user entry does not contain all the required fields", name)
	}
	shell := u.Shell
	if v := o.Get("s"); v != "" {
		shell = v
	}
	cmd := machine.Cmd{User: u, Args: []string{shell}}
	if login {
		cmd.Env, cmd.Dir = u.Environ(), u.Home
	} else {
		cmd.Env = p.Environ()
		cmd.Env["HOME"], cmd.Env["SHELL"], cmd.Env["USER"], cmd.Env["LOGNAME"] = u.Home, shell, u.Name, u.Name
	}
	switch {
	case o.Has("u") && len(args) > 0:
		cmd.Args = args
	case o.Has("c"):
		cmd.Args = append([]string{shell, "-c", o.Get("c")}, args...)
	case len(args) > 0:
		cmd.Args = append(cmd.Args, args...)
	}
	code, err := p.Run(ctx, cmd)
	if err != nil {
		return p.Fail(1, "failed to execute %s: %v", cmd.Args[0], err)
	}
	return code
}

func (s *System) visudo(ctx context.Context, p *machine.Proc) int {
	o := p.Options("c|check f|file: q|quiet s")
	if o == nil {
		return 1
	}
	file := o.Get("f")
	if file == "" {
		file = "/etc/sudoers"
	}
	in, err := p.Input(ctx, file)
	if err != nil {
		return p.Fail(1, "%s: %s", file, machine.Strerror(err))
	}
	defer in.Close()
	for n, line := range strings.Split(readAll(in), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "@") || strings.HasPrefix(line, "Defaults") || strings.Contains(line, "_Alias") {
			continue
		}
		if !strings.Contains(line, "=") || len(strings.Fields(line)) < 2 {
			fmt.Fprintf(p.Stderr, "%s:%d:1: syntax error\n%s\n", file, n+1, line)
			return 1
		}
	}
	if !o.Has("q") {
		p.Printf("%s: parsed OK\n", file)
	}
	return 0
}
