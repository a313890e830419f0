// Package hash is the module that computes digests.
package hash

import (
	"context"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Module returns the module.
func Module() *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "hash",
		Doc: "Digests, in lower-case hex. That of a secret is secret, for a short secret can be found from it; " +
			"that of a value that isn't known yet isn't known either.",
		Funcs: []builtin.Func{
			digest("sha256", "the SHA-256 digest", sha256.New),
			digest("sha512", "the SHA-512 digest", sha512.New),
			digest("sha1", "the SHA-1 digest, for what demands it: it is no longer safe", sha1.New),
			digest("md5", "the MD5 digest, for what demands it: it is no longer safe", md5.New),
			mac(), file(),
		},
	})
}

type digestArgs struct {
	X starlark.Value `star:"x,required" doc:"String, as UTF-8, or bytes."`
}

func digest(name, what string, algorithm func() hash.Hash) builtin.Func {
	return builtin.Of(builtin.Spec[any, digestArgs]{
		Name:    name,
		Doc:     "Compute " + what + " of a text.",
		Returns: "str: hex",
		Example: `digest = hash.` + name + `("some text")`,
		Effect:  builtin.Pure,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, _ any, a digestArgs) (any, error) {
			x, err := effect.TextOrBytes(a.X)
			if err != nil {
				return nil, fault.New(fault.Invalid, "hash.%s: %w", name, err)
			}
			return sum(ctx, algorithm(), x), nil
		},
	})
}

// sum returns the digest of x that h computes.
func sum(ctx context.Context, h hash.Hash, x effect.Text) starlark.Value {
	h.Write([]byte(x.Reveal()))
	return effect.OriginOf(x).Text(ctx, hex.EncodeToString(h.Sum(nil)))
}

type macArgs struct {
	Key       starlark.Value `star:"key,required" doc:"The key: string or bytes, mostly a secret."`
	X         starlark.Value `star:"x,required" doc:"What to authenticate: string or bytes."`
	Algorithm string         `star:"algorithm" doc:"sha256, sha512 or sha1."`
}

func mac() builtin.Func {
	return builtin.Of(builtin.Spec[any, macArgs]{
		Name:     "hmac",
		Doc:      "Compute a keyed digest (RFC 2104). It is secret only if what it authenticates is: the key can't be found from it.",
		Returns:  "str: hex",
		Example:  `signature = hash.hmac(secret("webhook_key"), "payload")`,
		Effect:   builtin.Pure,
		Errors:   []fault.Kind{fault.Invalid},
		Defaults: macArgs{Algorithm: "sha256"},
		Run: func(ctx context.Context, _ any, a macArgs) (any, error) {
			algorithm, ok := map[string]func() hash.Hash{"sha256": sha256.New, "sha512": sha512.New, "sha1": sha1.New}[a.Algorithm]
			if !ok {
				return nil, fault.New(fault.Invalid, "hash.hmac: algorithm %q is none of sha256, sha512, sha1", a.Algorithm)
			}
			key, err := effect.TextOrBytes(a.Key)
			if err != nil {
				return nil, fault.New(fault.Invalid, "hash.hmac: key: %w", err)
			}
			x, err := effect.TextOrBytes(a.X)
			if err != nil {
				return nil, fault.New(fault.Invalid, "hash.hmac: %w", err)
			}
			if !key.Known() {
				return key.Value(), nil
			}
			return sum(ctx, hmac.New(algorithm, []byte(key.Reveal())), x), nil
		},
	})
}

type fileArgs struct {
	Name string `star:"name,required" doc:"File of the recipes, such as files/nftables.conf."`
}

func file() builtin.Func {
	return builtin.Of(builtin.Spec[any, fileArgs]{
		Name:    "file",
		Doc:     "Compute the SHA-256 digest of a file that belongs to the recipes, found through the layers. That of a fetched file is its attribute sha256.",
		Returns: "str: hex",
		Example: `digest = hash.file("files/nftables.conf.tmpl")`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid, fault.NotFound},
		Run: func(ctx context.Context, _ any, a fileArgs) (any, error) {
			data, err := effect.ReadFile(ctx, a.Name)
			if err != nil {
				return nil, err
			}
			digest := sha256.Sum256(data)
			return hex.EncodeToString(digest[:]), nil
		},
	})
}
