package git

import (
	"context"
	"unicode/utf8"

	client "git.vanillacore.net/govstack/gsrun/internal/client/git"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type readArgs struct {
	Path string `star:"path,required" doc:"Path of the file in the repository."`
}

func read() builtin.Func {
	return builtin.Of(builtin.Spec[*Repo, readArgs]{
		Name:    "read",
		Doc:     "Read a file, as it is on the branch or as it was written since. If it is written after it was read, and somebody else changes it meanwhile, the push fails instead of undoing their change.",
		Returns: "str, or None if there is no such file",
		Example: `text = repo.read("gitops/spokes/eu-1/cluster.yaml")`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid, fault.NotFound, fault.Denied, fault.Untrusted, fault.Unreachable},
		Run: func(ctx context.Context, r *Repo, a readArgs) (any, error) {
			if err := client.CheckPath(a.Path); err != nil {
				return nil, err
			}
			done, err := r.take(ctx)
			if err != nil {
				return nil, err
			}
			defer done()
			if c, ok := r.written(a.Path); ok {
				if c.remove {
					return nil, nil
				}
				return c.content.Value(), nil
			}
			t := effect.Target{Scope: "git/" + r.id, Kind: "file", Name: a.Path, Unknown: r.later}
			return effect.Read(ctx, effect.Query{Target: t, Scope: r.scope()}, func(ctx context.Context) (any, error) {
				b, err := r.load(ctx)
				if err != nil {
					return nil, err
				}
				return r.content(b, a.Path)
			})
		},
	})
}

// content reads a file of b, and remembers what it was.
func (r *Repo) content(b *base, path string) (any, error) {
	f, ok := b.files[path]
	if r.seen == nil {
		r.seen = make(map[string]client.Hash)
	}
	r.seen[path] = f.Hash
	if !ok {
		return nil, nil
	}
	data, err := r.objects.Read(f.Hash)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(data) {
		return nil, fault.New(fault.Invalid, "%s is not UTF-8 text", path)
	}
	return string(data), nil
}
