package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/git"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type commitArgs struct {
	Message string `star:"message,required" doc:"The commit's message: what is done, and why."`
}

func commitMethod() builtin.Func {
	return builtin.Of(builtin.Spec[*Repo, commitArgs]{
		Name: "commit",
		Doc: "Make a commit of what was written and removed since the last one, in memory: `push` takes it to the server. " +
			"What turns out to be on the branch already makes no commit.",
		Returns: "None",
		Example: `repo.write("gitops/spokes/eu-1/values.yaml", yaml.encode({"replicas": 3}))
repo.commit("Scale eu-1 to 3 replicas")`,
		Effect: builtin.Pure,
		Errors: []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, r *Repo, a commitArgs) (any, error) {
			message := strings.TrimSpace(a.Message)
			if message == "" || strings.ContainsRune(message, 0) {
				return nil, fault.New(fault.Invalid, "a commit needs a message")
			}
			if s := effect.From(ctx); s != nil && s.Door != nil && s.Door.Redactor.String(message) != message {
				return nil, fault.New(fault.Invalid, "the message of a commit would hold a secret")
			}
			done, err := r.take(ctx)
			if err != nil {
				return nil, err
			}
			defer done()
			if len(r.staged) > 0 {
				r.commits = append(r.commits, commit{message + "\n", r.staged})
				r.staged = nil
			}
			return nil, nil
		},
	})
}

type pushArgs struct{}

func push() builtin.Func {
	return builtin.Of(builtin.Spec[*Repo, pushArgs]{
		Name: "push",
		Doc: "Push what was committed. If somebody else pushed first, the same files are written on top of theirs, and it is pushed again; it never forces. " +
			"Where everything is on the branch already, nothing is pushed.\n\nThe result has `commit` (the full SHA that the branch points to) and `branch`.",
		Returns: "git.push",
		Example: `repo.write("gitops/spokes/eu-1/values.yaml", yaml.encode({"replicas": 3}))
repo.commit("Scale eu-1 to 3 replicas")
revision = repo.push().commit`,
		Effect: builtin.Changes,
		Errors: []fault.Kind{fault.Invalid, fault.Conflict, fault.Denied, fault.Drift, fault.NotFound, fault.Untrusted, fault.Unreachable},
		Run: func(ctx context.Context, r *Repo, _ pushArgs) (any, error) {
			done, err := r.take(ctx)
			if err != nil {
				return nil, err
			}
			defer done()
			if len(r.staged) > 0 {
				return nil, fault.Hinted(fault.Invalid, "call commit(message) first", "there is something written but not committed: %s",
					strings.Join(slices.Sorted(maps.Keys(r.staged)), ", "))
			}
			st, err := effect.Do(ctx, &pushing{r})
			if err != nil {
				return nil, err
			}
			r.pushed(st)
			return st, nil
		},
	})
}

// pushed takes note of what was pushed, or is planned to be.
func (r *Repo) pushed(st effect.State) {
	_, planned := st.Attrs["commit"].(effect.Unknown)
	if planned || st.Unknown {
		if r.planned == nil {
			r.planned = make(map[string]change)
		}
		maps.Copy(r.planned, r.effects())
	}
	r.commits = nil
	r.seen = nil
}

// pushing is the op that takes commits to the server. Another's commit on the
// branch is found by Observe, as is its own whose answer was lost.
type pushing struct{ r *Repo }

func (p *pushing) Target() effect.Target { return p.r.target() }

func (p *pushing) Observe(ctx context.Context) (effect.State, error) {
	b, err := p.r.fetch(ctx)
	if err != nil {
		return effect.State{}, err
	}
	p.r.base = b
	return p.state(b), nil
}

func (p *pushing) state(b *base) effect.State {
	st := effect.State{Exists: !b.commit.IsZero(), Raw: b, Attrs: map[string]any{"branch": p.r.branch, "commit": nil}}
	if st.Exists {
		st.Attrs["commit"] = b.commit.String()
	}
	return st
}

func (p *pushing) Diff(have effect.State) (effect.Change, error) {
	b := have.Raw.(*base)
	var fields []effect.Field
	all := p.r.effects()
	for _, path := range slices.Sorted(maps.Keys(all)) {
		f, differs, err := p.compare(b, path, all[path])
		if err != nil {
			return effect.Change{}, err
		}
		if differs {
			fields = append(fields, f)
		}
	}
	if len(fields) == 0 {
		return effect.Change{Kind: effect.None, Follows: true}, nil
	}
	kind := effect.Update
	if !have.Exists {
		kind = effect.Create
	}
	after := map[string]any{"branch": p.r.branch, "commit": effect.Unknown{Of: p.r.target().String() + " " + p.note() + " (" + fingerprint(fields) + ")"}}
	return effect.Change{Kind: kind, Fields: fields, After: after, Note: p.note(), Follows: true}, nil
}

// fingerprint tells apart the commits of two pushes that would change
// different files: what isn't known of one isn't what isn't known of the other.
func fingerprint(fields []effect.Field) string {
	h := sha256.New()
	for _, f := range fields {
		fmt.Fprintf(h, "%q %q\n", f.Path, fmt.Sprint(f.New))
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// note is the commits' subjects, for the plan.
func (p *pushing) note() string {
	var subjects []string
	for _, c := range p.r.commits {
		subject, _, _ := strings.Cut(c.message, "\n")
		subjects = append(subjects, subject)
	}
	return "commit: " + strings.Join(subjects, "; ")
}

// compare says how a file on the branch, with what is planned for it, differs
// from what is wanted.
func (p *pushing) compare(b *base, path string, want change) (effect.Field, bool, error) {
	f := effect.Field{Path: path}
	have, exists := b.files[path]
	if !want.remove {
		f.New = want.content.Value()
	}
	if planned, ok := p.r.planned[path]; ok {
		exists = !planned.remove
		if exists {
			f.Old = planned.content.Value()
		}
		differs := exists == want.remove || exists && (!planned.content.Known() || f.Old != f.New)
		return f, differs, nil
	}
	if want.remove && !exists {
		return f, false, nil
	}
	hash := client.Hash{}
	if !want.remove && want.content.Known() {
		if hash = client.HashOf([]byte(want.content.Reveal())); exists && hash == have.Hash {
			return f, false, nil
		}
	}
	if seen, ok := p.r.seen[path]; ok && seen != have.Hash {
		return f, false, fault.Hinted(fault.Drift, "run the recipe again: it reads the file anew",
			"%s was changed on %s since it was read, and what was made from it would undo that", path, p.r.branch)
	}
	if !exists {
		return f, true, nil
	}
	old, err := p.r.objects.Read(have.Hash)
	f.Old = printable(old)
	return f, true, err
}

// printable is how a file's old content shows in a plan.
func printable(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

func (p *pushing) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	b := c.Before.Raw.(*base)
	drafts := make([]client.Draft, 0, len(p.r.commits))
	when := p.r.now()
	for _, cm := range p.r.commits {
		d := client.Draft{Message: cm.message, Name: p.r.name, Email: p.r.email, When: when, Edits: make(map[string]client.Edit)}
		for path, ch := range cm.files {
			if !ch.content.Known() {
				return effect.State{}, fault.New(fault.Internal, "the content of %s isn't known, though this is no plan", path)
			}
			d.Edits[path] = client.Edit{Content: []byte(ch.content.Reveal()), Remove: ch.remove}
		}
		drafts = append(drafts, d)
	}
	head, objects, err := p.r.objects.Commit(b.commit, drafts)
	if err != nil {
		return effect.State{}, err
	}
	if err := p.r.remote.Push(ctx, p.r.objects, p.r.branch, b.commit, head, objects); err != nil {
		return effect.State{}, err
	}
	files, err := p.r.objects.Files(head)
	if err != nil {
		return effect.State{}, err
	}
	p.r.base = &base{head, files}
	return p.state(p.r.base), nil
}
