package openstack

import (
	"context"
	"net/url"
	"slices"
	"strconv"
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
		{Name: "address", Type: "str", Doc: "Its first fixed address: of the first network by name, IPv4 before IPv6; empty if it has none. See address_on."},
		{Name: "addresses", Type: "dict[str, list[str]]", Doc: "Its fixed addresses by the network's name."},
		{Name: "interfaces", Type: "list[dict]", Doc: "All its addresses, by the network's name: each has network, address, family (4 or 6), kind (\"fixed\" or \"floating\") and mac."},
		{Name: "image", Type: "str", Doc: "Id of the image; empty if it boots from a volume that this module didn't make."},
		{Name: "flavor", Type: "str", Doc: "Id of the flavor."},
		{Name: "key_name", Type: "str", Doc: "Name of the key pair; empty if it has none."},
		{Name: "availability_zone", Type: "str", Doc: "Where it runs."},
		{Name: "security_groups", Type: "list[str]", Doc: "Names of the security groups of its ports, sorted."},
		{Name: "metadata", Type: "dict[str, str]", Doc: "Its metadata, without what this module keeps there."},
		{Name: "tags", Type: "list[str]", Doc: "Its tags, sorted."},
		{Name: "volumes", Type: "list[str]", Doc: "Ids of the volumes that are attached to it."},
		{Name: "mark", Type: "str", Doc: "The owner mark; empty if it has none."},
	}
}

func serverType() *builtin.Type {
	return &builtin.Type{
		Name:    "openstack.server",
		Doc:     "A virtual machine.",
		Of:      builtin.TypeOf[*Server](),
		Attrs:   serverAttrs(),
		Methods: []builtin.Func{addressOnMethod(), consoleLogMethod(), hostKeyMethod()},
	}
}

type serverArgs struct {
	Name           string                 `star:"name,required" doc:"The name."`
	Image          effect.Reference       `star:"image" of:"openstack.image" doc:"What it boots from, by name, id or object. A change of it needs rebuild = True."`
	Flavor         effect.Reference       `star:"flavor,required" of:"openstack.flavor" doc:"Its size, by name, id or object. A change of it needs resize = True."`
	Networks       []effect.Reference     `star:"networks" of:"openstack.network" doc:"The networks that it has a port on, by name, id or object."`
	Ports          []effect.Reference     `star:"ports" of:"openstack.port" doc:"The ports that it uses, which outlive it."`
	Exact          bool                   `star:"exact" doc:"Detach ports that are neither among ports nor on one of the networks. Default: others stay."`
	RootVolume     effect.Data            `star:"root_volume" doc:"Boot from a volume that is made of the image: size in GiB, and if need be type (name of a volume type) and delete_on_termination (default True). Can't be changed."`
	Volume         effect.Reference       `star:"volume" of:"openstack.volume" doc:"Boot from this volume, by name, id or object, in place of an image. It outlives the server. Can't be changed."`
	KeyName        effect.Reference       `star:"key_name" of:"openstack.keypair" doc:"The key pair that lets in, by name or object. A change of it needs rebuild = True."`
	UserData       effect.Text            `star:"user_data" doc:"What cloud-init gets, at most 48 KiB. Its digest is kept in the metadata to notice a change, which needs rebuild = True. Of secret data none is kept, since it could be guessed from that: a change of it goes unnoticed until the server is made anew."`
	SecurityGroups []effect.Reference     `star:"security_groups" of:"openstack.security_group" doc:"The security groups of the ports on networks, by name or object. Ports of one's own have theirs."`
	Metadata       map[string]effect.Text `star:"metadata" doc:"Metadata to have; other keys stay."`
	Tags           []effect.Text          `star:"tags" secret:"never" doc:"The tags to have: all that it has."`
	Zone           effect.Text            `star:"availability_zone" doc:"Where to run. Default: the cloud's choice. Can't be changed."`
	Group          effect.Reference       `star:"group" of:"openstack.server_group" doc:"The server group that it belongs to, by name, id or object. Can't be changed."`
	ConfigDrive    *bool                  `star:"config_drive" doc:"Whether the metadata is given on a drive too. Can't be changed."`
	Power          string                 `star:"power" doc:"on: it runs. off: it is there and shut off. keep: a new one runs, another stays as it is."`
	Timeout        time.Duration          `star:"timeout" doc:"How long each wait may take until it is as wanted."`
	Adopt          effect.Data            `star:"adopt" doc:"True takes over the one of that name that lacks this recipe's mark; an id or \"tag:NAME\" the one that has it, whatever its name."`
	Resize         bool                   `star:"resize" doc:"Where the flavor differs, resize the server, which restarts it, and confirm that."`
	Rebuild        bool                   `star:"rebuild" doc:"Where image, user_data or key_name differ, make its disk anew: what is on it is lost; id, ports and addresses stay. A volume that it boots from keeps what is on it."`
	Replace        bool                   `star:"replace" doc:"Where what can't be changed differs, or the server is in ERROR, delete it and make it anew."`
}

func serverVerbs() builtin.Noun {
	return builtin.Noun{
		Name: "server", Doc: "A virtual machine.", Identity: builtin.Marked, Attrs: serverAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Cloud, serverArgs]{
				Name: "ensure",
				Doc: "Make a server be there, as described and running. One that is off is started; one that ended in ERROR is named, with the cloud's own reason, and replaced only with `replace = True`. " +
					"Name, metadata, tags, security groups and power are changed as they differ, and missing ports attached; nothing restarts a machine, empties its disk or deletes it unless " +
					"`resize`, `rebuild` or `replace` says that this may be. What isn't given isn't compared.",
				Returns: "openstack.server",
				Example: "net = cloud.network.ensure(\"mgmt\")\n" +
					"cloud.subnet.ensure(\"mgmt\", network = net, cidr = \"10.20.0.0/24\")\n" +
					`vm = cloud.server.ensure("gw", image = "lab-tiny", flavor = "m1.small", networks = [net], metadata = {"role": "gateway"})`,
				Effect:   builtin.Changes,
				Errors:   []fault.Kind{fault.Exists, fault.Failed, fault.Invalid, fault.NotFound, fault.Quota, fault.Timeout},
				Defaults: serverArgs{Timeout: 10 * time.Minute, Power: "on"},
				Run:      ensureServer,
			}),
			serverGet(), serverList(), serverDelete(), powerVerb("start", "ACTIVE"), powerVerb("stop", "SHUTOFF"), rebootVerb(), rebuildVerb(), resizeVerb(), serverWait(),
		},
	}
}

func ensureServer(ctx context.Context, c *Cloud, a serverArgs) (any, error) {
	t := c.target("server", a.Name)
	invalid := func(hint, text string) error { return fault.Hinted(fault.Invalid, hint, "%s: %s", t, text) }
	switch {
	case a.Name == "":
		return nil, fault.New(fault.Invalid, "the server's name is empty")
	case a.Image.Empty() && a.Volume.Empty():
		return nil, invalid("pass the image's name: one that isn't there is then named", "the image is empty, or None")
	case !a.Image.Empty() && !a.Volume.Empty():
		return nil, invalid("give root_volume to boot from a volume that is made of the image", "it can't boot from both image and volume")
	case a.RootVolume.V != nil && !a.Volume.Empty():
		return nil, invalid("root_volume makes a volume of an image: leave out one of them", "it can't boot from both volume and root_volume")
	case a.RootVolume.V != nil && a.Image.Empty():
		return nil, invalid("give the image that the volume is made of", "root_volume needs an image")
	case !slices.Contains([]string{"on", "off", "keep"}, a.Power):
		return nil, invalid("say on, off or keep", "power is "+strconv.Quote(a.Power))
	case a.Flavor.Empty():
		return nil, invalid("pass the flavor's name: one that isn't there is then named", "the flavor is empty, or None")
	case a.Networks == nil && a.Ports == nil:
		return nil, invalid("give networks or ports", "it would have no network")
	case len(a.SecurityGroups) > 0 && len(a.Networks) == 0:
		return nil, invalid("give them to port.ensure", "security_groups don't apply to ports of one's own")
	case len(a.UserData.Reveal()) > maxUserData:
		return nil, invalid("fetch the rest from within the server", "user_data has more than 48 KiB")
	}
	if err := checkTags(t, listField("tags", "", a.Tags, true)); err != nil {
		return nil, err
	}
	for k := range a.Metadata {
		if strings.HasPrefix(k, ownMetadata) {
			return nil, fault.New(fault.Invalid, "%s: metadata %s: names that begin with %s are this module's own", t, k, ownMetadata)
		}
	}
	if err := checkRootVolume(t.String(), a.RootVolume.V); err != nil {
		return nil, err
	}
	mark, err := markFor(ctx, c, "server", a.Name)
	if err != nil {
		return nil, err
	}
	adopt, err := adoptionOf(a.Adopt, "server", true)
	if err != nil {
		return nil, fault.Wrap("", t.String(), err)
	}
	st, err := c.do(ctx, &serverOp{cloud: c, args: a, mark: mark, adopt: adopt})
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

type serverListArgs struct {
	Name     string            `star:"name,positional" doc:"Only those of this name."`
	Mark     string            `star:"mark" doc:"Only those whose owner mark begins so, such as \"gsrun:lab/gateway/\"."`
	Tags     []string          `star:"tags" doc:"Only those that have all of these tags."`
	Metadata map[string]string `star:"metadata" doc:"Only those whose metadata has these."`
	Filters  map[string]string `star:"filters" doc:"Further filters, as the API takes them in its query, such as {\"status\": \"ACTIVE\"}."`
}

func (a serverListArgs) query() (url.Values, error) {
	q := url.Values{}
	if err := filters(q, a.Filters, "server", serverFilters()); err != nil {
		return nil, err
	}
	if err := plainTags(a.Tags); err != nil {
		return nil, err
	}
	if len(a.Tags) > 0 {
		q.Set("tags", strings.Join(a.Tags, ","))
	}
	return q, nil
}

// hasMetadata reports whether a server's metadata has all of want. Nova filters
// by it for administrators only.
func hasMetadata(obj client.Object, want map[string]string) bool {
	have, _ := obj["metadata"].(client.Object)
	for k, v := range want {
		if x, given := have[k]; !given || x != v {
			return false
		}
	}
	return true
}

func serverList() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, serverListArgs]{
		Name:    "list",
		Doc:     "Return the project's servers, the newest first. Filters are Nova's: status, flavor, image, ip, changes-since, and more.",
		Returns: "list[openstack.server]",
		Example: `running = [s.name for s in cloud.server.list(filters = {"status": "ACTIVE"}, metadata = {"role": "gateway"})]`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, c *Cloud, a serverListArgs) (any, error) {
			query, err := a.query()
			if err != nil {
				return nil, err
			}
			return readList(ctx, c, "server", func(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
				all, err := listServersBy(ctx, cl, a.Name, query)
				if err != nil {
					return nil, err
				}
				var out []map[string]any
				for _, obj := range all {
					if matches(obj, listArgs{Name: a.Name, Mark: a.Mark}) && hasMetadata(obj, a.Metadata) {
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
			return findServer(ctx, cl, a.Name, mark, adoption{same: a.Adopt})
		},
		remove: func(ctx context.Context, c *Cloud, cl *client.Client, obj client.Object) error {
			return removeServer(ctx, c, cl, str(obj, "id"))
		},
	}.verb()
}
