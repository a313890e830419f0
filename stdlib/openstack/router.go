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
		name: "router", plural: "routers", path: "/routers",
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
			{builtin.Attr{Name: "routes", Type: "dict[str, str]", Doc: "Static routes: next hop by destination."}, func(o client.Object) any {
				out := map[string]any{}
				for _, r := range objects(o, "routes") {
					out[str(r, "destination")] = str(r, "nexthop")
				}
				return out
			}},
			markAttr(),
		},
		expand:  readInterfaces,
		release: removeInterfaces,
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
// into it.
func readInterfaces(ctx context.Context, cl *client.Client, obj client.Object) error {
	ports, err := cl.List(ctx, client.Call{Service: client.Network, Path: "/ports", Query: url.Values{"device_id": {str(obj, "id")}}}, "ports")
	if err != nil {
		return err
	}
	ids := []any{}
	for _, p := range ports {
		if !slices.Contains(routerOwners(), str(p, "device_owner")) {
			continue
		}
		for _, ip := range objects(p, "fixed_ips") {
			ids = append(ids, str(ip, "subnet_id"))
		}
	}
	obj["subnets"] = sorted(ids)
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
	for _, subnet := range obj["subnets"].([]any) {
		_, err := cl.Do(ctx, client.Call{Service: client.Network, Method: http.MethodPut,
			Path: "/routers/" + str(obj, "id") + "/remove_router_interface", Body: client.Object{"subnet_id": subnet}})
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
	External effect.Reference       `star:"external" doc:"The external network to have the gateway on, by name or id."`
	SNAT     *bool                  `star:"snat" doc:"Whether it hides the addresses behind it. Default: the cloud's; mostly for administrators."`
	Subnets  []effect.Reference     `star:"subnets" doc:"The subnets to have an interface on, each at the subnet's gateway address."`
	Routes   map[string]effect.Text `star:"routes" doc:"Static routes: next hop by destination."`
	Exact    bool                   `star:"exact" doc:"Remove the interfaces on other subnets."`
	Adopt    bool                   `star:"adopt" doc:"Take over a router of that name that lacks this recipe's mark."`
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
			if a.Subnets != nil {
				op.parts = &interfaces{cloud: c, refs: a.Subnets, exact: a.Exact}
			}
			return c.do(ctx, op)
		},
	}))
}

func (a routerArgs) fields(ctx context.Context, c *Cloud, cl *client.Client) ([]field, error) {
	var fs []field
	if !a.External.Empty() {
		id, err := networkNoun().resolve(ctx, c, cl, a.External)
		if err != nil {
			return nil, err
		}
		info := client.Object{"network_id": id}
		if a.SNAT != nil {
			info["enable_snat"] = *a.SNAT
			fs = append(fs, field{attr: "snat", key: "external_gateway_info", want: *a.SNAT, send: info})
		}
		fs = append(fs, field{attr: "external", key: "external_gateway_info", want: id, send: info,
			after: map[string]any{"address": effect.Unknown{}, "snat": effect.Unknown{}}})
	} else if a.SNAT != nil {
		return nil, fault.New(fault.Invalid, "snat is a property of the gateway: give external too")
	}
	if a.Routes != nil {
		want, send := routeList(a.Routes)
		// Neutron takes routes only on a router that has its interfaces already: they come with an update.
		fs = append(fs, field{attr: "routes", want: want, send: send, late: true})
	}
	return fs, nil
}

// interfaces are the parts of a router.
type interfaces struct {
	cloud *Cloud
	refs  []effect.Reference
	exact bool
	want  []any
}

func (p *interfaces) prepare(ctx context.Context, cl *client.Client) (err error) {
	p.want, err = subnetNoun().resolveAll(ctx, p.cloud, cl, p.refs)
	return err
}

// missing and extra return the subnets to add an interface on, and to remove it from.
func (p *interfaces) missing(have []any) []any {
	return slices.DeleteFunc(slices.Clone(p.want), func(x any) bool { return known(x) && slices.Contains(have, x) })
}

func (p *interfaces) extra(have []any) []any {
	if !p.exact {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(have), func(x any) bool { return slices.Contains(p.want, x) })
}

func (p *interfaces) diff(obj client.Object) []effect.Field {
	have, _ := obj["subnets"].([]any)
	var out []effect.Field
	for _, x := range p.missing(have) {
		out = append(out, effect.Field{Path: "subnets", New: x})
	}
	for _, x := range p.extra(have) {
		out = append(out, effect.Field{Path: "subnets", Old: x})
	}
	return out
}

func (p *interfaces) attrs(obj client.Object) map[string]any {
	have, _ := obj["subnets"].([]any)
	extra := p.extra(have)
	all := slices.DeleteFunc(slices.Clone(have), func(x any) bool { return slices.Contains(extra, x) })
	return map[string]any{"subnets": sorted(append(all, p.missing(have)...))}
}

func (p *interfaces) apply(ctx context.Context, cl *client.Client, obj client.Object) error {
	have, _ := obj["subnets"].([]any)
	call := func(verb string, subnet any) error {
		_, err := cl.Do(ctx, client.Call{Service: client.Network, Method: http.MethodPut,
			Path: "/routers/" + str(obj, "id") + "/" + verb, Body: client.Object{"subnet_id": subnet}})
		return err
	}
	// What goes makes room for what comes.
	for _, x := range p.extra(have) {
		if err := call("remove_router_interface", x); err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	for _, x := range p.missing(have) {
		if err := call("add_router_interface", x); err != nil {
			return err
		}
	}
	obj["subnets"] = p.attrs(obj)["subnets"]
	return nil
}
