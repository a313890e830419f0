package runtime

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// An outcome is how a step, or one item of it, ended well.
type outcome struct {
	value starlark.Value    // through the journal's form, frozen; nil if the step was skipped
	form  []byte            // the journal's form of value
	key   string            // what the result depends on; empty if that can't be said
	files map[string]string // the files that were read, with their digests
	kept  bool              // an earlier process of this run did it
}

// A Finished step is one that an earlier process of a run did.
type Finished struct {
	Key   string
	Files map[string]string
	Value []byte
}

// finish runs the step's function or recipe for one item, unless an earlier
// process of this run did so with the same code, inputs, needs and files.
func (in *inst) finish(ctx context.Context, scope *effect.Scope, s *Step, item starlark.Value, index int) (outcome, error) {
	out := outcome{}
	if s.Fn != nil && in.run.opts.Done != nil {
		out.key = in.key(ctx, s, item, index)
		if v, form, ok := in.before(ctx, scope.Step, out.key); ok {
			return outcome{value: v, form: form, key: out.key, kept: true}, nil
		}
	}
	var err error
	if out.value, err = in.retrying(ctx, scope, s, item, index); err != nil {
		return outcome{}, err
	}
	out.files = in.run.filesOf(scope.Step).digests()
	return in.keep(ctx, out, s.Name)
}

// keep makes the outcome's value what dependents get: through the journal's
// form.
func (in *inst) keep(ctx context.Context, out outcome, name string) (outcome, error) {
	var err error
	if out.form, err = in.run.codec.Encode(out.value); err != nil {
		return outcome{}, fault.Wrap("keeping the result of", name, err)
	}
	out.value, err = in.run.codec.Decode(ctx, out.form)
	return out, err
}

// before returns the result that an earlier process of this run had at path,
// if it is still what the step would give.
func (in *inst) before(ctx context.Context, path, key string) (starlark.Value, []byte, bool) {
	if in.run.opts.Finished == nil || key == "" {
		return nil, nil, false
	}
	f := in.run.opts.Finished(path)
	if f == nil || f.Key != key {
		return nil, nil, false
	}
	for name, digest := range f.Files {
		content, err := readFile(in.run.engine.layers, name)
		if err != nil || digestOf(content) != digest {
			return nil, nil, false
		}
	}
	v, err := in.run.codec.Decode(ctx, f.Value)
	if err != nil {
		return nil, nil, false // a secret whose source is gone, say: the step can be run again
	}
	return v, f.Value, true
}

// key returns a text that is the same for two runs of a step if its code, and
// all that it is given, are: an HMAC, since secrets are part of that. It is
// empty for a step that is given what isn't data.
func (in *inst) key(ctx context.Context, s *Step, item starlark.Value, index int) string {
	code, err := s.Digest(in.run.engine.loader)
	if err != nil {
		return ""
	}
	given := starlark.Tuple{in.inputs, in.run.opts.Site.Values, item, starlark.MakeInt(index)}
	for _, name := range s.calls() {
		if n := in.nodes[name]; n != nil {
			given = append(given, starlark.String(name), n.value)
		}
	}
	form, err := effect.Codec{Vault: plainVault{}}.Encode(given)
	if err != nil {
		return ""
	}
	mac := hmac.New(sha256.New, in.run.opts.KeySecret)
	fmt.Fprintf(mac, "%s\n%q\n%s\n%q\n", in.run.opts.Version, in.owner, code, form)
	return "hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))
}

// calls returns the names of the steps whose results the step's function, and
// those that it wraps, are called with.
func (s *Step) calls() []string {
	var names []string
	for ; s != nil; s = s.original {
		names = append(names, params(s.Fn)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// plainVault stores secrets as they are, for what is only digested.
type plainVault struct{}

func (plainVault) Seal(s *effect.Secret) (string, error) { return s.Reveal(), nil }
func (plainVault) Open(context.Context, string) (*effect.Secret, error) {
	return nil, fault.New(fault.Internal, "a digested secret can't be opened")
}

// readFiles are the files that a step read, with their digests.
type readFiles struct {
	mu   sync.Mutex
	seen map[string]string
}

func (r *readFiles) add(name string, content []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = make(map[string]string)
	}
	r.seen[name] = digestOf(content)
}

func (r *readFiles) digests() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// filesOf returns the files that the step, or item, at path reads.
func (x *run) filesOf(path string) *readFiles {
	r, _ := x.files.LoadOrStore(path, new(readFiles))
	return r.(*readFiles)
}
