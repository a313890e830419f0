package ssh

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type blockArgs struct {
	Path     string      `star:"path,required" doc:"Absolute path of a text file of at most 128 KiB."`
	Content  effect.Text `star:"content,required" doc:"The lines between the markers; they may be secret."`
	Begin    string      `star:"begin" doc:"Line above the block. Each block of a file needs markers of its own."`
	End      string      `star:"end" doc:"Line below the block."`
	After    string      `star:"after" doc:"Regular expression (RE2). A new block is put below the last line that it matches; where none does, and by default, at the end. A block that is there stays in its place."`
	Create   bool        `star:"create" doc:"Make the file, if it isn't there."`
	Mode     string      `star:"mode" doc:"Permissions of a file that is made, in octal."`
	Owner    string      `star:"owner" doc:"Owner of a file that is made. None means the user that works on the host: root with sudo."`
	Group    string      `star:"group" doc:"Group of a file that is made. None means the owner's."`
	Validate string      `star:"validate" doc:"Shell command that must succeed before the file is replaced, with %s, unquoted, for the new file."`
}

type deleteBlockArgs struct {
	Path     string `star:"path,required" doc:"Absolute path of a text file of at most 128 KiB."`
	Begin    string `star:"begin" doc:"Line above the block."`
	End      string `star:"end" doc:"Line below the block."`
	Validate string `star:"validate" doc:"Shell command that must succeed before the file is replaced, with %s, unquoted, for the new file."`
}

// The markers of a block that isn't given any.
const (
	blockBegin = "# BEGIN gsrun"
	blockEnd   = "# END gsrun"
)

func blockNoun() builtin.Noun {
	return builtin.Noun{
		Name: "block", Doc: "Some lines between two markers in a text file on the host", Identity: builtin.PartOf, Attrs: fileAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, blockArgs]{
				Name: "ensure", Doc: "Make a file have these lines between these markers. The rest of the file, its mode and its owner stay. A file that somebody else changes meanwhile is read anew.",
				Returns: "object that describes the file, as file.ensure returns it",
				Example: `sshd = host.block.ensure("/etc/ssh/sshd_config", "Match User backup\n    ForceCommand internal-sftp\n", validate = "sshd -t -f %s")
host.service.ensure("ssh", reload_on = [sshd])`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Exists, fault.Failed, fault.Denied, fault.Invalid, fault.Limit},
				Defaults: blockArgs{Begin: blockBegin, End: blockEnd, Mode: "0644"}, Run: ensureBlock,
			}),
			builtin.Of(builtin.Spec[*Host, deleteBlockArgs]{
				Name: "delete", Doc: "Make a file not have such a block, nor its markers. A file that isn't there has none.",
				Returns: "None", Example: `host.block.delete("/etc/ssh/sshd_config")`,
				Effect: builtin.Changes, Errors: []fault.Kind{fault.Exists, fault.Failed, fault.Denied, fault.Invalid, fault.Limit},
				Defaults: deleteBlockArgs{Begin: blockBegin, End: blockEnd}, Run: deleteBlock,
			}),
		},
	}
}

// markers are the lines around a block.
type markers struct{ begin, end string }

func (m markers) check(fn, path string) error {
	if err := checkPath(fn, path); err != nil {
		return err
	}
	for _, line := range []string{m.begin, m.end} {
		if strings.TrimSpace(line) == "" || strings.ContainsAny(line, "\x00\n") {
			return invalid(fn, "%q is no marker: it is one line", line)
		}
	}
	if m.begin == m.end {
		return invalid(fn, "begin and end are the same")
	}
	return nil
}

// find returns the indices of the lines that begin and end the block in lines;
// -1 if there is none. A marker that stands alone, or more than once, is a
// fault: whatever is done may lose lines of somebody.
func (m markers) find(path string, lines []string) (begin, end int, err error) {
	begin, end = -1, -1
	for i, l := range lines {
		at := &begin
		switch strings.TrimSuffix(l, "\n") {
		case m.begin:
		case m.end:
			at = &end
		default:
			continue
		}
		if *at >= 0 {
			return 0, 0, fault.Hinted(fault.Failed, "remove one of them by hand", "%s has the marker %q more than once", path, strings.TrimSuffix(l, "\n"))
		}
		*at = i
	}
	if (begin < 0) != (end < 0) || begin > end {
		return 0, 0, fault.Hinted(fault.Failed, "put the missing marker where it belongs, or remove the other, by hand", "%s hasn't both markers of the block, %q and %q, in this order", path, m.begin, m.end)
	}
	return begin, end, nil
}

// with returns text with the block of that content; without one, if content is
// empty.
func (m markers) with(path, text, content string, after *regexp.Regexp) (string, error) {
	lines := slices.Collect(strings.Lines(text))
	begin, end, err := m.find(path, lines)
	if err != nil {
		return "", err
	}
	var block []string
	if content != "" {
		block = []string{m.begin + "\n" + strings.TrimSuffix(content, "\n") + "\n" + m.end + "\n"}
	}
	switch {
	case begin >= 0:
		if content != "" && !strings.HasSuffix(lines[end], "\n") {
			block[0] = strings.TrimSuffix(block[0], "\n")
		}
		return strings.Join(slices.Replace(lines, begin, end+1, block...), ""), nil
	case content == "":
		return text, nil
	}
	at := len(lines)
	for i := len(lines) - 1; i >= 0 && after != nil; i-- {
		if after.MatchString(strings.TrimSuffix(lines[i], "\n")) {
			at = i + 1
			break
		}
	}
	if at > 0 && !strings.HasSuffix(lines[at-1], "\n") {
		lines[at-1] += "\n"
	}
	return strings.Join(slices.Insert(lines, at, block...), ""), nil
}

// edit returns the edit that makes the block have that content.
func (m markers) edit(h *Host, path, validate, content string, after *regexp.Regexp) *edit {
	change := func(old string) (string, error) { return m.with(path, old, content, after) }
	return &edit{host: h, path: path, validate: validate,
		check: func(old string) error { _, err := change(old); return err },
		text: func(old string) string {
			text, err := change(old)
			if err != nil { // check has said so
				return old
			}
			return text
		}}
}

func ensureBlock(ctx context.Context, h *Host, a blockArgs) (any, error) {
	const fn = "ssh.host.block.ensure"
	m := markers{a.Begin, a.End}
	if err := m.check(fn, a.Path); err != nil {
		return nil, err
	}
	mode, err := parseMode(fn, a.Mode)
	if err != nil {
		return nil, err
	}
	if a.Validate != "" && !strings.Contains(a.Validate, "%s") {
		return nil, invalid(fn, "%s: validate has no %%s for the file", a.Path)
	}
	var after *regexp.Regexp
	if a.After != "" {
		if after, err = regexp.Compile(a.After); err != nil {
			return nil, invalid(fn, "after: %v", err)
		}
	}
	if !a.Content.Known() {
		return effect.DoLater(ctx, effect.Target{Scope: h.scope(), Kind: "file", Name: a.Path})
	}
	content := a.Content.Reveal()
	if strings.TrimSuffix(content, "\n") == "" {
		return nil, fault.Hinted(fault.Invalid, "remove a block with block.delete", "%s: the content is empty", fn)
	}
	for line := range strings.Lines(content) {
		if l := strings.TrimSuffix(line, "\n"); l == m.begin || l == m.end {
			return nil, fault.Hinted(fault.Invalid, "give other markers as begin and end", "%s: the content has the marker %q in it", fn, l)
		}
	}
	e := m.edit(h, a.Path, a.Validate, content, after)
	e.secret = a.Content.IsSecret()
	if a.Create {
		e.create = &wantedFile{mode: mode, owner: a.Owner, group: a.Group}
		if a.Owner == "" {
			e.create.owner = h.as()
		}
	}
	return e.act().do(ctx)
}

func deleteBlock(ctx context.Context, h *Host, a deleteBlockArgs) (any, error) {
	const fn = "ssh.host.block.delete"
	m := markers{a.Begin, a.End}
	if err := m.check(fn, a.Path); err != nil {
		return nil, err
	}
	return nil, m.edit(h, a.Path, a.Validate, "", nil).remove(ctx)
}
