package ssh

import (
	"context"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type linkArgs struct {
	Path   string `star:"path,required" doc:"Absolute path of the link. Its folder must exist."`
	Target string `star:"target,required" doc:"What it points to, as it is written into the link; it needn't exist."`
	Force  bool   `star:"force" doc:"Replace a file that stands there; it is lost."`
}

func linkNoun() builtin.Noun {
	return builtin.Noun{
		Name: "link", Doc: "A symbolic link on the host", Identity: builtin.NaturalKey,
		Attrs: []builtin.Attr{
			{Name: "path", Type: "str", Doc: "Path as given."},
			{Name: "target", Type: "str", Doc: "What it points to, as it is written in the link."},
		},
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, linkArgs]{
				Name: "ensure", Doc: "Make a path be a symbolic link to this target. Another link is replaced in one step, and so is a file if `force` is given; a folder never is.",
				Returns: "object with path and target", Example: `host.link.ensure("/usr/local/bin/k", "/usr/bin/kubectl")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Exists, fault.Denied, fault.Invalid}, Run: ensureLink,
			}),
			builtin.Of(builtin.Spec[*Host, pathArgs]{
				Name: "get", Doc: "Read a symbolic link.", Returns: "object with path and target; None if there is nothing",
				Example: `host.link.get("/etc/mtab")`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Exists, fault.Denied, fault.Invalid}, Run: getLink,
			}),
			builtin.Of(builtin.Spec[*Host, pathArgs]{
				Name: "delete", Doc: "Make a symbolic link not be there. What it points to stays; a file or folder in its place is refused.",
				Returns: "None", Example: `host.link.delete("/usr/local/bin/k")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Exists, fault.Denied, fault.Invalid}, Run: deleteLink,
			}),
		},
	}
}

const observeLinkScript = `if [ -L "$p" ]; then t=$(readlink -- "$p") || exit 1; printf 'target %s\n' "$t"
elif [ -d "$p" ]; then fail 82 "$p is there already, and is a folder, not a link"
elif [ -e "$p" ]; then echo 'other yes'; fi
`

// The link is made beside, and renamed: at no time is there none.
const applyLinkScript = `d=${p%/*}; b=${p##*/}
[ -d "${d:-/}" ] || fail 81 "its folder $d doesn't exist"
[ -L "$p" ] || [ ! -d "$p" ] || fail 82 "$p is a folder"
[ -L "$p" ] || [ ! -e "$p" ] || [ "$force" = yes ] || fail 82 "$p was made meanwhile"
rm -rf -- "$d/.$b.gsrun-"??????
t=$(mktemp -d "$d/.$b.gsrun-XXXXXX") || exit 1
ln -s -- "$target" "$t/link" && mv -fT -- "$t/link" "$p" || { rm -rf -- "$t"; exit 1; }
rmdir -- "$t"
`

func (h *Host) observeLink(ctx context.Context, path string, replaces bool) (effect.State, error) {
	got, err := h.look(ctx, observeLinkScript, vars{"p": path})
	if err != nil {
		return effect.State{}, err
	}
	if got.get("other") == "yes" {
		if replaces {
			return effect.State{Exists: true, Attrs: map[string]any{"path": path}}, nil
		}
		return effect.State{}, fault.New(fault.Exists, "%s is there already, and is no link", path)
	}
	if _, ok := got.fields["target"]; !ok {
		return effect.State{}, nil
	}
	return effect.State{Exists: true, Attrs: map[string]any{"path": path, "target": got.get("target")}}, nil
}

// through returns the reach of a change of a link: what is seen at its path,
// and below it.
func (h *Host) through(path string) []string {
	return append(h.partsOf(path), h.scope()+"/file"+path, h.scope()+"/file"+path+"/", h.scope()+"/directory"+path, h.scope()+"/directory"+path+"/")
}

func ensureLink(ctx context.Context, h *Host, a linkArgs) (any, error) {
	const fn = "ssh.host.link.ensure"
	if err := checkPath(fn, a.Path); err != nil {
		return nil, err
	}
	if a.Target == "" || strings.ContainsAny(a.Target, "\x00\n") {
		return nil, invalid(fn, "%q is no target of a link", a.Target)
	}
	want := map[string]any{"path": a.Path, "target": a.Target}
	return (&act{host: h, kind: "link", name: a.Path, lock: "file" + a.Path, reach: h.through(a.Path),
		observe: func(ctx context.Context) (effect.State, error) {
			s, err := h.observeLink(ctx, a.Path, a.Force)
			if fault.KindOf(err) == fault.Exists && !strings.Contains(err.Error(), "is a folder") {
				err = fault.Hinted(fault.Exists, "give force = True if it may be lost", "%w", err)
			}
			return s, err
		},
		diff: func(s effect.State) (effect.Change, error) {
			fields := effect.Compare(want, s.Attrs)
			c, err := change(s, fields, want)
			if _, link := s.Attrs["target"]; s.Exists && !link {
				c.Kind, c.Note = effect.Replace, "the file there is lost"
			}
			return c, err
		},
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			v := vars{"p": a.Path, "target": a.Target, "force": "no"}
			if a.Force {
				v["force"] = "yes"
			}
			_, err := h.ask(ctx, applyLinkScript, v, nil)
			return effect.State{Exists: true, Attrs: want}, err
		},
	}).do(ctx)
}

func getLink(ctx context.Context, h *Host, a pathArgs) (any, error) {
	if err := checkPath("ssh.host.link.get", a.Path); err != nil {
		return nil, err
	}
	q := h.query("link", a.Path)
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		s, err := h.observeLink(ctx, a.Path, false)
		if err == nil && !s.Exists {
			err = fault.New(fault.NotFound, "no such link")
		}
		return s, err
	})
}

func deleteLink(ctx context.Context, h *Host, a pathArgs) (any, error) {
	if err := checkPath("ssh.host.link.delete", a.Path); err != nil {
		return nil, err
	}
	_, err := effect.Do(ctx, &act{host: h, kind: "link", name: a.Path, removes: true, lock: "file" + a.Path, reach: h.through(a.Path),
		observe: func(ctx context.Context) (effect.State, error) { return h.observeLink(ctx, a.Path, false) },
		diff:    removal,
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, `[ ! -L "$p" ] || rm -f -- "$p"`+"\n", vars{"p": a.Path}, nil)
			return effect.State{}, err
		},
	})
	return nil, err
}
