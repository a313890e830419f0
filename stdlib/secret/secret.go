// Package secret is the module through which recipes get secrets, from the
// sources that a site declares, and the vault that the journal keeps them in.
package secret

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	client "git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Config says where secrets are. The zero Config only gives the texts.
type Config struct {
	// Sources is where each secret of the site is kept, by name.
	Sources map[string]client.Source
	// Readers reads the kinds of source. The kind "store" is added by the
	// module if there is a Store.
	Readers client.Readers
	// Store keeps what was generated. It encrypts.
	Store effect.Store
	// Declared is where the site declares each source, for messages: file and
	// line, by name.
	Declared map[string]string
}

// Lookup returns the source that ref names: the name of a secret of the site,
// or a kind and what follows it, as in env:NAME. The error doesn't hold ref,
// which may be a secret given by mistake.
func (c Config) Lookup(ref string) (client.Source, error) {
	if src, ok := c.Sources[ref]; ok {
		return src, nil
	}
	if src, ok := client.ParseRef(ref); ok {
		if _, known := c.readers()[src.Kind]; known {
			return src, nil
		}
	}
	return client.Source{}, fault.Hinted(fault.Invalid, "the value itself is never given, since others see it in the list of processes",
		"it takes the name of a secret of the site%s, or where one is: %s", among(c.Sources), strings.Join(c.readers().Kinds(), ":..., ")+":...")
}

func among(sources map[string]client.Source) string {
	if len(sources) == 0 {
		return ", which declares none"
	}
	return " (" + strings.Join(slices.Sorted(maps.Keys(sources)), ", ") + ")"
}

// Read returns the secret that ref names, see Lookup, as one of the run that
// ctx belongs to.
func (c Config) Read(ctx context.Context, ref string) (*effect.Secret, error) {
	src, err := c.Lookup(ref)
	if err != nil {
		return nil, err
	}
	s, err := c.ReadSource(ctx, src)
	return s, fault.Wrap("", c.Declared[ref], err)
}

// ReadSource returns what a source holds as a secret of the run that ctx
// belongs to.
func (c Config) ReadSource(ctx context.Context, src client.Source) (*effect.Secret, error) {
	plain, err := c.readers().Read(ctx, src)
	if err != nil {
		return nil, err
	}
	return effect.NewSecret(ctx, plain, effect.Ref(src.String()))
}

// declare makes a secret of what the source of the one called name holds. The
// error names the place at which the site declares it.
func declare(ctx context.Context, name, plain string, src client.Source, place string) (*effect.Secret, error) {
	if err := effect.Maskable(ctx, plain); err != nil {
		return nil, fault.Wrap("", place, fault.Wrap("", "secret "+name+" ("+src.String()+")", err))
	}
	return effect.NewSecret(ctx, plain, effect.Ref(src.String()))
}

// Hide keeps the secrets of the site out of the outputs of the run that ctx
// belongs to: those that can be had on this machine at no cost, whether the run
// asks for them or not, since what it reads or is given may hold one. One that
// isn't there is left to the step that asks for it; one that can't be hidden is
// an error.
func (c Config) Hide(ctx context.Context) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		src := c.Sources[name]
		if !src.Local() {
			continue
		}
		plain, err := c.readers().Read(ctx, src)
		if err != nil {
			continue
		}
		if _, err := declare(ctx, name, plain, src, c.Declared[name]); err != nil {
			errs = append(errs, &fault.Error{Kind: fault.KindOf(err), Hint: fault.HintOf(err),
				Err: fmt.Errorf("%w; each run of the site keeps all of its secrets out of its logs, those that its recipe doesn't use, too", err)})
		}
	}
	return errors.Join(errs...)
}

// readers returns c's readers with that of the store.
func (c Config) readers() client.Readers {
	all := maps.Clone(c.Readers)
	if all == nil {
		all = make(client.Readers)
	}
	if c.Store != nil {
		all["store"] = client.ReaderFunc(func(ctx context.Context, name string) ([]byte, error) {
			v, found, err := c.Store.Get(ctx, name)
			if err == nil && !found {
				err = fault.Hinted(fault.NotFound, "run the recipe that makes it", "nothing is stored as %s", name)
			}
			return v, err
		})
	}
	return all
}

// Secrets is one run's instance of the module.
type Secrets struct {
	sources  map[string]client.Source
	readers  client.Readers
	store    effect.Store
	declared map[string]string
	making   sync.Mutex // held while a secret is generated
}

// Module returns the module.
func Module(c Config) *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "secret",
		Doc: "Secrets: texts that show as `***` everywhere, and stay secret through `+`, `%`, `format` and templates. " +
			"The site declares where each is kept (`secrets:` in site.yaml): `{env: NAME}`, `{file: PATH}`, `{age: PATH}`, `{sops: PATH, key: A.B}`, " +
			"`{kubernetes: {kubeconfig: SECRET, namespace: NS, name: NAME, key: KEY}}`, or `store` for one that `secret.generate` makes. " +
			"Words that logs are full of, such as `password` or the site's name, can't be secrets.",
		Recv:  &Secrets{sources: c.Sources, readers: c.readers(), store: c.Store, declared: c.Declared},
		Funcs: []builtin.Func{get(), generate()},
	})
}

type getArgs struct {
	Name string `star:"name,required" doc:"Name of the secret, as the site declares it."`
}

func get() builtin.Func {
	return builtin.Of(builtin.Spec[*Secrets, getArgs]{
		Name:    "secret",
		Doc:     "Get a secret of the site by name. It has at least 8 bytes; shorter ones can't be kept out of logs. A newline at the end of a one-line secret is dropped.",
		Returns: "secret",
		Example: `token = secret("api_token")`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid, fault.NotFound, fault.Denied, fault.Untrusted},
		Run: func(ctx context.Context, s *Secrets, a getArgs) (any, error) {
			if s == nil {
				s = new(Secrets)
			}
			src, ok := s.sources[a.Name]
			if !ok {
				return nil, s.undeclared(a.Name)
			}
			q := effect.Query{Target: effect.Target{Scope: "secret", Name: a.Name}, Scope: "secret/" + a.Name}
			return effect.Read(ctx, q, func(ctx context.Context) (*effect.Secret, error) {
				plain, err := s.readers.Read(ctx, src)
				if err != nil {
					return nil, err
				}
				return declare(ctx, a.Name, plain, src, s.declared[a.Name])
			})
		},
	})
}

// undeclared says which secrets there are instead.
func (s *Secrets) undeclared(name string) error {
	names := slices.Sorted(maps.Keys(s.sources))
	if len(names) == 0 {
		return fault.Hinted(fault.Invalid, "declare it in site.yaml under `secrets:`", "the site declares no secrets, so there is no secret %q", name)
	}
	hint := "declare it in site.yaml under `secrets:`"
	if near := builtin.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "?"
	}
	return fault.Hinted(fault.Invalid, hint, "the site declares no secret %q; it declares %s", name, strings.Join(names, ", "))
}
