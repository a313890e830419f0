package ssh

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type lineArgs struct {
	Path     string      `star:"path,required" doc:"Absolute path of a text file of at most 128 KiB."`
	Line     effect.Text `star:"line,required" doc:"The line, without its end; it may be secret."`
	Match    string      `star:"match" doc:"Regular expression (RE2). The last line that it matches is replaced; where none does, the line is added at the end."`
	Create   bool        `star:"create" doc:"Make the file, with mode 0644, if it isn't there."`
	Validate string      `star:"validate" doc:"Shell command that must succeed before the file is replaced, with %s, unquoted, for the new file."`
}

type deleteLineArgs struct {
	Path     string `star:"path,required" doc:"Absolute path of a text file of at most 128 KiB."`
	Line     string `star:"line" doc:"The line; every one that equals it is removed."`
	Match    string `star:"match" doc:"Regular expression (RE2), instead of line; every line that it matches is removed."`
	Validate string `star:"validate" doc:"Shell command that must succeed before the file is replaced, with %s, unquoted, for the new file."`
}

func lineNoun() builtin.Noun {
	return builtin.Noun{
		Name: "line", Doc: "A line in a text file on the host", Identity: builtin.PartOf, Attrs: fileAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, lineArgs]{
				Name: "ensure", Doc: "Make a file have this line. The rest of the file, its mode and its owner stay. A file that somebody else changes meanwhile is read anew.",
				Returns: "object that describes the file, as file.ensure returns it",
				Example: `sshd = host.line.ensure("/etc/ssh/sshd_config", "PermitRootLogin no", match = "^#?PermitRootLogin ", validate = "sshd -t -f %s")
host.service.ensure("ssh", reload_on = [sshd])`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Exists, fault.Failed, fault.Denied, fault.Invalid, fault.Limit}, Run: ensureLine,
			}),
			builtin.Of(builtin.Spec[*Host, deleteLineArgs]{
				Name: "delete", Doc: "Make a file not have such a line. A file that isn't there has none.",
				Returns: "None", Example: `host.line.delete("/etc/hosts", match = "\\sold-name$")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Exists, fault.Failed, fault.Denied, fault.Invalid, fault.Limit}, Run: deleteLine,
			}),
		},
	}
}

// An edit changes the text of a file, and nothing else of it.
type edit struct {
	host     *Host
	path     string
	name     string      // of the target; empty means the path
	create   *wantedFile // what a file that isn't there is like; nil means that it must be there
	validate string
	secret   bool
	check    func(old string) error // what is wrong with the file as it is; may be nil
	text     func(old string) string
}

func ensureLine(ctx context.Context, h *Host, a lineArgs) (any, error) {
	const fn = "ssh.host.line.ensure"
	re, err := checkLine(fn, a.Path, a.Line.Reveal(), a.Match)
	if err != nil {
		return nil, err
	}
	if !a.Line.Known() {
		return effect.DoLater(ctx, effect.Target{Scope: h.scope(), Kind: "file", Name: a.Path})
	}
	e := &edit{host: h, path: a.Path, validate: a.Validate, secret: a.Line.IsSecret(),
		text: func(old string) string { return withLine(old, a.Line.Reveal(), re) }}
	if a.Create {
		e.create = &wantedFile{mode: 0o644, owner: h.as()}
	}
	return e.act().do(ctx)
}

func deleteLine(ctx context.Context, h *Host, a deleteLineArgs) (any, error) {
	const fn = "ssh.host.line.delete"
	re, err := checkLine(fn, a.Path, a.Line, a.Match)
	if err != nil {
		return nil, err
	}
	if (a.Line == "") == (a.Match == "") {
		return nil, invalid(fn, "give either line or match")
	}
	e := &edit{host: h, path: a.Path, validate: a.Validate, text: func(old string) string {
		var kept strings.Builder
		for line := range strings.Lines(old) {
			bare := strings.TrimSuffix(line, "\n")
			if re != nil && re.MatchString(bare) || re == nil && bare == a.Line {
				continue
			}
			kept.WriteString(line)
		}
		return kept.String()
	}}
	return nil, e.remove(ctx)
}

// remove does an edit that has nothing to do where there is no file.
func (e *edit) remove(ctx context.Context) error {
	op := e.act()
	op.diff = func(s effect.State) (effect.Change, error) {
		if !s.Exists {
			return effect.Unchanged(), nil
		}
		return e.diff(s)
	}
	_, err := op.do(ctx)
	return err
}

func checkLine(fn, path, line, match string) (*regexp.Regexp, error) {
	if err := checkPath(fn, path); err != nil {
		return nil, err
	}
	if strings.Contains(line, "\n") {
		return nil, invalid(fn, "the line holds a line end; ensure each line on its own")
	}
	if match == "" {
		return nil, nil
	}
	re, err := regexp.Compile(match)
	if err != nil {
		return nil, invalid(fn, "match: %v", err)
	}
	return re, nil
}

// withLine returns text with the line in it.
func withLine(text, line string, match *regexp.Regexp) string {
	lines := strings.SplitAfter(text, "\n")
	last, there := -1, false
	for i, l := range lines {
		bare := strings.TrimSuffix(l, "\n")
		if match != nil && match.MatchString(bare) && l != "" {
			last = i
		}
		there = there || bare == line && l != ""
	}
	if last >= 0 {
		end := ""
		if strings.HasSuffix(lines[last], "\n") {
			end = "\n"
		}
		lines[last] = line + end
		return strings.Join(lines, "")
	}
	if there {
		return text
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + line + "\n"
}

func (e *edit) act() *act {
	name := e.name
	if name == "" {
		name = e.path
	}
	return &act{host: e.host, kind: "file", name: name, lock: "file" + e.path,
		observe: func(ctx context.Context) (effect.State, error) { return e.observe(ctx) },
		diff:    e.diff,
		apply: func(ctx context.Context, c effect.Change) (effect.State, error) {
			if !c.Before.Exists && e.create == nil {
				return effect.State{}, fault.Hinted(fault.NotFound, "make it with file.ensure, or give create = True", "there is no file %s", e.path)
			}
			w, had := e.wanted(c.Before)
			got, err := w.replace(ctx, e.host, vars{"p": e.path, "own": w.owner + ":" + w.group, "mode": formatMode(w.mode)}, had)
			return effect.State{Exists: true, Attrs: w.made(e.host, got)}, err
		},
	}
}

func (e *edit) observe(ctx context.Context) (effect.State, error) {
	s, err := e.host.observeFile(ctx, e.path, "", true)
	if err != nil || !s.Exists {
		return s, err
	}
	if s.Raw.(fileRaw).text == nil {
		return s, fault.New(fault.Limit, "%s has more than %d bytes, or isn't text", e.path, diffLimit)
	}
	if e.check != nil {
		if err := e.check(*s.Raw.(fileRaw).text); err != nil {
			return s, err
		}
	}
	if e.secret {
		hideDigest(ctx, s)
	}
	return s, nil
}

// wanted returns the file as it should be, and the digest of what it is made
// from.
func (e *edit) wanted(s effect.State) (w *wantedFile, had string) {
	old := ""
	w = &wantedFile{path: e.path, validate: e.validate}
	if s.Exists {
		raw := s.Raw.(fileRaw)
		old, had = *raw.text, raw.sha256
		w.owner, w.group = raw.uid, raw.gid
		w.mode, _ = parseMode("", s.Attrs["mode"].(string)) // observeFile has read it already
	} else if e.create != nil {
		had = "absent"
		w.owner, w.group, w.mode = e.create.owner, e.create.group, e.create.mode
	}
	text := e.text(old)
	w.content = effect.Plain(text)
	sum := sha256.Sum256([]byte(text))
	w.sha256, w.size = hex.EncodeToString(sum[:]), int64(len(text))
	w.digest = w.sha256
	if e.secret {
		w.digest = effect.SecretOf(w.sha256, "") // no output has it
	}
	return w, had
}

func (e *edit) diff(s effect.State) (effect.Change, error) {
	if !s.Exists && e.create == nil {
		// A step before may be about to make it; Apply says if it isn't there.
		unknown := func(what string) any { return effect.Unknown{Of: e.host.scope() + "/file" + e.path + " " + what} }
		after := map[string]any{"path": e.path}
		for _, k := range []string{"sha256", "size", "mode", "owner", "group"} {
			after[k] = unknown(k)
		}
		return effect.Change{Kind: effect.Update, Fields: []effect.Field{{Path: "content", New: unknown("content")}}, After: after}, nil
	}
	w, had := e.wanted(s)
	if s.Exists && had == w.sha256 {
		return effect.Unchanged(), nil
	}
	f := effect.Field{Path: "content", New: w.content.Reveal()}
	if s.Exists {
		f.Old = *s.Raw.(fileRaw).text
	}
	if e.secret {
		f.Old, f.New = nil, effect.Mask
		if s.Exists {
			f.Old = effect.Mask
		}
	}
	after := w.attrs(e.host, s.Attrs)
	if s.Exists {
		after["owner"], after["group"] = s.Attrs["owner"], s.Attrs["group"]
	}
	c, err := change(s, []effect.Field{f}, after)
	c.Relative, c.Reach = []string{"sha256", "size"}, e.host.partsOf(e.path)
	return c, err
}
