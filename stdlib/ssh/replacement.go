package ssh

import (
	"context"
	"regexp"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type replacementArgs struct {
	Path     string      `star:"path,required" doc:"Absolute path of a text file of at most 128 KiB."`
	Pattern  string      `star:"pattern,required" doc:"Regular expression (RE2). ^ and $ stand for the ends of a line; it may match several lines."`
	Text     effect.Text `star:"text,required" doc:"What is put in place of each match, with $1 or ${name} for its groups and $$ for a dollar; it may be secret."`
	Validate string      `star:"validate" doc:"Shell command that must succeed before the file is replaced, with %s, unquoted, for the new file."`
}

func replacementNoun() builtin.Noun {
	return builtin.Noun{
		Name: "replacement", Doc: "Text in place of a pattern in a text file on the host", Identity: builtin.PartOf, Attrs: fileAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Host, replacementArgs]{
				Name: "ensure", Doc: "Replace all that a pattern matches in a file. Where nothing matches, nothing changes. A pattern that goes on to change what it has made is refused.",
				Returns: "object that describes the file, as file.ensure returns it",
				Example: `host.replacement.ensure("/etc/nftables.conf", "^(flush) +ruleset$", "$1 ruleset")`,
				Effect:  builtin.Changes, Errors: []fault.Kind{fault.NotFound, fault.Exists, fault.Failed, fault.Denied, fault.Invalid, fault.Limit}, Run: ensureReplacement,
			}),
		},
	}
}

func ensureReplacement(ctx context.Context, h *Host, a replacementArgs) (any, error) {
	const fn = "ssh.host.replacement.ensure"
	if err := checkPath(fn, a.Path); err != nil {
		return nil, err
	}
	if a.Pattern == "" {
		return nil, invalid(fn, "the pattern is empty")
	}
	re, err := regexp.Compile("(?m)" + a.Pattern)
	if err != nil {
		return nil, invalid(fn, "pattern: %v", err)
	}
	if a.Validate != "" && !strings.Contains(a.Validate, "%s") {
		return nil, invalid(fn, "%s: validate has no %%s for the file", a.Path)
	}
	if !a.Text.Known() {
		return effect.DoLater(ctx, effect.Target{Scope: h.scope(), Kind: "file", Name: a.Path})
	}
	replaced := func(old string) string { return re.ReplaceAllString(old, a.Text.Reveal()) }
	return (&edit{host: h, path: a.Path, validate: a.Validate, secret: a.Text.IsSecret(), text: replaced,
		check: func(old string) error {
			once := replaced(old)
			if replaced(once) == once {
				return nil
			}
			return fault.Hinted(fault.Failed, "write a pattern that doesn't match the text", "in %s the pattern %q matches what it was replaced by, so that each run would change it again", a.Path, a.Pattern)
		}}).act().do(ctx)
}
