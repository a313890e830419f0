package openstack

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func (o *serverOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	obj, _ := c.Before.Raw.(client.Object)
	id := str(obj, "id")
	switch c.Kind {
	case effect.Replace:
		if err := o.spare(ctx, cl, id, objects(obj, "os-extended-volumes:volumes_attached")); err != nil {
			return effect.State{}, err
		}
		if err := removeServer(ctx, o.cloud, cl, id); err != nil {
			return effect.State{}, err
		}
		obj, err = o.make(ctx, cl)
	case effect.Create:
		obj, err = o.make(ctx, cl)
	case effect.Update:
		obj, err = o.update(ctx, cl, obj, c)
	}
	if err != nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: serverData(obj), Raw: obj}, nil
}

// spare takes those volumes off a server which would be deleted with it though
// they are ensured for themselves: the next server gets them, not empty ones.
func (o *serverOp) spare(ctx context.Context, cl *client.Client, id string, volumes []client.Object) error {
	var attachments []client.Object
	for _, v := range volumes {
		volume, err := volumeNoun().byID(ctx, cl, str(v, "id"))
		if fault.KindOf(err) == fault.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		if markOf(volume) == "" {
			continue // it is the server's own
		}
		if attachments == nil {
			if attachments, err = listAttachments(ctx, cl, id, client.AttachmentDeleteVersion); err != nil {
				return err
			}
		}
		for _, a := range attachments {
			if a["volumeId"] == volume["id"] && a["delete_on_termination"] == true {
				if err := o.cloud.detach(ctx, cl, attachmentPair{id, str(volume, "id")}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// make creates a server, waits until it runs, and does what a create can't.
func (o *serverOp) make(ctx context.Context, cl *client.Client) (client.Object, error) {
	id, err := o.create(ctx, cl)
	if err != nil {
		return nil, err
	}
	m := o.machine(cl, id)
	obj, err := m.await(ctx, "ACTIVE")
	if err != nil {
		return nil, err
	}
	if len(o.args.Tags) > 0 {
		if err := m.setTags(ctx, o.tags()); err != nil {
			return nil, err
		}
		obj["tags"] = o.tags()
	}
	if want := o.wantedStatus(""); want != "ACTIVE" {
		return m.power(ctx, obj, want)
	}
	return obj, nil
}

func (o *serverOp) tags() []any {
	out := []any{}
	for _, t := range o.args.Tags {
		out = append(out, t.Reveal())
	}
	return distinct(out)
}

func (o *serverOp) machine(cl *client.Client, id string) machine {
	return machine{cloud: o.cloud, cl: cl, id: id, name: o.args.Name, timeout: o.args.Timeout}
}

func (o *serverOp) create(ctx context.Context, cl *client.Client) (string, error) {
	body := client.Object{"name": o.args.Name, "description": o.mark}
	whole := client.Object{"server": body}
	version := client.ServerVersion
	var volume string
	meta := client.Object{}
	for k, v := range o.args.Metadata {
		meta[k] = v.Reveal()
	}
	nics := []any{}
	for _, f := range o.fields {
		switch f.attr {
		case "networks", "ports":
			key := map[string]string{"networks": "uuid", "ports": "port"}[f.attr]
			for _, id := range f.want.([]any) {
				nics = append(nics, client.Object{key: id})
			}
		case "user_data":
			meta[userDataKey] = f.want
		case "security_groups":
			groups := []any{}
			for _, ref := range o.args.SecurityGroups {
				groups = append(groups, client.Object{"name": ref.ID.Reveal()}) // an id is taken too, and names may repeat
			}
			body["security_groups"] = groups
		case "image":
			if o.args.RootVolume.V == nil {
				f.put(body)
			} else {
				meta[imageKey] = f.want
				body["block_device_mapping_v2"] = []any{rootVolume(o.args.RootVolume.V).device(f.want)}
			}
		case "root_volume":
			meta[rootVolumeKey] = f.want
		case "volume":
			volume = f.want.(string)
			body["block_device_mapping_v2"] = []any{client.Object{"boot_index": 0, "source_type": "volume", "destination_type": "volume", "uuid": volume, "delete_on_termination": false}}
			v, err := volumeNoun().byID(ctx, cl, volume)
			if err != nil {
				return "", err
			}
			version = client.Highest(version, multiattachVersion(v))
		case "group":
			whole["os:scheduler_hints"] = client.Object{"group": f.want}
		case "tags": // set once it runs
		default:
			f.put(body)
		}
	}
	body["networks"] = nics
	if len(meta) > 0 {
		body["metadata"] = meta
	}
	if !o.args.UserData.Empty() {
		body["user_data"] = base64.StdEncoding.EncodeToString([]byte(o.args.UserData.Reveal()))
	}
	if o.args.RootVolume.V != nil && rootVolume(o.args.RootVolume.V).kind != "" {
		version = client.Highest(version, client.RootVolumeTypeVersion)
	}
	call := serverCall(http.MethodPost, "", whole)
	call.Version = version
	made, err := cl.One(ctx, call, "server")
	o.sent.note(ctx, made, err)
	if fault.KindOf(err) == fault.Conflict {
		err = o.blame(ctx, cl, nics, volume, err)
	}
	if err != nil {
		return str(made, "id"), err
	}
	made, err = o.cloud.onlyOne(ctx, o.Target(), made, func() ([]client.Object, error) {
		all, err := listServers(ctx, cl, "")
		return markedOnes(all, o.mark), err
	}, func(obj client.Object) error { return removeServer(ctx, o.cloud, cl, str(obj, "id")) })
	return str(made, "id"), err
}

// device is the root volume as a create asks for it.
func (r rootSpec) device(image any) client.Object {
	d := client.Object{"boot_index": 0, "source_type": "image", "destination_type": "volume", "uuid": image, "volume_size": r.size, "delete_on_termination": r.delete}
	if r.kind != "" {
		d["volume_type"] = r.kind
	}
	return d
}

// blame names what uses the ports or the volume that a new server asks for.
func (o *serverOp) blame(ctx context.Context, cl *client.Client, nics []any, volume string, err error) error {
	if volume != "" && strings.Contains(err.Error(), volume) {
		return blameServers(ctx, cl, volume, err)
	}
	var users []string
	for _, n := range nics {
		if id := str(n.(client.Object), "port"); id != "" {
			p, perr := portUsers(ctx, cl, url.Values{"id": {id}})
			if perr != nil {
				return err // the first error says what went wrong
			}
			users = append(users, p...)
		}
	}
	if len(users) == 0 {
		return err
	}
	return &fault.Error{Kind: fault.Conflict, Hint: "the ports are: " + joinSome(users), After: fault.AfterOf(err), Err: err}
}

// update changes what differs. A server that is on its way somewhere is waited
// for first.
func (o *serverOp) update(ctx context.Context, cl *client.Client, obj client.Object, c effect.Change) (client.Object, error) {
	m := o.machine(cl, str(obj, "id"))
	want := o.wantedStatus(str(obj, "status"))
	obj, err := m.settle(ctx, obj)
	if err != nil {
		return nil, err
	}
	meta := client.Object{}
	differs := map[string]effect.Field{}
	for _, f := range c.Fields {
		differs[f.Path] = f
		switch key, isMeta := strings.CutPrefix(f.Path, "metadata."); {
		case isMeta:
			meta[key] = o.args.Metadata[key].Reveal()
		case f.Path == "name":
			if _, err := cl.Do(ctx, serverCall(http.MethodPut, "/"+m.id, client.Object{"server": client.Object{"name": o.args.Name}})); err != nil {
				return nil, err
			}
		}
	}
	if len(meta) > 0 {
		if _, err := cl.Do(ctx, serverCall(http.MethodPost, "/"+m.id+"/metadata", client.Object{"metadata": meta})); err != nil {
			return nil, err
		}
	}
	if f, differ := differs["flavor"]; differ {
		// What was under way may have been this resize.
		if flavor, _ := obj["flavor"].(client.Object); flavor["id"] != f.New {
			if obj, err = m.resize(ctx, f.New); err != nil {
				return nil, err
			}
		}
	}
	if rebuilds(c.Fields) {
		if obj, err = o.rebuild(ctx, m, obj, differs); err != nil {
			return nil, err
		}
	}
	if err := o.replug(ctx, m, c.Before.Raw.(client.Object), differs); err != nil {
		return nil, err
	}
	if _, differ := differs["tags"]; differ {
		if err := m.setTags(ctx, o.tags()); err != nil {
			return nil, err
		}
	}
	if str(obj, "status") != want {
		return m.power(ctx, obj, want)
	}
	return getServer(ctx, cl, m.id)
}

// rebuild makes the disk anew from the wanted image, with the wanted user data
// and key.
func (o *serverOp) rebuild(ctx context.Context, m machine, obj client.Object, differs map[string]effect.Field) (client.Object, error) {
	image, err := imageToRebuild(ctx, m.cl, obj)
	if err != nil {
		return nil, err
	}
	body := client.Object{"imageRef": image}
	call := serverCall(http.MethodPost, "/"+m.id+"/action", client.Object{"rebuild": body})
	if f, differ := differs["image"]; differ {
		body["imageRef"] = f.New
	}
	if f, differ := differs["key_name"]; differ {
		body["key_name"] = f.New
		call.Version = client.RebuildKeyVersion
	}
	if f, differ := differs["user_data"]; differ {
		body["user_data"] = base64.StdEncoding.EncodeToString([]byte(o.args.UserData.Reveal()))
		body["metadata"] = withMetadata(obj, userDataKey, f.New, o.args.Metadata)
		call.Version = client.RebuildUserDataVersion
	}
	return m.rebuild(ctx, call)
}

// withMetadata returns all metadata of a server, which a rebuild replaces, with
// one more.
func withMetadata(obj client.Object, key string, value any, more map[string]effect.Text) client.Object {
	out := client.Object{}
	have, _ := obj["metadata"].(client.Object)
	for k, v := range have {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v.Reveal()
	}
	out[key] = value
	return out
}

// replug attaches and detaches ports, and gives those on networks their
// security groups.
func (o *serverOp) replug(ctx context.Context, m machine, before client.Object, differs map[string]effect.Field) error {
	attached := false
	for _, attr := range []string{"networks", "ports"} {
		f, differ := differs[attr]
		if !differ {
			continue
		}
		have, _ := f.Old.([]any)
		for _, id := range f.New.([]any) {
			if slices.Contains(have, id) {
				continue
			}
			if err := m.attach(ctx, map[string]string{"networks": "net_id", "ports": "port_id"}[attr], id.(string)); err != nil {
				return err
			}
			attached = attached || attr == "networks"
		}
	}
	for _, id := range o.strays(before) {
		if err := m.detach(ctx, id.(string)); err != nil {
			return err
		}
	}
	if _, differ := differs["security_groups"]; differ || attached && o.args.SecurityGroups != nil {
		return o.regroup(ctx, m)
	}
	return nil
}

// regroup sets the security groups of the ports on networks. It asks Neutron:
// Nova adds a group to all ports, and fails if one has it.
func (o *serverOp) regroup(ctx context.Context, m machine) error {
	groups, err := securityGroupNoun().resolveAll(ctx, o.cloud, m.cl, o.args.SecurityGroups)
	if err != nil {
		return err
	}
	var own []any
	for _, f := range o.fields {
		if f.attr == "ports" {
			own = f.want.([]any)
		}
	}
	ports, err := serverPorts(ctx, m.cl, m.id)
	if err != nil {
		return err
	}
	for _, x := range ports {
		p := x.(client.Object)
		if slices.Contains(own, p["id"]) || p["port_security_enabled"] == false || canonical(sorted(p["security_groups"])) == canonical(sorted(groups)) {
			continue
		}
		if _, err := portNoun().update(ctx, m.cl, str(p, "id"), client.Object{"security_groups": groups}); err != nil {
			return err
		}
	}
	return nil
}

// serverFailed is the error for a server in ERROR, with the cloud's reason.
func serverFailed(obj client.Object, name, how string) error {
	reason, _ := obj["fault"].(client.Object)
	message := str(reason, "message")
	hint := "see `openstack server show " + str(obj, "id") + "`; replace = True deletes it and makes it anew"
	if strings.Contains(message, "No valid host") {
		hint = "no hypervisor has room for this flavor, or none fits availability_zone: choose others, then replace = True deletes the server and makes it anew"
	}
	if message == "" {
		message = "the cloud gives no reason"
	}
	return fault.Hinted(fault.Failed, hint, "server %s (%s) %s: %s", name, str(obj, "id"), how, message)
}

// bootFailed is the same for a server that never ran. A quota that it exceeds is
// of volumes: what Nova itself counts is refused at once.
func bootFailed(obj client.Object, name, how string) error {
	err := serverFailed(obj, name, how)
	if reason, _ := obj["fault"].(client.Object); strings.Contains(strings.ToLower(str(reason, "message")), "quota") {
		return fault.Hinted(fault.Quota, "have the quota raised, or delete volumes; then replace = True deletes the server and makes it anew", "%v", err)
	}
	return err
}
