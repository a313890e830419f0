package openstack

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type flavorArgs struct {
	Name       string                 `star:"name,required" doc:"The name: unique in the cloud."`
	VCPUs      int                    `star:"vcpus,required" doc:"Virtual processors. Can't be changed."`
	RAM        int                    `star:"ram,required" doc:"Memory in MiB. Can't be changed."`
	Disk       int                    `star:"disk,required" doc:"Root disk in GiB; 0 means as large as the image. Can't be changed."`
	Ephemeral  int                    `star:"ephemeral" doc:"A second disk in GiB that goes with the server. Can't be changed."`
	Swap       int                    `star:"swap" doc:"Swap space in MiB. Can't be changed."`
	Public     *bool                  `star:"public" doc:"Whether every project may use it. A new one is public by default. Can't be changed."`
	ID         string                 `star:"id" doc:"Its id. Default: the cloud's choice, and what it is isn't compared. Can't be changed."`
	ExtraSpecs map[string]effect.Text `star:"extra_specs" secret:"never" doc:"Extra specs to have, such as hw:cpu_policy; others stay."`
	Exact      bool                   `star:"exact" doc:"Remove extra specs that aren't given, and the access of other projects."`
	Access     []effect.Reference     `star:"access" of:"openstack.project" doc:"The projects that may use it though it isn't public, by id or object; others stay."`
	Adopt      bool                   `star:"adopt" doc:"Change a flavor of that name though it lacks this recipe's mark."`
	Replace    bool                   `star:"replace" doc:"Where what can't be changed differs, delete it and make it anew: servers keep what they have."`
}

func flavorEnsure() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, flavorArgs]{
		Name: "ensure",
		Doc: "Make a flavor be there, of exactly these sizes. One that is alike already is taken as it is, whoever made it; one that isn't this recipe's is not changed unless `adopt = True`. " +
			"Making and changing is for administrators.",
		Returns: "openstack.flavor",
		Example: `openstack.connect("admin").flavor.ensure("lab.small", vcpus = 2, ram = 4096, disk = 20, extra_specs = {"hw:cpu_policy": "shared"})`,
		Effect:  builtin.Changes,
		Errors:  []fault.Kind{fault.Denied, fault.Exists, fault.Invalid},
		Run: func(ctx context.Context, c *Cloud, a flavorArgs) (any, error) {
			t := c.target("flavor", a.Name)
			switch {
			case a.Name == "":
				return nil, fault.New(fault.Invalid, "the flavor's name is empty")
			case a.VCPUs < 1 || a.RAM < 1:
				return nil, fault.New(fault.Invalid, "%s: it needs a processor and memory", t)
			case a.Disk < 0 || a.Ephemeral < 0 || a.Swap < 0:
				return nil, fault.New(fault.Invalid, "%s: a size is negative", t)
			case len(a.Access) > 0 && (a.Public == nil || *a.Public):
				return nil, fault.Hinted(fault.Invalid, "say public = False", "%s: access is for a flavor that isn't public", t)
			}
			mark, err := markFor(ctx, c, "flavor", a.Name)
			if err != nil {
				return nil, err
			}
			return c.do(ctx, &flavorOp{cloud: c, args: a, mark: mark})
		},
	})
}

// flavorNoun is a flavor as administrators see it: with its mark.
func flavorNoun() *noun {
	return &noun{name: "flavor", service: client.Compute, version: client.FlavorEnsureVersion, plural: "flavors", path: "/flavors", detail: "/flavors/detail", whole: true}
}

// everyFlavor is the query for those that aren't public too.
func everyFlavor() url.Values { return url.Values{"is_public": {"None"}} }

// A flavorOp makes one flavor be as a recipe wants it. The owner mark is its
// description.
type flavorOp struct {
	cloud   *Cloud
	args    flavorArgs
	mark    string
	access  []any // ids of projects
	sent    sent
	glanced glanced
}

func (o *flavorOp) Target() effect.Target { return o.cloud.target("flavor", o.args.Name) }

func (o *flavorOp) Observe(ctx context.Context) (effect.State, error) {
	return o.cloud.observe(ctx, o, &o.glanced, o.look)
}

// look reads what there is.
func (o *flavorOp) look(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	o.access = nil
	for _, p := range o.args.Access {
		o.access = append(o.access, p.ID.Value())
	}
	var obj client.Object
	err = o.cloud.patiently(ctx, o.Target(), o.sent, func() (bool, error) {
		all, err := flavorNoun().list(ctx, cl, everyFlavor())
		for _, f := range all {
			if str(f, "name") == o.args.Name {
				obj = f
			}
		}
		return obj != nil, err
	})
	if err != nil || obj == nil {
		return effect.State{}, err
	}
	if o.args.Access != nil {
		if obj["access"], err = flavorAccess(ctx, cl, str(obj, "id")); err != nil {
			return effect.State{}, err
		}
	}
	return effect.State{Exists: true, Attrs: flavorData(obj), Raw: obj}, nil
}

// flavorAccess returns the ids of the projects that may use a flavor.
func flavorAccess(ctx context.Context, cl *client.Client, id string) ([]any, error) {
	all, err := cl.List(ctx, flavorNoun().call(http.MethodGet, url.PathEscape(id)+"/os-flavor-access", nil), "flavor_access")
	if fault.KindOf(err) == fault.NotFound { // it is public
		return nil, nil
	}
	out := []any{}
	for _, a := range all {
		out = append(out, a["tenant_id"])
	}
	return out, err
}

// fields returns what can't be changed on a flavor.
func (o *flavorOp) fields() []field {
	fs := []field{
		{attr: "vcpus", want: o.args.VCPUs, fixed: true}, {attr: "ram", want: o.args.RAM, fixed: true}, {attr: "disk", want: o.args.Disk, fixed: true},
		{attr: "ephemeral", key: "OS-FLV-EXT-DATA:ephemeral", want: o.args.Ephemeral, fixed: true}, {attr: "swap", want: o.args.Swap, fixed: true},
	}
	if o.args.Public != nil {
		fs = append(fs, field{attr: "public", key: "os-flavor-access:is_public", want: *o.args.Public, fixed: true})
	}
	if o.args.ID != "" {
		fs = append(fs, field{attr: "id", want: o.args.ID, fixed: true})
	}
	return fs
}

// later returns what is set by calls of its own, compared with a flavor, which
// is nil if there is none yet.
func (o *flavorOp) later(obj client.Object) []effect.Field {
	specs, _ := obj["extra_specs"].(client.Object)
	var out []effect.Field
	for _, f := range effect.Compare(merged(nil, o.args.ExtraSpecs), specs) {
		f.Path = "extra_specs." + f.Path
		out = append(out, f)
	}
	have, _ := obj["access"].([]any)
	for _, id := range o.access {
		if !slices.Contains(have, id) {
			out = append(out, effect.Field{Path: "access", New: id})
		}
	}
	if !o.args.Exact {
		return out
	}
	if o.args.ExtraSpecs != nil {
		var gone []string
		for k := range specs {
			if _, wanted := o.args.ExtraSpecs[k]; !wanted {
				gone = append(gone, k)
			}
		}
		slices.Sort(gone)
		for _, k := range gone {
			out = append(out, effect.Field{Path: "extra_specs." + k, Old: specs[k]})
		}
	}
	for _, id := range have {
		if o.args.Access != nil && !slices.Contains(o.access, id) {
			out = append(out, effect.Field{Path: "access", Old: id})
		}
	}
	return out
}

func (o *flavorOp) Diff(st effect.State) (effect.Change, error) {
	var names []string
	for _, a := range flavorAttrs() {
		names = append(names, a.Name)
	}
	fields := o.fields()
	all := append([]field{{attr: "name", want: o.args.Name}, {attr: "mark", want: o.mark}}, fields...)
	c := effect.Change{Kind: effect.Create, After: after(o.Target(), names, nil, all)}
	if o.args.Public == nil {
		c.After["public"] = true
	}
	for _, f := range fields {
		c.Fields = append(c.Fields, effect.Field{Path: f.attr, New: f.want})
	}
	if !st.Exists {
		c.Fields = append(c.Fields, o.later(nil)...)
		return c, nil
	}
	obj := st.Raw.(client.Object)
	_, fixed, _ := compare(fields, st.Attrs)
	more := o.later(obj)
	if len(fixed) == 0 && len(more) == 0 {
		return effect.Unchanged(), nil
	}
	if markOf(obj) != o.mark && !o.args.Adopt {
		var parts []string
		for _, f := range append(fixed, more...) {
			parts = append(parts, f.Path+" is "+show(f.Old)+", not "+show(f.New))
		}
		return effect.Change{}, fault.Hinted(fault.Exists, "adopt = True lets this recipe change it; or choose another name",
			"a flavor %q exists that isn't ours (%s): %s", o.args.Name, str(obj, "id"), strings.Join(parts, "; "))
	}
	if len(fixed) == 0 {
		return effect.Change{Kind: effect.Update, Fields: more, After: after(o.Target(), names, st.Attrs, nil)}, nil
	}
	if !o.args.Replace {
		return effect.Change{}, immutable(o.Target().String(), str(obj, "id"), fixed)
	}
	c.Kind, c.Fields = effect.Replace, append(fixed, more...)
	return c, nil
}

func (o *flavorOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	obj, _ := c.Before.Raw.(client.Object)
	if c.Kind == effect.Replace {
		if err := removeFlavor(ctx, cl, str(obj, "id")); err != nil {
			return effect.State{}, err
		}
		obj = nil
	}
	if obj == nil {
		body := client.Object{"name": o.args.Name, "description": o.mark}
		for _, f := range o.fields() {
			f.put(body)
		}
		obj, err = flavorNoun().create(ctx, cl, body)
		o.sent.note(ctx, obj, err)
		if err != nil {
			return effect.State{}, err
		}
	}
	if err := o.complete(ctx, cl, obj); err != nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: flavorData(obj), Raw: obj}, nil
}

// complete makes extra specs and access as wanted.
func (o *flavorOp) complete(ctx context.Context, cl *client.Client, obj client.Object) error {
	id := url.PathEscape(str(obj, "id"))
	specs := client.Object{}
	for _, f := range o.later(obj) {
		key, isSpec := strings.CutPrefix(f.Path, "extra_specs.")
		var err error
		switch {
		case isSpec && f.New != nil:
			specs[key] = o.args.ExtraSpecs[key].Reveal()
		case isSpec:
			_, err = cl.Do(ctx, flavorNoun().call(http.MethodDelete, id+"/os-extra_specs/"+url.PathEscape(key), nil))
		case f.New != nil:
			err = o.grant(ctx, cl, id, "addTenantAccess", f.New)
		default:
			err = o.grant(ctx, cl, id, "removeTenantAccess", f.Old)
		}
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	if len(specs) == 0 {
		return nil
	}
	call := flavorNoun().call(http.MethodPost, id+"/os-extra_specs", nil)
	call.Body = client.Object{"extra_specs": specs}
	_, err := cl.Do(ctx, call)
	return err
}

// grant lets a project use the flavor, or no longer. That it is so already is
// no error.
func (o *flavorOp) grant(ctx context.Context, cl *client.Client, id, action string, project any) error {
	call := flavorNoun().call(http.MethodPost, id+"/action", nil)
	call.Body = client.Object{action: client.Object{"tenant": project}}
	_, err := cl.Do(ctx, call)
	if fault.KindOf(err) == fault.Exists && action == "addTenantAccess" {
		return nil
	}
	return err
}

func removeFlavor(ctx context.Context, cl *client.Client, id string) error {
	_, err := cl.Do(ctx, flavorNoun().call(http.MethodDelete, url.PathEscape(id), nil))
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}

// findMarkedFlavor returns the flavor of that name for a deletion.
func findMarkedFlavor(ctx context.Context, cl *client.Client, name, mark string, adopt bool) (client.Object, error) {
	all, err := flavorNoun().list(ctx, cl, everyFlavor())
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(f client.Object) bool { return str(f, "name") != name })
	return foreign("flavor", name, mark, all, adopt)
}

func flavorDelete() builtin.Func {
	return deletion{
		kind: "flavor", example: "lab.small",
		doc:    "Delete the flavor of that name. Servers keep what they have of it. That there is none is no error; one that isn't this recipe's is refused.",
		errors: []fault.Kind{fault.Denied, fault.Exists},
		find: func(ctx context.Context, _ *Cloud, cl *client.Client, a deleteArgs, mark string) (client.Object, error) {
			return findMarkedFlavor(ctx, cl, a.Name, mark, a.Adopt)
		},
		remove: func(ctx context.Context, _ *Cloud, cl *client.Client, obj client.Object) error {
			return removeFlavor(ctx, cl, str(obj, "id"))
		},
	}.verb()
}

// flavorHolding is of the whole cloud: only administrators can delete them.
func flavorHolding() holding {
	h := holdingOf(flavorNoun())
	h.list = func(ctx context.Context, cl *client.Client) ([]client.Object, error) {
		if may, err := administers(cl); err != nil || !may {
			return nil, err
		}
		all, err := flavorNoun().list(ctx, cl, everyFlavor())
		if fault.KindOf(err) == fault.Invalid {
			return nil, nil // a cloud that old keeps no marks of flavors
		}
		return all, err
	}
	h.remove = func(ctx context.Context, _ *Cloud, cl *client.Client, obj client.Object) error {
		return removeFlavor(ctx, cl, str(obj, "id"))
	}
	return h
}

// sizeOf returns a size that Nova shows as empty text where it is 0.
func sizeOf(o client.Object, key string) int64 {
	if s, isText := o[key].(string); isText {
		n, _ := strconv.ParseInt(s, 10, 64)
		return n
	}
	return number(o, key)
}
