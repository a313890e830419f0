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
	Server  effect.Reference `star:"server,required" of:"openstack.server" doc:"The server; a name works too."`
	Volume  effect.Reference `star:"volume,required" of:"openstack.volume" doc:"The volume; a name works too."`
	Device  string           `star:"device" doc:"What the cloud is to call it, such as /dev/vdb. Its letters count: /dev/sdb is the same. Most hypervisors choose by themselves, and then it is an error. Can't be changed. Default: the next that is free."`
	Tag     string           `star:"tag" doc:"A tag by which the server finds it in its metadata. Can't be changed."`
	With    *bool            `star:"delete_with_server" doc:"Whether the volume is deleted with the server. Default: False for a new attachment; another keeps what it has."`
	Timeout time.Duration    `star:"timeout" doc:"How long it may take."`
	Replace bool             `star:"replace" doc:"Where device or tag differ, take the volume from the server and give it anew."`
}

type attachmentRef struct {
	Server effect.Reference `star:"server,required" of:"openstack.server" doc:"The server; a name works too."`
	Volume effect.Reference `star:"volume,required" of:"openstack.volume" doc:"The volume; a name works too."`
}

type attachmentListArgs struct {
	Server effect.Reference `star:"server,required" of:"openstack.server" doc:"The server; a name works too."`
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
						obj, err := p.find(ctx, cl, "")
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
						all, err := listAttachments(ctx, cl, id, "")
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
							return p.find(ctx, cl, "")
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

// find returns the server's attachment of the volume as a microversion shows it;
// nil if there is none.
func (p attachmentPair) find(ctx context.Context, cl *client.Client, version string) (client.Object, error) {
	if p.server == "" || p.volume == "" {
		return nil, nil
	}
	all, err := listAttachments(ctx, cl, p.server, version)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(o client.Object) bool { return str(o, "volumeId") == p.volume })
	if i < 0 {
		return nil, nil
	}
	return all[i], nil
}

func listAttachments(ctx context.Context, cl *client.Client, server, version string) ([]client.Object, error) {
	return cl.List(ctx, client.Call{Service: client.Compute, Version: version, Path: "/servers/" + url.PathEscape(server) + "/os-volume_attachments"}, "volumeAttachments")
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
