// Package yaml is the module that encodes and decodes YAML.
package yaml

import (
	"context"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// Config is empty: the module needs nothing.
type Config struct{}

// maxDepth bounds nested values.
const maxDepth = 100

// Module returns the module.
func Module(Config) *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "yaml",
		Doc: "YAML 1.2. Dicts keep their order, in both directions; the same value gives the same text. Text made from a secret is secret, and text made from a value that isn't known yet " +
			"isn't known either; what is decoded from a secret has its texts secret.",
		Funcs: []builtin.Func{encode(), encodeAll(), decode(), decodeAll()},
	})
}

// derived returns plain, which was made from a secret, as a secret. One that
// is too short to be kept out of every output still shows as stars itself.
func derived(ctx context.Context, plain string) *effect.Secret {
	s, err := effect.NewSecret(ctx, plain, "")
	if err != nil {
		return effect.SecretOf(plain, "")
	}
	return s
}
