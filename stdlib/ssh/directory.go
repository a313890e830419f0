package ssh

import (
	"context"
	"path"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type directoryArgs struct {
	Path      string `star:"path,required" doc:"Absolute path. Folders above it are made as well, with mode 0755."`
	Mode      string `star:"mode" doc:"Permissions in octal."`
	Owner     string `star:"owner" doc:"Owner. None means the user that works on the host: root with sudo."`
	Group     string `star:"group" doc:"Group. None means the owner's for a new folder, and isn't compared."`
	Recursive bool   `star:"recursive" doc:"Have the same mode and owner on all that is in it, and the same group if it is given. Files get the mode without the right to execute, unless they have it for anybody. Symbolic links are left alone."`
}

type deleteDirectoryArgs struct {
	Path      string `star:"path,required" doc:"Absolute path."`
	Recursive bool   `star:"recursive" doc:"Delete what is in it, too."`
}

func directoryNoun() builtin.Noun {
	return builtin.Noun{
		Name: "directory", Doc: "A folder on the host", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "path", Type: "str", Doc: "Path as given."},
			{Name: "mode", Type: "str", Doc: "Permissions, in four octal digits."},
			{Name: "owner", Type: "str", Doc: "Owner."},
			{Name: "group", Type: "str", Doc: "Group."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, directoryArgs]{
				Name: "ensure", Doc: "Make a folder be there with this mode and owner. What is in it isn't touched, unless `recursive` is given.",
				Returns: "object with path, mode, owner and group", Example: `host.directory.ensure("/etc/wireguard", mode = "0700")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Exists, fault.Denied, fault.Invalid},
				Defaults: directoryArgs{Mode: "0755"}, Run: ensureDirectory,
			}),
			builtin.Of(builtin.Spec[*Host, deleteDirectoryArgs]{
				Name: "delete", Doc: "Make a folder not be there. One that isn't empty is refused unless `recursive` is given.",
				Returns: "None", Example: `host.directory.delete("/var/lib/old", recursive = True)`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Exists, fault.Failed, fault.Denied, fault.Invalid}, Run: deleteDirectory,
			}),
		},
	}
}

const observeDirectoryScript = `if [ -d "$p" ]; then
	s=$(stat -L -c '%a %u %g %U %G' "$p") || exit 1
	echo "stat $s"
elif [ -e "$p" ] || [ -L "$p" ]; then fail 82 "$p is there already, and is no folder"; fi
`

const makeDirectoryScript = `umask 022
mkdir -p -- "$p" && chown -- "$own" "$p" && chmod -- "$mode" "$p" || exit 1
stat -L -c 'stat %U %G' "$p"
`

func ensureDirectory(ctx context.Context, h *Host, a directoryArgs) (any, error) {
	const fn = "ssh.host.directory.ensure"
	if err := checkPath(fn, a.Path); err != nil {
		return nil, err
	}
	mode, err := parseMode(fn, a.Mode)
	if err != nil {
		return nil, err
	}
	owner := a.Owner
	if owner == "" {
		owner = h.as()
	}
	attrs := func(owner string, group any) map[string]any {
		return map[string]any{"path": a.Path, "mode": formatMode(mode), "owner": owner, "group": group}
	}
	differs := "" // how much of what is in it
	return (&act{host: h, kind: "directory", name: a.Path,
		observe: func(ctx context.Context) (effect.State, error) {
			differs = ""
			got, err := h.look(ctx, observeDirectoryScript, vars{"p": a.Path})
			if err != nil {
				return effect.State{}, err
			}
			st := strings.Fields(got.get("stat"))
			if len(st) != 5 {
				return effect.State{}, nil
			}
			have, err := parseMode("stat", st[0])
			s := effect.State{Exists: true, Raw: fileRaw{uid: st[1], gid: st[2]},
				Attrs: map[string]any{"path": a.Path, "mode": formatMode(have), "owner": st[3], "group": st[4]}}
			if err == nil && a.Recursive {
				got, err = h.look(ctx, observeInsideScript, insideVars(a.Path, owner, a.Group, mode))
				differs = got.get("inside")
			}
			return s, err
		},
		diff: func(s effect.State) (effect.Change, error) {
			want := wantedFile{mode: mode, owner: owner, group: a.Group}
			group := any(a.Group)
			switch {
			case a.Group == "" && s.Exists:
				group = s.Attrs["group"]
			case a.Group == "":
				group = effect.Unknown{Of: h.scope() + "/directory" + a.Path + " group"}
			}
			fields := want.attributeFields(s)
			if differs != "" {
				fields = append(fields, insideField(differs))
			}
			c, err := change(s, fields, attrs(owner, group))
			if a.Recursive {
				c.Reach = append(c.Reach, h.scope()+"/directory"+a.Path+"/", h.scope()+"/file"+a.Path+"/")
			}
			if c.Kind == effect.Create {
				for above := path.Dir(a.Path); above != "/"; above = path.Dir(above) {
					c.Reach = append(c.Reach, h.scope()+"/directory"+above)
				}
			}
			return c, err
		},
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) {
			own := owner + ":" + a.Group
			if a.Group == "" && c.Before.Exists {
				own = owner
			}
			got, err := h.ask(ctx, makeDirectoryScript, vars{"p": a.Path, "own": own, "mode": formatMode(mode)}, nil)
			if err == nil && a.Recursive {
				_, err = h.ask(ctx, setInsideScript, insideVars(a.Path, owner, a.Group, mode), nil)
			}
			user, group, _ := strings.Cut(got.get("stat"), " ")
			return effect.State{Exists: true, Attrs: attrs(user, group)}, err
		},
	}).do(ctx)
}

const deleteDirectoryScript = `if [ "$deep" = yes ]; then rm -rf -- "$p"; exit; fi
rmdir -- "$p" || fail 84 "it isn't empty"
`

func deleteDirectory(ctx context.Context, h *Host, a deleteDirectoryArgs) (any, error) {
	const fn = "ssh.host.directory.delete"
	if err := checkPath(fn, a.Path); err != nil {
		return nil, err
	}
	deep := "no"
	if a.Recursive {
		deep = "yes"
		if strings.Count(a.Path, "/") < 2 {
			return nil, invalid(fn, "%s is too near the root to be deleted with all that is in it", a.Path)
		}
	}
	_, err := effect.Do(ctx, &act{host: h, kind: "directory", name: a.Path, removes: true,
		observe: func(ctx context.Context) (effect.State, error) {
			got, err := h.look(ctx, observeDirectoryScript, vars{"p": a.Path})
			return effect.State{Exists: got.get("stat") != ""}, err
		},
		diff: func(s effect.State) (effect.Change, error) {
			c, err := removal(s)
			c.Reach = []string{h.scope() + "/directory" + a.Path + "/", h.scope() + "/file" + a.Path + "/"}
			return c, err
		},
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, deleteDirectoryScript, vars{"p": a.Path, "deep": deep}, nil)
			if fault.KindOf(err) == fault.Failed {
				err = fault.Hinted(fault.Failed, "give recursive = True if all that is in it may go", "%w", err)
			}
			return effect.State{}, err
		},
	})
	return nil, err
}
