package openstack

import (
	"context"
	"slices"
	"strings"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// credentialNoun is the noun of what a user has made.
func credentialNoun(user string) *noun {
	return &noun{
		name: "application_credential", plural: "application_credentials", path: "/users/" + user + "/application_credentials",
		service: client.Identity, whole: true, scans: true,
		attrs: []attr{
			idAttr(), nameAttr(),
			{Attr: builtin.Attr{Name: "secret", Type: "secret", Doc: "The secret, as far as the site's store has it; else None. Keystone tells it to nobody."}},
			{builtin.Attr{Name: "roles", Type: "list[str]", Doc: "The names of the roles that it gives, sorted; it gives none that its user has lost."}, rolesOf},
			{builtin.Attr{Name: "access_rules", Type: "list[dict]", Doc: "The calls that it allows, each with `service`, `method` and `path`, sorted; [] if it allows all."}, accessRulesOf},
			{builtin.Attr{Name: "expires", Type: "str", Doc: "When it ends (RFC 3339, UTC); empty if it doesn't."}, expiryOf},
			{builtin.Attr{Name: "unrestricted", Type: "bool", Doc: "Whether who uses it can make and delete others."}, func(o client.Object) any { return o["unrestricted"] == true }},
			{Attr: builtin.Attr{Name: "project_id", Type: "str", Doc: "The id of the project that it is for."}},
			{Attr: builtin.Attr{Name: "user_id", Type: "str", Doc: "The id of the user that it acts for."}},
			markAttr(),
		},
	}
}

// ownCredentials returns the noun for the login's user.
func ownCredentials(cl *client.Client) (*noun, error) {
	p, err := cl.Principal()
	return credentialNoun(p.UserID), err
}

func rolesOf(o client.Object) any {
	var names []any
	for _, r := range objects(o, "roles") {
		names = append(names, str(r, "name"))
	}
	return sorted(names)
}

func accessRulesOf(o client.Object) any {
	out := []any{}
	for _, r := range objects(o, "access_rules") {
		out = append(out, map[string]any{"service": str(r, "service"), "method": str(r, "method"), "path": str(r, "path")})
	}
	return sorted(out)
}

func expiryOf(o client.Object) any {
	t, err := client.Timestamp(str(o, "expires_at"))
	if err != nil {
		return str(o, "expires_at") // for people to see what Keystone says
	}
	return stampOf(t)
}

func stampOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

type credentialArgs struct {
	Name         string        `star:"name,required" doc:"The name, unique among those of the login's user."`
	Roles        []string      `star:"roles" doc:"The names of the roles that it gives, of those that the login has. Default: all of them, as they are when it is made. Can't be changed."`
	AccessRules  effect.Data   `star:"access_rules" doc:"The calls that it allows: a list of {\"service\": \"compute\", \"method\": \"GET\", \"path\": \"/v2.1/servers\"}, where * stands for a part of a path and ** for any. Default: all that the roles allow. Can't be changed."`
	Expires      string        `star:"expires" doc:"When it ends, such as \"2027-01-01T00:00:00Z\". Default: never. Can't be changed."`
	Lifetime     time.Duration `star:"lifetime" doc:"In place of expires: how long it lasts from when it is made, such as \"720h\"."`
	RenewBefore  time.Duration `star:"renew_before" doc:"With lifetime: how long before its end it is made anew. Default: a third of the lifetime."`
	Unrestricted bool          `star:"unrestricted" doc:"Let who uses it make and delete others, and trusts. Can't be changed."`
	Replace      bool          `star:"replace" doc:"Where what can't be changed differs, revoke it and make it anew."`
}

func credentialVerbs() builtin.Noun {
	n := credentialNoun("")
	return builtin.Noun{
		Name: n.name, Identity: builtin.Marked, Attrs: n.docs(),
		Doc: "What a program logs in with in place of a user's password, in one project, with no more than the user's roles. Its description is the owner mark. " +
			"Keystone shows the secret to nobody; the site's store keeps it, encrypted. A login by an application credential can make and delete others only if it is unrestricted.",
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Cloud, credentialArgs]{
				Name: "ensure",
				Doc: "Make an application credential of the login's user, in its project, be there with the given roles and rules. What isn't given isn't compared. " +
					"One that has ended, or whose lifetime is about to end, is revoked and made anew: its id changes then, and what uses it fails until it has the new one. " +
					"So is one whose secret the site's store lacks.",
				Returns: "openstack.application_credential",
				Example: "ac = cloud.application_credential.ensure(\"capo\", roles = [\"member\"], lifetime = \"2160h\")\n" +
					"me = cloud.identity()\n" +
					`clouds = "auth_url: %s\nid: %s\nsecret: %s\n" % (me.auth_url, ac.id, ac.secret)`,
				Effect: builtin.Changes,
				Errors: []fault.Kind{fault.Exists, fault.Invalid, fault.Denied},
				Run: func(ctx context.Context, c *Cloud, a credentialArgs) (any, error) {
					op, err := newCredential(ctx, c, a)
					if err != nil {
						return nil, err
					}
					return c.do(ctx, op)
				},
			}),
			credentialGet(), credentialList(), credentialDelete(),
		},
	}
}

// newCredential checks the arguments.
func newCredential(ctx context.Context, c *Cloud, a credentialArgs) (*credentialOp, error) {
	op := &credentialOp{cloud: c, args: a}
	t := op.Target()
	if a.Name == "" {
		return nil, fault.New(fault.Invalid, "the application credential's name is empty")
	}
	if c.config.Secrets == nil {
		return nil, fault.Hinted(fault.Invalid, "name a store and age recipients in site.yaml", "%s: its secret can't be kept: the site has no store", t)
	}
	var err error
	if op.mark, err = markFor(ctx, c, "application_credential", a.Name); err != nil {
		return nil, err
	}
	if op.rules, err = accessRules(t, a.AccessRules.V); err != nil {
		return nil, err
	}
	switch {
	case a.Expires != "" && a.Lifetime != 0:
		return nil, fault.New(fault.Invalid, "%s: expires and lifetime exclude each other", t)
	case a.Lifetime < 0 || a.RenewBefore < 0:
		return nil, fault.New(fault.Invalid, "%s: lifetime and renew_before can't be negative", t)
	case a.RenewBefore != 0 && a.RenewBefore >= a.Lifetime:
		return nil, fault.New(fault.Invalid, "%s: renew_before is to be shorter than lifetime", t)
	}
	if op.renew = a.RenewBefore; op.renew == 0 {
		op.renew = a.Lifetime / 3
	}
	if a.Expires != "" {
		if op.expires, err = time.Parse(time.RFC3339, a.Expires); err != nil {
			return nil, fault.Hinted(fault.Invalid, "it looks like: 2027-01-01T00:00:00Z", "%s: expires is no time: %q", t, a.Expires)
		}
		if !op.expires.After(op.now(ctx)) {
			return nil, fault.New(fault.Invalid, "%s: expires is over: %s", t, a.Expires)
		}
	}
	return op, nil
}

// accessRules checks the rules that a recipe gives.
func accessRules(t effect.Target, given any) ([]any, error) {
	if given == nil {
		return nil, nil
	}
	const form = `a rule looks like: {"service": "compute", "method": "GET", "path": "/v2.1/servers"}`
	list, ok := given.([]any)
	if !ok {
		return nil, fault.Hinted(fault.Invalid, form, "%s: access_rules is no list", t)
	}
	methods := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
	out := []any{}
	for i, x := range list {
		rule, _ := x.(map[string]any)
		path, method := str(rule, "path"), str(rule, "method")
		switch {
		case len(rule) != 3 || str(rule, "service") == "" || path == "" || method == "":
			return nil, fault.Hinted(fault.Invalid, form, "%s: access rule %d has not service, method and path: %s", t, i+1, show(x))
		case !slices.Contains(methods, method):
			return nil, fault.Hinted(fault.Invalid, "one of "+strings.Join(methods, ", "), "%s: access rule %d: there is no method %q", t, i+1, method)
		case path[0] != '/' || len(path) > 225:
			return nil, fault.Hinted(fault.Invalid, "it begins with / and has 225 bytes at most", "%s: access rule %d: bad path %q", t, i+1, path)
		}
		out = append(out, rule)
	}
	return out, nil
}

func credentialGet() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, getArgs]{
		Name:    "get",
		Doc:     "Return the application credential of that name or id, of the login's user, or None.",
		Returns: "openstack.application_credential or None",
		Example: `ac = cloud.application_credential.get("capo")`,
		Effect:  builtin.Reads,
		Run: func(ctx context.Context, c *Cloud, a getArgs) (any, error) {
			return readOne(ctx, c, "application_credential", a.Name, func(ctx context.Context, cl *client.Client) (effect.State, error) {
				n, err := ownCredentials(cl)
				if err != nil {
					return effect.State{}, err
				}
				obj, err := n.byName(ctx, cl, a.Name)
				if err != nil {
					return effect.State{}, err
				}
				attrs := n.data(obj)
				attrs["secret"] = nil
				kept, found, err := c.keptSecret(ctx, str(obj, "id"))
				if found {
					attrs["secret"] = kept
				}
				return effect.State{Exists: true, Attrs: attrs}, err
			})
		},
	})
}

func credentialList() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, listArgs]{
		Name:    "list",
		Doc:     "Return the application credentials of the login's user, without their secrets.",
		Returns: "list[openstack.application_credential]",
		Example: `ends = {ac.name: ac.expires for ac in cloud.application_credential.list()}`,
		Effect:  builtin.Reads,
		Run: func(ctx context.Context, c *Cloud, a listArgs) (any, error) {
			return readList(ctx, c, "application_credential", func(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
				n, err := ownCredentials(cl)
				if err != nil {
					return nil, err
				}
				query, err := n.query(a)
				if err != nil {
					return nil, err
				}
				all, err := n.list(ctx, cl, query)
				if err != nil {
					return nil, err
				}
				var out []map[string]any
				for _, obj := range all {
					if matches(obj, a) {
						attrs := n.data(obj)
						attrs["secret"] = nil
						out = append(out, attrs)
					}
				}
				return out, nil
			})
		},
	})
}

func credentialDelete() builtin.Func {
	return deletion{
		kind: "application_credential", example: "capo",
		doc:    "Revoke the application credential of that name, of the login's user: who is logged in by it no longer is. That there is none is no error; one that isn't this recipe's is refused.",
		errors: []fault.Kind{fault.Exists, fault.Denied},
		find: func(ctx context.Context, c *Cloud, cl *client.Client, a deleteArgs, mark string) (client.Object, error) {
			n, err := ownCredentials(cl)
			if err != nil {
				return nil, err
			}
			return finder{cloud: c, noun: n, name: a.Name, mark: mark, adopt: adoption{same: a.Adopt}}.find(ctx, cl)
		},
		remove: revoke,
	}.verb()
}

// revoke deletes an application credential, and what the store has of it: that
// first, so that nothing stays there which nobody would look for again.
func revoke(ctx context.Context, c *Cloud, cl *client.Client, obj client.Object) error {
	if err := mayManage(cl); err != nil {
		return err
	}
	n := credentialNoun(str(obj, "user_id"))
	if store := c.config.Secrets; store != nil {
		for _, key := range []string{secretKey(str(obj, "id")), pendingKey(n, markOf(obj).(string))} {
			if err := store.Delete(ctx, key); err != nil {
				return err
			}
		}
	}
	return n.remove(ctx, c, cl, obj)
}

// mayManage returns the error for a login that Keystone lets manage no
// application credentials.
func mayManage(cl *client.Client) error {
	p, err := cl.Principal()
	if err != nil || !p.Restricted {
		return err
	}
	return fault.Hinted(fault.Denied, "log in with a password, or by one that was made with unrestricted = True",
		"the login is itself by an application credential (%s, %s), which may not make or delete others", p.CredentialName, p.CredentialID)
}

func credentialHolding() holding {
	return holding{kind: "application_credential", credential: true, remove: revoke,
		list: func(ctx context.Context, cl *client.Client) ([]client.Object, error) {
			n, err := ownCredentials(cl)
			if err != nil {
				return nil, err
			}
			return n.list(ctx, cl, nil)
		},
		one: func(ctx context.Context, cl *client.Client, id string) (client.Object, error) {
			n, err := ownCredentials(cl)
			if err != nil {
				return nil, err
			}
			return n.byID(ctx, cl, id)
		},
		mark: func(o client.Object) string { return markOf(o).(string) },
	}
}
