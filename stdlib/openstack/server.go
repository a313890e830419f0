package openstack

import (
	"context"
	"strings"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A Server is what server.ensure and server.get return: data, and what can be
// asked of a server.
type Server struct {
	cloud *Cloud
	attrs map[string]any
}

// Attrs returns the server's data.
func (s *Server) Attrs() map[string]any { return s.attrs }

func (s *Server) String() string {
	name, _ := s.attrs["name"].(string)
	return name
}

func serverAttrs() []builtin.Attr {
	return []builtin.Attr{
		{Name: "id", Type: "str", Doc: "The id."},
		{Name: "name", Type: "str", Doc: "The name."},
		{Name: "status", Type: "str", Doc: "ACTIVE once it runs."},
		{Name: "address", Type: "str", Doc: "Its first fixed address: of the first network by name, IPv4 before IPv6; empty if it has none."},
		{Name: "addresses", Type: "dict[str, list[str]]", Doc: "Its fixed addresses by the network's name."},
		{Name: "image", Type: "str", Doc: "Id of the image; empty if it boots from a volume."},
		{Name: "flavor", Type: "str", Doc: "Id of the flavor."},
		{Name: "key_name", Type: "str", Doc: "Name of the key pair; empty if it has none."},
		{Name: "availability_zone", Type: "str", Doc: "Where it runs."},
		{Name: "security_groups", Type: "list[str]", Doc: "Names of the security groups of its ports, sorted."},
		{Name: "metadata", Type: "dict[str, str]", Doc: "Its metadata, without what this module keeps there."},
		{Name: "mark", Type: "str", Doc: "The owner mark; empty if it has none."},
	}
}

func serverType() *builtin.Type {
	return &builtin.Type{
		Name:    "openstack.server",
		Doc:     "A virtual machine.",
		Of:      builtin.TypeOf[*Server](),
		Attrs:   serverAttrs(),
		Methods: []builtin.Func{hostKeyMethod()},
	}
}

type serverArgs struct {
	Name           string                 `star:"name,required" doc:"The name."`
	Image          effect.Reference       `star:"image,required" doc:"What it boots from, by name, id or object. Can't be changed."`
	Flavor         effect.Reference       `star:"flavor,required" doc:"Its size, by name, id or object. Can't be changed."`
	Networks       []effect.Reference     `star:"networks" doc:"The networks that it gets a port on, by name, id or object. Can't be changed."`
	Ports          []effect.Reference     `star:"ports" doc:"The ports that it uses, which outlive it. Can't be changed."`
	KeyName        effect.Reference       `star:"key_name" doc:"The key pair that lets in, by name or object. Can't be changed."`
	UserData       effect.Text            `star:"user_data" doc:"What cloud-init gets, at most 48 KiB. Its digest is kept in the metadata to notice a change. Of secret data none is kept, since it could be guessed from that: a change of it goes unnoticed until the server is made anew. Can't be changed."`
	SecurityGroups []effect.Reference     `star:"security_groups" doc:"The security groups of the ports on networks, by name or object. Ports of one's own have theirs."`
	Metadata       map[string]effect.Text `star:"metadata" doc:"Metadata to have; other keys stay."`
	Zone           effect.Text            `star:"availability_zone" doc:"Where to run. Default: the cloud's choice. Can't be changed."`
	ConfigDrive    *bool                  `star:"config_drive" doc:"Whether the metadata is given on a drive too. Can't be changed."`
	Timeout        time.Duration          `star:"timeout" doc:"How long to wait until it runs."`
	Adopt          bool                   `star:"adopt" doc:"Take over a server of that name that lacks this recipe's mark."`
	Replace        bool                   `star:"replace" doc:"Where what can't be changed differs, or the server is in ERROR, delete it and make it anew."`
}

func serverVerbs() builtin.Noun {
	return builtin.Noun{
		Name: "server", Doc: "A virtual machine.", Identity: builtin.Marked, Attrs: serverAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Cloud, serverArgs]{
				Name: "ensure",
				Doc: "Make a server be there, as described and running. One that is off is started; one that ended in ERROR is named, with the cloud's own reason, and replaced only with `replace = True`. " +
					"What isn't given isn't compared.",
				Returns: "openstack.server",
				Example: "net = cloud.network.ensure(\"mgmt\")\n" +
					"cloud.subnet.ensure(\"mgmt\", network = net, cidr = \"10.20.0.0/24\")\n" +
					`vm = cloud.server.ensure("gw", image = "lab-tiny", flavor = "m1.small", networks = [net], metadata = {"role": "gateway"})`,
				Effect:   builtin.Changes,
				Errors:   []fault.Kind{fault.Exists, fault.Failed, fault.Invalid, fault.NotFound, fault.Quota, fault.Timeout},
				Defaults: serverArgs{Timeout: 10 * time.Minute},
				Run:      ensureServer,
			}),
			serverGet(), serverList(), serverDelete(),
		},
	}
}

func ensureServer(ctx context.Context, c *Cloud, a serverArgs) (any, error) {
	t := c.target("server", a.Name)
	invalid := func(hint, text string) error { return fault.Hinted(fault.Invalid, hint, "%s: %s", t, text) }
	switch {
	case a.Name == "":
		return nil, fault.New(fault.Invalid, "the server's name is empty")
	case a.Image.Empty():
		return nil, invalid("pass the image's name: one that isn't there is then named", "the image is empty, or None")
	case a.Flavor.Empty():
		return nil, invalid("pass the flavor's name: one that isn't there is then named", "the flavor is empty, or None")
	case a.Networks == nil && a.Ports == nil:
		return nil, invalid("give networks or ports", "it would have no network")
	case len(a.SecurityGroups) > 0 && len(a.Networks) == 0:
		return nil, invalid("give them to port.ensure", "security_groups don't apply to ports of one's own")
	case len(a.UserData.Reveal()) > maxUserData:
		return nil, invalid("fetch the rest from within the server", "user_data has more than 48 KiB")
	}
	for k := range a.Metadata {
		if strings.HasPrefix(k, ownMetadata) {
			return nil, fault.New(fault.Invalid, "%s: metadata %s: names that begin with %s are this module's own", t, k, ownMetadata)
		}
	}
	mark, err := markFor(ctx, c, "server", a.Name)
	if err != nil {
		return nil, err
	}
	st, err := c.do(ctx, &serverOp{cloud: c, args: a, mark: mark})
	if err != nil {
		return nil, err
	}
	if st.Unknown {
		return effect.Unknown{Of: t.String()}, nil
	}
	return &Server{cloud: c, attrs: st.Attrs}, nil
}

// maxUserData is how many bytes of user data Nova takes: 65535 once they are
// in base64.
const maxUserData = 49149

func serverGet() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, getArgs]{
		Name:    "get",
		Doc:     "Return the server of that name or id, or None.",
		Returns: "openstack.server or None",
		Example: `gw = cloud.server.get("gw")`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, c *Cloud, a getArgs) (any, error) {
			return readOne(ctx, c, "server", a.Name, func(ctx context.Context, cl *client.Client) (*Server, error) {
				obj, err := serverByName(ctx, cl, a.Name)
				if err != nil {
					return nil, err
				}
				return &Server{cloud: c, attrs: serverData(obj)}, nil
			})
		},
	})
}

func serverByName(ctx context.Context, cl *client.Client, name string) (client.Object, error) {
	if isID(name) {
		obj, err := getServer(ctx, cl, name)
		if err == nil || fault.KindOf(err) != fault.NotFound {
			return obj, err
		}
	}
	all, err := serversNamed(ctx, cl, name)
	if err != nil {
		return nil, err
	}
	switch len(all) {
	case 0:
		return nil, fault.New(fault.NotFound, "there is no server called %q", name)
	case 1:
		return all[0], nil
	}
	return nil, fault.Hinted(fault.Invalid, "name the one that is meant by its id", "%d servers are called %q: %s", len(all), name, ids(all))
}

func serverList() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, listArgs]{
		Name:    "list",
		Doc:     "Return the project's servers, the newest first.",
		Returns: "list[openstack.server]",
		Example: `running = [s.name for s in cloud.server.list() if s.status == "ACTIVE"]`,
		Effect:  builtin.Reads,
		Run: func(ctx context.Context, c *Cloud, a listArgs) (any, error) {
			return readList(ctx, c, "server", func(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
				all, err := listServers(ctx, cl, a.Name)
				if err != nil {
					return nil, err
				}
				var out []map[string]any
				for _, obj := range all {
					if matches(obj, a) {
						out = append(out, serverData(obj))
					}
				}
				return out, nil
			})
		},
	})
}

func serverDelete() builtin.Func {
	return deletion{
		kind: "server", example: "gw",
		doc:    "Delete the server of that name and wait until it is gone. Ports of one's own stay. That there is none is no error; one that isn't this recipe's is refused.",
		errors: []fault.Kind{fault.Exists},
		find: func(ctx context.Context, _ *Cloud, cl *client.Client, a deleteArgs, mark string) (client.Object, error) {
			return findServer(ctx, cl, a.Name, mark, a.Adopt)
		},
		remove: func(ctx context.Context, c *Cloud, cl *client.Client, obj client.Object) error {
			return removeServer(ctx, c, cl, str(obj, "id"))
		},
	}.verb()
}
