package secret

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// minRandomBits is the least entropy of a generated secret.
const minRandomBits = 64

type generateArgs struct {
	Name     string `star:"name,required" doc:"Name of the secret, unique in the site."`
	Length   int    `star:"length" doc:"Number of characters, when it is made."`
	Alphabet string `star:"alphabet" doc:"Characters to choose from, when it is made; ASCII, each once."`
}

func generate() builtin.Func {
	return builtin.Of(builtin.Spec[*Secrets, generateArgs]{
		Name: "generate",
		Doc: "Make a random secret once, and return the same one ever after. It is kept encrypted in the site's store; length and alphabet count only when it is made. " +
			"To rotate it, delete the file secrets/secret/NAME.age in the state folder and run the recipe again: a new one is made, and goes where the recipe puts it.",
		Returns:  "secret",
		Example:  `password = secret.generate("argocd_admin", length = 24)`,
		Effect:   builtin.Changes,
		Errors:   []fault.Kind{fault.Invalid},
		Defaults: generateArgs{Length: 32, Alphabet: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"},
		Run: func(ctx context.Context, s *Secrets, a generateArgs) (any, error) {
			if s == nil || s.store == nil {
				return nil, fault.Hinted(fault.Invalid, "name a store and age recipients in site.yaml", "secret %q can't be kept: the site has no store", a.Name)
			}
			if err := a.check(); err != nil {
				return nil, err
			}
			st, err := effect.Do(ctx, &generated{s: s, args: a})
			if err != nil {
				return nil, err
			}
			return st.Attrs["value"], nil
		},
	})
}

func (a generateArgs) check() error {
	seen := make(map[rune]bool)
	for _, r := range a.Alphabet {
		if r < ' ' || r > '~' || seen[r] {
			return fault.New(fault.Invalid, "secret %q: the alphabet must be printable ASCII, each character once; %q isn't", a.Name, r)
		}
		seen[r] = true
	}
	if a.Length < effect.MinSecret || a.Length > 4096 {
		return fault.New(fault.Invalid, "secret %q: the length must be %d to 4096, not %d", a.Name, effect.MinSecret, a.Length)
	}
	space := new(big.Int).Exp(big.NewInt(int64(len(seen))), big.NewInt(int64(a.Length)), nil)
	if space.BitLen() <= minRandomBits {
		return fault.Hinted(fault.Invalid, "use more characters", "secret %q could be guessed: %d characters out of %d give fewer than %d bits",
			a.Name, a.Length, len(seen), minRandomBits)
	}
	return nil
}

// generated is the op that makes a secret unless it is there.
type generated struct {
	s    *Secrets
	args generateArgs
}

func (g *generated) Target() effect.Target {
	return effect.Target{Scope: "secret", Name: g.args.Name}
}

func (g *generated) Observe(ctx context.Context) (effect.State, error) {
	v, found, err := g.s.store.Get(ctx, client.Generated(g.args.Name))
	if err != nil || !found {
		return effect.State{}, err
	}
	return g.state(ctx, string(v))
}

func (g *generated) state(ctx context.Context, plain string) (effect.State, error) {
	s, err := effect.NewSecret(ctx, plain, effect.Ref("store:"+client.Generated(g.args.Name)))
	if err != nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: map[string]any{"value": s}}, nil
}

func (g *generated) Diff(have effect.State) (effect.Change, error) {
	if have.Exists {
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Create, After: map[string]any{"value": effect.Unknown{Of: g.Target().String()}}}, nil
}

func (g *generated) Apply(ctx context.Context, _ effect.Change) (effect.State, error) {
	g.s.making.Lock()
	defer g.s.making.Unlock()
	// Another step may have made it since.
	if st, err := g.Observe(ctx); err != nil || st.Exists {
		return st, err
	}
	plain, err := random(g.args.Length, g.args.Alphabet)
	if err != nil {
		return effect.State{}, err
	}
	kept, _, err := g.s.store.Create(ctx, client.Generated(g.args.Name), []byte(plain))
	if err != nil {
		return effect.State{}, err
	}
	return g.state(ctx, string(kept))
}

// Undo returns the secret as something to delete.
func (g *generated) Undo(effect.State) effect.Owned {
	return effect.Owned{Target: g.Target(), Rank: effect.RankKept, Credential: true, Delete: forgetting{g}}
}

var _ effect.Safe = (*Secrets)(nil)

// Kept returns the generated secret of that target as something to delete.
func (s *Secrets) Kept(target string) (effect.Owned, bool) {
	name, ok := strings.CutPrefix(target, "secret/")
	if !ok || s.store == nil {
		return effect.Owned{}, false
	}
	return (&generated{s: s, args: generateArgs{Name: name}}).Undo(effect.State{}), true
}

// A forgetting is the op that deletes a secret.
type forgetting struct{ *generated }

func (f forgetting) Observe(ctx context.Context) (effect.State, error) {
	_, found, err := f.s.store.Get(ctx, client.Generated(f.args.Name))
	return effect.State{Exists: found}, err
}

func (f forgetting) Diff(have effect.State) (effect.Change, error) {
	if !have.Exists {
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Delete}, nil
}

func (f forgetting) Apply(ctx context.Context, _ effect.Change) (effect.State, error) {
	return effect.State{}, f.s.store.Delete(ctx, client.Generated(f.args.Name))
}

// random returns n characters of the alphabet, each as likely as the others.
func random(n int, alphabet string) (string, error) {
	out := make([]byte, n)
	size := big.NewInt(int64(len(alphabet)))
	for i := range out {
		k, err := rand.Int(rand.Reader, size)
		if err != nil {
			return "", &fault.Error{Op: "generating a secret", Kind: fault.Failed, Err: fmt.Errorf("no random numbers: %w", err)}
		}
		out[i] = alphabet[k.Int64()]
	}
	return string(out), nil
}
