package kube

import (
	"context"
	"fmt"
	"strings"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// manager is who owns the fields that gsrun applies.
const manager = "gsrun"

// An applyOp makes one object what is wanted.
type applyOp struct {
	c        *Cluster
	it       *item
	force    bool
	foreseen *effect.State // what was observed beforehand
}

// A sight is what an applyOp sees of its object.
type sight struct {
	live    *kubeclient.Object      // nil if it isn't there
	differs []kubeclient.Difference // what an apply would change
	note    string                  // what couldn't be asked
	foreign string                  // the owner, if that is somebody else
}

func (op *applyOp) Target() effect.Target {
	return op.c.target(op.it.kind.String(), op.it.object.GetNamespace(), op.it.object.GetName())
}

// Addresses returns that of the cluster's API server.
func (op *applyOp) Addresses() []string {
	if !op.c.known() {
		return nil
	}
	client, err := op.c.client()
	if err != nil {
		return nil // whoever uses it is told
	}
	return addressesOf(client)
}

func (op *applyOp) Observe(ctx context.Context) (effect.State, error) {
	if st := op.foreseen; st != nil {
		op.foreseen = nil
		return *st, nil
	}
	client, err := op.c.client()
	if err != nil {
		return effect.State{}, err
	}
	it := op.it
	if it.unknown && !planning(ctx) {
		return effect.State{}, fault.New(fault.Internal, "%s holds a value that isn't known, though this is no plan", it.origin)
	}
	if !it.served {
		k, err := client.Kind(ctx, it.object.GroupVersionKind())
		switch {
		case err == nil:
			it.kind, it.served = k, true
		case planning(ctx) && fault.KindOf(err) == fault.NotFound:
			return effect.State{Raw: &sight{note: "the cluster doesn't serve " + it.kind.String() + " yet"}}, nil
		default:
			return effect.State{}, err
		}
	}
	live, err := client.Get(ctx, it.kind, it.object.GetNamespace(), it.object.GetName())
	if fault.KindOf(err) == fault.NotFound {
		return op.observeNew(ctx, client)
	}
	if err != nil {
		return effect.State{}, err
	}
	if gone := kubeclient.Deletion(live); gone != "" {
		if planning(ctx) {
			return effect.State{Raw: &sight{note: "what has the name is " + gone}}, nil
		}
		return effect.State{}, fault.New(fault.Conflict, "it is %s", gone)
	}
	s := &sight{live: live}
	if owner := live.GetAnnotations()[ownerAnnotation]; owner != "" && owner != it.owner && !op.force {
		s.foreign = owner
	} else if err := op.compare(ctx, client, s); err != nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: it.attrs(string(s.live.GetUID())), Raw: s}, nil
}

// observeNew has the API server check an object that isn't there, so that a plan
// shows a refusal. A run that applies is told soon enough.
func (op *applyOp) observeNew(ctx context.Context, client *kubeclient.Client) (effect.State, error) {
	if !planning(ctx) || op.it.unknown {
		return effect.State{Raw: &sight{}}, nil
	}
	_, err := client.Apply(ctx, op.it.kind, op.it.object, kubeclient.Options{Manager: manager, Force: op.force, DryRun: true})
	switch {
	case err == nil:
		return effect.State{Raw: &sight{}}, nil
	case kubeclient.NamespaceMissing(err):
		return effect.State{Raw: &sight{note: "its namespace isn't there yet"}}, nil
	case kubeclient.LacksRight(err), fault.KindOf(err) == fault.Unavailable:
		return effect.State{Raw: &sight{note: "not asked: " + err.Error()}}, nil
	}
	return effect.State{}, err
}

// compare finds out what an apply would change in s.live, which a dry run tells.
func (op *applyOp) compare(ctx context.Context, client *kubeclient.Client, s *sight) error {
	for {
		want := op.it.object
		var open []kubeclient.Difference
		if op.it.unknown {
			want, open = known(want, s.live)
		}
		got, err := client.Apply(ctx, op.it.kind, want, kubeclient.Options{Manager: manager, Force: op.force, DryRun: true})
		switch {
		case planning(ctx) && (kubeclient.LacksRight(err) || fault.KindOf(err) == fault.Unavailable):
			// What can't be asked is compared as far as it is given.
			s.differs, s.note = append(kubeclient.Lacks(s.live, want), open...), "not asked: "+err.Error()
			return nil
		case err != nil:
			return err
		}
		s.differs = append(kubeclient.Compare(s.live, got), open...)
		if len(s.differs) == 0 || got.GetResourceVersion() == s.live.GetResourceVersion() {
			return nil
		}
		// Somebody else changed the object after it was read: what they did
		// isn't what the apply would do.
		if s.live, err = client.Get(ctx, op.it.kind, want.GetNamespace(), want.GetName()); err != nil {
			if fault.KindOf(err) == fault.NotFound {
				err = &fault.Error{Kind: fault.Conflict, Err: err}
			}
			return err
		}
	}
}

func (op *applyOp) Diff(st effect.State) (effect.Change, error) {
	s := st.Raw.(*sight)
	if !st.Exists {
		return effect.Change{Kind: effect.Create, Fields: op.fields(kubeclient.Leaves(op.it.object)), Note: s.note,
			After: op.it.attrs(effect.Unknown{Of: op.it.String() + " uid"})}, nil
	}
	if s.foreign != "" {
		return effect.Change{}, fault.Hinted(fault.Exists, "give it another name, leave it to its owner, or take it over with force = True",
			"it belongs to %q, and this is %q", s.foreign, op.it.owner)
	}
	if len(s.differs) == 0 {
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Update, Fields: op.fields(s.differs), Note: s.note, After: st.Attrs}, nil
}

func (op *applyOp) Apply(ctx context.Context, _ effect.Change) (effect.State, error) {
	client, err := op.c.client()
	if err != nil {
		return effect.State{}, err
	}
	got, err := client.Apply(ctx, op.it.kind, op.it.object, kubeclient.Options{Manager: manager, Force: op.force})
	if err != nil {
		if kubeclient.NamespaceMissing(err) {
			return effect.State{}, &fault.Error{Kind: fault.NotFound, Err: err, Hint: "apply the namespace too, or before"}
		}
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: op.it.attrs(string(got.GetUID())), Raw: &sight{live: got}}, nil
}

// fields returns differences as a plan shows them: without secrets.
func (op *applyOp) fields(differs []kubeclient.Difference) []effect.Field {
	const shown = 100
	out := make([]effect.Field, 0, min(len(differs), shown))
	left := 0
	for _, d := range differs {
		// Nobody reviews a CRD's schema field by field when it is new.
		if len(out) == shown || d.Old == nil && strings.Contains(d.Path, ".schema.openAPIV3Schema.") {
			left++
			continue
		}
		f := effect.Field{Path: d.Path, Old: d.Old, New: d.New}
		if op.hides(d) {
			f.Old, f.New = masked(f.Old), masked(f.New)
		}
		out = append(out, f)
	}
	if left > 0 {
		out = append(out, effect.Field{Path: "...", New: fmt.Sprintf("%d more", left)})
	}
	return out
}

func masked(v any) any {
	switch v.(type) {
	case nil, effect.Unknown:
		return v
	}
	return effect.Mask
}

// hides reports whether a difference may show a secret: what a Secret holds, and
// what a secret of the recipe went into.
func (op *applyOp) hides(d kubeclient.Difference) bool {
	if op.it.hidden {
		return true
	}
	if op.it.kind.GroupKind() == secretKind {
		for _, field := range []string{"data", "stringData"} {
			if rest, ok := strings.CutPrefix(d.Path, field); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				return true
			}
		}
	}
	for _, v := range []any{d.Old, d.New} {
		for _, s := range op.it.secrets {
			if mentions(v, s) {
				return true
			}
		}
	}
	return false
}

// mentions reports whether a text within v holds secret.
func mentions(v any, secret string) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, secret)
	case map[string]any:
		for _, e := range v {
			if mentions(e, secret) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if mentions(e, secret) {
				return true
			}
		}
	}
	return false
}

// known returns want with the values of live where those of want aren't known
// yet, and these as differences. What live lacks is left out.
func known(want, live *kubeclient.Object) (*kubeclient.Object, []kubeclient.Difference) {
	var open []kubeclient.Difference
	var fill func(path string, w, l any) (any, bool)
	fill = func(path string, w, l any) (any, bool) {
		switch w := w.(type) {
		case effect.Unknown:
			open = append(open, kubeclient.Difference{Path: strings.TrimPrefix(path, "."), Old: l, New: w})
			return l, l != nil
		case map[string]any:
			old, _ := l.(map[string]any)
			out := make(map[string]any, len(w))
			for k, e := range w {
				if x, ok := fill(path+"."+k, e, old[k]); ok {
					out[k] = x
				}
			}
			return out, true
		case []any:
			old, _ := l.([]any)
			out := make([]any, 0, len(w))
			for i, e := range w {
				var have any
				if i < len(old) {
					have = old[i]
				}
				if x, ok := fill(fmt.Sprintf("%s[%d]", path, i), e, have); ok {
					out = append(out, x)
				}
			}
			return out, true
		}
		return w, true
	}
	data, _ := fill("", want.Object, live.Object)
	return &kubeclient.Object{Object: data.(map[string]any)}, open
}
