package openstack

import (
	"context"
	"net/http"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// serverGroupNoun is a server group as Nova has it. It can bear no mark: its
// name is what it is known by.
func serverGroupNoun() *noun {
	return &noun{name: "server_group", service: client.Compute, plural: "server_groups", path: "/os-server-groups", whole: true, attrs: []attr{
		idAttr(), nameAttr(),
		{builtin.Attr{Name: "policy", Type: "str", Doc: "affinity, anti-affinity, soft-affinity or soft-anti-affinity."}, policyOf},
		{builtin.Attr{Name: "members", Type: "list[str]", Doc: "Ids of its servers, sorted."}, func(o client.Object) any { return sorted(o["members"]) }},
		{builtin.Attr{Name: "max_server_per_host", Type: "int or None", Doc: "How many of them may share a hypervisor; None where it isn't asked for."}, perHostOf},
	}}
}

func policyOf(o client.Object) any {
	if p := str(o, "policy"); p != "" {
		return p
	}
	if l, _ := o["policies"].([]any); len(l) > 0 { // before 2.64
		return l[0]
	}
	return ""
}

func perHostOf(o client.Object) any {
	rules, _ := o["rules"].(client.Object)
	return rules["max_server_per_host"]
}

type serverGroupArgs struct {
	Name    string `star:"name,required" doc:"The name: of one group in the project."`
	Policy  string `star:"policy,required" doc:"affinity: all on one hypervisor. anti-affinity: each on another. soft-affinity and soft-anti-affinity: so where there is room. Can't be changed."`
	PerHost *int   `star:"max_server_per_host" doc:"With anti-affinity: how many may share a hypervisor. Default 1. Can't be changed."`
	Replace bool   `star:"replace" doc:"Where it differs, delete it and make it anew: servers are in no group then, and stay."`
}

// policies are those that Nova has, and the microversion that brought each.
var policies = map[string]string{"affinity": "", "anti-affinity": "", "soft-affinity": client.SoftGroupVersion, "soft-anti-affinity": client.SoftGroupVersion}

func serverGroupVerbs() builtin.Noun {
	n := serverGroupNoun()
	verbs := n.verbs("Servers that are placed together, or apart. A group has no field for an owner mark: one is known by its name within the project.", "web", builtin.Of(builtin.Spec[*Cloud, serverGroupArgs]{
		Name:    "ensure",
		Doc:     "Make a server group be there. A group of that name is taken as it is if it is alike.",
		Returns: "openstack.server_group",
		Example: `cloud.server_group.ensure("web", policy = "soft-anti-affinity")`,
		Effect:  builtin.Changes,
		Errors:  []fault.Kind{fault.Exists, fault.Invalid, fault.Quota},
		Run: func(ctx context.Context, c *Cloud, a serverGroupArgs) (any, error) {
			t := c.target("server_group", a.Name)
			version, known := policies[a.Policy]
			switch {
			case a.Name == "":
				return nil, fault.New(fault.Invalid, "the server group's name is empty")
			case !known:
				return nil, fault.Hinted(fault.Invalid, "affinity, anti-affinity, soft-affinity or soft-anti-affinity", "%s: there is no policy %q", t, a.Policy)
			case a.PerHost != nil && a.Policy != "anti-affinity":
				return nil, fault.New(fault.Invalid, "%s: max_server_per_host is for the policy anti-affinity", t)
			case a.PerHost != nil && *a.PerHost < 1:
				return nil, fault.New(fault.Invalid, "%s: max_server_per_host is %d", t, *a.PerHost)
			}
			if a.PerHost != nil {
				version = client.GroupRulesVersion
			}
			n := serverGroupNoun()
			n.version = version
			return c.do(ctx, &serverGroupOp{cloud: c, noun: n, args: a})
		},
	}))
	verbs.Identity = builtin.NaturalKey
	verbs.Verbs[3] = serverGroupDelete()
	return verbs
}

// groupNamed returns the one group of that name; nil if there is none.
func groupNamed(ctx context.Context, cl *client.Client, n *noun, name string) (client.Object, error) {
	all, err := n.list(ctx, cl, nil)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(o client.Object) bool { return str(o, "name") != name })
	switch len(all) {
	case 0:
		return nil, nil
	case 1:
		return all[0], nil
	}
	return nil, fault.Hinted(fault.Exists, "delete all but the one that is used", "%d server groups are called %q: %s", len(all), name, ids(all))
}

// A serverGroupOp makes a server group be as a recipe wants it.
type serverGroupOp struct {
	cloud *Cloud
	noun  *noun
	args  serverGroupArgs
	sent  sent
}

func (o *serverGroupOp) Target() effect.Target { return o.cloud.target("server_group", o.args.Name) }

func (o *serverGroupOp) Observe(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	var obj client.Object
	err = o.cloud.patiently(ctx, o.Target(), o.sent, func() (bool, error) {
		var err error
		obj, err = groupNamed(ctx, cl, o.noun, o.args.Name)
		return obj != nil, err
	})
	if err != nil || obj == nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: o.noun.data(obj), Raw: obj}, nil
}

func (o *serverGroupOp) Diff(st effect.State) (effect.Change, error) {
	fields := []field{{attr: "policy", want: o.args.Policy, fixed: true}}
	if o.args.PerHost != nil {
		fields = append(fields, field{attr: "max_server_per_host", want: *o.args.PerHost, fixed: true})
	}
	all := append([]field{{attr: "name", want: o.args.Name}, {attr: "members", want: []any{}}}, fields...)
	var names []string
	for _, a := range o.noun.attrs {
		names = append(names, a.Name)
	}
	change := effect.Change{Kind: effect.Create, After: after(o.Target(), names, nil, all)}
	if o.args.PerHost == nil {
		change.After["max_server_per_host"] = nil
	}
	for _, f := range fields {
		change.Fields = append(change.Fields, effect.Field{Path: f.attr, New: f.want})
	}
	if !st.Exists {
		return change, nil
	}
	_, differ, _ := compare(fields, st.Attrs)
	switch {
	case len(differ) == 0:
		return effect.Unchanged(), nil
	case !o.args.Replace:
		return effect.Change{}, immutable(o.Target().String(), str(st.Raw.(client.Object), "id"), differ)
	}
	change.Kind, change.Fields = effect.Replace, differ
	return change, nil
}

func (o *serverGroupOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	if c.Kind == effect.Replace {
		if err := o.noun.remove(ctx, o.cloud, cl, c.Before.Raw.(client.Object)); err != nil {
			return effect.State{}, err
		}
	}
	body := client.Object{"name": o.args.Name, "policies": []any{o.args.Policy}}
	if o.args.PerHost != nil {
		body = client.Object{"name": o.args.Name, "policy": o.args.Policy, "rules": client.Object{"max_server_per_host": *o.args.PerHost}}
	}
	obj, err := o.noun.create(ctx, cl, body)
	o.sent.note(ctx, obj, err)
	if err != nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: o.noun.data(obj), Raw: obj}, nil
}

// Undo returns the group as something to delete.
func (o *serverGroupOp) Undo(st effect.State) effect.Owned {
	id := str(st.Raw.(client.Object), "id")
	return effect.Owned{Target: o.Target(), ID: id, Same: "server_group " + id, Rank: rankOf("server"), Delete: &deleteOp{cloud: o.cloud, kind: "server_group", name: o.args.Name,
		find: func(ctx context.Context, cl *client.Client) (client.Object, error) {
			obj, err := o.noun.byID(ctx, cl, id)
			if fault.KindOf(err) == fault.NotFound {
				return nil, nil
			}
			return obj, err
		},
		remove: func(ctx context.Context, cl *client.Client, obj client.Object) error {
			return o.noun.remove(ctx, o.cloud, cl, obj)
		}}}
}

var _ effect.Undoer = (*serverGroupOp)(nil)

type serverGroupDeleteArgs struct {
	Name string `star:"name,required" doc:"The name."`
}

func serverGroupDelete() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, serverGroupDeleteArgs]{
		Name:    "delete",
		Doc:     "Delete the server group of that name. That there is none is no error. Its servers stay.",
		Returns: "None",
		Example: `cloud.server_group.delete("web")`,
		Effect:  builtin.Changes,
		Errors:  []fault.Kind{fault.Exists},
		Run: func(ctx context.Context, c *Cloud, a serverGroupDeleteArgs) (any, error) {
			n := serverGroupNoun()
			_, err := c.do(ctx, &deleteOp{cloud: c, kind: "server_group", name: a.Name,
				find: func(ctx context.Context, cl *client.Client) (client.Object, error) {
					return groupNamed(ctx, cl, n, a.Name)
				},
				remove: func(ctx context.Context, cl *client.Client, obj client.Object) error {
					return n.remove(ctx, c, cl, obj)
				}})
			return nil, err
		},
	})
}

type zoneListArgs struct{}

func availabilityZoneVerbs() builtin.Noun {
	attrs := []builtin.Attr{
		{Name: "id", Type: "str", Doc: "The name, by which Nova knows it."},
		{Name: "name", Type: "str", Doc: "The name."},
		{Name: "available", Type: "bool", Doc: "Whether servers can be made there."},
	}
	return builtin.Noun{
		Name: "availability_zone", Doc: "A part of the cloud that fails by itself.", Identity: builtin.NaturalKey, Attrs: attrs,
		Verbs: []builtin.Func{builtin.Of(builtin.Spec[*Cloud, zoneListArgs]{
			Name:    "list",
			Doc:     "Return the zones that servers can be asked to be in, sorted by name.",
			Returns: "list[openstack.availability_zone]",
			Example: `zones = [z.name for z in cloud.availability_zone.list() if z.available]`,
			Effect:  builtin.Reads,
			Run: func(ctx context.Context, c *Cloud, _ zoneListArgs) (any, error) {
				return readList(ctx, c, "availability_zone", func(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
					all, err := cl.List(ctx, client.Call{Service: client.Compute, Method: http.MethodGet, Path: "/os-availability-zone"}, "availabilityZoneInfo")
					var out []map[string]any
					for _, z := range all {
						state, _ := z["zoneState"].(client.Object)
						out = append(out, map[string]any{"id": z["zoneName"], "name": z["zoneName"], "available": state["available"]})
					}
					slices.SortFunc(out, func(a, b map[string]any) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
					return out, err
				})
			},
		})},
	}
}
