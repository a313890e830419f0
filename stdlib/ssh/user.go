package ssh

import (
	"context"
	"regexp"
	"slices"
	"sort"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type userArgs struct {
	Name   string   `star:"name,required" doc:"Login name."`
	Shell  string   `star:"shell" doc:"Login shell. None means /bin/bash for a new user, and isn't compared."`
	Home   string   `star:"home" doc:"Home folder. None means the host's default for a new user, and isn't compared."`
	Groups []string `star:"groups" doc:"Groups that the user must be in, besides its own; further ones stay."`
	System bool     `star:"system" doc:"Make it a system user, without a home folder, if it is new."`
}

type userNameArgs struct {
	Name string `star:"name,required" doc:"Login name."`
}

func userNoun() builtin.Noun {
	return builtin.Noun{
		Name: "user", Doc: "A user of the host", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "name", Type: "str", Doc: "Login name."},
			{Name: "uid", Type: "int", Doc: "Number of the user."},
			{Name: "home", Type: "str", Doc: "Home folder."},
			{Name: "shell", Type: "str", Doc: "Login shell."},
			{Name: "groups", Type: "list[str]", Doc: "All groups, sorted."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, userArgs]{
				Name: "ensure", Doc: "Make a user be there, in these groups, which must exist. It gets no password.",
				Returns: "object with name, uid, home, shell and groups", Example: `host.user.ensure("deploy", groups = ["adm"])`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Failed, fault.Denied, fault.Invalid}, Run: ensureUser,
			}),
			builtin.Of(builtin.Spec[*Host, userNameArgs]{
				Name: "get", Doc: "Read a user.", Returns: "object with name, uid, home, shell and groups; None if there is no such user",
				Example: `host.user.get("debian").home`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Invalid, fault.Failed}, Run: getUser,
			}),
			builtin.Of(builtin.Spec[*Host, userNameArgs]{
				Name: "delete", Doc: "Make a user not be there. The home folder stays.",
				Returns: "None", Example: `host.user.delete("deploy")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Failed, fault.Denied, fault.Invalid}, Run: deleteUser,
			}),
		},
	}
}

const observeUserScript = `if s=$(getent passwd "$n"); then
	echo "passwd $s"
	for g in $(id -Gn "$n"); do echo "group $g"; done
fi
`

const applyUserScript = `say() { said=$("$@" 2>&1) || fail 84 "$said"; }
set --
[ -z "$shell" ] || set -- "$@" -s "$shell"
[ -z "$home" ] || set -- "$@" -d "$home"
if getent passwd "$n" >/dev/null; then
	[ $# = 0 ] || say usermod "$@" "$n"
else
	[ -n "$shell" ] || set -- "$@" -s /bin/bash
	if [ "$system" = yes ]; then set -- "$@" -r; else set -- "$@" -m; fi
	say useradd "$@" "$n"
fi
[ -z "$groups" ] || say usermod -a -G "$groups" "$n"
` + observeUserScript

func checkUser(fn, name string) error {
	if !regexp.MustCompile(`^[a-z_][a-z0-9_.-]{0,31}$`).MatchString(name) {
		return invalid(fn, "%q is no name of a user or group", name)
	}
	return nil
}

func (h *Host) observeUser(ctx context.Context, name string) (effect.State, error) {
	return userState(h.look(ctx, observeUserScript, vars{"n": name}))
}

// userState reads the answer of observeUserScript.
func userState(got answer, err error) (effect.State, error) {
	if err != nil {
		return effect.State{}, err
	}
	f := strings.Split(got.get("passwd"), ":")
	if len(f) != 7 {
		return effect.State{}, nil
	}
	groups := append([]string(nil), got.all("group")...)
	sort.Strings(groups)
	list := make([]any, len(groups))
	for i, g := range groups {
		list[i] = g
	}
	uid, err := parseNumber(f[2])
	return effect.State{Exists: true, Raw: groups, Attrs: map[string]any{"name": f[0], "uid": uid, "home": f[5], "shell": f[6], "groups": list}}, err
}

func ensureUser(ctx context.Context, h *Host, a userArgs) (any, error) {
	const fn = "ssh.host.user.ensure"
	for _, n := range append([]string{a.Name}, a.Groups...) {
		if err := checkUser(fn, n); err != nil {
			return nil, err
		}
	}
	for _, p := range []string{a.Shell, a.Home} {
		if p == "" {
			continue
		}
		if err := checkPath(fn, p); err != nil {
			return nil, err
		}
	}
	want := map[string]any{"name": a.Name}
	if a.Shell != "" {
		want["shell"] = a.Shell
	}
	if a.Home != "" {
		want["home"] = a.Home
	}
	return (&act{host: h, kind: "user", name: a.Name, lock: "users", reach: h.homeOf(a.Name, a.Home),
		observe: func(ctx context.Context) (effect.State, error) {
			return h.observeUser(ctx, a.Name)
		},
		diff: func(s effect.State) (effect.Change, error) {
			fields := effect.Compare(want, s.Attrs)
			have, _ := s.Raw.([]string)
			after := map[string]any{}
			for _, k := range []string{"uid", "home", "shell", "groups"} {
				after[k] = effect.Unknown{Of: h.scope() + "/user/" + a.Name + " " + k}
				if s.Exists {
					after[k] = s.Attrs[k]
				}
			}
			for k, v := range want {
				after[k] = v
			}
			all := slices.Clone(have)
			for _, g := range a.Groups {
				if !slices.Contains(all, g) {
					all = append(all, g)
				}
			}
			if len(all) > len(have) {
				sort.Strings(all)
				fields = append(fields, effect.Field{Path: "groups", Old: strings.Join(have, " "), New: strings.Join(all, " ")})
				if s.Exists {
					after["groups"] = all
				}
			}
			return change(s, fields, after)
		},
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) {
			v := vars{"n": a.Name, "shell": "", "home": a.Home, "groups": strings.Join(a.Groups, ","), "system": "no"}
			if a.Shell != "" {
				v["shell"] = a.Shell
			}
			if a.System {
				v["system"] = "yes"
			}
			return userState(h.ask(ctx, applyUserScript, v, nil))
		},
	}).do(ctx)
}

// homeOf returns the reach of a change of a user: the home folder comes with a
// new one.
func (h *Host) homeOf(name, home string) []string {
	if home == "" {
		home = "/home/" + name
	}
	reach := []string{h.scope() + "/authorized_key/" + name + "/"}
	for _, kind := range []string{"/file", "/directory"} {
		reach = append(reach, h.scope()+kind+home, h.scope()+kind+home+"/")
	}
	return reach
}

func getUser(ctx context.Context, h *Host, a userNameArgs) (any, error) {
	if err := checkUser("ssh.host.user.get", a.Name); err != nil {
		return nil, err
	}
	q := h.query("user", a.Name)
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		s, err := h.observeUser(ctx, a.Name)
		if err == nil && !s.Exists {
			err = fault.New(fault.NotFound, "no such user")
		}
		return s, err
	})
}

func deleteUser(ctx context.Context, h *Host, a userNameArgs) (any, error) {
	const fn = "ssh.host.user.delete"
	if err := checkUser(fn, a.Name); err != nil {
		return nil, err
	}
	if a.Name == "root" || a.Name == h.user {
		return nil, invalid(fn, "the user %s is needed to reach the host", a.Name)
	}
	_, err := effect.Do(ctx, &act{host: h, kind: "user", name: a.Name, removes: true, lock: "users", reach: h.homeOf(a.Name, ""),
		observe: func(ctx context.Context) (effect.State, error) {
			return h.observeUser(ctx, a.Name)
		},
		diff: removal,
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, `said=$(userdel "$n" 2>&1) || fail 84 "$said"`+"\n", vars{"n": a.Name}, nil)
			return effect.State{}, err
		},
	})
	return nil, err
}
