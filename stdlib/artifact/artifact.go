// Package artifact is the module through which recipes fetch files: manifests,
// images, programs. Each is pinned by digest in the site's lock.
package artifact

import (
	"context"
	"errors"
	"sync"

	client "git.vanillacore.net/govstack/gsrun/internal/client/artifact"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Config says where files come from. The zero Config only gives the texts.
type Config struct {
	Lock          *client.Lock // what the site has pinned
	Mirror        string       // base URL of a mirror; empty means upstream itself
	Cache         string       // folder of fetched files
	AllowUnlocked bool         // fetch what isn't pinned: for `gsrun vendor` alone
	MaxSize       int64        // largest file in bytes; 0 means 8 GiB
	// Fetched is told of every fetched file; nil means nobody is. `gsrun
	// vendor` records from it what a recipe asks for.
	Fetched func(client.File)
}

// A Fetcher is one run's instance of the module.
type Fetcher struct {
	client  *client.Client
	fetched func(client.File)

	mu sync.Mutex // calls Fetched one at a time
}

// Close ends the connections that are kept open.
func (f *Fetcher) Close() error {
	if f.client == nil {
		return nil
	}
	f.client.CloseIdle()
	return nil
}

func newFetcher(c Config) *Fetcher {
	f := &Fetcher{fetched: c.Fetched}
	if c.Cache == "" {
		return f
	}
	f.client = &client.Client{Lock: c.Lock, Mirror: c.Mirror, Cache: c.Cache, AllowUnlocked: c.AllowUnlocked, MaxSize: c.MaxSize,
		Progress: func(ctx context.Context, url string, done, total int64) {
			if total > 0 {
				effect.Progressf(ctx, "fetching %s: %d of %d MiB", url, done>>20, total>>20)
				return
			}
			effect.Progressf(ctx, "fetching %s: %d MiB", url, done>>20)
		}}
	return f
}

var errNoCache = errors.New("this site has no cache folder for artifacts")

// Module returns the module.
func Module(c Config) *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "artifact",
		Doc: "Files from elsewhere: manifests, images, programs. Each is pinned by its SHA-256 in the site's `gsrun.lock`, " +
			"which `gsrun vendor` writes; what isn't pinned, or differs, is refused. A site may name a mirror, from which https://HOST/PATH is fetched as MIRROR/HOST/PATH.",
		Recv:  newFetcher(c),
		Funcs: []builtin.Func{fetch()},
		Types: []*builtin.Type{fileType()},
	})
}
