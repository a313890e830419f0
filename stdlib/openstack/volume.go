package openstack

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func volumeNoun() *noun {
	return &noun{
		name: "volume", service: client.BlockStorage, plural: "volumes", path: "/volumes", detail: "/volumes/detail", whole: true, scans: true, goes: goingVolume,
		attrs: []attr{
			idAttr(), nameAttr(),
			{Attr: builtin.Attr{Name: "status", Type: "str", Doc: "available, in-use while servers have it, or another of Cinder's."}},
			{Attr: builtin.Attr{Name: "size", Type: "int", Doc: "Size in GiB."}},
			{builtin.Attr{Name: "type", Type: "str", Doc: "Name of its volume type."}, func(o client.Object) any { return str(o, "volume_type") }},
			{Attr: builtin.Attr{Name: "availability_zone", Type: "str", Doc: "Where it is."}},
			{builtin.Attr{Name: "bootable", Type: "bool", Doc: "Whether servers may boot from it."}, func(o client.Object) any { return str(o, "bootable") == "true" }},
			{builtin.Attr{Name: "readonly", Type: "bool", Doc: "Whether servers get it for reading only."}, func(o client.Object) any {
				m, _ := o["metadata"].(client.Object)
				return strings.EqualFold(str(m, "readonly"), "true")
			}},
			{builtin.Attr{Name: "multiattach", Type: "bool", Doc: "Whether several servers may have it, as its type says."}, func(o client.Object) any { return o["multiattach"] == true }},
			{builtin.Attr{Name: "image", Type: "str", Doc: "Id of the image that it was made from; empty if of none."}, func(o client.Object) any {
				m, _ := o["volume_image_metadata"].(client.Object)
				return str(m, "image_id")
			}},
			{builtin.Attr{Name: "snapshot", Type: "str", Doc: "Id of the snapshot that it was made from; empty if of none."}, func(o client.Object) any { return str(o, "snapshot_id") }},
			{builtin.Attr{Name: "source", Type: "str", Doc: "Id of the volume that it is a copy of; empty if of none."}, func(o client.Object) any { return str(o, "source_volid") }},
			{builtin.Attr{Name: "metadata", Type: "dict[str, str]", Doc: "Its metadata, without what Cinder keeps there."}, volumeMetadataOf},
			{builtin.Attr{Name: "servers", Type: "list[str]", Doc: "Ids of the servers that have it, sorted."}, volumeServers},
			markAttr(),
		},
		phase:  volumePhase,
		expand: explainVolume,
		users:  volumeUsers,
	}
}

// goingVolume reports whether a volume or snapshot is being deleted: it is as
// good as gone.
func goingVolume(o client.Object) bool { return str(o, "status") == "deleting" }

// volumeMetadataOf is a volume's metadata but for the flags that Cinder shows among it.
func volumeMetadataOf(o client.Object) any {
	out := map[string]any{}
	m, _ := o["metadata"].(client.Object)
	for k, v := range m {
		if k != "readonly" && k != "attached_mode" {
			out[k] = v
		}
	}
	return out
}

func volumeServers(o client.Object) any {
	out := []any{}
	for _, a := range objects(o, "attachments") {
		if id := str(a, "server_id"); id != "" {
			out = append(out, id)
		}
	}
	return sorted(out)
}

// volumeWhy is where explainVolume puts what Cinder says of a failure.
const volumeWhy = ownMetadata + "why"

func volumePhase(o client.Object) phase {
	p := phase{state: str(o, "status"), why: str(o, volumeWhy)}
	switch {
	case p.state == "error":
		p.failed = true
	case strings.HasPrefix(p.state, "error_"):
		// It may hold data.
		p.failed, p.mend = true, "the cloud's operators can tell what went wrong, and set its state"
	default:
		p.ready = !slices.Contains([]string{"creating", "downloading", "extending", "retyping", "deleting", "restoring-backup", "reverting"}, p.state)
	}
	return p
}

// explainVolume adds to a volume that failed what Cinder tells its users of it.
func explainVolume(ctx context.Context, cl *client.Client, o client.Object) error {
	if !strings.HasPrefix(str(o, "status"), "error") {
		return nil
	}
	said, err := cl.List(ctx, client.Call{Service: client.BlockStorage, Version: client.VolumeMessageVersion, Path: "/messages",
		Query: url.Values{"resource_uuid": {str(o, "id")}}}, "messages")
	switch fault.KindOf(err) {
	case "":
	case fault.Invalid, fault.NotFound, fault.Denied:
		return nil // an old cloud says nothing
	default:
		return err
	}
	var texts []string
	for _, m := range said {
		if text := str(m, "user_message"); text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	o[volumeWhy] = strings.Join(texts, "; ")
	return nil
}

// volumeUsers names the servers that have a volume, and its snapshots.
func volumeUsers(ctx context.Context, cl *client.Client, id string) ([]string, error) {
	obj, err := volumeNoun().byID(ctx, cl, id)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, s := range volumeServers(obj).([]any) {
		out = append(out, serverText(ctx, cl, s.(string)))
	}
	snapshots, err := volumeSnapshotNoun().list(ctx, cl, url.Values{"volume_id": {id}})
	if err != nil {
		return nil, err
	}
	for _, s := range snapshots {
		out = append(out, "snapshot "+str(s, "name")+" ("+str(s, "id")+")")
	}
	return out, nil
}

// serverText names a server for people: by its id alone if it can't be read.
func serverText(ctx context.Context, cl *client.Client, id string) string {
	if obj, err := getServer(ctx, cl, id); err == nil {
		return "server " + str(obj, "name") + " (" + id + ")"
	}
	return "server " + id
}

type volumeArgs struct {
	Name      string                 `star:"name,required" doc:"The name."`
	Size      *int                   `star:"size" doc:"Size in GiB. It can grow later, also while servers have it. Default: that of what it is made from."`
	Type      effect.Text            `star:"type" doc:"Name of the volume type. Default: the cloud's."`
	Zone      effect.Text            `star:"availability_zone" doc:"Where to make it. Can't be changed."`
	Image     effect.Reference       `star:"image" of:"openstack.image" doc:"Image to make it from; a name works too. Can't be changed."`
	Snapshot  effect.Reference       `star:"snapshot" of:"openstack.volume_snapshot" doc:"Snapshot to make it from; a name works too. Can't be changed."`
	Source    effect.Reference       `star:"source" of:"openstack.volume" doc:"Volume to copy; a name works too. Can't be changed."`
	Bootable  *bool                  `star:"bootable" doc:"Whether servers may boot from it. Default: if it is made from an image."`
	Readonly  *bool                  `star:"readonly" doc:"Whether servers get it for reading only. It can be changed while no server has it."`
	Metadata  map[string]effect.Text `star:"metadata" secret:"never" doc:"Metadata to have; other keys stay."`
	Exact     bool                   `star:"exact" doc:"Remove metadata that isn't given."`
	Migration string                 `star:"migration_policy" doc:"What another type may cost: never, or on-demand to let Cinder copy the data to another backend."`
	Timeout   time.Duration          `star:"timeout" doc:"How long each step may take: making, growing, changing the type."`
	Adopt     effect.Data            `star:"adopt" doc:"True takes over the one of that name that lacks this recipe's mark; an id the one that has it, whatever its name."`
	Replace   bool                   `star:"replace" doc:"Where what can't be changed differs, delete the volume with its data and make it anew."`
}

func volumeVerbs() builtin.Noun {
	n := volumeNoun()
	v := n.verbs("A block device that servers can have: Cinder's.", "data", builtin.Of(builtin.Spec[*Cloud, volumeArgs]{
		Name: "ensure",
		Doc: "Make a volume be there with the given settings, and wait until it is. What isn't given isn't compared. " +
			"It grows to a larger size; a smaller one is an error, as is whatever else can't be changed.",
		Returns:  "openstack.volume",
		Example:  `data = cloud.volume.ensure("data", size = 10, metadata = {"role": "database"})`,
		Effect:   builtin.Changes,
		Errors:   []fault.Kind{fault.Exists, fault.Invalid, fault.NotFound, fault.Quota, fault.Failed, fault.Timeout},
		Defaults: volumeArgs{Migration: "never", Timeout: 10 * time.Minute},
		Run: func(ctx context.Context, c *Cloud, a volumeArgs) (any, error) {
			op, err := newEnsure(ctx, c, n, a.Name, a.Adopt, a.Replace)
			if err != nil {
				return nil, err
			}
			if err := a.check(); err != nil {
				return nil, fault.Wrap("", op.Target().String(), err)
			}
			op.timeout = a.Timeout
			op.wanted = func(ctx context.Context, cl *client.Client) ([]field, error) { return a.fields(ctx, c, cl) }
			return c.do(ctx, op)
		},
	}))
	v.Verbs = append(v.Verbs, n.waitVerb("cloud.volume.ensure(\"data\", size = 1)\n"+`cloud.volume.wait("data", status = "available", timeout = "2m")`))
	return v
}

// check refuses what can be known to be wrong without asking.
func (a volumeArgs) check() error {
	from := 0
	for _, r := range []effect.Reference{a.Image, a.Snapshot, a.Source} {
		if !r.Empty() {
			from++
		}
	}
	switch {
	case from > 1:
		return fault.New(fault.Invalid, "image, snapshot and source exclude each other")
	case a.Size != nil && *a.Size < 1:
		return fault.New(fault.Invalid, "size is %d GiB; the smallest is 1", *a.Size)
	case a.Size == nil && a.Snapshot.Empty() && a.Source.Empty():
		return fault.New(fault.Invalid, "size is missing: it can be left out of what is made from a snapshot or another volume")
	case a.Migration != "never" && a.Migration != "on-demand":
		return fault.New(fault.Invalid, "migration_policy is %q; never and on-demand are known", a.Migration)
	}
	for k := range a.Metadata {
		if k == "readonly" || k == "attached_mode" || strings.HasPrefix(k, ownMetadata) {
			return fault.New(fault.Invalid, "metadata %s: that key isn't for users", k)
		}
	}
	return nil
}

func (a volumeArgs) fields(ctx context.Context, c *Cloud, cl *client.Client) ([]field, error) {
	var fs []field
	if a.Size != nil {
		fs = append(fs, field{attr: "size", want: *a.Size, act: volumeAction(func(o client.Object) (client.Object, string) {
			version := ""
			if str(o, "status") == "in-use" {
				version = client.VolumeGrowVersion
			}
			return client.Object{"os-extend": client.Object{"new_size": *a.Size}}, version
		}), fixedFrom: func(have any) bool { n, _ := have.(int64); return n > int64(*a.Size) }})
	}
	for _, f := range textField("type", "volume_type", a.Type, false) {
		f.act = volumeAction(func(client.Object) (client.Object, string) {
			return client.Object{"os-retype": client.Object{"new_type": f.send, "migration_policy": a.Migration}}, ""
		})
		f.after = map[string]any{"multiattach": effect.Unknown{}}
		f.unmoved = "Cinder kept the old type: migration_policy = \"on-demand\" lets it copy the data to another backend"
		fs = append(fs, f)
	}
	fs = append(fs, textField("availability_zone", "", a.Zone, true)...)
	for _, origin := range []struct {
		attr, key string
		ref       effect.Reference
		resolve   func(context.Context, *Cloud, *client.Client, effect.Reference) (any, error)
	}{{"image", "imageRef", a.Image, resolveImage}, {"snapshot", "snapshot_id", a.Snapshot, volumeSnapshotNoun().resolve}, {"source", "source_volid", a.Source, volumeNoun().resolve}} {
		if origin.ref.Empty() {
			continue
		}
		id, err := origin.resolve(ctx, c, cl, origin.ref)
		if err != nil {
			return nil, err
		}
		fs = append(fs, field{attr: origin.attr, key: origin.key, want: id, fixed: true})
	}
	if a.Metadata != nil || a.Exact {
		fs = append(fs, metadataField(a.Metadata, a.Exact, "/volumes/"))
	}
	if a.Bootable != nil {
		fs = append(fs, field{attr: "bootable", want: *a.Bootable, late: true, act: volumeAction(func(client.Object) (client.Object, string) {
			return client.Object{"os-set_bootable": client.Object{"bootable": *a.Bootable}}, ""
		})})
	}
	if a.Readonly != nil {
		fs = append(fs, field{attr: "readonly", want: *a.Readonly, late: true, act: volumeAction(func(client.Object) (client.Object, string) {
			return client.Object{"os-update_readonly_flag": client.Object{"readonly": *a.Readonly}}, ""
		})})
	}
	return fs, nil
}

// volumeAction returns what changes a field by an action: body returns its body,
// and the microversion that it needs.
func volumeAction(body func(client.Object) (client.Object, string)) func(context.Context, *client.Client, client.Object) error {
	return func(ctx context.Context, cl *client.Client, o client.Object) error {
		b, version := body(o)
		_, err := cl.Do(ctx, client.Call{Service: client.BlockStorage, Version: version, Method: http.MethodPost, Path: "/volumes/" + str(o, "id") + "/action", Body: b})
		return err
	}
}

// metadataField is the metadata of a volume or snapshot: other keys stay,
// unless it is to be exact.
func metadataField(metadata map[string]effect.Text, exact bool, path string) field {
	send := client.Object{}
	for k, v := range metadata {
		send[k] = revealed(v)
	}
	f := field{attr: "metadata", want: merged(nil, metadata), send: send}
	method := http.MethodPut
	if !exact {
		method = http.MethodPost
		f.over = func(have map[string]any) any {
			m, _ := have["metadata"].(map[string]any)
			return merged(m, metadata)
		}
	}
	f.act = func(ctx context.Context, cl *client.Client, o client.Object) error {
		_, err := cl.Do(ctx, client.Call{Service: client.BlockStorage, Method: method, Path: path + str(o, "id") + "/metadata", Body: client.Object{"metadata": send}})
		return err
	}
	return f
}
