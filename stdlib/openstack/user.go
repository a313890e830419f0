package openstack

import (
	"context"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func userNoun() *noun {
	return &noun{
		name: "user", plural: "users", path: "/users", service: client.Identity, admin: true, patch: true, whole: true, scans: true,
		attrs: []attr{
			idAttr(), nameAttr(), domainAttr(),
			{Attr: builtin.Attr{Name: "enabled", Type: "bool", Doc: "Whether they can log in."}},
			{builtin.Attr{Name: "default_project_id", Type: "str", Doc: "The project that a login is for that names none; empty if there is none."},
				func(o client.Object) any { return str(o, "default_project_id") }},
			{builtin.Attr{Name: "email", Type: "str", Doc: "The address; empty if there is none."}, func(o client.Object) any { return str(o, "email") }},
			markAttr(),
		},
	}
}

type userArgs struct {
	Name           string           `star:"name,required" doc:"The name, unique in its domain."`
	Password       effect.Text      `star:"password" doc:"The password, a secret. It can't be read back: whether it is still this one is found out by logging in with it. Default: none, so that they can't log in by one."`
	DefaultProject effect.Reference `star:"default_project" of:"openstack.project" doc:"The project that a login is for that names none."`
	Email          effect.Text      `star:"email" doc:"The address."`
	Enabled        *bool            `star:"enabled" doc:"Whether they can log in. The password of a user who can't isn't compared."`
	Domain         string           `star:"domain" doc:"Id or name of the domain that they are in. Default: that of the login's project. Can't be changed."`
	Adopt          effect.Data      `star:"adopt" doc:"True takes over the one of that name that lacks this recipe's mark; an id the one that has it."`
}

func userVerbs() builtin.Noun {
	n := userNoun()
	return n.verbs("A user. To make one takes an administrator. The description is the owner mark. "+
		"Deleting one revokes what lets others act for them: their application credentials, EC2 credentials and role assignments go, too.",
		"spoke-1", builtin.Of(builtin.Spec[*Cloud, userArgs]{
			Name: "ensure",
			Doc: "Make a user be there with the given settings. What isn't given isn't compared. A password that differs is set anew, which ends the logins that were made with the one before; " +
				"each run that finds the user tries the password once, and a site that locks users out for wrong ones counts that.",
			Returns: "openstack.user",
			Example: "cloud = openstack.connect(\"admin\")\n" + `u = cloud.user.ensure("spoke-1", default_project = cloud.project.ensure("spoke-1"))`,
			Effect:  builtin.Changes,
			Errors:  []fault.Kind{fault.Exists, fault.Invalid, fault.Denied, fault.NotFound},
			Run: func(ctx context.Context, c *Cloud, a userArgs) (any, error) {
				op, err := newEnsure(ctx, c, userNoun(), a.Name, a.Adopt, false)
				if err != nil {
					return nil, err
				}
				if a.Password.Known() && !a.Password.Empty() && !a.Password.IsSecret() {
					return nil, fault.Hinted(fault.Invalid, "get it by secret() or crypto.password()", "%s: password is no secret, and would show", op.Target())
				}
				secret := &password{want: a.Password}
				op.noun.expand = secret.try
				op.wanted = func(ctx context.Context, cl *client.Client) ([]field, error) {
					fs, err := op.inDomain(ctx, cl, a.Domain)
					if err != nil {
						return nil, err
					}
					project, err := projectNoun().resolve(ctx, c, cl, a.DefaultProject)
					if err != nil {
						return nil, err
					}
					if project != "" {
						fs = append(fs, field{attr: "default_project_id", want: project})
					}
					fs = append(fs, textField("email", "", a.Email, false)...)
					fs = append(fs, boolField("enabled", "", a.Enabled)...)
					return append(fs, secret.field()...), nil
				}
				return c.do(ctx, op)
			},
		}))
}

// A password is what a user is to log in with.
type password struct {
	want  effect.Text
	asked bool // whether it is to be tried when the user is looked at next
	right bool
}

// field returns the field that sets the password, and has it tried.
func (p *password) field() []field {
	if p.want.Empty() {
		return nil
	}
	p.asked, p.right = p.want.Known(), false
	return []field{{attr: "password", want: p.want.Value(), send: revealed(p.want), equal: func(any) bool { return p.right }}}
}

// try finds out whether the password is right. Of a user who can't log in at
// all nobody knows.
func (p *password) try(ctx context.Context, cl *client.Client, obj client.Object) error {
	if !p.asked {
		return nil
	}
	p.asked = false
	if obj["enabled"] == false {
		p.right = true
		return nil
	}
	var err error
	p.right, err = cl.AcceptsPassword(ctx, str(obj, "id"), p.want.Reveal())
	return err
}
