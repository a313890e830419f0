package git

import (
	"context"
	"regexp"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/git"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type resolveArgs struct {
	Ref string `star:"ref,required" doc:"A branch, a tag, or a commit's SHA, whole or its first 7 digits or more."`
}

func resolve() builtin.Func {
	return builtin.Of(builtin.Spec[*Repo, resolveArgs]{
		Name: "resolve",
		Doc: "Find the commit that a branch, a tag or a SHA means, as the server has it now. A SHA must be of a commit that the repository's branch contains; " +
			"its history is fetched for that.",
		Returns: "str: the full SHA of the commit",
		Example: `revision = repo.resolve("main")`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid, fault.NotFound, fault.Denied, fault.Untrusted, fault.Unreachable},
		Run: func(ctx context.Context, r *Repo, a resolveArgs) (any, error) {
			if a.Ref == "" {
				return nil, fault.New(fault.Invalid, "the name of what to resolve is empty")
			}
			done, err := r.take(ctx)
			if err != nil {
				return nil, err
			}
			defer done()
			t := effect.Target{Scope: "git/" + r.id, Kind: "ref", Name: a.Ref, Unknown: r.later}
			return effect.Read(ctx, effect.Query{Target: t, Scope: "git/" + r.id}, func(ctx context.Context) (any, error) {
				return r.resolve(ctx, a.Ref)
			})
		},
	})
}

var shaForm = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

func (r *Repo) resolve(ctx context.Context, ref string) (any, error) {
	refs, err := r.remote.Refs(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{strings.TrimPrefix(ref, "refs/heads/"), ref} {
		if h, ok := refs.Branches[name]; ok {
			return h.String(), nil
		}
	}
	if h, ok := refs.Tags[strings.TrimPrefix(ref, "refs/tags/")]; ok {
		return h.String(), nil
	}
	if !shaForm.MatchString(ref) {
		return nil, fault.New(fault.NotFound, "the repository has no branch or tag %q", ref)
	}
	head, ok := refs.Branches[r.branch]
	if !ok {
		return nil, noBranch(r.branch, refs)
	}
	history := client.NewObjects()
	if err := r.remote.Fetch(ctx, history, head, true); err != nil {
		return nil, err
	}
	var found []string
	if err := history.Ancestors(head, func(h client.Hash) bool {
		if strings.HasPrefix(h.String(), ref) {
			found = append(found, h.String())
		}
		return true
	}); err != nil {
		return nil, err
	}
	switch len(found) {
	case 0:
		return nil, fault.Hinted(fault.NotFound, "push it first, or give a SHA that is on the branch", "branch %s doesn't contain commit %s", r.branch, ref)
	case 1:
		return found[0], nil
	}
	return nil, fault.Hinted(fault.Invalid, "give more digits", "%s may be %s", ref, strings.Join(found, " or "))
}
