package artifact

import (
	"context"
	"fmt"

	client "git.vanillacore.net/govstack/gsrun/internal/client/artifact"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type fetchArgs struct {
	URL string `star:"url,required" doc:"Upstream URL, https://HOST/PATH, as it stands in the lock; also where a mirror is used."`
}

func fetch() builtin.Func {
	return builtin.Of(builtin.Spec[*Fetcher, fetchArgs]{
		Name: "fetch",
		Doc: "Fetch a file and check its digest. It is kept in the site's cache by its digest, so that a second run fetches nothing. " +
			"A plan fetches too: nothing outside the cache changes.",
		Returns: "artifact.file",
		Example: `manifest = artifact.fetch("https://github.com/cert-manager/cert-manager/releases/download/v1.20.3/cert-manager.yaml")
objects = yaml.decode_all(manifest.text())`,
		Effect: builtin.Reads,
		Errors: []fault.Kind{fault.Invalid, fault.Untrusted, fault.NotFound, fault.Denied, fault.Limit, fault.Unreachable, fault.Unavailable},
		Run: func(ctx context.Context, f *Fetcher, a fetchArgs) (any, error) {
			if f == nil || f.client == nil {
				return nil, fault.Hinted(fault.Invalid, "name one in the site", "fetching %s: %w", a.URL, errNoCache)
			}
			q := effect.Query{Target: effect.Target{Scope: "artifact", Name: a.URL}}
			got, err := effect.Read(ctx, q, func(ctx context.Context) (client.File, error) { return f.client.Fetch(ctx, a.URL) })
			if err != nil {
				return nil, err
			}
			file, ok := got.(client.File)
			if !ok {
				return got, nil
			}
			if f.fetched != nil {
				f.mu.Lock()
				f.fetched(file)
				f.mu.Unlock()
			}
			return &File{file}, nil
		},
	})
}

// A File is a fetched file.
type File struct{ client.File }

// Attrs returns the file as data.
func (f *File) Attrs() map[string]any {
	return map[string]any{"url": f.URL, "path": f.Path, "sha256": f.SHA256, "size": f.Size}
}

func (f *File) String() string { return fmt.Sprintf("%s, sha256:%.12s", f.URL, f.SHA256) }

func fileType() *builtin.Type {
	return &builtin.Type{
		Name: "artifact.file",
		Doc:  "A fetched file. It may be given wherever a primitive takes one: an image to upload, a program to install. Beyond its step it is data, without methods.",
		Of:   builtin.TypeOf[*File](),
		Attrs: []builtin.Attr{
			{Name: "url", Type: "str", Doc: "Where it comes from upstream."},
			{Name: "path", Type: "str", Doc: "The local copy, which is not to be changed."},
			{Name: "sha256", Type: "str", Doc: "Its digest, in hex."},
			{Name: "size", Type: "int", Doc: "Its size in bytes."},
		},
		Methods: []builtin.Func{text()},
	}
}
