package openstack

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// An imageOp makes one image be as a recipe wants it. The owner mark and the
// digest of the content are properties; an adopted image gets neither, and is
// compared by the digest that Glance made.
type imageOp struct {
	cloud   *Cloud
	args    imageArgs
	mark    string
	sent    sent
	glanced glanced
}

func (o *imageOp) Target() effect.Target { return o.cloud.target("image", o.args.Name) }

func (o *imageOp) Observe(ctx context.Context) (effect.State, error) {
	return o.cloud.observe(ctx, o, &o.glanced, o.look)
}

// look reads what there is.
func (o *imageOp) look(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	var obj client.Object
	err = o.cloud.patiently(ctx, o.sent, func() (bool, error) {
		var err error
		if obj, err = findImage(ctx, cl, o.args.Name, o.mark, o.args.Adopt); err == nil && obj == nil {
			obj, err = o.sent.made(func(id string) (client.Object, error) { return getImage(ctx, cl, id) })
		}
		return obj != nil, err
	})
	if err != nil || obj == nil {
		return effect.State{}, err
	}
	o.sent = sent{}
	attrs := imageData(obj)
	if attrs["sha256"] == "" && str(obj, "os_hash_algo") == "sha512" {
		// An adopted image: if Glance's digest is the file's, so is the content.
		sum, err := sha512Of(o.args.File.Path)
		if err != nil {
			return effect.State{}, err
		}
		if sum == str(obj, "os_hash_value") {
			attrs["sha256"] = o.args.File.SHA256
		}
	}
	return effect.State{Exists: true, Attrs: attrs, Raw: obj}, nil
}

func sha512Of(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fault.New(fault.Invalid, "reading the image's file: %v", err)
	}
	defer f.Close()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fault.New(fault.Invalid, "reading the image's file: %v", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// fields returns what is compared, properties excepted.
func (o *imageOp) fields() []field {
	fs := []field{
		{attr: "name", want: o.args.Name},
		{attr: "sha256", key: imageDigest, want: o.args.File.SHA256, fixed: true},
		{attr: "disk_format", want: o.args.DiskFormat, fixed: true},
		{attr: "container_format", want: o.args.ContainerFormat, fixed: true},
	}
	fs = append(fs, intField("min_disk", "", o.args.MinDisk)...)
	fs = append(fs, intField("min_ram", "", o.args.MinRAM)...)
	if o.args.Visibility != "" {
		fs = append(fs, field{attr: "visibility", want: o.args.Visibility})
	}
	return fs
}

func (o *imageOp) Diff(st effect.State) (effect.Change, error) {
	target := o.Target()
	var names []string
	for _, a := range imageAttrs() {
		names = append(names, a.Name)
	}
	base := append([]field{{attr: "status", want: "active"}, {attr: "mark", want: o.mark}}, o.fields()...)
	fresh := func(kind effect.ChangeKind, fields []effect.Field) effect.Change {
		c := effect.Change{Kind: kind, Fields: fields, After: after(target, names, nil, base)}
		c.After["properties"] = merged(nil, o.args.Properties)
		return c
	}
	if !st.Exists {
		var fields []effect.Field
		for _, f := range o.fields()[1:] {
			fields = append(fields, effect.Field{Path: f.attr, New: f.want})
		}
		return fresh(effect.Create, append(fields, o.propertyDiff(nil)...)), nil
	}
	obj := st.Raw.(client.Object)
	status := str(obj, "status")
	change, fixed, _ := compare(o.fields(), st.Attrs)
	if len(fixed) > 0 && !o.args.Replace {
		return effect.Change{}, immutable(target.String(), str(obj, "id"), fixed)
	}
	if len(fixed) > 0 || status == "killed" {
		return fresh(effect.Replace, append(fixed, change...)), nil
	}
	switch status {
	case "active":
	case "queued", "saving", "uploading", "importing":
		change = append(change, effect.Field{Path: "status", Old: status, New: "active"})
	default:
		return effect.Change{}, fault.Hinted(fault.Failed, "reactivate or delete it, then run again", "%s (%s) is %s", target, str(obj, "id"), status)
	}
	change = append(change, o.propertyDiff(imageProperties(obj))...)
	if len(change) == 0 {
		return effect.Unchanged(), nil
	}
	c := effect.Change{Kind: effect.Update, Fields: change, After: after(target, names, st.Attrs, append(base[:1:1], differing(o.fields(), st.Attrs)...))}
	c.After["properties"] = merged(imageProperties(obj), o.args.Properties)
	if status != "active" {
		c.After["size"] = effect.Unknown{Of: target.String() + " size"}
		if status != "queued" {
			c.After["id"] = effect.Unknown{Of: target.String() + " id"} // an upload that hangs makes another
		}
	}
	return c, nil
}

func (o *imageOp) propertyDiff(have map[string]any) []effect.Field {
	var out []effect.Field
	for _, f := range effect.Compare(merged(nil, o.args.Properties), have) {
		f.Path = "properties." + f.Path
		out = append(out, f)
	}
	return out
}

func (o *imageOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	obj, _ := c.Before.Raw.(client.Object)
	switch c.Kind {
	case effect.Replace:
		if err := removeImage(ctx, o.cloud, cl, str(obj, "id")); err != nil {
			return effect.State{}, err
		}
		obj, err = o.create(ctx, cl)
	case effect.Create:
		obj, err = o.create(ctx, cl)
	case effect.Update:
		if obj, err = o.unstuck(ctx, cl, obj); err == nil {
			err = o.patch(ctx, cl, obj)
		}
	}
	if err != nil {
		return effect.State{}, err
	}
	id := str(obj, "id")
	if str(obj, "status") == "queued" {
		if err := o.upload(ctx, cl, id); err != nil {
			return effect.State{}, err
		}
	}
	if obj, err = o.awaitActive(ctx, cl, id); err != nil {
		return effect.State{}, err
	}
	attrs := imageData(obj)
	if attrs["sha256"] == "" {
		attrs["sha256"] = o.args.File.SHA256 // an adopted image, whose content was compared
	}
	return effect.State{Exists: true, Attrs: attrs, Raw: obj}, nil
}

func (o *imageOp) create(ctx context.Context, cl *client.Client) (client.Object, error) {
	body := client.Object{imageMark: o.mark}
	for _, f := range o.fields() {
		f.put(body)
	}
	for k, v := range o.args.Properties {
		body[k] = v.Reveal()
	}
	obj, err := cl.Do(ctx, client.Call{Service: client.Image, Method: http.MethodPost, Path: "/images", Body: body})
	o.sent.note(ctx, obj, err)
	return obj, err
}

// hanging is after how many looks an upload that nobody continues counts as one
// that never ends.
const hanging = 5

// unstuck deals with an image whose upload was cut off. Glance mostly makes it
// queued again by itself; one that stays in saving takes no other upload, and
// is made anew.
func (o *imageOp) unstuck(ctx context.Context, cl *client.Client, obj client.Object) (client.Object, error) {
	id := str(obj, "id")
	for try := 0; str(obj, "status") != "active" && str(obj, "status") != "queued"; try++ {
		if try == hanging {
			effect.Progressf(ctx, "an earlier upload of image %s hangs: it is made anew", o.args.Name)
			if err := removeImage(ctx, o.cloud, cl, id); err != nil {
				return nil, err
			}
			return o.create(ctx, cl)
		}
		if err := o.cloud.pause(ctx); err != nil {
			return nil, err
		}
		var err error
		if obj, err = getImage(ctx, cl, id); err != nil {
			return nil, err
		}
	}
	return obj, nil
}

// patch changes what differs, as a JSON patch.
func (o *imageOp) patch(ctx context.Context, cl *client.Client, obj client.Object) error {
	var ops []any
	add := func(key string, value any) {
		op := "add"
		if _, there := obj[key]; there {
			op = "replace"
		}
		path := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		ops = append(ops, client.Object{"op": op, "path": path, "value": value})
	}
	have := imageData(obj)
	for _, f := range o.fields() {
		if !f.fixed && !f.same(have[f.attr]) {
			add(f.attr, f.want)
		}
	}
	for _, f := range effect.Compare(merged(nil, o.args.Properties), imageProperties(obj)) {
		add(f.Path, o.args.Properties[f.Path].Reveal())
	}
	if len(ops) == 0 {
		return nil
	}
	_, err := cl.Do(ctx, client.Call{Service: client.Image, Method: http.MethodPatch, Path: "/images/" + str(obj, "id"), Body: ops,
		Header: map[string]string{"Content-Type": "application/openstack-images-v2.1-json-patch"}})
	return err
}

// awaitActive waits until Glance has stored the data.
func (o *imageOp) awaitActive(ctx context.Context, cl *client.Client, id string) (client.Object, error) {
	var stored client.Object
	w := waiting{target: o.Target(), what: "image " + o.args.Name + " (" + id + ") being active", timeout: o.args.Timeout, hint: "give it more time with timeout"}
	err := o.cloud.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		obj, err := getImage(ctx, cl, id)
		if err != nil {
			return "", false, err
		}
		stored = obj
		switch s := str(obj, "status"); {
		case s == "queued":
			return "", true, nil
		case s != "active" && !slices.Contains([]string{"saving", "uploading", "importing"}, s):
			return "", false, fault.New(fault.Failed, "image %s (%s) became %s", o.args.Name, id, s)
		default:
			return "it is " + s, s == "active", nil
		}
	})
	if err == nil && str(stored, "status") == "queued" {
		err = fault.New(fault.Unavailable, "Glance didn't keep what was uploaded to image %s", id)
	}
	return stored, err
}
