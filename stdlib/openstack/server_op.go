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

// The metadata that this module keeps for itself, of what Nova shows to
// administrators only, or not at all.
const (
	userDataKey   = ownMetadata + "user_data"   // digest of the user data
	imageKey      = ownMetadata + "image"       // image that the root volume was made of
	rootVolumeKey = ownMetadata + "root_volume" // size, type and fate of the root volume
	stampKey      = ownMetadata + "done_"       // begins the stamps of what is done once per key
)

// A serverOp makes one server be as a recipe wants it. The owner mark is its
// description; an adopted server keeps its own.
type serverOp struct {
	cloud   *Cloud
	args    serverArgs
	mark    string
	adopt   adoption
	touched []string        // the reach of what is detached
	lost    []client.Object // floating IPs of the ports that exact = True detaches
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
	err = o.cloud.patiently(ctx, o.Target(), o.sent, func() (bool, error) {
		var err error
		if obj, err = findServer(ctx, cl, o.args.Name, o.mark, o.adopt); err == nil && obj == nil {
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
		if obj["ports"], err = serverPorts(ctx, cl, str(obj, "id")); err != nil {
			return effect.State{}, err
		}
	}
	o.lost, o.touched = nil, nil
	for _, port := range o.strays(obj) {
		led, err := floatingIPNoun().list(ctx, cl, url.Values{"port_id": {port.(string)}})
		if err != nil {
			return effect.State{}, err
		}
		o.lost = append(o.lost, led...)
	}
	for _, ip := range o.lost {
		o.touched = append(o.touched, o.cloud.floatingTarget(ctx, ip))
	}
	if !o.args.Volume.Empty() {
		if obj["root"], err = rootVolumeOf(ctx, cl, obj); err != nil {
			return effect.State{}, err
		}
	}
	if !o.args.Group.Empty() {
		if obj["group"], err = o.groupOf(ctx, cl, str(obj, "id")); err != nil {
			return effect.State{}, err
		}
	}
	return effect.State{Exists: true, Attrs: serverData(obj), Raw: obj}, nil
}

// serverPorts returns the ports of a server.
func serverPorts(ctx context.Context, cl *client.Client, id string) ([]any, error) {
	ports, err := cl.List(ctx, client.Call{Service: client.Network, Path: "/ports", Query: url.Values{"device_id": {id}}}, "ports")
	out := make([]any, len(ports))
	for i, p := range ports {
		out[i] = p
	}
	return out, err
}

// groupOf returns the id of the wanted server group if the server is a member,
// else "".
func (o *serverOp) groupOf(ctx context.Context, cl *client.Client, id string) (any, error) {
	for _, f := range o.fields {
		group, known := f.want.(string)
		if f.attr != "group" || !known {
			continue
		}
		g, err := serverGroupNoun().byID(ctx, cl, group)
		if err != nil {
			return nil, err
		}
		if members, _ := g["members"].([]any); slices.Contains(members, any(id)) {
			return group, nil
		}
	}
	return "", nil
}

// want looks up what the arguments refer to.
func (o *serverOp) want(ctx context.Context, cl *client.Client) error {
	a := o.args
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
	o.fields = nil
	if !a.Image.Empty() {
		image, err := resolveImage(ctx, o.cloud, cl, a.Image)
		if err != nil {
			return err
		}
		o.fields = append(o.fields, field{attr: "image", key: "imageRef", want: image, fixed: !a.Rebuild || a.RootVolume.V != nil})
	}
	o.fields = append(o.fields, field{attr: "flavor", key: "flavorRef", want: flavor, fixed: !a.Resize})
	if networks != nil {
		o.fields = append(o.fields, field{attr: "networks", want: networks})
	}
	if ports != nil {
		o.fields = append(o.fields, field{attr: "ports", want: ports})
	}
	if a.RootVolume.V != nil {
		o.fields = append(o.fields, field{attr: "root_volume", want: rootVolume(a.RootVolume.V).String(), fixed: true})
	}
	if !a.Volume.Empty() {
		volume, err := volumeNoun().resolve(ctx, o.cloud, cl, a.Volume)
		if err != nil {
			return err
		}
		o.fields = append(o.fields, field{attr: "volume", want: volume, fixed: true})
	}
	o.fields = append(o.fields, textField("key_name", "", a.KeyName.ID, !a.Rebuild)...)
	o.fields = append(o.fields, textField("availability_zone", "", a.Zone, true)...)
	if !a.Group.Empty() {
		group, err := serverGroupNoun().resolve(ctx, o.cloud, cl, a.Group)
		if err != nil {
			return err
		}
		o.fields = append(o.fields, field{attr: "group", want: group, fixed: true})
	}
	if a.ConfigDrive != nil {
		o.fields = append(o.fields, field{attr: "config_drive", want: *a.ConfigDrive, fixed: true})
	}
	switch {
	case a.UserData.Empty() || a.UserData.IsSecret():
	case a.UserData.Known():
		o.fields = append(o.fields, field{attr: "user_data", want: digest(a.UserData), fixed: !a.Rebuild})
	default:
		o.fields = append(o.fields, field{attr: "user_data", want: a.UserData.Value(), fixed: !a.Rebuild})
	}
	if a.SecurityGroups != nil {
		names, err := o.groups(ctx, cl)
		if err != nil {
			return err
		}
		o.fields = append(o.fields, field{attr: "security_groups", want: sorted(names), set: true})
	}
	o.fields = append(o.fields, listField("tags", "", a.Tags, true)...)
	return checkTags(o.Target(), o.fields)
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
	out := map[string]any{"config_drive": strings.EqualFold(str(obj, "config_drive"), "true"), "user_data": str(m, userDataKey),
		"root_volume": str(m, rootVolumeKey), "group": obj["group"], "volume": obj["root"]}
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
		case "availability_zone", "security_groups", "group", "volume":
			if status == "BUILD" {
				continue
			}
		case "user_data", "root_volume":
			// One without was adopted, or made when the data was secret: nothing can be said.
			f.equal = func(have any) bool { return have == "" || have == f.want }
		}
		out = append(out, f)
	}
	return out
}

// plugged returns what a server will have where its networks or ports change:
// what it has stays, but for what exact = True detaches.
func (o *serverOp) plugged(obj client.Object, f effect.Field) any {
	want, isList := f.New.([]any)
	key := map[string]string{"networks": "network_id", "ports": "id"}[f.Path]
	if !isList || key == "" {
		return f.New
	}
	strays := o.strays(obj)
	var all []any
	for _, p := range objects(obj, "ports") {
		if !slices.Contains(strays, p["id"]) {
			all = append(all, p[key])
		}
	}
	return distinct(append(all, want...))
}

// strays returns the ids of the ports that exact = True detaches: those that
// are neither wanted nor on a wanted network.
func (o *serverOp) strays(obj client.Object) []any {
	if !o.args.Exact {
		return nil
	}
	var networks, ports []any
	for _, f := range o.fields {
		if f.attr == "networks" || f.attr == "ports" {
			if !f.known() {
				return nil
			}
			if f.attr == "networks" {
				networks = f.want.([]any)
			} else {
				ports = f.want.([]any)
			}
		}
	}
	var out []any
	for _, p := range objects(obj, "ports") {
		if !slices.Contains(ports, p["id"]) && !slices.Contains(networks, p["network_id"]) {
			out = append(out, p["id"])
		}
	}
	return out
}
