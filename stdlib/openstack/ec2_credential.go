package openstack

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/url"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// ec2Noun is the noun of Keystone's credentials of type ec2. They have neither
// name nor description: the owner mark stands in the blob, beside the key.
func ec2Noun() *noun {
	var keys []byte // the same for each try of a create: Keystone refuses to have it twice
	return &noun{
		name: "ec2_credential", key: "credential", plural: "credentials", path: "/credentials", service: client.Identity,
		whole: true, scans: true, unnamed: true, opaque: true, denied: true, filter: url.Values{"type": {"ec2"}},
		attrs: []attr{
			{Attr: builtin.Attr{Name: "id", Type: "str", Doc: "The id: the SHA-256 of the access key."}},
			{Attr: builtin.Attr{Name: "access", Type: "str", Doc: "The access key."}},
			{Attr: builtin.Attr{Name: "secret", Type: "secret", Doc: "The secret key."}},
			{Attr: builtin.Attr{Name: "user_id", Type: "str", Doc: "The id of the user that it acts for."}},
			{Attr: builtin.Attr{Name: "project_id", Type: "str", Doc: "The id of the project that it is for."}},
			markAttr(),
		},
		shape: func(o client.Object) {
			var blob client.Object
			if json.Unmarshal([]byte(str(o, "blob")), &blob) == nil {
				o["access"], o["plain"], o["description"] = blob["access"], blob["secret"], blob["gsrun"]
			}
			delete(o, "blob")
		},
		expand: func(ctx context.Context, _ *client.Client, o client.Object) error {
			if plain, ok := o["plain"].(string); ok {
				o["secret"] = effect.Derived(ctx, plain)
			}
			delete(o, "plain")
			return nil
		},
		form: func(body client.Object) (client.Object, error) {
			if keys == nil {
				keys = make([]byte, 16+32)
				if _, err := rand.Read(keys); err != nil {
					return nil, fault.New(fault.Failed, "making a key: %v", err)
				}
			}
			blob, err := json.Marshal(client.Object{"access": hex.EncodeToString(keys[:16]), "secret": hex.EncodeToString(keys[16:]), "gsrun": body["description"]})
			return client.Object{"type": "ec2", "user_id": body["user_id"], "project_id": body["project_id"], "blob": string(blob)}, err
		},
	}
}

type ec2Args struct {
	Name    string           `star:"name,required" doc:"A name for it, which is the end of its owner mark; Keystone knows none."`
	User    effect.Reference `star:"user" of:"openstack.user" doc:"The user that it acts for, by name or id; others than the login's are for administrators. Can't be changed."`
	Project effect.Reference `star:"project" of:"openstack.project" doc:"The project that it is for, by name or id. Default: the login's. Can't be changed."`
	Replace bool             `star:"replace" doc:"Where what can't be changed differs, revoke it and make it anew."`
}

func ec2Verbs() builtin.Noun {
	n := ec2Noun()
	return n.verbs("An access key and its secret, for S3 and other services that speak Amazon's dialects. The owner mark stands beside the key in what Keystone keeps; "+
		"one that was made by other means (`openstack ec2 credentials create`) has none, and is no recipe's. "+
		"Where the login is by an application credential, Keystone ties the key to that: it ends with it.",
		"backups", builtin.Of(builtin.Spec[*Cloud, ec2Args]{
			Name:    "ensure",
			Doc:     "Make an EC2 credential be there. It isn't kept in the site's store: Keystone shows the secret to its owner again.",
			Returns: "openstack.ec2_credential",
			Example: "key = cloud.ec2_credential.ensure(\"backups\")\n" + `config = "access_key = %s\nsecret_key = %s\n" % (key.access, key.secret)`,
			Effect:  builtin.Changes,
			Errors:  []fault.Kind{fault.Exists, fault.Invalid, fault.Denied, fault.NotFound},
			Run: func(ctx context.Context, c *Cloud, a ec2Args) (any, error) {
				op, err := newEnsure(ctx, c, ec2Noun(), a.Name, false, a.Replace)
				if err != nil {
					return nil, err
				}
				op.wanted = func(ctx context.Context, cl *client.Client) ([]field, error) {
					me, err := cl.Principal()
					if err != nil {
						return nil, err
					}
					var user, project any = me.UserID, me.ProjectID
					if !a.User.Empty() {
						if user, err = userNoun().resolve(ctx, c, cl, a.User); err != nil {
							return nil, err
						}
					}
					if !a.Project.Empty() {
						if project, err = projectNoun().resolve(ctx, c, cl, a.Project); err != nil {
							return nil, err
						}
					}
					return []field{{attr: "user_id", want: user, fixed: true}, {attr: "project_id", want: project, fixed: true}}, nil
				}
				return c.do(ctx, op)
			},
		}))
}
