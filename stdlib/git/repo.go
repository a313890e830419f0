package git

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/git"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A Repo is one branch of a repository, as a recipe sees it: a commit, and
// what it wrote on top of it.
type Repo struct {
	url         effect.Text
	id          string // host and path; empty if the URL isn't known yet
	branch      string
	name, email string
	now         func() time.Time
	later       bool // how it is reached isn't known yet

	turn    chan struct{} // held by who uses what follows
	remote  *client.Remote
	objects *client.Objects
	base    *base
	seen    map[string]client.Hash // what was read, by path; zero for a file that wasn't there
	planned map[string]change      // what a planned push would write
	commits []commit               // to be pushed
	staged  map[string]change      // to be committed
}

// base is the commit that is read.
type base struct {
	commit client.Hash // zero if the branch isn't there yet
	files  map[string]client.File
}

// A change is what happens to one file.
type change struct {
	content effect.Text
	remove  bool
}

// A commit is one that isn't pushed yet.
type commit struct {
	message string
	files   map[string]change
}

// Attrs returns the repository as data.
func (r *Repo) Attrs() map[string]any {
	return map[string]any{"url": r.url.Value(), "branch": r.branch}
}

func (r *Repo) String() string { return fmt.Sprintf("%s, branch %s", r.url, r.branch) }

// Known reports whether the repository can be reached already.
func (r *Repo) Known() bool { return !r.later }

// scope is the part of the world that what is read depends on.
func (r *Repo) scope() string { return "git/" + r.id + "/branch/" + r.branch }

func (r *Repo) target() effect.Target {
	return effect.Target{Scope: "git/" + r.id, Kind: "branch", Name: r.branch, Unknown: r.later}
}

// take waits for its turn to use the repository.
func (r *Repo) take(ctx context.Context) (func(), error) {
	select {
	case r.turn <- struct{}{}:
		return func() { <-r.turn }, nil
	case <-ctx.Done():
		return nil, fault.FromContext(ctx)
	}
}

// load fetches the branch unless that was done.
func (r *Repo) load(ctx context.Context) (*base, error) {
	if r.base != nil {
		return r.base, nil
	}
	b, err := r.fetch(ctx)
	if err == nil {
		r.base = b
	}
	return b, err
}

// fetch gets the branch as it is now. An empty repository has every branch,
// with nothing in it.
func (r *Repo) fetch(ctx context.Context) (*base, error) {
	refs, err := r.remote.Refs(ctx)
	if err != nil {
		return nil, err
	}
	head, ok := refs.Branches[r.branch]
	if !ok && len(refs.Branches) > 0 {
		return nil, noBranch(r.branch, refs)
	}
	if r.base != nil && r.base.commit == head {
		return r.base, nil
	}
	if ok {
		if err := r.remote.Fetch(ctx, r.objects, head, false); err != nil {
			return nil, err
		}
	}
	files, err := r.objects.Files(head)
	return &base{head, files}, err
}

func noBranch(name string, refs client.Refs) error {
	names := slices.Sorted(maps.Keys(refs.Branches))
	hint := fmt.Sprintf("its branches are %.10q", names)
	if near := builtin.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	return fault.Hinted(fault.NotFound, hint, "the repository has no branch %q", name)
}

// written returns what the recipe wrote to a file, the latest first.
func (r *Repo) written(path string) (change, bool) {
	if c, ok := r.staged[path]; ok {
		return c, true
	}
	for _, cm := range slices.Backward(r.commits) {
		if c, ok := cm.files[path]; ok {
			return c, true
		}
	}
	c, ok := r.planned[path]
	return c, ok
}

// effects returns what the commits to push change in all, by path.
func (r *Repo) effects() map[string]change {
	all := make(map[string]change)
	for _, cm := range r.commits {
		maps.Copy(all, cm.files)
	}
	return all
}

func repoType() *builtin.Type {
	return &builtin.Type{
		Name: "git.repo",
		Doc:  "A branch of a Git repository.",
		Of:   builtin.TypeOf[*Repo](),
		Attrs: []builtin.Attr{
			{Name: "url", Type: "str", Doc: "Where it is."},
			{Name: "branch", Type: "str", Doc: "The branch."},
		},
		Methods: []builtin.Func{read(), list(), write(), remove(), commitMethod(), push(), resolve()},
	}
}
