package runtime

import (
	"context"
	"maps"
	"strings"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// kindSecret is the kind of inputs that are secrets. On a command line, in
// site.yaml and as a default stands where the secret is, never the secret.
const kindSecret = "secret"

// SecretRefs returns the inputs of r among values that say where a secret is,
// by name.
func (r *Recipe) SecretRefs(values starlark.StringDict) map[string]string {
	refs := make(map[string]string)
	for _, in := range r.Inputs {
		if ref, ok := values[in.Name].(starlark.String); ok && in.Kind == kindSecret && ref != "" {
			refs[in.Name] = string(ref)
		}
	}
	return refs
}

// openSecrets returns inputs with the secrets that they say the place of.
func (in *inst) openSecrets(ctx context.Context, inputs starlark.StringDict) (starlark.StringDict, error) {
	refs := in.recipe.SecretRefs(inputs)
	if len(refs) == 0 {
		return inputs, nil
	}
	ctx = effect.With(ctx, effect.NewScope(in.run.opts.Door, in.owner, strings.TrimSuffix(in.prefix, "/"), in.needs))
	inputs = maps.Clone(inputs)
	for name, ref := range refs {
		if in.run.opts.Secret == nil {
			return nil, fault.New(fault.Invalid, "the input %s of %s is a secret, and there is none here", name, in.recipe.Path)
		}
		s, err := in.run.opts.Secret(ctx, ref)
		err = fault.Wrap("", "the input "+name+" of "+in.recipe.Path, err)
		if in.prefix == "" && fault.KindOf(err) == fault.NotFound {
			// What the run was given isn't there, and nothing was touched yet.
			err = fault.Hinted(fault.Invalid, fault.HintOf(err), "%v", err)
		}
		if err != nil {
			return nil, err
		}
		inputs[name] = s
	}
	return inputs, nil
}
