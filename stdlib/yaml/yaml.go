// Package yaml is the module that encodes and decodes YAML.
package yaml

import "git.vanillacore.net/govstack/gsrun/runtime/builtin"

// maxDepth bounds nested values.
const maxDepth = 100

// Module returns the module.
func Module() *builtin.Module {
	return builtin.NewModule(builtin.Module{
		Name: "yaml",
		Doc: "YAML 1.2. Dicts keep their order, in both directions; the same value gives the same text. Text made from a secret is secret, and text made from a value that isn't known yet " +
			"isn't known either; what is decoded from a secret has its texts secret.",
		Funcs: []builtin.Func{encode(), encodeAll(), decode(), decodeAll()},
	})
}
