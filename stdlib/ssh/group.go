package ssh

import (
	"context"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type groupArgs struct {
	Name   string `star:"name,required" doc:"Name of the group."`
	GID    int    `star:"gid" doc:"Number of the group, from 1. None means the host's choice for a new group, and isn't compared."`
	System bool   `star:"system" doc:"Take a system group's number, if it is new and gid isn't given."`
}

type groupNameArgs struct {
	Name string `star:"name,required" doc:"Name of the group."`
}

func groupNoun() builtin.Noun {
	return builtin.Noun{
		Name: "group", Doc: "A group of users of the host", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "name", Type: "str", Doc: "Name of the group."},
			{Name: "gid", Type: "int", Doc: "Number of the group."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, groupArgs]{
				Name: "ensure", Doc: "Make a group be there. Its members aren't touched: see host.user.ensure. Another number changes only the group: files keep theirs.",
				Returns: "object with name and gid", Example: `media = host.group.ensure("media", gid = 2000)
host.user.ensure("deploy", groups = [media.name])`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Failed, fault.Denied, fault.Invalid}, Run: ensureGroup,
			}),
			builtin.Of(builtin.Spec[*Host, groupNameArgs]{
				Name: "get", Doc: "Read a group.", Returns: "object with name and gid; None if there is no such group",
				Example: `host.group.get("adm").gid`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Invalid, fault.Failed}, Run: getGroup,
			}),
			builtin.Of(builtin.Spec[*Host, groupNameArgs]{
				Name: "delete", Doc: "Make a group not be there. The own group of a user is refused by the host.",
				Returns: "None", Example: `host.group.delete("media")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Failed, fault.Denied, fault.Invalid}, Run: deleteGroup,
			}),
		},
	}
}

// Where getent isn't, groups stand in a file and nowhere else.
const observeGroupScript = `if command -v getent >/dev/null 2>&1; then s=$(getent group "$n")
else s=$(awk -F: -v n="$n" '$1 == n' /etc/group); fi
[ -z "$s" ] || echo "group $s"
`

const applyGroupScript = `say() { said=$("$@" 2>&1) || fail 84 "$said"; }
set --
[ -z "$gid" ] || set -- -g "$gid"
if [ "$there" = yes ]; then
	command -v groupmod >/dev/null 2>&1 || fail 84 "the host has no groupmod to change a group's number"
	say groupmod "$@" "$n"
elif command -v groupadd >/dev/null 2>&1; then
	[ "$system" = no ] || set -- "$@" -r
	say groupadd "$@" "$n"
else
	[ "$system" = no ] || set -- "$@" -S
	say addgroup "$@" "$n"
fi
` + observeGroupScript

const deleteGroupScript = `if command -v groupdel >/dev/null 2>&1; then c=groupdel; else c=delgroup; fi
said=$("$c" "$n" 2>&1) || fail 84 "$said"
`

func (h *Host) observeGroup(ctx context.Context, name string) (effect.State, error) {
	return groupState(h.look(ctx, observeGroupScript, vars{"n": name}))
}

// groupState reads the answer of observeGroupScript.
func groupState(got answer, err error) (effect.State, error) {
	if err != nil {
		return effect.State{}, err
	}
	f := strings.Split(got.get("group"), ":")
	if len(f) != 4 {
		return effect.State{}, nil
	}
	gid, err := parseNumber(f[2])
	return effect.State{Exists: true, Attrs: map[string]any{"name": f[0], "gid": gid}}, err
}

func ensureGroup(ctx context.Context, h *Host, a groupArgs) (any, error) {
	const fn = "ssh.host.group.ensure"
	if err := checkUser(fn, a.Name); err != nil {
		return nil, err
	}
	if a.GID < 0 || a.GID > 1<<31-2 {
		return nil, invalid(fn, "%d is no number of a group", a.GID)
	}
	return (&act{host: h, kind: "group", name: a.Name, lock: "users",
		observe: func(ctx context.Context) (effect.State, error) { return h.observeGroup(ctx, a.Name) },
		diff: func(s effect.State) (effect.Change, error) {
			want := map[string]any{"name": a.Name}
			if a.GID != 0 {
				want["gid"] = a.GID
			}
			fields := effect.Compare(want, s.Attrs)
			switch {
			case a.GID != 0:
			case s.Exists:
				want["gid"] = s.Attrs["gid"]
			default:
				want["gid"] = effect.Unknown{Of: h.scope() + "/group/" + a.Name + " gid"}
			}
			c, err := change(s, fields, want)
			if c.Kind == effect.Update { // the group of files is another then
				c.Reach = h.anything()
			}
			return c, err
		},
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) {
			v := vars{"n": a.Name, "gid": "", "system": "no", "there": "no"}
			if a.GID != 0 {
				v["gid"] = decimal(a.GID)
			}
			if a.System {
				v["system"] = "yes"
			}
			if c.Before.Exists {
				v["there"] = "yes"
			}
			return groupState(h.ask(ctx, applyGroupScript, v, nil))
		},
	}).do(ctx)
}

func getGroup(ctx context.Context, h *Host, a groupNameArgs) (any, error) {
	if err := checkUser("ssh.host.group.get", a.Name); err != nil {
		return nil, err
	}
	q := h.query("group", a.Name)
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		s, err := h.observeGroup(ctx, a.Name)
		if err == nil && !s.Exists {
			err = fault.New(fault.NotFound, "no such group")
		}
		return s, err
	})
}

func deleteGroup(ctx context.Context, h *Host, a groupNameArgs) (any, error) {
	if err := checkUser("ssh.host.group.delete", a.Name); err != nil {
		return nil, err
	}
	_, err := effect.Do(ctx, &act{host: h, kind: "group", name: a.Name, removes: true, lock: "users",
		reach:   h.anything(), // files of it have a number and no name then
		observe: func(ctx context.Context) (effect.State, error) { return h.observeGroup(ctx, a.Name) },
		diff:    removal,
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, deleteGroupScript, vars{"n": a.Name}, nil)
			return effect.State{}, err
		},
	})
	return nil, err
}
