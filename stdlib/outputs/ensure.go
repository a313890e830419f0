package outputs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type ensureArgs struct {
	Name  string      `star:"name,required" doc:"Name of the file, without .json."`
	Facts effect.Data `star:"facts,required" doc:"A dict or struct of data; nothing in it is secret."`
	Part  string      `star:"part" doc:"Name of the part of the file that holds them: the other parts stay, so that several recipes write one file. Empty means all of the file."`
}

func ensure() builtin.Func {
	return builtin.Of(builtin.Spec[*Outputs, ensureArgs]{
		Name:    "ensure",
		Doc:     "Have a file, or a part of it, hold these facts and no others. Keys are sorted.",
		Returns: "struct(file)",
		Example: `outputs.ensure("infrastructure-outputs", {"address": vm.address, "server": vm.id}, part = "gateway")`,
		Effect:  builtin.Changes,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, o *Outputs, a ensureArgs) (any, error) {
			if err := o.check(a.Name, a.Part); err != nil {
				return nil, err
			}
			facts, ok := a.Facts.V.(map[string]any)
			if !ok {
				return nil, fault.Hinted(fault.Invalid, "pass a dict or a struct", "outputs %s: the facts have no names", a.Name)
			}
			w := &written{o: o, file: file(ctx, a.Name), part: a.Part, facts: facts}
			if err := w.check(ctx); err != nil {
				return nil, err
			}
			return effect.Do(ctx, w)
		},
	})
}

// written is the op that makes a file, or a part of it, hold facts.
type written struct {
	o          *Outputs
	file, part string
	facts      map[string]any
}

// check returns an error if the facts hold a secret, or what isn't JSON.
func (w *written) check(ctx context.Context) error {
	var redactor *effect.Redactor
	if s := effect.From(ctx); s != nil {
		redactor = s.Door.Redactor
	}
	at, why := flaw(w.facts, redactor, "")
	switch why {
	case "":
		return nil
	case isSecret:
		return fault.Hinted(fault.Invalid, "leave it out: anybody may read the file; a secret has its place in the site's store or in a cluster",
			"%s: %s is secret, or holds a secret", w.Target(), at)
	}
	return fault.New(fault.Invalid, "%s: %s is %s, which JSON doesn't have", w.Target(), at, why)
}

const isSecret = "secret"

// flaw returns the first thing in x, by its place, that can't be written, and
// why.
func flaw(x any, r *effect.Redactor, path string) (at, why string) {
	switch x := x.(type) {
	case *effect.Secret:
		return path, isSecret
	case string:
		if r.String(x) != x {
			return path, isSecret
		}
	case []byte:
		return path, "bytes"
	case float64:
		if _, err := json.Marshal(x); err != nil {
			return path, fmt.Sprint(x)
		}
	case []any:
		for i, v := range x {
			if at, why := flaw(v, r, fmt.Sprintf("%s[%d]", path, i)); why != "" {
				return at, why
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if r.String(k) != k {
				return "a key below " + path, isSecret
			}
			if at, why := flaw(x[k], r, strings.TrimPrefix(path+"."+k, ".")); why != "" {
				return at, why
			}
		}
	}
	return "", ""
}

func (w *written) Target() effect.Target { return target(w.file, w.part) }

func (w *written) Observe(context.Context) (effect.State, error) {
	text, found, err := w.o.folder.Read(w.file)
	if err != nil || !found {
		return effect.State{}, err
	}
	all, err := decode(text)
	if err != nil { // it is written anew
		return effect.State{Exists: true, Attrs: w.attrs()}, nil
	}
	if w.part == "" {
		return effect.State{Exists: true, Attrs: w.attrs(), Raw: all}, nil
	}
	have, found := all[w.part]
	if !found {
		return effect.State{}, nil
	}
	return effect.State{Exists: true, Attrs: w.attrs(), Raw: have}, nil
}

func (w *written) attrs() map[string]any { return map[string]any{"file": w.file} }

func (w *written) Diff(st effect.State) (effect.Change, error) {
	have, ok := st.Raw.(map[string]any)
	c := effect.Change{Kind: effect.Update, Fields: effect.Compare(w.facts, have), After: w.attrs()}
	switch {
	case !st.Exists:
		c.Kind = effect.Create
	case !ok:
		c.Note = "what is there is no JSON object"
	default:
		for _, k := range slices.Sorted(maps.Keys(have)) {
			if _, kept := w.facts[k]; !kept {
				c.Fields = append(c.Fields, effect.Field{Path: k, Old: have[k]})
			}
		}
		if len(c.Fields) == 0 {
			return effect.Unchanged(), nil
		}
	}
	return c, nil
}

func (w *written) Apply(context.Context, effect.Change) (effect.State, error) {
	return effect.State{Exists: true, Attrs: w.attrs()}, w.put(w.facts)
}

// put writes facts in place of those that are there; nil means that there are
// none.
func (w *written) put(facts map[string]any) error {
	return w.o.folder.Change(w.file, func(text []byte) ([]byte, error) {
		if w.part != "" {
			all, err := decode(text)
			if err != nil {
				all = make(map[string]any)
			}
			if delete(all, w.part); facts != nil {
				all[w.part] = facts
			}
			facts = all
		}
		if len(facts) == 0 && w.part != "" || facts == nil {
			return nil, nil
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(facts); err != nil {
			return nil, &fault.Error{Op: "writing", Target: w.file, Kind: fault.Internal, Err: err}
		}
		return b.Bytes(), nil
	})
}

// Undo returns the file, or the part, as something to delete.
func (w *written) Undo(effect.State) effect.Owned {
	return effect.Owned{Target: w.Target(), Rank: effect.RankKept, Delete: forgetting{w}}
}

var _ effect.Safe = (*Outputs)(nil)

// Kept returns what a journal calls target as something to delete.
func (o *Outputs) Kept(target string) (effect.Owned, bool) {
	name, ok := strings.CutPrefix(target, scope+"/")
	if !ok || o.folder == "" {
		return effect.Owned{}, false
	}
	file, part, ok := strings.Cut(name, extension)
	if !ok {
		return effect.Owned{}, false
	}
	return (&written{o: o, file: file + extension, part: strings.TrimPrefix(part, "/")}).Undo(effect.State{}), true
}

// A forgetting is the op that deletes a file, or a part of one.
type forgetting struct{ *written }

func (f forgetting) Diff(have effect.State) (effect.Change, error) {
	if !have.Exists {
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Delete}, nil
}

func (f forgetting) Apply(context.Context, effect.Change) (effect.State, error) {
	return effect.State{}, f.put(nil)
}

// decode returns the facts that a file holds.
func decode(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var facts map[string]any
	if err := d.Decode(&facts); err != nil {
		return nil, &fault.Error{Op: "reading", Kind: fault.Invalid, Err: fmt.Errorf("it is no JSON object: %w", err), Hint: "run the recipe that writes it again"}
	}
	return whole(facts).(map[string]any), nil
}

// whole turns numbers into those that recipes have.
func whole(x any) any {
	switch x := x.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, err := x.Float64()
		if err != nil {
			return x.String()
		}
		return f
	case []any:
		for i, v := range x {
			x[i] = whole(v)
		}
	case map[string]any:
		for k, v := range x {
			x[k] = whole(v)
		}
	}
	return x
}
