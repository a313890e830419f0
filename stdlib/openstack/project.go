package openstack

import (
	"context"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func projectNoun() *noun {
	return &noun{
		name: "project", plural: "projects", path: "/projects", service: client.Identity, admin: true, patch: true, whole: true, scans: true, tagged: tagsInBody,
		attrs: []attr{
			idAttr(), nameAttr(), domainAttr(),
			{Attr: builtin.Attr{Name: "enabled", Type: "bool", Doc: "Whether anybody can log in to it."}},
			tagsAttr(), markAttr(),
		},
	}
}

func domainAttr() attr {
	return attr{Attr: builtin.Attr{Name: "domain_id", Type: "str", Doc: "The id of the domain that it is in, where its name is unique."}}
}

type projectArgs struct {
	Name    string        `star:"name,required" doc:"The name, unique in its domain."`
	Domain  string        `star:"domain" doc:"Id or name of the domain that it is in. Default: that of the login's project. Can't be changed."`
	Enabled *bool         `star:"enabled" doc:"Whether anybody can log in to it."`
	Tags    []effect.Text `star:"tags" secret:"never" doc:"Its tags, without commas and slashes; [] removes them."`
	Adopt   effect.Data   `star:"adopt" doc:"True takes over the one of that name that lacks this recipe's mark; an id the one that has it."`
}

func projectVerbs() builtin.Noun {
	n := projectNoun()
	return n.verbs("A project: what quotas and most resources belong to. To make one takes an administrator. Its description is the owner mark. "+
		"Deleting one leaves behind what is in it, which nobody but an administrator can find then: delete that first.",
		"spoke-1", builtin.Of(builtin.Spec[*Cloud, projectArgs]{
			Name:    "ensure",
			Doc:     "Make a project be there with the given settings. What isn't given isn't compared.",
			Returns: "openstack.project",
			Example: "cloud = openstack.connect(\"admin\")\n" + `p = cloud.project.ensure("spoke-1", tags = ["spoke"])`,
			Effect:  builtin.Changes,
			Errors:  []fault.Kind{fault.Exists, fault.Invalid, fault.Denied, fault.NotFound},
			Run: func(ctx context.Context, c *Cloud, a projectArgs) (any, error) {
				op, err := newEnsure(ctx, c, projectNoun(), a.Name, a.Adopt, false)
				if err != nil {
					return nil, err
				}
				op.wanted = func(ctx context.Context, cl *client.Client) ([]field, error) {
					fs, err := op.inDomain(ctx, cl, a.Domain)
					if err != nil {
						return nil, err
					}
					fs = append(fs, boolField("enabled", "", a.Enabled)...)
					return append(fs, op.noun.tagsField(a.Tags)...), nil
				}
				return c.do(ctx, op)
			},
		}))
}

// inDomain has the op look in a domain, and make things there.
func (o *ensureOp) inDomain(ctx context.Context, cl *client.Client, name string) ([]field, error) {
	id, err := findDomain(ctx, cl, name)
	if err != nil {
		return nil, err
	}
	o.noun.domain = id
	return []field{{attr: "domain_id", want: id, fixed: true}}, nil
}
