package openstack

import (
	"context"
	"net/url"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func networkNoun() *noun {
	return &noun{
		name: "network", plural: "networks", path: "/networks", tagged: tagsByCall,
		attrs: []attr{
			idAttr(), nameAttr(),
			{Attr: builtin.Attr{Name: "status", Type: "str", Doc: "ACTIVE once it can be used."}},
			{Attr: builtin.Attr{Name: "mtu", Type: "int", Doc: "Largest packet in bytes."}},
			{Attr: builtin.Attr{Name: "shared", Type: "bool", Doc: "Whether other projects may use it."}},
			{builtin.Attr{Name: "external", Type: "bool", Doc: "Whether routers may have their gateway on it."},
				func(o client.Object) any { return o["router:external"] }},
			{builtin.Attr{Name: "port_security", Type: "bool", Doc: "Whether its ports are filtered by default."},
				func(o client.Object) any { return o["port_security_enabled"] }},
			tagsAttr(), markAttr(),
		},
		users: func(ctx context.Context, cl *client.Client, id string) ([]string, error) {
			return portUsers(ctx, cl, url.Values{"network_id": {id}})
		},
	}
}

type networkArgs struct {
	Name         string        `star:"name,required" doc:"The name."`
	MTU          *int          `star:"mtu" doc:"Largest packet in bytes. Default: the cloud's."`
	Shared       *bool         `star:"shared" doc:"Whether other projects may use it; mostly for administrators."`
	External     *bool         `star:"external" doc:"Whether routers may have their gateway on it; for administrators."`
	PortSecurity *bool         `star:"port_security" doc:"Whether its ports are filtered by default."`
	Tags         []effect.Text `star:"tags" doc:"Its tags; [] removes them."`
	Adopt        bool          `star:"adopt" doc:"Take over a network of that name that lacks this recipe's mark."`
}

func networkVerbs() builtin.Noun {
	n := networkNoun()
	return n.verbs("A layer 2 network of the project.", "mgmt", builtin.Of(builtin.Spec[*Cloud, networkArgs]{
		Name:    "ensure",
		Doc:     "Make a network be there with the given settings. What isn't given isn't compared.",
		Returns: "openstack.network",
		Example: `net = cloud.network.ensure("mgmt", mtu = 1450)`,
		Effect:  builtin.Changes,
		Errors:  []fault.Kind{fault.Exists, fault.Invalid, fault.Quota},
		Run: func(ctx context.Context, c *Cloud, a networkArgs) (any, error) {
			op, err := newEnsure(ctx, c, n, a.Name, a.Adopt, false)
			if err != nil {
				return nil, err
			}
			op.wanted = func(context.Context, *client.Client) ([]field, error) {
				var fs []field
				fs = append(fs, intField("mtu", "", a.MTU)...)
				fs = append(fs, boolField("shared", "", a.Shared)...)
				fs = append(fs, boolField("external", "router:external", a.External)...)
				fs = append(fs, boolField("port_security", "port_security_enabled", a.PortSecurity)...)
				return append(fs, n.tagsField(a.Tags)...), nil
			}
			return c.do(ctx, op)
		},
	}))
}

// portUsers says what the ports that match query are for.
func portUsers(ctx context.Context, cl *client.Client, query url.Values) ([]string, error) {
	ports, err := cl.List(ctx, client.Call{Service: client.Network, Path: "/ports", Query: query}, "ports")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range ports {
		out = append(out, portText(p))
	}
	return out, nil
}

// portText names a port and says what it is for.
func portText(p client.Object) string {
	s := "port " + str(p, "id")
	if name := str(p, "name"); name != "" {
		s = "port " + name + " (" + str(p, "id") + ")"
	}
	if owner := str(p, "device_owner"); owner != "" {
		s += ", which is " + owner + " of " + str(p, "device_id")
	}
	return s
}
