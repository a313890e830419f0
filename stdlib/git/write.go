package git

import (
	"context"
	"regexp"
	"strings"
	"unicode/utf8"

	client "git.vanillacore.net/govstack/gsrun/internal/client/git"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type writeArgs struct {
	Path    string      `star:"path,required" doc:"Path of the file in the repository."`
	Content effect.Text `star:"content,required" doc:"The whole content. It can't be a secret."`
}

func write() builtin.Func {
	return builtin.Of(builtin.Spec[*Repo, writeArgs]{
		Name: "write",
		Doc: "Write a file, in memory: `commit` and `push` take it to the server. Content that holds a secret of the run, or a private key, is refused, " +
			"for what is in a repository can't be taken back.",
		Returns: "None",
		Example: `repo.write("gitops/spokes/eu-1/values.yaml", yaml.encode({"replicas": 3}))`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, r *Repo, a writeArgs) (any, error) {
			if err := client.CheckPath(a.Path); err != nil {
				return nil, err
			}
			if err := refuseSecret(ctx, a.Path, a.Content); err != nil {
				return nil, err
			}
			return nil, r.stage(ctx, a.Path, change{content: a.Content})
		},
	})
}

type removeArgs struct {
	Path string `star:"path,required" doc:"Path of the file in the repository."`
}

func remove() builtin.Func {
	return builtin.Of(builtin.Spec[*Repo, removeArgs]{
		Name:    "remove",
		Doc:     "Remove a file, in memory: `commit` and `push` take it to the server. Removing one that isn't there is no error.",
		Returns: "None",
		Example: `repo.remove("gitops/spokes/eu-1/cluster.yaml")`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, r *Repo, a removeArgs) (any, error) {
			if err := client.CheckPath(a.Path); err != nil {
				return nil, err
			}
			return nil, r.stage(ctx, a.Path, change{remove: true})
		},
	})
}

func (r *Repo) stage(ctx context.Context, path string, c change) error {
	done, err := r.take(ctx)
	if err != nil {
		return err
	}
	defer done()
	if r.staged == nil {
		r.staged = make(map[string]change)
	}
	r.staged[path] = c
	return nil
}

// privateKey matches lines that private keys begin with or stand in: PEM, age
// identities, WireGuard's configuration and kubeconfigs.
var privateKey = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----|AGE-SECRET-KEY-1[0-9A-Z]{20}` +
	`|^\s*PrivateKey\s*=\s*[A-Za-z0-9+/]{43}=|^\s*client-key-data:\s*[A-Za-z0-9+/]{16}`)

// refuseSecret returns an error for content that mustn't be committed.
func refuseSecret(ctx context.Context, path string, content effect.Text) error {
	const hint = "keep it out of Git: encrypt it, or put it into the cluster as a Secret"
	text := content.Reveal()
	if !content.IsSecret() && !utf8.ValidString(text) {
		return fault.New(fault.Invalid, "%s would not be UTF-8 text", path)
	}
	var known *effect.Redactor
	if s := effect.From(ctx); s != nil && s.Door != nil {
		known = s.Door.Redactor
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if privateKey.MatchString(line) {
			return fault.Hinted(fault.Invalid, hint, "%s:%d would hold a private key", path, n)
		}
		if known.String(line) != line {
			return fault.Hinted(fault.Invalid, hint, "%s:%d would hold a secret", path, n)
		}
	}
	if content.IsSecret() || known.String(text) != text {
		return fault.Hinted(fault.Invalid, hint, "%s would hold a secret", path)
	}
	return nil
}
