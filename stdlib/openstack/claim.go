package openstack

import (
	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

var _, _, _ effect.Claimer = (*ensureOp)(nil), (*serverOp)(nil), (*imageOp)(nil)

// Claims returns what the op wants of its resource.
func (o *ensureOp) Claims() []effect.Claim { return claimsOf(o.fields) }

// Claims returns what the op wants of its server. Networks and ports are among
// those that it has: others may want more.
func (o *serverOp) Claims() []effect.Claim {
	var fields []field
	for _, f := range o.fields {
		if f.attr != "networks" && f.attr != "ports" {
			fields = append(fields, f)
		}
	}
	return append(claimsOf(fields), entries("metadata", merged(nil, o.args.Metadata))...)
}

// Claims returns what the op wants of its image.
func (o *imageOp) Claims() []effect.Claim {
	return append(claimsOf(o.fields()), entries("properties", merged(nil, o.args.Properties))...)
}

// claimsOf returns what fields claim. What is wanted beside what is there is
// no claim to all of it.
func claimsOf(fields []field) []effect.Claim {
	var out []effect.Claim
	for _, f := range fields {
		switch {
		case f.attr == "":
		case f.over != nil:
			if m, ok := f.send.(client.Object); ok {
				out = append(out, entries(f.attr, m)...)
			}
		case f.known() && !effect.HoldsSecret(f.want):
			out = append(out, effect.Claim{Path: f.attr, Value: f.want, Same: f.same})
		}
	}
	return out
}

// entries claims each entry of a map by itself.
func entries(attr string, m map[string]any) []effect.Claim {
	var out []effect.Claim
	for k, v := range m {
		if known(v) && !effect.HoldsSecret(v) {
			out = append(out, effect.Claim{Path: attr + "." + k, Value: v})
		}
	}
	return out
}
