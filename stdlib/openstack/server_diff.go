package openstack

import (
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func (o *serverOp) Diff(st effect.State) (effect.Change, error) {
	c, err := o.diff(st)
	c.Reach = slices.Concat(o.cloud.reach("server"), o.touched)
	return c, err
}

func (o *serverOp) diff(st effect.State) (effect.Change, error) {
	target := o.Target()
	var names []string
	for _, a := range serverAttrs() {
		names = append(names, a.Name)
	}
	want := o.wantedStatus("")
	base := append([]field{{attr: "name", want: o.args.Name}, {attr: "mark", want: o.mark}, {attr: "status", want: want}}, o.fields...)
	unknown := func(after map[string]any, names ...string) {
		for _, n := range names {
			after[n] = effect.Unknown{Of: target.String() + " " + n}
		}
	}
	fresh := func(kind effect.ChangeKind, fields []effect.Field) effect.Change {
		c := effect.Change{Kind: kind, Fields: fields, After: after(target, names, nil, base)}
		c.After["metadata"] = merged(nil, o.args.Metadata)
		if o.args.Tags == nil {
			c.After["tags"] = []any{}
		}
		if o.args.Ports != nil {
			unknown(c.After, "security_groups") // the ports' own count too
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
		if want == "SHUTOFF" {
			fields = append(fields, effect.Field{Path: "status", New: want})
		}
		return fresh(effect.Create, append(fields, metadataDiff(nil, o.args.Metadata)...)), nil
	}
	obj := st.Raw.(client.Object)
	status := str(obj, "status")
	want = o.wantedStatus(status)
	if status == "ERROR" {
		if !o.args.Replace {
			return effect.Change{}, bootFailed(obj, o.args.Name, "is in ERROR since an earlier run")
		}
		return fresh(effect.Replace, []effect.Field{{Path: "status", Old: status, New: want}}), nil
	}
	change, fixed, later := compare(o.comparable(status), o.have(st))
	for i, f := range change {
		change[i].New = o.plugged(obj, f)
	}
	if len(fixed) > 0 {
		if !o.args.Replace {
			return effect.Change{}, o.immutable(obj, fixed)
		}
		return fresh(effect.Replace, append(fixed, change...)), nil
	}
	if later {
		return effect.Change{Kind: effect.Later, Note: "it depends on what isn't known yet whether it changes"}, nil
	}
	if str(obj, "name") != o.args.Name && !o.adopt.chosen() {
		change = append(change, effect.Field{Path: "name", Old: obj["name"], New: o.args.Name})
	}
	for _, id := range o.strays(obj) {
		change = append(change, effect.Field{Path: "interface " + id.(string), Old: id})
	}
	change = append(change, metadataDiff(metadataOf(obj), o.args.Metadata)...)
	if err := o.movable(obj, status); err != nil {
		return effect.Change{}, err
	}
	if status != want {
		change = append(change, effect.Field{Path: "status", Old: status, New: want})
	}
	if len(change) == 0 {
		return effect.Unchanged(), nil
	}
	c := effect.Change{Kind: effect.Update, Fields: change, After: after(target, names, st.Attrs, nil)}
	c.After["status"], c.After["metadata"] = want, merged(metadataOf(obj), o.args.Metadata)
	if status == "BUILD" {
		unknown(c.After, "address", "addresses", "interfaces", "availability_zone", "security_groups")
	}
	for _, f := range change {
		if f.Path == "flavor" {
			unknown(c.After, "availability_zone") // a resize moves it to another hypervisor
		}
		switch f.Path {
		case "name", "security_groups", "tags", "flavor", "image", "key_name":
			c.After[f.Path] = f.New
			if _, known := f.New.(effect.Unknown); known {
				unknown(c.After, f.Path)
			}
		case "networks", "ports":
			unknown(c.After, "address", "addresses", "interfaces")
			if o.args.SecurityGroups == nil || o.args.Ports != nil {
				unknown(c.After, "security_groups")
			}
		}
		if strings.HasPrefix(f.Path, "interface ") {
			unknown(c.After, "address", "addresses", "interfaces", "security_groups")
		}
	}
	if rebuilds(change) {
		c.Note = "its disk is made anew"
		if o.args.RootVolume.V != nil || !o.args.Volume.Empty() {
			c.Note = "it restarts, and its volume keeps what is on it"
		}
	} else if slices.ContainsFunc(change, func(f effect.Field) bool { return f.Path == "flavor" }) {
		c.Note = "it restarts"
	}
	for _, ip := range o.lost {
		if c.Note != "" {
			c.Note += "; "
		}
		c.Note += "floating IP " + str(ip, "floating_ip_address") + " leads to it no longer"
	}
	return c, nil
}

// wantedStatus is the status to bring a server to that is in that one.
func (o *serverOp) wantedStatus(now string) string {
	if o.args.Power == "off" || o.args.Power == "keep" && now == "SHUTOFF" {
		return "SHUTOFF"
	}
	return "ACTIVE"
}

// movable refuses a server in a status that it doesn't leave by itself, and
// that ensure doesn't take it out of.
func (o *serverOp) movable(obj client.Object, status string) error {
	switch status {
	case "ACTIVE", "SHUTOFF", "BUILD", "REBOOT", "HARD_REBOOT", "REBUILD":
		return nil
	case "RESIZE", "VERIFY_RESIZE", "REVERT_RESIZE":
		if o.args.Resize {
			return nil
		}
		return fault.Hinted(fault.Failed, "resize = True confirms a resize that is under way; `openstack server resize revert` takes it back",
			"%s (%s) is %s", o.Target(), str(obj, "id"), serverState(obj))
	}
	return fault.Hinted(fault.Failed, "bring it to ACTIVE or delete it, then run again", "%s (%s) is %s", o.Target(), str(obj, "id"), serverState(obj))
}

// rebuilds reports whether a change makes the disk anew.
func rebuilds(fields []effect.Field) bool {
	return slices.ContainsFunc(fields, func(f effect.Field) bool {
		return f.Path == "image" || f.Path == "user_data" || f.Path == "key_name"
	})
}

// immutable is the error for what differs and may not be changed. It says what
// would allow it, the mildest first.
func (o *serverOp) immutable(obj client.Object, differ []effect.Field) error {
	err := immutable(o.Target().String(), str(obj, "id"), differ)
	if slices.ContainsFunc(differ, func(f effect.Field) bool {
		return f.Path != "flavor" && !(rebuilds([]effect.Field{f}) && o.args.RootVolume.V == nil && o.args.Volume.Empty())
	}) {
		return err // nothing milder helps
	}
	hint := "replace = True deletes it and makes it anew"
	if rebuilds(differ) {
		hint = "rebuild = True makes its disk anew, and keeps its id, ports and addresses; " + hint
	}
	if slices.ContainsFunc(differ, func(f effect.Field) bool { return f.Path == "flavor" }) {
		hint = "resize = True changes the flavor, which restarts it; " + hint
	}
	return &fault.Error{Kind: fault.Invalid, Hint: hint, Err: err}
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
