package ssh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// diffLimit bounds the text that is fetched and shown as a difference.
const diffLimit = 128 << 10

type fileArgs struct {
	Path     string           `star:"path,required" doc:"Absolute path. A symbolic link is followed and stays."`
	Content  effect.Data      `star:"content" doc:"Content, a str; it may be secret."`
	Template string           `star:"template" doc:"File of the recipe that is filled with vars to give the content, such as \"files/nftables.conf.tmpl\"."`
	Vars     effect.Data      `star:"vars" doc:"Dict of the template's variables."`
	Source   effect.LocalFile `star:"source" doc:"Fetched file whose content is wanted."`
	Mode     string           `star:"mode" doc:"Permissions in octal."`
	Owner    string           `star:"owner" doc:"Owner. None means the user that works on the host: root with sudo."`
	Group    string           `star:"group" doc:"Group. None means the owner's for a new file, and isn't compared."`
	Validate string           `star:"validate" doc:"Shell command that must succeed before the file is replaced, with %s, unquoted, for the new file: \"nft -c -f %s\"."`
}

func fileAttrs() []builtin.Attr {
	return []builtin.Attr{
		{Name: "path", Type: "str", Doc: "Path as given."},
		{Name: "sha256", Type: "str", Doc: "Digest of the content, in hex; secret, if the content is. Pass the object to reload_on or restart_on of a service."},
		{Name: "size", Type: "int", Doc: "Bytes."},
		{Name: "mode", Type: "str", Doc: "Permissions, in four octal digits."},
		{Name: "owner", Type: "str", Doc: "Owner."},
		{Name: "group", Type: "str", Doc: "Group."},
	}
}

func fileNoun() builtin.Noun {
	return builtin.Noun{
		Name: "file", Doc: "A file on the host", Identity: builtin.NaturalKey, Attrs: fileAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, fileArgs]{
				Name: "ensure",
				Doc: "Make a file have this content, mode and owner. It is replaced in one step once its new content is complete, checked and " +
					"on disk, so that nobody ever sees a part, and a failure leaves the old one. Its folder must exist.",
				Returns: "object with path, sha256, size, mode, owner and group",
				Example: `conf = host.file.ensure("/etc/nftables.conf", content = "flush ruleset\n", mode = "0600")
host.service.ensure("nftables", reload_on = [conf])`,
				Effect:   builtin.Changes,
				Errors:   []fault.Kind{fault.NotFound, fault.Exists, fault.Failed, fault.Denied, fault.Invalid},
				Defaults: fileArgs{Mode: "0644"},
				Run:      ensureFile,
			}),
			builtin.Of(builtin.Spec[*Host, pathArgs]{
				Name: "get", Doc: "Read what is known of a file, but not its content: see host.read.",
				Returns: "object with path, sha256, size, mode, owner and group; None if there is no such file",
				Example: `host.file.get("/etc/hostname").sha256`,
				Effect:  builtin.Reads, Errors: []fault.Kind{fault.Exists, fault.Denied}, Run: getFile,
			}),
			builtin.Of(builtin.Spec[*Host, pathArgs]{
				Name: "delete", Doc: "Make a file not be there. A symbolic link is removed, not what it points to; a folder is refused.",
				Returns: "None", Example: `host.file.delete("/etc/motd")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Exists, fault.Denied, fault.Invalid}, Run: deleteFile,
			}),
		},
	}
}

type pathArgs struct {
	Path string `star:"path,required" doc:"Absolute path."`
}

// A wantedFile is a file as a recipe wants it.
type wantedFile struct {
	path, owner, group, validate string
	mode                         int64
	content                      effect.Text
	local                        *effect.LocalFile // instead of content
	sha256                       string            // "" if the content isn't known yet
	digest                       any               // the sha256 as recipes see it: secret, if the content is
	size                         int64
	vars                         vars // more of them, for validate
}

func ensureFile(ctx context.Context, h *Host, a fileArgs) (any, error) {
	w, err := a.wanted(ctx, h)
	if err != nil {
		return nil, err
	}
	return w.act(h).do(ctx)
}

func (w *wantedFile) act(h *Host) *act {
	return &act{host: h, kind: "file", name: w.path, lock: "file" + w.path,
		observe: func(ctx context.Context) (effect.State, error) {
			s, err := h.observeFile(ctx, w.path, w.sha256, w.showsText())
			if err == nil && w.content.IsSecret() {
				hideDigest(ctx, s)
			}
			return s, err
		},
		diff:  func(s effect.State) (effect.Change, error) { return w.diff(h, s) },
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) { return w.apply(ctx, h, c.Before) },
	}
}

func (a *fileArgs) wanted(ctx context.Context, h *Host) (*wantedFile, error) {
	const fn = "ssh.host.file.ensure"
	if err := checkPath(fn, a.Path); err != nil {
		return nil, err
	}
	mode, err := parseMode(fn, a.Mode)
	if err != nil {
		return nil, err
	}
	w := &wantedFile{path: a.Path, mode: mode, owner: a.Owner, group: a.Group, validate: a.Validate}
	if w.owner == "" {
		w.owner = h.as()
	}
	given := 0
	for _, is := range []bool{a.Content.V != nil, a.Template != "", a.Source.Path != ""} {
		if is {
			given++
		}
	}
	if given != 1 || a.Template == "" && a.Vars.V != nil {
		return nil, invalid(fn, "%s: give one of content, template (with vars) and source", a.Path)
	}
	if w.validate != "" && !strings.Contains(w.validate, "%s") {
		return nil, invalid(fn, "%s: validate has no %%s for the file", a.Path)
	}
	switch {
	case a.Source.Path != "":
		return w, w.fromLocal(a.Source)
	case a.Template != "":
		if w.content, err = render(ctx, fn, a.Template, a.Vars); err != nil {
			return nil, err
		}
	default:
		if w.content, err = textOf(a.Content.V); err != nil {
			return nil, invalid(fn, "content: %v", err)
		}
	}
	if w.content.Known() {
		sum := sha256.Sum256([]byte(w.content.Reveal()))
		w.sha256, w.size = hex.EncodeToString(sum[:]), int64(len(w.content.Reveal()))
		w.digest = w.sha256
		if w.content.IsSecret() {
			w.digest = effect.Derived(ctx, w.sha256)
		}
	}
	return w, nil
}

// hideDigest makes the digest in the data of a file with a secret content
// secret, too: whoever has it can try what the content may be.
func hideDigest(ctx context.Context, s effect.State) {
	if sum, ok := s.Attrs["sha256"].(string); ok {
		s.Attrs["sha256"] = effect.Derived(ctx, sum)
	}
}

func (w *wantedFile) fromLocal(l effect.LocalFile) error {
	info, err := os.Stat(l.Path)
	if err != nil {
		return &fault.Error{Op: "reading", Target: l.Path, Kind: fault.NotFound, Err: err}
	}
	w.local, w.sha256, w.digest, w.size = &l, l.SHA256, l.SHA256, info.Size()
	return nil
}

func render(ctx context.Context, fn, name string, data effect.Data) (effect.Text, error) {
	text, err := effect.ReadFile(ctx, name)
	if err != nil {
		return effect.Text{}, err
	}
	values, ok := data.V.(map[string]any)
	if data.V != nil && !ok {
		return effect.Text{}, invalid(fn, "vars is no dict")
	}
	return effect.Render(name, string(text), values)
}

// showsText reports whether the content may be shown as a difference.
func (w *wantedFile) showsText() bool {
	return w.local == nil && !w.content.IsSecret() && w.content.Known() && w.size <= diffLimit && utf8.ValidString(w.content.Reveal())
}

// attrs returns the file's data, once it is as wanted.
func (w *wantedFile) attrs(h *Host, have map[string]any) map[string]any {
	m := map[string]any{"path": w.path, "mode": formatMode(w.mode), "owner": w.owner, "group": w.group, "sha256": w.digest, "size": w.size}
	if w.sha256 == "" {
		m["sha256"], m["size"] = effect.Unknown{Of: h.scope() + "/file" + w.path + " sha256"}, effect.Unknown{Of: h.scope() + "/file" + w.path + " size"}
	}
	if w.group == "" {
		m["group"] = effect.Unknown{Of: h.scope() + "/file" + w.path + " group"}
		if have != nil {
			m["group"] = have["group"]
		}
	}
	return m
}

func (w *wantedFile) diff(h *Host, s effect.State) (effect.Change, error) {
	var fields []effect.Field
	if raw, _ := s.Raw.(fileRaw); w.sha256 == "" || raw.sha256 != w.sha256 {
		fields = append(fields, w.contentField(s))
	}
	fields = append(fields, w.attributeFields(s)...)
	c, err := change(s, fields, w.attrs(h, s.Attrs))
	c.Reach = h.partsOf(w.path)
	return c, err
}

// attributeFields returns how mode, owner and group differ. Owner and group may
// be wanted by name or by number.
func (w *wantedFile) attributeFields(s effect.State) []effect.Field {
	var fields []effect.Field
	have := s.Attrs
	if !sameMode(have["mode"], w.mode) {
		fields = append(fields, effect.Field{Path: "mode", Old: have["mode"], New: formatMode(w.mode)})
	}
	ids, _ := s.Raw.(fileRaw)
	if have["owner"] != w.owner && (ids.uid == "" || ids.uid != w.owner) {
		fields = append(fields, effect.Field{Path: "owner", Old: have["owner"], New: w.owner})
	}
	if w.group != "" && have["group"] != w.group && (ids.gid == "" || ids.gid != w.group) {
		fields = append(fields, effect.Field{Path: "group", Old: have["group"], New: w.group})
	}
	return fields
}

// contentField is the difference of the contents: texts where they may be
// shown, else digests.
func (w *wantedFile) contentField(s effect.State) effect.Field {
	raw, _ := s.Raw.(fileRaw)
	f := effect.Field{Path: "content"}
	switch {
	case !w.content.Known() || w.content.IsSecret():
		f.New = w.content.Value()
		if s.Exists {
			f.Old = effect.Mask
		}
	case w.showsText() && (!s.Exists || raw.text != nil):
		f.New = w.content.Reveal()
		if s.Exists {
			f.Old = *raw.text
		}
	default:
		f.Path, f.New = "sha256", w.sha256
		if s.Exists {
			f.Old = s.Attrs["sha256"]
		}
	}
	return f
}

func getFile(ctx context.Context, h *Host, a pathArgs) (any, error) {
	if err := checkPath("ssh.host.file.get", a.Path); err != nil {
		return nil, err
	}
	q := h.query("file", a.Path)
	q.Absent = true
	return effect.Read(ctx, q, func(ctx context.Context) (effect.State, error) {
		s, err := h.observeFile(ctx, a.Path, "", false)
		if err == nil && !s.Exists {
			err = fault.New(fault.NotFound, "no such file")
		}
		return s, err
	})
}

func deleteFile(ctx context.Context, h *Host, a pathArgs) (any, error) {
	if err := checkPath("ssh.host.file.delete", a.Path); err != nil {
		return nil, err
	}
	return nil, h.deleteFileAt(ctx, "file", a.Path, a.Path)
}

// deleteFileAt removes the file at path, as the target of that kind and name.
func (h *Host) deleteFileAt(ctx context.Context, kind, name, path string) error {
	_, err := effect.Do(ctx, &act{host: h, kind: kind, name: name, removes: true,
		observe: func(ctx context.Context) (effect.State, error) {
			got, err := h.look(ctx, `if [ -L "$p" ]; then echo 'there yes'
elif [ -d "$p" ]; then fail 82 "$p is a folder"
elif [ -e "$p" ]; then echo 'there yes'; fi
`, vars{"p": path})
			return effect.State{Exists: got.get("there") == "yes"}, err
		},
		diff: func(s effect.State) (effect.Change, error) {
			c, err := removal(s)
			c.Reach = h.partsOf(path)
			return c, err
		},
		apply: func(ctx context.Context, _ effect.Change) (effect.State, error) {
			_, err := h.ask(ctx, `rm -f -- "$p"`+"\n", vars{"p": path}, nil)
			return effect.State{}, err
		},
	})
	return err
}

// checkPath refuses paths that don't name one place.
func checkPath(fn, path string) error {
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") || strings.ContainsAny(path, "\x00\n") {
		return invalid(fn, "%q is no absolute path of a file or folder", path)
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return invalid(fn, "write %q without empty parts, . and ..", path)
		}
	}
	return nil
}

func parseMode(fn, s string) (int64, error) {
	m, err := strconv.ParseInt(s, 8, 16)
	if err != nil || m < 0 || m > 0o7777 {
		return 0, invalid(fn, "mode %q is not octal, such as \"0644\"", s)
	}
	return m, nil
}

func formatMode(m int64) string { return fmt.Sprintf("%04o", m) }

func sameMode(have any, want int64) bool {
	s, _ := have.(string)
	m, err := strconv.ParseInt(s, 8, 16)
	return err == nil && m == want
}
