package openstack

import (
	"context"
	"net/url"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func securityGroupNoun() *noun {
	return &noun{
		name: "security_group", plural: "security_groups", path: "/security-groups", tagged: tagsByCall,
		attrs: []attr{
			idAttr(), nameAttr(),
			{builtin.Attr{Name: "stateful", Type: "bool", Doc: "Whether answers to what is let through are let through too."},
				func(o client.Object) any {
					if on, ok := o["stateful"].(bool); ok {
						return on
					}
					return true // clouds that don't say know no other
				}},
			{builtin.Attr{Name: "rules", Type: "list[dict]", Doc: "Its rules: {direction, protocol, ports, remote, ethertype}, sorted; the ones that Neutron adds by itself included."},
				func(o client.Object) any {
					out := []any{}
					for _, r := range objects(o, "security_group_rules") {
						out = append(out, readRule(r).data())
					}
					return sorted(out)
				}},
			tagsAttr(), markAttr(),
		},
		ports: func(id string) url.Values { return url.Values{"security_groups": {id}} },
	}
}

type securityGroupArgs struct {
	Name     string        `star:"name,required" doc:"The name."`
	Rules    effect.Data   `star:"rules" doc:"What is let through: a list of {\"direction\": \"ingress\" (default) or \"egress\", \"protocol\": \"tcp\", \"port\": 22 or \"ports\": \"80-90\", \"remote\": address range or security group (\"self\", or its own name, is the group itself), \"ethertype\": \"IPv4\"}. For icmp, \"type\": 8 and \"code\": 0, or ports as type-code."`
	Stateful *bool         `star:"stateful" doc:"Whether answers to what is let through are let through too. Default: True."`
	Exact    bool          `star:"exact" doc:"Remove rules that aren't listed, Neutron's own that let everything out included."`
	Tags     []effect.Text `star:"tags" secret:"never" doc:"Its tags; [] removes them."`
	Adopt    effect.Data   `star:"adopt" doc:"True takes over the one of that name that lacks this recipe's mark; an id or \"tag:NAME\" the one that has it, whatever its name."`
}

func securityGroupVerbs() builtin.Noun {
	n := securityGroupNoun()
	return n.verbs("A set of rules that says what may reach a port.", "ssh", builtin.Of(builtin.Spec[*Cloud, securityGroupArgs]{
		Name: "ensure",
		Doc: "Make a security group be there and have the given rules. The rules are a set: order and repetition don't count, and one that differs from an existing one only in how it is written is the same. " +
			"Rules that aren't listed stay, unless this recipe made them (their description is its mark) or `exact = True`.",
		Returns: "openstack.security_group",
		Example: `sg = cloud.security_group.ensure("ssh", rules = [{"protocol": "tcp", "port": 22, "remote": "0.0.0.0/0"}, {"protocol": "icmp"}])`,
		Effect:  builtin.Changes,
		Errors:  []fault.Kind{fault.Exists, fault.Invalid, fault.NotFound, fault.Conflict, fault.Quota},
		Run: func(ctx context.Context, c *Cloud, a securityGroupArgs) (any, error) {
			op, err := newEnsure(ctx, c, n, a.Name, a.Adopt, false)
			if err != nil {
				return nil, err
			}
			if a.Exact && a.Rules.V == nil {
				return nil, fault.New(fault.Invalid, "%s: exact = True without rules would remove all; give rules = [] if that is meant", op.Target())
			}
			op.wanted = func(context.Context, *client.Client) ([]field, error) {
				return append(boolField("stateful", "", a.Stateful), n.tagsField(a.Tags)...), nil
			}
			if a.Rules.V != nil {
				parts := &rules{cloud: c, mark: op.mark, given: a.Rules.V, exact: a.Exact, name: a.Name}
				if op.adopt.chosen() {
					parts.name = ""
				}
				op.parts = parts
			}
			return c.do(ctx, op)
		},
	}))
}
