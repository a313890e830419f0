package openstack

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func keypairAttrs() []builtin.Attr {
	return []builtin.Attr{
		{Name: "id", Type: "str", Doc: "The name, by which Nova knows it."},
		{Name: "name", Type: "str", Doc: "The name."},
		{Name: "public_key", Type: "str", Doc: "The public key, as a line of authorized_keys."},
		{Name: "fingerprint", Type: "str", Doc: "MD5 fingerprint."},
		{Name: "mark", Type: "str", Doc: "The owner mark of the recipe that made it; empty if it has none."},
	}
}

func keypairData(o client.Object) map[string]any {
	key, mark := unmarkedKey(str(o, "public_key"))
	return map[string]any{"id": o["name"], "name": o["name"], "public_key": key, "fingerprint": o["fingerprint"], "mark": mark}
}

// markedKey returns a line of authorized_keys with an owner mark at the end of
// its comment: a key pair has no description.
func markedKey(line, mark string) string { return strings.TrimSpace(line) + " " + mark }

// unmarkedKey returns the line without the owner mark, and the mark.
func unmarkedKey(line string) (key, mark string) {
	if i := strings.Index(line, " "+markPrefix); i > 0 {
		return line[:i], line[i+1:]
	}
	return line, ""
}

// getKeypair returns a key pair of the login's user; an error of kind NotFound
// if there is none.
func getKeypair(ctx context.Context, cl *client.Client, name string) (client.Object, error) {
	return cl.One(ctx, client.Call{Service: client.Compute, Version: client.KeypairVersion, Method: http.MethodGet, Path: "/os-keypairs/" + url.PathEscape(name)}, "keypair")
}

type keypairArgs struct {
	Name      string      `star:"name,required" doc:"The name: unique among the key pairs of the login's user."`
	PublicKey effect.Text `star:"public_key,required" doc:"The public key, as a line of authorized_keys. Can't be changed."`
	Replace   bool        `star:"replace" doc:"Where the key differs, delete the key pair and make it anew."`
}

func keypairVerbs() builtin.Noun {
	return builtin.Noun{
		Name: "keypair", Doc: "A public SSH key that servers let in. The owner mark of the recipe that made it is the end of the key's comment.", Identity: builtin.NaturalKey, Attrs: keypairAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Cloud, keypairArgs]{
				Name:    "ensure",
				Doc:     "Make a key pair be there with the given public key. Comments of keys aren't compared.",
				Returns: "openstack.keypair",
				Example: `cloud.keypair.ensure("ops", public_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE1CJUbzEp0HY8v1WuQn9j2Nn2TJcZrSo8PYQq2OyDRv")`,
				Effect:  builtin.Changes,
				Errors:  []fault.Kind{fault.Invalid, fault.Quota},
				Run: func(ctx context.Context, c *Cloud, a keypairArgs) (any, error) {
					if a.Name == "" {
						return nil, fault.New(fault.Invalid, "the key pair's name is empty")
					}
					if a.PublicKey.Known() && keyOf(a.PublicKey.Reveal()) == "" {
						return nil, fault.Hinted(fault.Invalid, "it looks like: ssh-ed25519 AAAA... comment", "%s: public_key is no line of authorized_keys", c.target("keypair", a.Name))
					}
					if a.PublicKey.IsSecret() && strings.TrimSpace(a.PublicKey.Reveal()) != keyOf(a.PublicKey.Reveal()) {
						return nil, fault.Hinted(fault.Invalid, "pass the key without a comment", "%s: the comment of public_key can't be a secret: it is shown to everybody who may see the key pair", c.target("keypair", a.Name))
					}
					if a.PublicKey.Known() && !a.PublicKey.IsSecret() {
						a.PublicKey = effect.Plain(strings.TrimSpace(a.PublicKey.Reveal()))
					}
					mark, err := markFor(ctx, c, "keypair", a.Name)
					if err != nil {
						return nil, err
					}
					return c.do(ctx, &keypairOp{cloud: c, args: a, mark: mark})
				},
			}),
			keypairGet(), keypairList(), keypairDelete(),
		},
	}
}

// keyOf returns the type and the key of a line of authorized_keys, without the
// comment; "" if it is none.
func keyOf(line string) string {
	f := strings.Fields(line)
	if len(f) < 2 || !strings.Contains(f[0], "-") || !strings.HasPrefix(f[1], "AAAA") {
		return ""
	}
	return f[0] + " " + f[1]
}

type keypairOp struct {
	cloud   *Cloud
	args    keypairArgs
	mark    string
	glanced glanced
}

func (o *keypairOp) Target() effect.Target { return o.cloud.target("keypair", o.args.Name) }

func (o *keypairOp) Observe(ctx context.Context) (effect.State, error) {
	return o.cloud.observe(ctx, o, &o.glanced, o.look)
}

// look reads what there is.
func (o *keypairOp) look(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	k, err := getKeypair(ctx, cl, o.args.Name)
	if fault.KindOf(err) == fault.NotFound {
		return effect.State{}, nil
	}
	if err != nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: keypairData(k), Raw: k}, nil
}

func (o *keypairOp) Diff(st effect.State) (effect.Change, error) {
	names := []string{"id", "name", "public_key", "fingerprint", "mark"}
	key := field{attr: "public_key", want: o.args.PublicKey.Value(), fixed: true}
	fields := []field{{attr: "id", want: o.args.Name}, {attr: "name", want: o.args.Name}, {attr: "mark", want: o.mark}, key}
	if !st.Exists {
		return effect.Change{Kind: effect.Create, Fields: []effect.Field{{Path: "public_key", New: key.want}}, After: after(o.Target(), names, nil, fields)}, nil
	}
	if !o.args.PublicKey.Known() {
		return effect.Change{Kind: effect.Later, Note: "whether the key differs isn't known yet"}, nil
	}
	have, _ := st.Attrs["public_key"].(string)
	if keyOf(have) == keyOf(o.args.PublicKey.Reveal()) {
		return effect.Unchanged(), nil
	}
	differ := []effect.Field{{Path: "public_key", Old: have, New: key.want}}
	if !o.args.Replace {
		return effect.Change{}, immutable(o.Target().String(), o.args.Name, differ)
	}
	return effect.Change{Kind: effect.Replace, Fields: differ, After: after(o.Target(), names, nil, fields)}, nil
}

func (o *keypairOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	if c.Kind == effect.Replace {
		if err := removeKeypair(ctx, cl, o.args.Name); err != nil {
			return effect.State{}, err
		}
	}
	k, err := cl.One(ctx, client.Call{Service: client.Compute, Version: client.KeypairVersion, Method: http.MethodPost, Path: "/os-keypairs",
		Body: client.Object{"keypair": client.Object{"name": o.args.Name, "public_key": markedKey(o.args.PublicKey.Reveal(), o.mark)}}}, "keypair")
	if err != nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: keypairData(k), Raw: k}, nil
}

func removeKeypair(ctx context.Context, cl *client.Client, name string) error {
	_, err := cl.Do(ctx, client.Call{Service: client.Compute, Version: client.KeypairVersion, Method: http.MethodDelete, Path: "/os-keypairs/" + url.PathEscape(name)})
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}

func keypairGet() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, getArgs]{
		Name:    "get",
		Doc:     "Return the key pair of that name, or None.",
		Returns: "openstack.keypair or None",
		Example: `ops = cloud.keypair.get("ops")`,
		Effect:  builtin.Reads,
		Run: func(ctx context.Context, c *Cloud, a getArgs) (any, error) {
			return readOne(ctx, c, "keypair", a.Name, func(ctx context.Context, cl *client.Client) (effect.State, error) {
				k, err := getKeypair(ctx, cl, a.Name)
				if err != nil {
					return effect.State{}, err
				}
				return effect.State{Exists: true, Attrs: keypairData(k)}, nil
			})
		},
	})
}

type keypairListArgs struct{}

func listKeypairs(ctx context.Context, cl *client.Client) ([]client.Object, error) {
	all, err := cl.List(ctx, client.Call{Service: client.Compute, Version: client.KeypairVersion, Path: "/os-keypairs"}, "keypairs")
	for i, k := range all {
		all[i], _ = k["keypair"].(client.Object)
	}
	return all, err
}

func keypairList() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, keypairListArgs]{
		Name:    "list",
		Doc:     "Return the key pairs of the login's user.",
		Returns: "list[openstack.keypair]",
		Example: `names = [k.name for k in cloud.keypair.list()]`,
		Effect:  builtin.Reads,
		Run: func(ctx context.Context, c *Cloud, _ keypairListArgs) (any, error) {
			return readList(ctx, c, "keypair", func(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
				all, err := listKeypairs(ctx, cl)
				if err != nil {
					return nil, err
				}
				out := make([]map[string]any, len(all))
				for i, k := range all {
					out[i] = keypairData(k)
				}
				return out, nil
			})
		},
	})
}

type keypairDeleteArgs struct {
	Name string `star:"name,required" doc:"The name."`
}

func keypairDelete() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, keypairDeleteArgs]{
		Name:    "delete",
		Doc:     "Delete the key pair of that name. That there is none is no error. Servers that were made with it keep the key.",
		Returns: "None",
		Example: `cloud.keypair.delete("ops")`,
		Effect:  builtin.Changes,
		Run: func(ctx context.Context, c *Cloud, a keypairDeleteArgs) (any, error) {
			_, err := c.do(ctx, &deleteOp{cloud: c, kind: "keypair", name: a.Name,
				find: func(ctx context.Context, cl *client.Client) (client.Object, error) {
					k, err := getKeypair(ctx, cl, a.Name)
					if fault.KindOf(err) == fault.NotFound {
						return nil, nil
					}
					if err != nil {
						return nil, err
					}
					return client.Object{"id": k["name"], "name": k["name"]}, nil
				},
				remove: func(ctx context.Context, cl *client.Client, _ client.Object) error {
					return removeKeypair(ctx, cl, a.Name)
				}})
			return nil, err
		},
	})
}
