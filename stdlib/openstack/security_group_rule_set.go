package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// rules are the parts of a security group. Those that this recipe made have
// its mark as description.
type rules struct {
	cloud *Cloud
	mark  string
	given any
	exact bool
	name  string // of the group, which rules may call it by; "" if it keeps one that isn't known here
	want  []rule
}

func (p *rules) prepare(ctx context.Context, cl *client.Client) error {
	p.want = nil
	list, ok := p.given.([]any)
	if !ok {
		return fault.New(fault.Invalid, "rules: got %s, want a list", show(p.given))
	}
	for i, v := range list {
		r, err := parseRule(v)
		if err != nil {
			return &fault.Error{Kind: fault.KindOf(err), Hint: fault.HintOf(err), Err: fmt.Errorf("rules[%d]: %w", i, err)}
		}
		if r.group && r.remote == p.name && p.name != "" {
			r.remote = self // it may not be there yet
		}
		if name, ok := r.remote.(string); ok && r.group && name != self {
			if r.remote, err = securityGroupNoun().resolve(ctx, p.cloud, cl, effect.Reference{ID: effect.Plain(name)}); err != nil {
				return fmt.Errorf("rules[%d]: remote: %w", i, err)
			}
		}
		if !slices.Contains(p.want, r) {
			p.want = append(p.want, r)
		}
	}
	return nil
}

// missing returns the rules to add to obj.
func (p *rules) missing(obj client.Object) []rule {
	have := make(map[rule]bool)
	for _, o := range objects(obj, "security_group_rules") {
		have[readRule(o)] = true
	}
	return slices.DeleteFunc(slices.Clone(p.want), func(r rule) bool { return have[p.here(obj, r)] })
}

// here writes a rule of the group obj as readRule does.
func (p *rules) here(obj client.Object, r rule) rule {
	if r.group && r.remote == str(obj, "id") && r.remote != "" {
		r.remote = self
	}
	return r
}

// extra returns the rules to remove from obj.
func (p *rules) extra(obj client.Object) []client.Object {
	var out []client.Object
	for _, o := range objects(obj, "security_group_rules") {
		wanted := slices.ContainsFunc(p.want, func(r rule) bool { return p.here(obj, r) == readRule(o) })
		if !wanted && (p.exact || str(o, "description") == p.mark) {
			out = append(out, o)
		}
	}
	return out
}

func (p *rules) diff(obj client.Object) []effect.Field {
	var out []effect.Field
	for _, r := range p.missing(obj) {
		out = append(out, effect.Field{Path: "rules", New: r.data()})
	}
	for _, o := range p.extra(obj) {
		out = append(out, effect.Field{Path: "rules", Old: readRule(o).data()})
	}
	return out
}

func (p *rules) attrs(obj client.Object) map[string]any {
	if obj == nil {
		// Neutron adds rules of its own to a new group.
		return map[string]any{"rules": effect.Unknown{Of: "the rules of the new security group"}}
	}
	extra := p.extra(obj)
	all := []any{}
	for _, o := range objects(obj, "security_group_rules") {
		if !slices.ContainsFunc(extra, func(e client.Object) bool { return str(e, "id") == str(o, "id") }) {
			all = append(all, readRule(o).data())
		}
	}
	for _, r := range p.missing(obj) {
		all = append(all, p.here(obj, r).data())
	}
	return map[string]any{"rules": sorted(all)}
}

// apply adds before it removes, so that a rule that is rewritten never leaves
// a gap.
func (p *rules) apply(ctx context.Context, cl *client.Client, obj client.Object) error {
	missing, extra := p.missing(obj), p.extra(obj)
	all, _ := obj["security_group_rules"].([]any)
	for _, r := range missing {
		made, err := cl.One(ctx, client.Call{Service: client.Network, Method: http.MethodPost, Path: "/security-group-rules",
			Body: client.Object{"security_group_rule": r.body(str(obj, "id"), p.mark)}}, "security_group_rule")
		if fault.KindOf(err) == fault.Exists {
			continue // somebody has just added it, or it is there in a spelling that isn't known here
		}
		if err != nil {
			return err
		}
		all = append(all, made)
	}
	for _, o := range extra {
		_, err := cl.Do(ctx, client.Call{Service: client.Network, Method: http.MethodDelete, Path: "/security-group-rules/" + str(o, "id")})
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		all = slices.DeleteFunc(all, func(x any) bool { return str(x.(client.Object), "id") == str(o, "id") })
	}
	obj["security_group_rules"] = all
	return nil
}
