package git

import (
	"context"
	"regexp"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/git"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type listArgs struct {
	Path    string `star:"path,positional" doc:"Folder in the repository; empty for all of it."`
	Pattern string `star:"pattern,positional" doc:"What the path below the folder must match: * for any part of a name, ** for any folders, ? for one character."`
}

func list() builtin.Func {
	return builtin.Of(builtin.Spec[*Repo, listArgs]{
		Name:     "list",
		Doc:      "List the files of a folder and those below it, what was written since included.",
		Returns:  "list[str]: whole paths, sorted; empty if there is no such folder",
		Example:  `clusters = repo.list("gitops/spokes", "*/cluster.yaml")`,
		Effect:   builtin.Reads,
		Errors:   []fault.Kind{fault.Invalid, fault.NotFound, fault.Denied, fault.Untrusted, fault.Unreachable},
		Defaults: listArgs{Pattern: "**"},
		Run: func(ctx context.Context, r *Repo, a listArgs) (any, error) {
			prefix := ""
			if a.Path != "" {
				a.Path = strings.TrimSuffix(a.Path, "/")
				if err := client.CheckPath(a.Path); err != nil {
					return nil, err
				}
				prefix = a.Path + "/"
			}
			match, err := glob(a.Pattern)
			if err != nil {
				return nil, err
			}
			done, err := r.take(ctx)
			if err != nil {
				return nil, err
			}
			defer done()
			t := effect.Target{Scope: "git/" + r.id, Kind: "folder", Name: a.Path, Unknown: r.later}
			return effect.Read(ctx, effect.Query{Target: t, Scope: r.scope()}, func(ctx context.Context) (any, error) {
				b, err := r.load(ctx)
				if err != nil {
					return nil, err
				}
				paths := []string{}
				for p := range r.merged(b) {
					if rest, ok := strings.CutPrefix(p, prefix); ok && match.MatchString(rest) {
						paths = append(paths, p)
					}
				}
				slices.Sort(paths)
				return paths, nil
			})
		},
	})
}

// merged returns the paths of b with what was written since.
func (r *Repo) merged(b *base) map[string]bool {
	all := make(map[string]bool, len(b.files))
	for p := range b.files {
		all[p] = true
	}
	layers := []map[string]change{r.planned}
	for _, c := range r.commits {
		layers = append(layers, c.files)
	}
	for _, l := range append(layers, r.staged) {
		for p, c := range l {
			if c.remove {
				delete(all, p)
			} else {
				all[p] = true
			}
		}
	}
	return all
}

// glob returns the pattern as a regular expression.
func glob(pattern string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	for i := 0; i < len(pattern); {
		switch rest := pattern[i:]; {
		case strings.HasPrefix(rest, "**/"):
			b.WriteString("(?:.*/)?")
			i += 3
		case strings.HasPrefix(rest, "**"):
			b.WriteString(".*")
			i += 2
		case rest[0] == '*':
			b.WriteString("[^/]*")
			i++
		case rest[0] == '?':
			b.WriteString("[^/]")
			i++
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
			i++
		}
	}
	re, err := regexp.Compile("(?s)" + b.String() + "$")
	if err != nil {
		return nil, fault.New(fault.Invalid, "the pattern %q can't be read: %v", pattern, err)
	}
	return re, nil
}
