package openstack

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A holding is a kind of resource that bears owner marks: how those of the
// project are found and deleted.
type holding struct {
	kind       string
	credential bool
	list       func(ctx context.Context, cl *client.Client) ([]client.Object, error)
	// one returns the resource of that id; an error of kind NotFound if there
	// is none.
	one    func(ctx context.Context, cl *client.Client, id string) (client.Object, error)
	mark   func(client.Object) string
	remove func(ctx context.Context, c *Cloud, cl *client.Client, obj client.Object) error
	// addresses are those at which it answers; may be nil.
	addresses func(client.Object) []string
}

// holdings lists the kinds in the order in which they are deleted: what uses
// others comes before them.
func holdings() []holding {
	all := []holding{holdingOf(floatingIPNoun()), balancerHolding(), serverHolding()}
	for _, n := range []*noun{volumeSnapshotNoun(), volumeNoun(), portNoun(), routerNoun(), subnetNoun(), networkNoun(), securityGroupNoun(), ruleNoun()} {
		all = append(all, holdingOf(n))
	}
	return append(all, containerHolding(), bucketHolding(), imageHolding(), flavorHolding(), keypairHolding(), credentialOf(holdingOf(ec2Noun())), credentialHolding(), administered(userNoun()), administered(projectNoun()))
}

// credentialOf is h, which lets somebody in.
func credentialOf(h holding) holding {
	h.credential = true
	return h
}

// administered is the holding of what only administrators may see. It goes last
// of all: others may be logged in by it.
func administered(n *noun) holding {
	h := credentialOf(holdingOf(n))
	all := h.list
	h.list = func(ctx context.Context, cl *client.Client) ([]client.Object, error) {
		if may, err := administers(cl); err != nil || !may {
			return nil, err
		}
		return all(ctx, cl)
	}
	return h
}

// rankOf is where a kind stands among the holdings.
func rankOf(kind string) int {
	return slices.IndexFunc(holdings(), func(h holding) bool { return h.kind == kind })
}

func holdingOf(n *noun) holding {
	h := holding{kind: n.name, one: n.byID, remove: n.remove,
		list: func(ctx context.Context, cl *client.Client) ([]client.Object, error) {
			if !cl.Offers(n.api()) {
				return nil, nil
			}
			return n.list(ctx, cl, n.ours(cl))
		},
		mark: func(o client.Object) string { return markOf(o).(string) },
	}
	if n.name == "floating_ip" {
		h.addresses = func(o client.Object) []string { return []string{str(o, "floating_ip_address")} }
	}
	return h
}

// ruleNoun is what marked rules of groups that aren't ours are found and
// deleted by; recipes know rules as parts of their group.
func ruleNoun() *noun {
	return &noun{name: "security_group_rule", plural: "security_group_rules", path: "/security-group-rules", unnamed: true}
}

func serverHolding() holding {
	return holding{kind: "server", one: getServer,
		list: func(ctx context.Context, cl *client.Client) ([]client.Object, error) { return listServers(ctx, cl, "") },
		mark: func(o client.Object) string { return markOf(o).(string) },
		remove: func(ctx context.Context, c *Cloud, cl *client.Client, obj client.Object) error {
			return removeServer(ctx, c, cl, str(obj, "id"))
		},
		addresses: func(o client.Object) []string {
			var out []string
			all, _ := o["addresses"].(client.Object)
			for network := range all {
				for _, a := range objects(all, network) {
					out = append(out, str(a, "addr"))
				}
			}
			slices.Sort(out)
			return out
		},
	}
}

func imageHolding() holding {
	return holding{kind: "image", one: getImage,
		list: func(ctx context.Context, cl *client.Client) ([]client.Object, error) {
			q := url.Values{}
			if cl.Project() != "" {
				q.Set("owner", cl.Project())
			}
			all, err := listImages(ctx, cl, q)
			if err != nil {
				return nil, err
			}
			q.Set("os_hidden", "true")
			hidden, err := listImages(ctx, cl, q)
			return append(all, hidden...), err
		},
		mark: func(o client.Object) string { return str(o, imageMark) },
		remove: func(ctx context.Context, c *Cloud, cl *client.Client, obj client.Object) error {
			return removeImage(ctx, c, cl, str(obj, "id"))
		},
	}
}

func keypairHolding() holding {
	named := func(k client.Object) client.Object {
		k["id"] = k["name"]
		return k
	}
	return holding{kind: "keypair", credential: true,
		list: func(ctx context.Context, cl *client.Client) ([]client.Object, error) {
			all, err := listKeypairs(ctx, cl)
			for _, k := range all {
				named(k)
			}
			return all, err
		},
		one: func(ctx context.Context, cl *client.Client, name string) (client.Object, error) {
			k, err := getKeypair(ctx, cl, name)
			if err != nil {
				return nil, err
			}
			return named(k), nil
		},
		mark: func(o client.Object) string {
			_, mark := unmarkedKey(str(o, "public_key"))
			return mark
		},
		remove: func(ctx context.Context, _ *Cloud, cl *client.Client, obj client.Object) error {
			return removeKeypair(ctx, cl, str(obj, "name"))
		},
	}
}

// projectOnly is the query for what the login's project has: an administrator
// would see all projects.
func projectOnly(cl *client.Client) url.Values {
	q := url.Values{}
	if cl.Project() != "" {
		q.Set("project_id", cl.Project())
	}
	return q
}

// scopePrefix is what the targets of this module begin with.
const scopePrefix = "openstack/"

// Scopes returns the clouds that recipes connected to, as far as it is known
// how.
func (c *Clouds) Scopes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, cloud := range c.clouds {
		if cloud.login.known {
			out = append(out, cloud.scope())
		}
	}
	slices.Sort(out)
	return out
}

// named returns the cloud that a scope stands for.
func (c *Clouds) named(scope string) (*Cloud, error) {
	name, ok := strings.CutPrefix(scope, scopePrefix)
	if !ok {
		return nil, fault.New(fault.Internal, "%s is no cloud", scope)
	}
	return c.connect(name)
}

// ListOwned lists what the login's project, and its user, have in a cloud that
// bears one of the marks.
func (c *Clouds) ListOwned(ctx context.Context, scope string, prefixes []string) ([]effect.Owned, error) {
	cloud, err := c.named(scope)
	if err != nil {
		return nil, err
	}
	cl, err := cloud.client(ctx)
	if err != nil {
		return nil, err
	}
	kinds := holdings()
	found := make([][]client.Object, len(kinds))
	group, gctx := errgroup.WithContext(ctx)
	for i, h := range kinds {
		group.Go(func() error {
			v, err := effect.Read(gctx, effect.Query{Target: cloud.target(h.kind, "")}, func(ctx context.Context) ([]client.Object, error) {
				return h.list(ctx, cl)
			})
			if err == nil {
				found[i] = v.([]client.Object)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	me, err := cl.Principal()
	if err != nil {
		return nil, err
	}
	logins := loginsOf(me)
	var out []effect.Owned
	whole := make(map[string]bool) // ids of groups whose rules go with them
	for i, h := range kinds {
		for _, obj := range found[i] {
			mark := h.mark(obj)
			prefix := longestPrefix(mark, prefixes)
			if prefix == "" || whole[str(obj, "security_group_id")] {
				continue
			}
			id, name := str(obj, "id"), mark[len(prefix):]
			o := effect.Owned{Target: cloud.target(h.kind, name), Mark: mark, ID: id, Rank: i, Credential: h.credential, Same: sameAs(cl, me, h.kind, id), Logins: logins}
			switch h.kind {
			case "security_group":
				whole[id] = true
			case "security_group_rule": // those of one group bear one mark
				o.Target.Name, o.By = id, cloud.target("security_group", name)
			}
			o.Delete = cloud.deletionOf(h, o.Target.Name, id, mark)
			if h.addresses != nil {
				o.Addresses = h.addresses(obj)
			}
			out = append(out, o)
		}
	}
	return out, nil
}

// loginsOf returns the ids of all whose end ends a login.
func loginsOf(me client.Principal) []string {
	return slices.DeleteFunc([]string{me.CredentialID, me.UserID, me.ProjectID}, func(id string) bool { return id == "" })
}

// sameAs returns what a resource is known by to all logins. An id is unique
// everywhere, a name only among those of a user or a project.
func sameAs(cl *client.Client, me client.Principal, kind, id string) string {
	switch kind {
	case "keypair":
		return strings.Join([]string{kind, regionOf(cl), me.UserID, id}, " ")
	case containerKind:
		return strings.Join([]string{kind, regionOf(cl), me.ProjectID, id}, " ")
	}
	return kind + " " + id
}

// regionOf returns the region that a login works in.
func regionOf(cl *client.Client) string {
	if r := cl.Entry().Region; r != "" {
		return r
	}
	all, err := cl.Endpoints()
	for _, e := range all {
		if err == nil && e.Region != "" {
			return e.Region
		}
	}
	return ""
}

// longestPrefix returns the longest of the prefixes that mark begins with, or
// "".
func longestPrefix(mark string, prefixes []string) string {
	longest := ""
	for _, p := range prefixes {
		if strings.HasPrefix(mark, p) && len(p) > len(longest) {
			longest = p
		}
	}
	return longest
}

// deletionOf returns the op that deletes one resource, if it bears the mark
// still.
func (c *Cloud) deletionOf(h holding, name, id, mark string) effect.Op {
	return &deleteOp{cloud: c, kind: h.kind, name: name,
		find: func(ctx context.Context, cl *client.Client) (client.Object, error) {
			obj, err := h.one(ctx, cl, id)
			switch {
			case fault.KindOf(err) == fault.NotFound:
				return nil, nil
			case err != nil:
				return nil, err
			case h.mark(obj) != mark:
				return nil, fault.New(fault.Exists, "%s %s no longer bears the owner mark %s", h.kind, id, mark)
			}
			return obj, nil
		},
		remove: func(ctx context.Context, cl *client.Client, obj client.Object) error {
			return h.remove(ctx, c, cl, obj)
		},
	}
}

// Undo returns the key pair as something to delete. One that was made before
// key pairs bore marks has none.
func (o *keypairOp) Undo(st effect.State) effect.Owned {
	mark, _ := st.Attrs["mark"].(string)
	h := keypairHolding()
	return effect.Owned{Target: o.Target(), Mark: mark, ID: o.args.Name, Rank: rankOf("keypair"), Credential: true,
		Delete: o.cloud.deletionOf(h, o.args.Name, o.args.Name, mark)}
}

var _ effect.Undoer = (*keypairOp)(nil)
