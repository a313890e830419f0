package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	artifactclient "git.vanillacore.net/govstack/gsrun/internal/client/artifact"
	secretclient "git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/site"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
	"git.vanillacore.net/govstack/gsrun/stdlib"
	"git.vanillacore.net/govstack/gsrun/stdlib/secret"
)

// textEngine returns an engine that loads recipes and runs none: its modules
// reach nothing.
func textEngine(src source) *runtime.Engine {
	return runtime.New(runtime.Config{Layers: src.layers, Modules: stdlib.Modules(stdlib.Env{})})
}

// session is what a verb that runs a recipe works with.
type session struct {
	site    *site.Site
	engine  *runtime.Engine
	recipe  *runtime.Recipe
	source  string // what finds the recipe again: a file's absolute path, else its name
	modules []*builtin.Module
	secrets secret.Config
	vault   effect.Vault
	store   *journal.Store      // of a run; a plan keeps nothing
	kept    *secretclient.Store // secrets that gsrun made for the site
}

// open puts together the stores, modules and engine for a recipe of a site.
func (a *app) open(s *site.Site, src source) (*session, error) {
	env, vault, err := a.environment(s)
	if err != nil {
		return nil, err
	}
	x := &session{site: s, source: src.name, modules: stdlib.Modules(env), secrets: secretsOf(env), vault: vault, kept: env.Generated.(*secretclient.Store)}
	x.engine = runtime.New(runtime.Config{Layers: src.layers, Modules: x.modules, MaxSteps: s.Limits.Steps})
	x.recipe, err = x.engine.Load(src.path)
	if err != nil {
		return nil, errors.Join(explain(x.engine, err), stdlib.Close(x.modules))
	}
	return x, nil
}

// environment returns what the modules of a run for the site work with.
func (a *app) environment(s *site.Site) (stdlib.Env, effect.Vault, error) {
	box, err := secretclient.ReadBox(s.Secrets.Recipients, s.Path(s.Secrets.Identity))
	if err != nil {
		return stdlib.Env{}, nil, err
	}
	sources := make(map[string]secretclient.Source)
	for name, spec := range s.Secrets.Sources {
		if sources[name], err = secretclient.ParseSource(name, spec); err != nil {
			return stdlib.Env{}, nil, fault.Wrap("", s.Declared()[name], err)
		}
	}
	lock, err := artifactclient.ReadLock(s.LockFile())
	if errors.Is(err, fs.ErrNotExist) {
		lock, err = artifactclient.NewLock(s.LockFile()), nil
	}
	if err != nil {
		return stdlib.Env{}, nil, err
	}
	cache, err := s.CacheDir()
	if err != nil {
		return stdlib.Env{}, nil, err
	}
	state := s.StateDir()
	clouds, fromEnv := s.CloudsFile()
	env := stdlib.Env{
		CloudsFile: clouds,
		CloudsEnv:  fromEnv,
		LookupEnv:  os.LookupEnv,
		Creates:    s.Limits.Creates,
		Interval:   s.Limits.Interval,
		Patience:   s.Limits.Patience,
		HostKeys:   journal.NewValues(filepath.Join(state, "hostkeys")),
		Generated:  secretclient.NewStore(filepath.Join(state, "secrets"), box),
		Sources:    sources,
		Declared:   s.Declared(),
		Readers:    secretclient.SiteReaders(s.Dir, os.LookupEnv, box),
		Lock:       lock,
		Mirror:     s.Artifacts.Mirror,
		Cache:      cache,
		Outputs:    s.OutputsDir(),
	}
	env.Readers["kubernetes"] = kubernetesSecrets(s.Dir, secretsOf(env))
	return env, secret.NewVault(secretsOf(env), box), nil
}

func secretsOf(env stdlib.Env) secret.Config {
	return secret.Config{Sources: env.Sources, Readers: env.Readers, Store: env.Generated, Declared: env.Declared}
}

// hide keeps the secrets of the site, and those that gsrun made for it, out of
// the outputs, those that this run doesn't ask for included: what it reads or
// is given may hold one.
func (x *session) hide(ctx context.Context, r *effect.Redactor) error {
	r.Publish(x.site.Name, x.recipe.Path)
	for _, path := range stepOrder(x.recipe, "") {
		r.Publish(path)
		r.Publish(strings.Split(path, "/")...)
	}
	door := &effect.Door{Clock: effect.SystemClock{}, Redactor: r}
	if err := x.secrets.Hide(effect.With(ctx, effect.NewScope(door, effect.Owner{Site: x.site.Name}, "", nil))); err != nil {
		return err
	}
	names, err := x.kept.List(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "/certificate") { // it is public
			continue
		}
		value, found, err := x.kept.Get(ctx, name)
		if err != nil {
			return err
		}
		if found && len(value) >= effect.MinSecret {
			r.Add(strings.TrimSpace(string(value)))
		}
	}
	return nil
}

// budget returns how many deletions a run may make.
func (x *session) budget(f *runFlags) int {
	if f.maxDeletes >= 0 {
		return f.maxDeletes
	}
	return x.site.Limits.Deletes
}

func (x *session) close() error { return stdlib.Close(x.modules) }

// newRunID returns an id that sorts by time.
func newRunID(now time.Time) (string, error) {
	b := make([]byte, 3)
	if _, err := rand.Read(b); err != nil {
		return "", &fault.Error{Op: "making an id for the run", Kind: fault.Internal, Err: err}
	}
	return now.UTC().Format("20060102-150405") + "-" + hex.EncodeToString(b), nil
}

// holder says who runs this process.
func holder() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s@%s pid %d", name, host, os.Getpid())
}

// lockRun takes the locks of a recipe, and of those that it uses, for a run.
func (x *session) lockRun(ctx context.Context, id string) (*journal.Locks, error) {
	if err := fault.FromContext(ctx); err != nil {
		return nil, err
	}
	return x.store.LockAll(journal.Holder{Site: x.site.Name, Run: id, Who: holder(), Since: time.Now()}, x.recipe.Owners(x.site.Name))
}
