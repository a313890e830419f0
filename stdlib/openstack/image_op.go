package openstack

import (
	"cmp"
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
	adopt   adoption
	sent    sent
	shared  []any // ids of the projects that it was shared with when it was looked at
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
	err = o.cloud.patiently(ctx, o.Target(), o.sent, func() (bool, error) {
		var err error
		if obj, err = findImage(ctx, cl, o.args.Name, o.mark, o.adopt); err == nil && obj == nil {
			obj, err = o.sent.made(func(id string) (client.Object, error) { return getImage(ctx, cl, id) })
		}
		return obj != nil, err
	})
	if err != nil || obj == nil {
		return effect.State{}, err
	}
	o.sent = sent{}
	attrs := imageData(obj)
	if o.args.Shared != nil {
		if o.shared, err = imageMembers(ctx, cl, obj); err != nil {
			return effect.State{}, err
		}
	}
	if o.args.File.Path != "" && attrs["sha256"] == "" && str(obj, "os_hash_algo") == "sha512" {
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
		{attr: "name", want: o.args.Name, equal: o.named},
		{attr: "disk_format", want: o.args.DiskFormat, fixed: true},
		{attr: "container_format", want: o.args.ContainerFormat, fixed: true},
	}
	if o.args.File.SHA256 != "" {
		fs = append(fs, field{attr: "sha256", key: imageDigest, want: o.args.File.SHA256, fixed: true})
	}
	if !o.args.URL.Empty() {
		fs = append(fs, field{attr: "source", key: imageSource, want: o.args.URL.Value(), fixed: true, equal: o.sameSource})
	}
	if o.args.SHA512 != "" {
		want := strings.ToLower(o.args.SHA512)
		fs = append(fs, field{attr: "sha512", want: want, fixed: true, equal: func(have any) bool { return have == "" || have == want }})
	}
	fs = append(fs, boolField("protected", "", o.args.Protected)...)
	fs = append(fs, boolField("hidden", "os_hidden", o.args.Hidden)...)
	fs = append(fs, listField("tags", "", o.args.Tags, true)...)
	fs = append(fs, intField("min_disk", "", o.args.MinDisk)...)
	fs = append(fs, intField("min_ram", "", o.args.MinRAM)...)
	if o.args.Visibility != "" {
		fs = append(fs, field{attr: "visibility", want: o.args.Visibility})
	}
	return fs
}

// named reports whether the name may stay. One that was chosen to be taken over
// keeps its own.
func (o *imageOp) named(have any) bool {
	return have == o.args.Name || o.adopt.chosen() && have != nil
}

// sameSource reports whether an image was fetched from the URL. One that was
// adopted counts if its content is as asked for.
func (o *imageOp) sameSource(have any) bool {
	return have == o.args.URL.Reveal() || have == "" && o.adopt.given() && o.args.SHA512 != ""
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
		return fresh(effect.Create, append(append(fields, o.propertyDiff(nil)...), o.shareDiff(nil)...)), nil
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
	change = append(change, o.shareDiff(o.shared)...)
	if len(change) == 0 {
		return effect.Unchanged(), nil
	}
	c := effect.Change{Kind: effect.Update, Fields: change, After: after(target, names, st.Attrs, append(base[:1:1], differing(o.fields(), st.Attrs)...))}
	c.After["properties"] = merged(o.kept(imageProperties(obj)), o.args.Properties)
	if status != "active" {
		for _, name := range []string{"size", "sha512", "checksum"} {
			c.After[name] = effect.Unknown{Of: target.String() + " " + name}
		}
		if status != "queued" {
			c.After["created_at"] = effect.Unknown{Of: target.String() + " created_at"}
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
	for _, k := range o.surplus(have) {
		out = append(out, effect.Field{Path: "properties." + k, Old: have[k]})
	}
	return out
}

// surplus returns the properties that aren't wanted, if they are to be exact.
func (o *imageOp) surplus(have map[string]any) []string {
	var out []string
	for k := range have {
		if _, wanted := o.args.Properties[k]; o.args.Exact && !wanted {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// kept returns the properties that stay.
func (o *imageOp) kept(have map[string]any) map[string]any {
	for _, k := range o.surplus(have) {
		delete(have, k)
	}
	return have
}

func (o *imageOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	obj, _ := c.Before.Raw.(client.Object)
	if !o.args.URL.Empty() && (c.Kind != effect.Update || str(obj, "status") == "queued") {
		if err := importable(ctx, cl); err != nil {
			return effect.State{}, err
		}
	}
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
		fill := o.upload
		if !o.args.URL.Empty() {
			fill = o.fetchInto
		}
		if err := fill(ctx, cl, id); err != nil {
			return effect.State{}, err
		}
	}
	if obj, err = o.awaitActive(ctx, cl, id); err != nil {
		return effect.State{}, err
	}
	if err := o.genuine(ctx, cl, obj); err != nil {
		return effect.State{}, err
	}
	if err := o.share(ctx, cl, obj); err != nil {
		return effect.State{}, err
	}
	attrs := imageData(obj)
	if attrs["sha256"] == "" && o.args.File.SHA256 != "" {
		attrs["sha256"] = o.args.File.SHA256 // an adopted image, whose content was compared
	}
	return effect.State{Exists: true, Attrs: attrs, Raw: obj}, nil
}

func (o *imageOp) create(ctx context.Context, cl *client.Client) (client.Object, error) {
	body := client.Object{imageMark: o.mark}
	for _, f := range o.fields() {
		switch f.attr {
		case "sha512": // the cloud makes it
		case "source":
			body[imageSource] = o.args.URL.Reveal()
		default:
			f.put(body)
		}
	}
	for k, v := range o.args.Properties {
		body[k] = v.Reveal()
	}
	obj, err := cl.Do(ctx, client.Call{Service: client.Image, Method: http.MethodPost, Path: "/images", Body: body})
	if o.sent.note(ctx, obj, err); err != nil {
		return obj, err
	}
	return o.cloud.onlyOne(ctx, o.Target(), obj, func() ([]client.Object, error) {
		return markedImages(ctx, cl, o.mark)
	}, func(obj client.Object) error { return removeImage(ctx, o.cloud, cl, str(obj, "id")) })
}

// hanging is after how many looks an upload that nobody continues counts as one
// that never ends.
const hanging = 5

// unstuck deals with an image whose upload was cut off. Glance mostly makes it
// queued again by itself; one that stays in saving takes no other upload, and
// is made anew.
func (o *imageOp) unstuck(ctx context.Context, cl *client.Client, obj client.Object) (client.Object, error) {
	id := str(obj, "id")
	if !o.args.URL.Empty() && str(obj, "status") == "importing" {
		return obj, nil // Glance goes on with that by itself
	}
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

// pointer writes a name as part of a JSON pointer.
func pointer(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// patch changes what differs, as a JSON patch.
func (o *imageOp) patch(ctx context.Context, cl *client.Client, obj client.Object) error {
	var ops []any
	add := func(key string, value any) {
		op := "add"
		if _, there := obj[key]; there {
			op = "replace"
		}
		ops = append(ops, client.Object{"op": op, "path": "/" + pointer(key), "value": value})
	}
	have := imageData(obj)
	for _, f := range o.fields() {
		if !f.fixed && !f.same(have[f.attr]) {
			add(cmp.Or(f.key, f.attr), f.want)
		}
	}
	for _, f := range effect.Compare(merged(nil, o.args.Properties), imageProperties(obj)) {
		add(f.Path, o.args.Properties[f.Path].Reveal())
	}
	for _, k := range o.surplus(imageProperties(obj)) {
		ops = append(ops, client.Object{"op": "remove", "path": "/" + pointer(k)})
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
