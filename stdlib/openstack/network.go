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
			adminStateAttr(),
			{Attr: builtin.Attr{Name: "dns_domain", Type: "str", Doc: "The domain of its ports' names; empty if it has none."}},
			{Attr: builtin.Attr{Name: "availability_zone_hints", Type: "list[str]", Doc: "Where its services should run, sorted."},
				read: func(o client.Object) any { return sortedList(o, "availability_zone_hints") }},
			{Attr: builtin.Attr{Name: "network_type", Type: "str", Doc: "flat, vlan, vxlan or another; empty for who isn't an administrator."},
				read: func(o client.Object) any { return str(o, "provider:network_type") }},
			{Attr: builtin.Attr{Name: "physical_network", Type: "str", Doc: "The physical network below it; empty if there is none, or for who isn't an administrator."},
				read: func(o client.Object) any { return str(o, "provider:physical_network") }},
			{Attr: builtin.Attr{Name: "segmentation_id", Type: "int", Doc: "Number of the VLAN or tunnel; 0 if it has none, or for who isn't an administrator."},
				read: func(o client.Object) any { id, _ := o["provider:segmentation_id"].(int64); return id }},
			tagsAttr(), markAttr(),
		},
		ports: func(id string) url.Values { return url.Values{"network_id": {id}} },
	}
}

type networkArgs struct {
	Name         string        `star:"name,required" doc:"The name."`
	MTU          *int          `star:"mtu" doc:"Largest packet in bytes. Default: the cloud's."`
	Shared       *bool         `star:"shared" doc:"Whether other projects may use it; mostly for administrators."`
	External     *bool         `star:"external" doc:"Whether routers may have their gateway on it; for administrators."`
	PortSecurity *bool         `star:"port_security" doc:"Whether its ports are filtered by default."`
	AdminState   *bool         `star:"admin_state_up" doc:"Whether it carries anything. Default: True."`
	DNSDomain    effect.Text   `star:"dns_domain" doc:"The domain of its ports' names, with a dot at its end; \"none\" for none."`
	Zones        []effect.Text `star:"availability_zone_hints" doc:"Availability zones of Neutron in which its services should run. Can't be changed."`
	Type         effect.Text   `star:"network_type" doc:"What it is made of: flat, vlan, vxlan, gre, geneve or local; for administrators. Can't be changed."`
	Physical     effect.Text   `star:"physical_network" doc:"The physical network below a flat one or a VLAN; for administrators. Can't be changed."`
	Segment      *int          `star:"segmentation_id" doc:"Number of the VLAN or tunnel; for administrators."`
	Tags         []effect.Text `star:"tags" secret:"never" doc:"Its tags; [] removes them."`
	Adopt        effect.Data   `star:"adopt" doc:"True takes over the one of that name that lacks this recipe's mark; an id or \"tag:NAME\" the one that has it, whatever its name."`
	Replace      bool          `star:"replace" doc:"Where what can't be changed differs, delete the network and make it anew."`
}

func networkVerbs() builtin.Noun {
	n := networkNoun()
	return n.verbs("A layer 2 network of the project.", "mgmt", builtin.Of(builtin.Spec[*Cloud, networkArgs]{
		Name:    "ensure",
		Doc:     "Make a network be there with the given settings. What isn't given isn't compared.",
		Returns: "openstack.network",
		Example: `net = cloud.network.ensure("mgmt", mtu = 1450)`,
		Effect:  builtin.Changes,
		Errors:  []fault.Kind{fault.Exists, fault.Invalid, fault.NotFound, fault.Quota},
		Run: func(ctx context.Context, c *Cloud, a networkArgs) (any, error) {
			op, err := newEnsure(ctx, c, n, a.Name, a.Adopt, a.Replace)
			if err != nil {
				return nil, err
			}
			if a.MTU != nil && *a.MTU == 0 { // Neutron would choose one, and it would differ ever after
				return nil, fault.Hinted(fault.Invalid, "leave mtu out for the cloud's default", "%s: mtu is 0", op.Target())
			}
			op.wanted = func(context.Context, *client.Client) ([]field, error) {
				var fs []field
				fs = append(fs, intField("mtu", "", a.MTU)...)
				fs = append(fs, boolField("shared", "", a.Shared)...)
				fs = append(fs, boolField("external", "router:external", a.External)...)
				fs = append(fs, boolField("port_security", "port_security_enabled", a.PortSecurity)...)
				fs = append(fs, boolField("admin_state_up", "", a.AdminState)...)
				fs = append(fs, emptiable(textField("dns_domain", "", a.DNSDomain, false), "")...)
				for _, f := range listField("availability_zone_hints", "", a.Zones, true) {
					f.fixed = true
					fs = append(fs, f)
				}
				fs = append(fs, textField("network_type", "provider:network_type", a.Type, true)...)
				fs = append(fs, textField("physical_network", "provider:physical_network", a.Physical, true)...)
				fs = append(fs, intField("segmentation_id", "provider:segmentation_id", a.Segment)...)
				return append(fs, n.tagsField(a.Tags)...), nil
			}
			return c.do(ctx, op)
		},
	}))
}

func adminStateAttr() attr {
	return attr{Attr: builtin.Attr{Name: "admin_state_up", Type: "bool", Doc: "Whether it is switched on."}}
}

// sortedList returns a field that is a list, in order; none is an empty one.
func sortedList(o client.Object, key string) any {
	if l, ok := o[key].([]any); ok {
		return sorted(l)
	}
	return []any{}
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
