package openstack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// userDataKey is the metadata that keeps the digest of the user data, which
// Nova shows to administrators only.
const userDataKey = ownMetadata + "user_data"

// A serverOp makes one server be as a recipe wants it. The owner mark is its
// description; an adopted server keeps its own.
type serverOp struct {
	cloud   *Cloud
	args    serverArgs
	mark    string
	fields  []field
	sent    sent
	glanced glanced
}

func (o *serverOp) Target() effect.Target { return o.cloud.target("server", o.args.Name) }

func (o *serverOp) Observe(ctx context.Context) (effect.State, error) {
	return o.cloud.observe(ctx, o, &o.glanced, o.look)
}

// look reads what there is.
func (o *serverOp) look(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	if err := o.want(ctx, cl); err != nil {
		return effect.State{}, err
	}
	var obj client.Object
	err = o.cloud.patiently(ctx, o.sent, func() (bool, error) {
		var err error
		if obj, err = findServer(ctx, cl, o.args.Name, o.mark, o.args.Adopt); err == nil && obj == nil {
			obj, err = o.sent.made(func(id string) (client.Object, error) { return getServer(ctx, cl, id) })
		}
		return obj != nil, err
	})
	if err != nil || obj == nil {
		return effect.State{}, err
	}
	o.sent = sent{}
	if str(obj, "OS-EXT-STS:task_state") == "deleting" {
		return effect.State{}, fault.New(fault.Conflict, "server %s is being deleted", str(obj, "id"))
	}
	if (o.args.Networks != nil || o.args.Ports != nil) && str(obj, "status") != "BUILD" && str(obj, "status") != "ERROR" {
		ports, err := cl.List(ctx, client.Call{Service: client.Network, Path: "/ports", Query: url.Values{"device_id": {str(obj, "id")}}}, "ports")
		if err != nil {
			return effect.State{}, err
		}
		obj["ports"] = anyOf(ports)
	}
	return effect.State{Exists: true, Attrs: serverData(obj), Raw: obj}, nil
}

func anyOf(objs []client.Object) []any {
	out := make([]any, len(objs))
	for i, o := range objs {
		out[i] = o
	}
	return out
}

// want looks up what the arguments refer to.
func (o *serverOp) want(ctx context.Context, cl *client.Client) error {
	a := o.args
	image, err := resolveImage(ctx, o.cloud, cl, a.Image)
	if err != nil {
		return err
	}
	flavor, err := o.flavor(ctx, cl)
	if err != nil {
		return err
	}
	networks, err := networkNoun().resolveAll(ctx, o.cloud, cl, a.Networks)
	if err != nil {
		return err
	}
	ports, err := portNoun().resolveAll(ctx, o.cloud, cl, a.Ports)
	if err != nil {
		return err
	}
	o.fields = []field{{attr: "image", key: "imageRef", want: image, fixed: true}, {attr: "flavor", key: "flavorRef", want: flavor, fixed: true}}
	if networks != nil {
		o.fields = append(o.fields, field{attr: "networks", want: networks, fixed: true})
	}
	if ports != nil {
		o.fields = append(o.fields, field{attr: "ports", want: ports, fixed: true})
	}
	o.fields = append(o.fields, textField("key_name", "", a.KeyName.ID, true)...)
	o.fields = append(o.fields, textField("availability_zone", "", a.Zone, true)...)
	if a.ConfigDrive != nil {
		o.fields = append(o.fields, field{attr: "config_drive", want: *a.ConfigDrive, fixed: true})
	}
	switch {
	case a.UserData.Empty() || a.UserData.IsSecret():
	case a.UserData.Known():
		o.fields = append(o.fields, field{attr: "user_data", want: digest(a.UserData), fixed: true})
	default:
		o.fields = append(o.fields, field{attr: "user_data", want: a.UserData.Value(), fixed: true})
	}
	if a.SecurityGroups != nil {
		names, err := o.groups(ctx, cl)
		if err != nil {
			return err
		}
		o.fields = append(o.fields, field{attr: "security_groups", want: sorted(names), set: true})
	}
	return nil
}

func digest(t effect.Text) string {
	sum := sha256.Sum256([]byte(t.Reveal()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (o *serverOp) flavor(ctx context.Context, cl *client.Client) (any, error) {
	ref := o.args.Flavor
	if !ref.Known() || ref.Name != "" || isID(ref.ID.Reveal()) {
		return ref.ID.Value(), nil
	}
	f, err := findFlavor(ctx, cl, ref.ID.Reveal())
	return f["id"], err
}

// groups returns the names of the wanted security groups: Nova shows no ids.
func (o *serverOp) groups(ctx context.Context, cl *client.Client) ([]any, error) {
	var out []any
	for _, ref := range o.args.SecurityGroups {
		switch {
		case ref.Name != "":
			out = append(out, ref.Name)
		case ref.Known() && isID(ref.ID.Reveal()):
			g, err := securityGroupNoun().byID(ctx, cl, ref.ID.Reveal())
			if err != nil {
				return nil, err
			}
			out = append(out, str(g, "name"))
		default:
			out = append(out, ref.ID.Value())
		}
	}
	return out, nil
}

// have returns what the fields are compared with.
func (o *serverOp) have(st effect.State) map[string]any {
	obj := st.Raw.(client.Object)
	m, _ := obj["metadata"].(client.Object)
	out := map[string]any{"config_drive": strings.EqualFold(str(obj, "config_drive"), "true"), "user_data": str(m, userDataKey)}
	for k, v := range st.Attrs {
		out[k] = v
	}
	var nets, ports []any
	for _, p := range objects(obj, "ports") {
		ports = append(ports, p["id"])
		if !slices.Contains(nets, p["network_id"]) {
			nets = append(nets, p["network_id"])
		}
	}
	out["networks"], out["ports"] = nets, ports
	return out
}

func (o *serverOp) Diff(st effect.State) (effect.Change, error) {
	c, err := o.diff(st)
	c.Reach = o.cloud.reach("server")
	return c, err
}

func (o *serverOp) diff(st effect.State) (effect.Change, error) {
	target := o.Target()
	var names []string
	for _, a := range serverAttrs() {
		names = append(names, a.Name)
	}
	base := append([]field{{attr: "name", want: o.args.Name}, {attr: "mark", want: o.mark}, {attr: "status", want: "ACTIVE"}}, o.fields...)
	fresh := func(kind effect.ChangeKind, fields []effect.Field) effect.Change {
		c := effect.Change{Kind: kind, Fields: fields, After: after(target, names, nil, base)}
		c.After["metadata"] = merged(nil, o.args.Metadata)
		if o.args.Ports != nil {
			c.After["security_groups"] = effect.Unknown{Of: target.String() + " security_groups"} // the ports' own count too
		}
		return c
	}
	if !st.Exists {
		var fields []effect.Field
		for _, f := range o.fields {
			fields = append(fields, effect.Field{Path: f.attr, New: f.want})
		}
		if o.args.UserData.IsSecret() {
			fields = append(fields, effect.Field{Path: "user_data", New: o.args.UserData.Value()})
		}
		return fresh(effect.Create, append(fields, metadataDiff(nil, o.args.Metadata)...)), nil
	}
	obj := st.Raw.(client.Object)
	status := str(obj, "status")
	if status == "ERROR" {
		if !o.args.Replace {
			return effect.Change{}, serverFailed(obj, o.args.Name, "is in ERROR since an earlier run")
		}
		return fresh(effect.Replace, []effect.Field{{Path: "status", Old: status, New: "ACTIVE"}}), nil
	}
	change, fixed, later := compare(o.comparable(status), o.have(st))
	if len(fixed) > 0 {
		if !o.args.Replace {
			return effect.Change{}, immutable(target.String(), str(obj, "id"), fixed)
		}
		return fresh(effect.Replace, append(fixed, change...)), nil
	}
	if later {
		return effect.Change{Kind: effect.Later, Note: "it depends on what isn't known yet whether it changes"}, nil
	}
	if str(obj, "name") != o.args.Name {
		change = append(change, effect.Field{Path: "name", Old: obj["name"], New: o.args.Name})
	}
	change = append(change, metadataDiff(metadataOf(obj), o.args.Metadata)...)
	switch status {
	case "ACTIVE":
	case "BUILD", "SHUTOFF", "REBOOT", "HARD_REBOOT", "REBUILD":
		change = append(change, effect.Field{Path: "status", Old: status, New: "ACTIVE"})
	default:
		return effect.Change{}, fault.Hinted(fault.Failed, "bring it to ACTIVE or delete it, then run again", "%s (%s) is %s", target, str(obj, "id"), serverState(obj))
	}
	if len(change) == 0 {
		return effect.Unchanged(), nil
	}
	c := effect.Change{Kind: effect.Update, Fields: change, After: after(target, names, st.Attrs, base[:1])}
	c.After["status"], c.After["metadata"] = "ACTIVE", merged(metadataOf(obj), o.args.Metadata)
	if status == "BUILD" {
		for _, n := range []string{"address", "addresses", "availability_zone", "security_groups"} {
			c.After[n] = effect.Unknown{Of: target.String() + " " + n}
		}
	}
	for _, f := range change {
		if f.Path == "security_groups" {
			c.After[f.Path] = f.New
		}
	}
	return c, nil
}

// comparable returns the fields that a server in that status shows truly, with
// networks and ports compared as what must be among those that it has.
func (o *serverOp) comparable(status string) []field {
	var out []field
	for _, f := range o.fields {
		want, isList := f.want.([]any)
		switch f.attr {
		case "networks", "ports":
			if status == "BUILD" {
				continue
			}
			if isList {
				f.equal = func(have any) bool {
					l, _ := have.([]any)
					return !slices.ContainsFunc(want, func(w any) bool { return !slices.Contains(l, w) })
				}
			}
		case "availability_zone", "security_groups":
			if status == "BUILD" {
				continue
			}
		case "user_data":
			// One without a digest was adopted, or made when the data was secret: nothing can be said.
			f.equal = func(have any) bool { return have == "" || have == f.want }
		}
		out = append(out, f)
	}
	return out
}

func metadataDiff(have map[string]any, want map[string]effect.Text) []effect.Field {
	var out []effect.Field
	for _, f := range effect.Compare(merged(nil, want), have) {
		f.Path = "metadata." + f.Path
		out = append(out, f)
	}
	return out
}

// merged returns have with want over it.
func merged(have map[string]any, want map[string]effect.Text) map[string]any {
	out := map[string]any{}
	for k, v := range have {
		out[k] = v
	}
	for k, v := range want {
		out[k] = v.Value()
	}
	return out
}
