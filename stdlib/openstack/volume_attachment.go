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

func attachmentAttrs() []builtin.Attr {
	return []builtin.Attr{
		{Name: "server", Type: "str", Doc: "Id of the server."},
		{Name: "volume", Type: "str", Doc: "Id of the volume."},
		{Name: "device", Type: "str", Doc: "What the cloud calls it on the server, such as /dev/vdb. The server itself may call it otherwise."},
	}
}

func attachmentData(o client.Object) map[string]any {
	return map[string]any{"server": o["serverId"], "volume": o["volumeId"], "device": str(o, "device")}
}

type attachmentArgs struct {
	Server  effect.Reference `star:"server,required" doc:"The server; a name works too."`
	Volume  effect.Reference `star:"volume,required" doc:"The volume; a name works too."`
	Device  string           `star:"device" doc:"What to call it on the server, such as /dev/vdb: a wish, which most hypervisors don't grant, and which isn't compared. Default: the next that is free."`
	Tag     string           `star:"tag" doc:"A tag by which the server finds it in its metadata. It isn't compared."`
	With    *bool            `star:"delete_with_server" doc:"Whether the volume is deleted with the server. Default: False."`
	Timeout time.Duration    `star:"timeout" doc:"How long it may take."`
}

type attachmentRef struct {
	Server effect.Reference `star:"server,required" doc:"The server; a name works too."`
	Volume effect.Reference `star:"volume,required" doc:"The volume; a name works too."`
}

type attachmentListArgs struct {
	Server effect.Reference `star:"server,required" doc:"The server; a name works too."`
}

func volumeAttachmentVerbs() builtin.Noun {
	const made = "net = cloud.network.ensure(\"mgmt\")\ncloud.subnet.ensure(\"mgmt\", network = net, cidr = \"10.20.0.0/24\")\n" +
		"vm = cloud.server.ensure(\"gw\", image = \"lab-tiny\", flavor = \"m1.small\", networks = [net])\n" +
		"data = cloud.volume.ensure(\"data\", size = 1)\n"
	return builtin.Noun{
		Name: "volume_attachment", Doc: "A volume that a server has.", Identity: builtin.PartOf, Attrs: attachmentAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Cloud, attachmentArgs]{
				Name: "ensure",
				Doc: "Make a server have a volume, and wait until it does. A volume that another server has is refused with that server's name, " +
					"unless the volume's type lets several have it.",
				Returns:  "openstack.volume_attachment",
				Example:  made + `disk = cloud.volume_attachment.ensure(vm, data)`,
				Effect:   builtin.Changes,
				Errors:   []fault.Kind{fault.Invalid, fault.Conflict, fault.NotFound, fault.Failed, fault.Timeout},
				Defaults: attachmentArgs{Timeout: 5 * time.Minute},
				Run: func(ctx context.Context, c *Cloud, a attachmentArgs) (any, error) {
					return c.do(ctx, &attachmentOp{cloud: c, args: a})
				},
			}),
			builtin.Of(builtin.Spec[*Cloud, attachmentRef]{
				Name:    "get",
				Doc:     "Return how a server has a volume, or None if it doesn't.",
				Returns: "openstack.volume_attachment or None",
				Example: made + `disk = cloud.volume_attachment.get(vm, data)`,
				Effect:  builtin.Reads,
				Errors:  []fault.Kind{fault.Invalid, fault.NotFound},
				Run: func(ctx context.Context, c *Cloud, a attachmentRef) (any, error) {
					return readOne(ctx, c, "volume_attachment", attachmentName(a.Server, a.Volume), func(ctx context.Context, cl *client.Client) (effect.State, error) {
						p, err := resolvePair(ctx, c, cl, a.Server, a.Volume)
						if err != nil {
							return effect.State{}, err
						}
						obj, err := p.find(ctx, cl)
						if err == nil && obj == nil {
							err = fault.New(fault.NotFound, "server %s doesn't have volume %s", a.Server, a.Volume)
						}
						return effect.State{Exists: true, Attrs: attachmentData(obj)}, err
					})
				},
			}),
			builtin.Of(builtin.Spec[*Cloud, attachmentListArgs]{
				Name:    "list",
				Doc:     "Return the volumes that a server has, by device.",
				Returns: "list[openstack.volume_attachment]",
				Example: made + `devices = [a.device for a in cloud.volume_attachment.list(vm)]`,
				Effect:  builtin.Reads,
				Errors:  []fault.Kind{fault.NotFound},
				Run: func(ctx context.Context, c *Cloud, a attachmentListArgs) (any, error) {
					return readList(ctx, c, "volume_attachment", func(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
						id, err := resolveServer(ctx, c, cl, a.Server)
						if err != nil {
							return nil, err
						}
						all, err := listAttachments(ctx, cl, id)
						out := make([]map[string]any, len(all))
						for i, o := range all {
							out[i] = attachmentData(o)
						}
						return out, err
					})
				},
			}),
			builtin.Of(builtin.Spec[*Cloud, attachmentRef]{
				Name:    "delete",
				Doc:     "Take a volume from a server, and wait until it is free. That the server doesn't have it, or isn't there, is no error.",
				Returns: "None",
				Example: made + `cloud.volume_attachment.delete(vm, data)`,
				Effect:  builtin.Changes,
				Errors:  []fault.Kind{fault.Invalid, fault.Conflict, fault.Timeout},
				Run: func(ctx context.Context, c *Cloud, a attachmentRef) (any, error) {
					var p attachmentPair
					_, err := c.do(ctx, &deleteOp{cloud: c, kind: "volume_attachment", name: attachmentName(a.Server, a.Volume),
						find: func(ctx context.Context, cl *client.Client) (client.Object, error) {
							var err error
							if p, err = resolvePair(ctx, c, cl, a.Server, a.Volume); fault.KindOf(err) == fault.NotFound {
								return nil, nil
							} else if err != nil {
								return nil, err
							}
							return p.find(ctx, cl)
						},
						remove: func(ctx context.Context, cl *client.Client, _ client.Object) error { return c.detach(ctx, cl, p) },
					})
					return nil, err
				},
			}),
		},
	}
}

// attachmentName names an attachment in targets.
func attachmentName(server, volume effect.Reference) string {
	return server.String() + "/" + volume.String()
}

// resolveServer returns the id of a server; "" if it isn't known yet.
func resolveServer(ctx context.Context, c *Cloud, cl *client.Client, ref effect.Reference) (string, error) {
	if !ref.Known() {
		return "", nil
	}
	id := ref.ID.Reveal()
	if ref.Name != "" || isID(id) {
		return id, nil
	}
	if id == "" {
		return "", fault.New(fault.Invalid, "the server's id is empty")
	}
	obj, err := serverByName(ctx, cl, id)
	return str(obj, "id"), err
}

// An attachmentPair is a server and a volume, by their ids; one that isn't known
// yet is empty.
type attachmentPair struct{ server, volume string }

func resolvePair(ctx context.Context, c *Cloud, cl *client.Client, server, volume effect.Reference) (attachmentPair, error) {
	s, err := resolveServer(ctx, c, cl, server)
	if err != nil {
		return attachmentPair{}, err
	}
	v, err := volumeNoun().resolve(ctx, c, cl, volume)
	if err != nil {
		return attachmentPair{}, err
	}
	id, _ := v.(string) // an effect.Unknown isn't known yet
	if id == "" && volume.Known() {
		return attachmentPair{}, fault.New(fault.Invalid, "the volume's id is empty")
	}
	return attachmentPair{s, id}, nil
}

// find returns the server's attachment of the volume; nil if there is none.
func (p attachmentPair) find(ctx context.Context, cl *client.Client) (client.Object, error) {
	if p.server == "" || p.volume == "" {
		return nil, nil
	}
	all, err := listAttachments(ctx, cl, p.server)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(o client.Object) bool { return str(o, "volumeId") == p.volume })
	if i < 0 {
		return nil, nil
	}
	return all[i], nil
}

func listAttachments(ctx context.Context, cl *client.Client, server string) ([]client.Object, error) {
	return cl.List(ctx, client.Call{Service: client.Compute, Path: "/servers/" + url.PathEscape(server) + "/os-volume_attachments"}, "volumeAttachments")
}

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
	obj, err := o.pair.find(ctx, cl)
	if err != nil || obj == nil {
		return effect.State{}, err
	}
	volume, err := volumeNoun().byID(ctx, cl, o.pair.volume)
	if err != nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: attachmentData(obj), Raw: holds(volume, o.pair.server)}, nil
}

func (o *attachmentOp) Diff(st effect.State) (effect.Change, error) {
	t := o.Target()
	if st.Exists && st.Raw == "held" {
		return effect.Unchanged(), nil
	}
	unknown := func(name, id string) any {
		if id != "" {
			return id
		}
		return effect.Unknown{Of: t.String() + " " + name}
	}
	c := effect.Change{Kind: effect.Create, Reach: o.cloud.reach("volume_attachment"),
		After: map[string]any{"server": unknown("server", o.pair.server), "volume": unknown("volume", o.pair.volume), "device": unknown("device", "")}}
	if st.Exists {
		c.Kind, c.Fields = effect.Update, []effect.Field{{Path: "status", Old: st.Raw, New: "held"}}
		c.After["device"] = st.Attrs["device"]
		if st.Raw == "going" {
			c.After["device"] = unknown("device", "")
		}
	}
	return c, nil
}

func (o *attachmentOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	if c.Before.Exists && c.Before.Raw == "going" {
		if err := o.cloud.freed(ctx, cl, o.pair); err != nil {
			return effect.State{}, err
		}
		c.Kind = effect.Create
	}
	if c.Kind == effect.Create {
		if err := o.attach(ctx, cl); err != nil {
			return effect.State{}, err
		}
	}
	if err := o.held(ctx, cl); err != nil {
		return effect.State{}, err
	}
	obj, err := o.pair.find(ctx, cl)
	if err == nil && obj == nil {
		err = fault.New(fault.Failed, "the cloud didn't keep %s", o.Target())
	}
	return effect.State{Exists: true, Attrs: attachmentData(obj), Raw: "held"}, err
}

func (o *attachmentOp) attach(ctx context.Context, cl *client.Client) error {
	body := client.Object{"volumeId": o.pair.volume}
	version := ""
	if o.args.Device != "" {
		body["device"] = o.args.Device
	}
	if o.args.Tag != "" {
		body["tag"], version = o.args.Tag, client.AttachmentTagVersion
	}
	if o.args.With != nil {
		body["delete_on_termination"], version = *o.args.With, client.Highest(version, client.AttachmentDeleteVersion)
	}
	_, err := cl.Do(ctx, client.Call{Service: client.Compute, Version: version, Method: http.MethodPost, Path: "/servers/" + o.pair.server + "/os-volume_attachments",
		Body: client.Object{"volumeAttachment": body}})
	if fault.KindOf(err) != fault.Conflict {
		return err
	}
	volume, verr := volumeNoun().byID(ctx, cl, o.pair.volume)
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

// detach takes a volume from a server and waits until it is free.
func (c *Cloud) detach(ctx context.Context, cl *client.Client, p attachmentPair) error {
	_, err := cl.Do(ctx, client.Call{Service: client.Compute, Method: http.MethodDelete, Path: "/servers/" + p.server + "/os-volume_attachments/" + p.volume})
	switch fault.KindOf(err) {
	case fault.NotFound:
		return nil
	case "":
	default:
		if strings.Contains(err.Error(), "root device") {
			return fault.Hinted(fault.Invalid, "delete the server to free it", "%v", err)
		}
		return err
	}
	return c.freed(ctx, cl, p)
}

// freed waits until a server doesn't have a volume any more.
func (c *Cloud) freed(ctx context.Context, cl *client.Client, p attachmentPair) error {
	w := waiting{target: c.target("volume", p.volume), what: "volume " + p.volume + " being free", timeout: goneTime, hint: "the server's system may hold it: unmount it there"}
	return c.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		volume, err := volumeNoun().byID(ctx, cl, p.volume)
		if fault.KindOf(err) == fault.NotFound {
			return "", true, nil
		}
		if err != nil {
			return "", false, err
		}
		s := holds(volume, p.server)
		if s == "failed" {
			return "", false, fault.New(fault.Failed, "detaching volume %s failed: it is %s", p.volume, str(volume, "status"))
		}
		return "it is " + str(volume, "status"), s == "free" || s == "coming", nil
	})
}
