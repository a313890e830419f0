package openstack

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func routerNoun() *noun {
	return &noun{
		name: "router", plural: "routers", path: "/routers", tagged: tagsByCall,
		attrs: []attr{
			idAttr(), nameAttr(),
			{Attr: builtin.Attr{Name: "status", Type: "str", Doc: "ACTIVE once it can be used."}},
			{builtin.Attr{Name: "external", Type: "str", Doc: "Id of the external network that its gateway is on; empty without a gateway."},
				func(o client.Object) any { return str(gateway(o), "network_id") }},
			{builtin.Attr{Name: "address", Type: "str", Doc: "Its address on the external network; empty if it has none."}, gatewayAddress},
			{builtin.Attr{Name: "snat", Type: "bool", Doc: "Whether it hides the addresses behind it."},
				func(o client.Object) any { on, _ := gateway(o)["enable_snat"].(bool); return on }},
			{builtin.Attr{Name: "subnets", Type: "list[str]", Doc: "Ids of the subnets that it has an interface on, sorted."},
				func(o client.Object) any { return o["subnets"] }},
			{builtin.Attr{Name: "ports", Type: "list[str]", Doc: "Ids of the ports that are its interfaces, sorted."},
				func(o client.Object) any { return o["ports"] }},
			{builtin.Attr{Name: "external_ips", Type: "list[dict]", Doc: "Its addresses on the external network: {subnet, address}."},
				func(o client.Object) any { return addressesOf(gateway(o), "external_fixed_ips") }},
			{builtin.Attr{Name: "routes", Type: "dict[str, str]", Doc: "Static routes: next hop by destination."},
				func(o client.Object) any { return routesAt(o, "routes") }},
			adminStateAttr(),
			tagsAttr(), markAttr(),
		},
		expand:  readInterfaces,
		release: removeInterfaces,
		users: func(ctx context.Context, cl *client.Client, id string) ([]string, error) {
			return portUsers(ctx, cl, url.Values{"device_id": {id}})
		},
	}
}

func gateway(o client.Object) client.Object {
	g, _ := o["external_gateway_info"].(client.Object)
	return g
}

func gatewayAddress(o client.Object) any {
	for _, ip := range objects(gateway(o), "external_fixed_ips") {
		return str(ip, "ip_address")
	}
	return ""
}

// routerOwners are the owners that Neutron gives the ports of a router's
// interfaces: of a plain, a distributed and a highly available router.
func routerOwners() []string {
	return []string{"network:router_interface", "network:router_interface_distributed", "network:ha_router_replicated_interface"}
}

// readInterfaces puts the ids of the subnets that a router has an interface on
// into it, and those of the interfaces' ports.
func readInterfaces(ctx context.Context, cl *client.Client, obj client.Object) error {
	ports, err := cl.List(ctx, client.Call{Service: client.Network, Path: "/ports", Query: url.Values{"device_id": {str(obj, "id")}}}, "ports")
	if err != nil {
		return err
	}
	ids, own, byPort := []any{}, []any{}, client.Object{}
	for _, p := range ports {
		if !slices.Contains(routerOwners(), str(p, "device_owner")) {
			continue
		}
		own = append(own, str(p, "id"))
		on := []any{}
		for _, ip := range objects(p, "fixed_ips") {
			on = append(on, str(ip, "subnet_id"))
		}
		ids = append(ids, on...)
		byPort[str(p, "id")] = on
	}
	obj["subnets_of_ports"] = byPort
	obj["subnets"], obj["ports"] = sorted(ids), sorted(own)
	return nil
}

// removeInterfaces takes off what a router has: its routes first, since they
// need the interfaces.
func removeInterfaces(ctx context.Context, cl *client.Client, obj client.Object) error {
	if len(objects(obj, "routes")) > 0 {
		if _, err := routerNoun().update(ctx, cl, str(obj, "id"), client.Object{"routes": []any{}}); err != nil {
			return err
		}
	}
	if err := readInterfaces(ctx, cl, obj); err != nil {
		return err
	}
	for _, port := range obj["ports"].([]any) {
		_, err := cl.Do(ctx, client.Call{Service: client.Network, Method: http.MethodPut,
			Path: "/routers/" + str(obj, "id") + "/remove_router_interface", Body: client.Object{"port_id": port}})
		if k := fault.KindOf(err); err != nil && k != fault.NotFound {
			if k == fault.Conflict {
				return &fault.Error{Kind: k, Err: err, Hint: behind(ctx, cl, str(obj, "id"))}
			}
			return err
		}
	}
	return nil
}

// behind names the floating IPs that lead to hosts behind a router.
func behind(ctx context.Context, cl *client.Client, id string) string {
	fips, err := cl.List(ctx, client.Call{Service: client.Network, Path: "/floatingips", Query: url.Values{"router_id": {id}}}, "floatingips")
	if err != nil || len(fips) == 0 {
		return "" // the conflict itself says what went wrong
	}
	names := make([]string, len(fips))
	for i, f := range fips {
		names[i] = str(f, "floating_ip_address") + " (" + str(f, "id") + ")"
	}
	return "floating IPs lead to hosts behind the router: delete them first: " + joinSome(names)
}

type routerArgs struct {
	Name     string                 `star:"name,required" doc:"The name."`
	External effect.Reference       `star:"external" of:"openstack.network" doc:"The external network to have the gateway on, by name or id; \"none\" for no gateway."`
	SNAT     *bool                  `star:"snat" doc:"Whether it hides the addresses behind it. Default: the cloud's; mostly for administrators."`
	IPs      effect.Data            `star:"external_ips" doc:"Its addresses on the external network, as a port's fixed_ips; for administrators. Default: one of the cloud's choice."`
	Subnets  []effect.Reference     `star:"subnets" of:"openstack.subnet" doc:"The subnets to have an interface on, each at the subnet's gateway address."`
	Ports    []effect.Reference     `star:"ports" of:"openstack.port" doc:"Ports to have an interface with, in place of the subnet's gateway address. They go with the interface."`
	Routes   map[string]effect.Text `star:"routes" doc:"Static routes: next hop by destination."`
	Exact    bool                   `star:"exact" doc:"Remove the other interfaces."`
	Admin    *bool                  `star:"admin_state_up" doc:"Whether it carries anything. Default: True."`
	Tags     []effect.Text          `star:"tags" secret:"never" doc:"Its tags; [] removes them."`
	Adopt    effect.Data            `star:"adopt" doc:"True takes over the one of that name that lacks this recipe's mark; an id or \"tag:NAME\" the one that has it, whatever its name."`
}

func routerVerbs() builtin.Noun {
	n := routerNoun()
	return n.verbs("A router of the project: its gateway, its interfaces and its routes.", "mgmt", builtin.Of(builtin.Spec[*Cloud, routerArgs]{
		Name:    "ensure",
		Doc:     "Make a router be there with the given gateway and interfaces. Interfaces on other subnets stay unless `exact = True`. What isn't given isn't compared.",
		Returns: "openstack.router",
		Example: "net = cloud.network.ensure(\"mgmt\")\n" +
			"sub = cloud.subnet.ensure(\"mgmt\", network = net, cidr = \"10.20.0.0/24\")\n" +
			`cloud.router.ensure("mgmt", external = "public", subnets = [sub])`,
		Effect: builtin.Changes,
		Errors: []fault.Kind{fault.Exists, fault.NotFound, fault.Conflict, fault.Quota},
		Run: func(ctx context.Context, c *Cloud, a routerArgs) (any, error) {
			op, err := newEnsure(ctx, c, n, a.Name, a.Adopt, false)
			if err != nil {
				return nil, err
			}
			op.wanted = func(ctx context.Context, cl *client.Client) ([]field, error) { return a.fields(ctx, c, cl) }
			if a.Exact && a.Subnets == nil && a.Ports == nil {
				return nil, fault.New(fault.Invalid, "%s: exact = True without subnets and ports would remove all interfaces; give subnets = [] if that is meant", op.Target())
			}
			if a.Subnets != nil || a.Ports != nil {
				op.parts = &interfaces{cloud: c, subnets: a.Subnets, ports: a.Ports, exact: a.Exact}
			}
			return c.do(ctx, op)
		},
	}))
}

func (a routerArgs) fields(ctx context.Context, c *Cloud, cl *client.Client) ([]field, error) {
	fs := boolField("admin_state_up", "", a.Admin)
	fs = append(fs, routerNoun().tagsField(a.Tags)...)
	gateway, err := a.gateway(ctx, c, cl)
	if err != nil {
		return nil, err
	}
	fs = append(fs, gateway...)
	if a.Routes != nil {
		want, send := routeList(a.Routes)
		// Neutron takes routes only on a router that has its interfaces already: they come with an update.
		fs = append(fs, field{attr: "routes", want: want, send: send, late: true})
	}
	return fs, nil
}

// gateway returns the fields of the gateway. The API takes them as one.
func (a routerArgs) gateway(ctx context.Context, c *Cloud, cl *client.Client) ([]field, error) {
	lone := a.SNAT != nil || a.IPs.V != nil
	switch {
	case a.External.Empty() && lone:
		return nil, fault.New(fault.Invalid, "snat and external_ips are the gateway's: give external too")
	case a.External.Empty():
		return nil, nil
	case a.External.Known() && a.External.ID.Reveal() == none:
		if lone {
			return nil, fault.New(fault.Invalid, "snat and external_ips are the gateway's, and there shall be none")
		}
		return []field{{attr: "external", key: "external_gateway_info", want: "", send: null{}, after: map[string]any{"external": "", "address": "", "external_ips": []any{}, "snat": false}}}, nil
	}
	id, err := networkNoun().resolve(ctx, c, cl, a.External)
	if err != nil {
		return nil, err
	}
	info := client.Object{"network_id": id}
	fs := []field{{attr: "external", key: "external_gateway_info", want: id, send: info,
		after: map[string]any{"address": effect.Unknown{}, "snat": effect.Unknown{}, "external_ips": effect.Unknown{}}}}
	if a.SNAT != nil {
		info["enable_snat"] = *a.SNAT
		fs = append(fs, field{attr: "snat", key: "external_gateway_info", want: *a.SNAT, send: info})
	}
	named, err := withSubnets(ctx, c, cl, a.IPs.V)
	if err != nil {
		return nil, err
	}
	ips, err := fixedIPs("external_ips", named)
	if err != nil {
		return nil, err
	}
	for _, f := range ips {
		info["external_fixed_ips"] = f.send
		f.key, f.send = "external_gateway_info", info
		fs = append(fs, f)
	}
	return fs, nil
}
