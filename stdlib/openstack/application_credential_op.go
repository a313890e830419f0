package openstack

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A credentialOp makes an application credential. Its secret is made here and
// is in the site's store before Keystone hears of it: a run that dies once the
// credential is there, and before its id is stored, loses nothing.
type credentialOp struct {
	cloud   *Cloud
	args    credentialArgs
	mark    string
	rules   []any // nil are none given
	expires time.Time
	renew   time.Duration // before its end

	noun     *noun
	secret   *effect.Secret // of the one that is made; the same for each try
	fields   []field
	why      string // it is to be made anew, though it is as wanted
	recorded bool   // the store has the secret under the id
	sent     sent
}

func (o *credentialOp) Target() effect.Target {
	return o.cloud.target("application_credential", o.args.Name)
}

func (o *credentialOp) now(ctx context.Context) time.Time {
	return effect.From(ctx).Door.Clock.Now()
}

// secretKey is where the store keeps a secret.
func secretKey(id string) string { return "openstack/application_credential/" + id }

// pendingKey is where it is kept until the id is known.
func pendingKey(n *noun, mark string) string {
	sum := sha256.Sum256([]byte(n.path + "\n" + mark))
	return "openstack/application_credential/pending/" + hex.EncodeToString(sum[:16])
}

// keptSecret returns what the store has for a credential.
func (c *Cloud) keptSecret(ctx context.Context, id string) (*effect.Secret, bool, error) {
	if c.config.Secrets == nil {
		return nil, false, nil
	}
	plain, found, err := c.config.Secrets.Get(ctx, secretKey(id))
	if err != nil || !found {
		return nil, false, err
	}
	s, err := effect.NewSecret(ctx, string(plain), effect.Ref("store:"+secretKey(id)))
	return s, err == nil, err
}

func (o *credentialOp) Observe(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	if o.noun, err = ownCredentials(cl); err != nil {
		return effect.State{}, err
	}
	o.want(cl)
	obj, err := finder{cloud: o.cloud, noun: o.noun, name: o.args.Name, mark: o.mark, sent: o.sent}.find(ctx, cl)
	if fault.KindOf(err) == fault.Exists {
		return effect.State{}, &fault.Error{Kind: fault.Exists, Err: err, Hint: "choose another name: nobody can read the secret of one that is there"}
	}
	if err != nil || obj == nil {
		return effect.State{}, err
	}
	o.sent = sent{}
	attrs := o.noun.data(obj)
	secret, err := o.secretOf(ctx, cl, str(obj, "id"))
	if err != nil {
		return effect.State{}, err
	}
	if attrs["secret"] = nil; secret != nil {
		attrs["secret"] = secret
	}
	return effect.State{Exists: true, Attrs: attrs, Raw: obj}, o.judge(ctx, obj, secret)
}

// want sets the fields to have.
func (o *credentialOp) want(cl *client.Client) {
	o.fields = []field{{attr: "project_id", want: cl.Project(), fixed: true}, {attr: "unrestricted", want: o.args.Unrestricted, fixed: true}}
	if o.args.Roles != nil {
		roles := make([]any, len(o.args.Roles))
		for i, r := range o.args.Roles {
			roles[i] = r
		}
		o.fields = append(o.fields, field{attr: "roles", want: roles, fixed: true, set: true})
	}
	if o.rules != nil {
		o.fields = append(o.fields, field{attr: "access_rules", want: o.rules, fixed: true, set: true})
	}
	if !o.expires.IsZero() {
		o.fields = append(o.fields, field{attr: "expires", want: stampOf(o.expires), fixed: true})
	}
}

// secretOf returns the secret of the credential that is there; nil if nobody
// has it. What a run that was broken off had in mind is tried.
func (o *credentialOp) secretOf(ctx context.Context, cl *client.Client, id string) (*effect.Secret, error) {
	secret, found, err := o.cloud.keptSecret(ctx, id)
	if o.recorded = found; err != nil || found {
		return secret, err
	}
	plain, found, err := o.cloud.config.Secrets.Get(ctx, pendingKey(o.noun, o.mark))
	if err != nil || !found {
		return nil, err
	}
	if right, err := cl.AcceptsCredential(ctx, id, string(plain)); err != nil || !right {
		return nil, err
	}
	return effect.NewSecret(ctx, string(plain), effect.Ref("store:"+secretKey(id)))
}

// lostSecret is why a credential is made anew that is as wanted otherwise.
const lostSecret = "the site's store doesn't have its secret, which nobody can read"

// judge decides whether a credential that is there is of use still.
func (o *credentialOp) judge(ctx context.Context, obj client.Object, secret *effect.Secret) error {
	o.why = ""
	ends, err := client.Timestamp(str(obj, "expires_at"))
	if err != nil {
		return fault.New(fault.Unavailable, "Keystone gives the end of %s as %q", o.Target(), str(obj, "expires_at"))
	}
	now := o.now(ctx)
	switch {
	case !ends.IsZero() && !ends.After(now):
		o.why = "it ended at " + stampOf(ends)
	case o.args.Lifetime > 0 && ends.IsZero():
		o.why = "it doesn't end, and is to"
	case o.args.Lifetime > 0 && !ends.After(now.Add(o.renew)):
		o.why = "it ends at " + stampOf(ends)
	case secret == nil:
		o.why = lostSecret
	}
	return nil
}

func (o *credentialOp) Diff(st effect.State) (effect.Change, error) {
	names := make([]string, len(o.noun.attrs))
	for i, a := range o.noun.attrs {
		names[i] = a.Name
	}
	all := append([]field{{attr: "name", want: o.args.Name}, {attr: "mark", want: o.mark}}, o.fields...)
	if o.rules == nil {
		all = append(all, field{attr: "access_rules", want: []any{}})
	}
	if o.args.Lifetime == 0 && o.expires.IsZero() {
		all = append(all, field{attr: "expires", want: ""})
	}
	fresh := after(o.Target(), names, nil, all)
	if !st.Exists {
		var fields []effect.Field
		for _, f := range o.fields {
			fields = append(fields, effect.Field{Path: f.attr, New: f.want})
		}
		return effect.Change{Kind: effect.Create, Fields: fields, After: fresh}, nil
	}
	_, fixed, _ := compare(o.fields, st.Attrs)
	if len(fixed) > 0 && !o.args.Replace {
		return effect.Change{}, immutable(o.Target().String(), str(st.Raw.(client.Object), "id"), fixed)
	}
	anew := []effect.Field{{Path: "id", Old: st.Attrs["id"], New: fresh["id"]}, {Path: "secret", New: fresh["secret"]}}
	switch {
	case len(fixed) > 0:
		return effect.Change{Kind: effect.Replace, Fields: fixed, After: fresh, Note: o.why}, nil
	case o.why == lostSecret:
		return effect.Change{Kind: effect.Replace, Fields: anew, After: fresh, Note: o.why}, nil
	case o.why != "":
		// What is renewed in time is asked for by the recipe; it is no loss that a budget of deletions is there for.
		return effect.Change{Kind: effect.Update, Fields: append(anew, effect.Field{Path: "expires", Old: st.Attrs["expires"], New: fresh["expires"]}), After: fresh, Note: "it is revoked and made anew: " + o.why}, nil
	case !o.recorded:
		return effect.Change{Kind: effect.Update, Fields: []effect.Field{{Path: "secret", New: st.Attrs["secret"]}}, After: st.Attrs, Note: "the run that made it was broken off before the site's store had its secret"}, nil
	}
	return effect.Unchanged(), nil
}

func (o *credentialOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	if err := mayManage(cl); err != nil {
		return effect.State{}, err
	}
	if obj, _ := c.Before.Raw.(client.Object); obj != nil {
		if o.why == "" && c.Kind == effect.Update {
			return effect.State{Exists: true, Attrs: c.Before.Attrs, Raw: obj}, o.record(ctx, str(obj, "id"), c.Before.Attrs["secret"].(*effect.Secret).Reveal())
		}
		if err := revoke(ctx, o.cloud, cl, obj); err != nil {
			return effect.State{}, err
		}
	}
	if o.secret == nil {
		plain := make([]byte, 48)
		if _, err := rand.Read(plain); err != nil {
			return effect.State{}, fault.New(fault.Failed, "making a secret: %v", err)
		}
		if o.secret, err = effect.NewSecret(ctx, base64.RawURLEncoding.EncodeToString(plain), ""); err != nil {
			return effect.State{}, err
		}
	}
	if err := o.cloud.config.Secrets.Put(ctx, pendingKey(o.noun, o.mark), []byte(o.secret.Reveal())); err != nil {
		return effect.State{}, err
	}
	obj, err := o.noun.create(ctx, cl, o.body(ctx, o.secret.Reveal()))
	if o.sent.note(ctx, obj, err); err != nil {
		return effect.State{}, err
	}
	id := str(obj, "id")
	if err := o.record(ctx, id, o.secret.Reveal()); err != nil {
		return effect.State{}, err
	}
	attrs := o.noun.data(obj)
	kept, _, err := o.cloud.keptSecret(ctx, id)
	attrs["secret"] = kept
	return effect.State{Exists: true, Attrs: attrs, Raw: obj}, err
}

// body is that of the create call.
func (o *credentialOp) body(ctx context.Context, secret string) client.Object {
	body := client.Object{"name": o.args.Name, "description": o.mark, "secret": secret, "unrestricted": o.args.Unrestricted}
	if len(o.args.Roles) > 0 {
		var roles []any
		for _, r := range o.args.Roles {
			roles = append(roles, client.Object{"name": r})
		}
		body["roles"] = roles
	}
	if len(o.rules) > 0 {
		body["access_rules"] = o.rules
	}
	ends := o.expires
	if o.args.Lifetime > 0 {
		ends = o.now(ctx).Add(o.args.Lifetime)
	}
	if !ends.IsZero() {
		body["expires_at"] = ends.UTC().Format("2006-01-02T15:04:05Z")
	}
	return body
}

// record stores the secret under the credential's id.
func (o *credentialOp) record(ctx context.Context, id, secret string) error {
	if err := o.cloud.config.Secrets.Put(ctx, secretKey(id), []byte(secret)); err != nil {
		return err
	}
	return o.cloud.config.Secrets.Delete(ctx, pendingKey(o.noun, o.mark))
}
