package openstack

import (
	"context"
	"net/http"
	"regexp"
	"slices"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// An attachmentOp makes a server have a volume.
type attachmentOp struct {
	cloud *Cloud
	args  attachmentArgs
	pair  attachmentPair
}

func (o *attachmentOp) Target() effect.Target {
	return o.cloud.target("volume_attachment", attachmentName(o.args.Server, o.args.Volume))
}

// holds returns how a volume stands towards a server: free, coming, held, going
// or failed.
func holds(volume client.Object, server string) string {
	mine := slices.ContainsFunc(objects(volume, "attachments"), func(a client.Object) bool { return str(a, "server_id") == server })
	switch s := str(volume, "status"); {
	case s == "error_attaching" || s == "error_detaching" || s == "error":
		return "failed"
	case s == "detaching":
		return "going"
	case mine:
		return "held"
	case s == "available":
		return "free"
	}
	return "coming"
}

func (o *attachmentOp) Observe(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	if o.pair, err = resolvePair(ctx, o.cloud, cl, o.args.Server, o.args.Volume); err != nil {
		return effect.State{}, err
	}
	obj, err := o.pair.find(ctx, cl, o.shows())
	if err != nil || obj == nil {
		return effect.State{}, err
	}
	volume, err := volumeNoun().byID(ctx, cl, o.pair.volume)
	if err != nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: attachmentData(obj), Raw: attachmentSeen{obj, holds(volume, o.pair.server)}}, nil
}

// An attachmentSeen is an attachment and how its volume stands towards the server.
type attachmentSeen struct {
	obj   client.Object
	holds string
}

// shows is the microversion that shows what is compared.
func (o *attachmentOp) shows() string {
	version := ""
	if o.args.Tag != "" {
		version = client.AttachmentShowTagVersion
	}
	if o.args.With != nil {
		version = client.Highest(version, client.AttachmentDeleteVersion)
	}
	return version
}

// diskPrefix is what the hypervisor's bus makes of a disk's name.
var diskPrefix = regexp.MustCompile(`^(/dev/)?(xvd|vd|sd|hd)`)

// diskLetters is what tells a server's disks apart in names like /dev/vdb and
// /dev/sdb.
func diskLetters(device string) string { return diskPrefix.ReplaceAllString(device, "") }

// differs returns what is other than wanted: what can be changed, and what can't.
func (o *attachmentOp) differs(have client.Object) (change, fixed []effect.Field) {
	// A device that is being given a name has none yet.
	if device := str(have, "device"); o.args.Device != "" && device != "" && diskLetters(device) != diskLetters(o.args.Device) {
		fixed = append(fixed, effect.Field{Path: "device", Old: device, New: o.args.Device})
	}
	if o.args.Tag != "" && str(have, "tag") != o.args.Tag {
		fixed = append(fixed, effect.Field{Path: "tag", Old: str(have, "tag"), New: o.args.Tag})
	}
	if with, _ := have["delete_on_termination"].(bool); o.args.With != nil && with != *o.args.With {
		change = append(change, effect.Field{Path: "delete_with_server", Old: with, New: *o.args.With})
	}
	return change, fixed
}

func (o *attachmentOp) Diff(st effect.State) (effect.Change, error) {
	t := o.Target()
	unknown := func(name, id string) any {
		if id != "" {
			return id
		}
		return effect.Unknown{Of: t.String() + " " + name}
	}
	c := effect.Change{Kind: effect.Create, Reach: o.cloud.reach("volume_attachment"),
		After: map[string]any{"server": unknown("server", o.pair.server), "volume": unknown("volume", o.pair.volume), "device": unknown("device", "")}}
	seen, _ := st.Raw.(attachmentSeen)
	if !st.Exists || seen.holds == "going" {
		if st.Exists {
			c.Kind, c.Fields = effect.Update, []effect.Field{{Path: "status", Old: "going", New: "held"}}
		}
		return c, nil
	}
	change, fixed := o.differs(seen.obj)
	switch {
	case len(fixed) > 0 && !o.args.Replace:
		err := immutable(t.String(), o.pair.volume, fixed)
		return effect.Change{}, fault.Hinted(fault.Invalid, "replace = True takes the volume from the server and gives it anew: nothing on the server may use it meanwhile", "%v", err)
	case len(fixed) > 0:
		c.Kind, c.Fields = effect.Replace, append(fixed, change...)
		return c, nil
	}
	if seen.holds != "held" {
		change = append(change, effect.Field{Path: "status", Old: seen.holds, New: "held"})
	}
	if len(change) == 0 {
		return effect.Unchanged(), nil
	}
	c.Kind, c.Fields = effect.Update, change
	c.After["device"] = st.Attrs["device"]
	return c, nil
}

func (o *attachmentOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	seen, _ := c.Before.Raw.(attachmentSeen)
	there := c.Before.Exists && c.Kind != effect.Replace && seen.holds != "going"
	switch {
	case c.Kind == effect.Replace:
		err = o.cloud.detach(ctx, cl, o.pair)
	case seen.holds == "going":
		err = o.cloud.freed(ctx, cl, o.pair)
	}
	if err == nil && !there {
		err = o.attach(ctx, cl)
	}
	if err == nil {
		err = o.held(ctx, cl)
	}
	if err == nil && slices.ContainsFunc(c.Fields, func(f effect.Field) bool { return f.Path == "delete_with_server" }) && there {
		err = o.update(ctx, cl)
	}
	if err != nil {
		return effect.State{}, err
	}
	obj, err := o.pair.find(ctx, cl, o.shows())
	if err == nil && obj == nil {
		err = fault.New(fault.Failed, "the cloud didn't keep %s", o.Target())
	}
	if err != nil {
		return effect.State{}, err
	}
	if _, fixed := o.differs(obj); len(fixed) > 0 {
		return effect.State{}, fault.Hinted(fault.Failed, "leave device out: hypervisors may choose it by themselves",
			"%s: the cloud gave it %s %v, not %v", o.Target(), fixed[0].Path, fixed[0].Old, fixed[0].New)
	}
	return effect.State{Exists: true, Attrs: attachmentData(obj), Raw: attachmentSeen{obj, "held"}}, nil
}

// update says anew whether the volume is deleted with the server.
func (o *attachmentOp) update(ctx context.Context, cl *client.Client) error {
	_, err := cl.Do(ctx, client.Call{Service: client.Compute, Version: client.AttachmentUpdateVersion, Method: http.MethodPut,
		Path: "/servers/" + o.pair.server + "/os-volume_attachments/" + o.pair.volume,
		Body: client.Object{"volumeAttachment": client.Object{"volumeId": o.pair.volume, "delete_on_termination": *o.args.With}}})
	return err
}

func (o *attachmentOp) attach(ctx context.Context, cl *client.Client) error {
	volume, err := volumeNoun().byID(ctx, cl, o.pair.volume)
	if err != nil {
		return err
	}
	body := client.Object{"volumeId": o.pair.volume}
	version := multiattachVersion(volume)
	if o.args.Device != "" {
		body["device"] = o.args.Device
	}
	if o.args.Tag != "" {
		body["tag"], version = o.args.Tag, client.Highest(version, client.AttachmentTagVersion)
	}
	if o.args.With != nil {
		body["delete_on_termination"], version = *o.args.With, client.Highest(version, client.AttachmentDeleteVersion)
	}
	_, err = cl.Do(ctx, client.Call{Service: client.Compute, Version: version, Method: http.MethodPost, Path: "/servers/" + o.pair.server + "/os-volume_attachments",
		Body: client.Object{"volumeAttachment": body}})
	if fault.KindOf(err) != fault.Conflict {
		return err
	}
	return blameServers(ctx, cl, o.pair.volume, err)
}

// multiattachVersion is the microversion that giving a volume to a server needs.
func multiattachVersion(volume client.Object) string {
	if volume["multiattach"] == true {
		return client.MultiattachVersion
	}
	return ""
}

// blameServers adds to an error which servers have a volume.
func blameServers(ctx context.Context, cl *client.Client, id string, err error) error {
	volume, verr := volumeNoun().byID(ctx, cl, id)
	if verr != nil {
		return err // the first error says what went wrong
	}
	var users []string
	for _, s := range volumeServers(volume).([]any) {
		users = append(users, serverText(ctx, cl, s.(string)))
	}
	return blamed(err, users)
}

// held waits until the server has the volume.
func (o *attachmentOp) held(ctx context.Context, cl *client.Client) error {
	w := waiting{target: o.Target(), what: "server " + o.pair.server + " having volume " + o.pair.volume, timeout: o.args.Timeout, hint: "the cloud's operators can tell what holds it up"}
	return o.cloud.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		volume, err := volumeNoun().byID(ctx, cl, o.pair.volume)
		if err != nil {
			return "", false, err
		}
		switch s := holds(volume, o.pair.server); s {
		case "held":
			return "", true, nil
		case "free", "failed":
			return "", false, fault.New(fault.Failed, "attaching volume %s failed: it is %s again", o.pair.volume, str(volume, "status"))
		}
		return "the volume is " + str(volume, "status"), false, nil
	})
}
