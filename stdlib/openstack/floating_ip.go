package openstack

import (
	"context"
	"net/url"
	"slices"
	"strconv"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func floatingIPNoun() *noun {
	return &noun{
		name: "floating_ip", key: "floatingip", plural: "floatingips", path: "/floatingips", unnamed: true, tagged: tagsByCall,
		attrs: []attr{
			idAttr(),
			{builtin.Attr{Name: "address", Type: "str", Doc: "The public address."}, func(o client.Object) any { return o["floating_ip_address"] }},
			{builtin.Attr{Name: "network", Type: "str", Doc: "Id of the external network that it is from."},
				func(o client.Object) any { return o["floating_network_id"] }},
			{builtin.Attr{Name: "port", Type: "str", Doc: "Id of the port that it leads to; empty if it leads nowhere."},
				func(o client.Object) any { return str(o, "port_id") }},
			{builtin.Attr{Name: "fixed_ip", Type: "str", Doc: "The address that it leads to; empty if it leads nowhere."},
				func(o client.Object) any { return str(o, "fixed_ip_address") }},
			{Attr: builtin.Attr{Name: "status", Type: "str", Doc: "ACTIVE if it leads somewhere, DOWN if not."}},
			tagsAttr(), markAttr(),
		},
	}
}

type floatingIPArgs struct {
	Name    string           `star:"name,required" doc:"A name to find it by again: floating IPs have none in the cloud, it is part of the owner mark."`
	Network effect.Reference `star:"network" of:"openstack.network" doc:"The external network to take it from, by name or id. Default: the only one. Can't be changed."`
	Port    effect.Reference `star:"port" of:"openstack.port" doc:"The port that it leads to, by name or id; \"none\" for nowhere."`
	Server  effect.Reference `star:"server" of:"openstack.server" doc:"The server that it leads to, which has one port; in place of port."`
	FixedIP effect.Text      `star:"fixed_ip" doc:"Which of the port's addresses it leads to. Default: the first."`
	Subnet  effect.Reference `star:"subnet" of:"openstack.subnet" doc:"The subnet of the external network to take it from; it only counts where a new one is allocated."`
	DNSName effect.Text      `star:"dns_name" doc:"Its name in the cloud's DNS; it only counts where a new one is allocated."`
	Domain  effect.Text      `star:"dns_domain" doc:"The domain of dns_name, with a dot at its end."`
	Tags    []effect.Text    `star:"tags" secret:"never" doc:"Its tags; [] removes them."`
	Address effect.Text      `star:"address" doc:"Ask for this address; mostly for administrators. Can't be changed."`
	Adopt   effect.Data      `star:"adopt" doc:"True takes over the floating IP that leads to the port already, though it lacks this recipe's mark; an id or \"tag:NAME\" the one that has it."`
	Replace bool             `star:"replace" doc:"Where what can't be changed differs, release the address and take another."`
}

func floatingIPVerbs() builtin.Noun {
	n := floatingIPNoun()
	return n.verbs("A public address that leads to a port.", "gw", builtin.Of(builtin.Spec[*Cloud, floatingIPArgs]{
		Name: "ensure",
		Doc: "Make a floating IP be allocated and lead to a port. One that was allocated by an earlier run is found by its mark first, so that none leaks. " +
			"What isn't given isn't compared; without port and server it leads to what it led to.",
		Returns: "openstack.floating_ip",
		Example: "net = cloud.network.ensure(\"mgmt\")\n" +
			"sub = cloud.subnet.ensure(\"mgmt\", network = net, cidr = \"10.20.0.0/24\")\n" +
			"cloud.router.ensure(\"mgmt\", external = \"public\", subnets = [sub])\n" +
			"port = cloud.port.ensure(\"gw\", network = net)\n" +
			`fip = cloud.floating_ip.ensure("gw", network = "public", port = port)`,
		Effect: builtin.Changes,
		Errors: []fault.Kind{fault.Exists, fault.Invalid, fault.NotFound, fault.Quota},
		Run: func(ctx context.Context, c *Cloud, a floatingIPArgs) (any, error) {
			op, err := newEnsure(ctx, c, n, a.Name, a.Adopt, a.Replace)
			if err != nil {
				return nil, err
			}
			if !a.Port.Empty() && !a.Server.Empty() {
				return nil, fault.New(fault.Invalid, "%s: port and server exclude each other", op.Target())
			}
			op.wanted = func(ctx context.Context, cl *client.Client) ([]field, error) { return a.fields(ctx, c, cl) }
			op.absent = func(ctx context.Context, cl *client.Client) ([]client.Object, error) {
				if a.Network.Empty() {
					net, err := externalNetwork(ctx, cl, "")
					if err != nil {
						return nil, err
					}
					op.fields = append(op.fields, field{key: "floating_network_id", want: net["id"]})
				}
				return op.leadingTo(ctx, cl)
			}
			return c.do(ctx, op)
		},
	}))
}

func (a floatingIPArgs) fields(ctx context.Context, c *Cloud, cl *client.Client) ([]field, error) {
	var fs []field
	if !a.Network.Empty() {
		id, err := networkNoun().resolve(ctx, c, cl, a.Network)
		if err != nil {
			return nil, err
		}
		fs = append(fs, field{attr: "network", key: "floating_network_id", want: id, fixed: true})
	}
	switch {
	case a.Port.Known() && a.Port.ID.Reveal() == none:
		fs = append(fs, field{attr: "port", key: "port_id", want: "", send: null{}, after: map[string]any{"fixed_ip": "", "status": "DOWN"}})
	case !a.Port.Empty():
		id, err := portNoun().resolve(ctx, c, cl, a.Port)
		if err != nil {
			return nil, err
		}
		fs = append(fs, field{attr: "port", key: "port_id", want: id, after: map[string]any{"fixed_ip": effect.Unknown{}, "status": effect.Unknown{}}})
	case !a.Server.Empty():
		id, err := serverPort(ctx, cl, a.Server)
		if err != nil {
			return nil, err
		}
		fs = append(fs, field{attr: "port", key: "port_id", want: id, after: map[string]any{"fixed_ip": effect.Unknown{}, "status": effect.Unknown{}}})
	}
	for _, f := range addressField("fixed_ip", "fixed_ip_address", a.FixedIP, false) {
		for _, port := range fs {
			if port.attr == "port" {
				f.with = client.Object{"port_id": port.want}
			}
		}
		if f.with == nil {
			return nil, fault.New(fault.Invalid, "fixed_ip is an address of the port: give port or server too")
		}
		fs = append(fs, f)
	}
	if !a.Subnet.Empty() {
		id, err := subnetNoun().resolve(ctx, c, cl, a.Subnet)
		if err != nil {
			return nil, err
		}
		fs = append(fs, field{key: "subnet_id", want: id})
	}
	for key, t := range map[string]effect.Text{"dns_name": a.DNSName, "dns_domain": a.Domain} {
		fs = append(fs, textField("", key, t, false)...)
	}
	fs = append(fs, floatingIPNoun().tagsField(a.Tags)...)
	return append(fs, textField("address", "floating_ip_address", a.Address, true)...), nil
}

// serverPort returns the id of a server's only port.
func serverPort(ctx context.Context, cl *client.Client, server effect.Reference) (any, error) {
	if !server.Known() {
		return effect.Unknown{Of: "the port of " + server.String()}, nil
	}
	ports, err := cl.List(ctx, client.Call{Service: client.Network, Path: "/ports", Query: url.Values{"device_id": {server.ID.Reveal()}}}, "ports")
	if err != nil {
		return nil, err
	}
	switch len(ports) {
	case 0:
		if _, err := getServer(ctx, cl, server.ID.Reveal()); err == nil {
			return nil, fault.New(fault.Unavailable, "server %s has no port yet", server) // Neutron may list it a moment later
		} else if fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
		return nil, fault.Hinted(fault.NotFound, "pass what server.ensure returned, or a server's id", "server %s has no port", server)
	case 1:
		return str(ports[0], "id"), nil
	}
	return nil, fault.Hinted(fault.Invalid, "give port in place of server", "server %s has %d ports: %s", server, len(ports), ids(ports))
}

// leadingTo returns the floating IPs that lead to the wanted port already: ours,
// or those to adopt. Others are an error.
func (o *ensureOp) leadingTo(ctx context.Context, cl *client.Client) ([]client.Object, error) {
	for _, f := range o.fields {
		port, known := f.want.(string)
		if f.attr != "port" || !known || port == "" {
			continue
		}
		all, err := o.noun.list(ctx, cl, url.Values{"port_id": {port}})
		all = slices.DeleteFunc(all, o.besides)
		if err != nil || len(all) == 0 || o.adopt.same || len(markedOnes(all, o.mark)) > 0 {
			return all, err
		}
		mark := markOf(all[0]).(string)
		owner, hint := "has no owner mark", "adopt = True takes it over as it is; or let it lead elsewhere first"
		if mark != "" {
			owner = "is owned by " + mark
		}
		if name := nameInMark(all[0]); mark != "" && mark == effect.Mark(ctx, name) {
			hint = "this recipe ensures it as " + strconv.Quote(name) + ": use that one, or let it lead elsewhere first"
		}
		return nil, fault.Hinted(fault.Exists, hint, "%s: port %s has the floating IP %s (%s) already, which %s, ours would be %s",
			o.Target(), port, str(all[0], "floating_ip_address"), str(all[0], "id"), owner, o.mark)
	}
	return nil, nil
}

// besides reports whether a floating IP leads to another address of the port
// than the wanted one: each may have its own.
func (o *ensureOp) besides(ip client.Object) bool {
	return slices.ContainsFunc(o.fields, func(f field) bool {
		want, known := f.want.(string)
		return f.attr == "fixed_ip" && known && str(ip, "fixed_ip_address") != want
	})
}

// floatingTarget is what a floating IP is called as the target of an op.
func (c *Cloud) floatingTarget(ctx context.Context, ip client.Object) string {
	name := nameInMark(ip)
	if effect.Mark(ctx, name) != markOf(ip) {
		name = "*" // a recipe may have adopted it under any name
	}
	return c.target("floating_ip", name).String()
}

// floatingIPsLost returns the reach of a change of a port's addresses: the
// floating IPs that Neutron detaches, as the address that they lead to goes.
func floatingIPsLost(ctx context.Context, c *Cloud, cl *client.Client, change []field, st effect.State) ([]string, error) {
	i := slices.IndexFunc(change, func(f field) bool { return f.attr == "fixed_ips" })
	if i < 0 {
		return nil, nil
	}
	all, err := floatingIPNoun().list(ctx, cl, url.Values{"port_id": {st.Attrs["id"].(string)}})
	if err != nil {
		return nil, err
	}
	wanted, _ := change[i].want.([]any)
	var out []string
	for _, ip := range all {
		stays := func(w any) bool { m, _ := w.(map[string]any); return m["address"] == str(ip, "fixed_ip_address") }
		if slices.ContainsFunc(wanted, stays) {
			continue
		}
		out = append(out, c.floatingTarget(ctx, ip))
	}
	return out, nil
}

// externalNetwork returns the external network of that name, or the only one.
func externalNetwork(ctx context.Context, cl *client.Client, name string) (client.Object, error) {
	q := url.Values{"router:external": {"true"}}
	if name != "" {
		q.Set("name", name)
	}
	all, err := networkNoun().list(ctx, cl, q)
	if err != nil {
		return nil, err
	}
	switch len(all) {
	case 0:
		if name != "" {
			return nil, fault.New(fault.NotFound, "there is no external network called %q", name)
		}
		return nil, fault.New(fault.NotFound, "the cloud has no external network that this project may use")
	case 1:
		return all[0], nil
	}
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = str(n, "name") + " (" + str(n, "id") + ")"
	}
	return nil, fault.Hinted(fault.Invalid, "name the one that is meant", "there are %d external networks: %s", len(all), joinSome(names))
}
