package openstack

import (
	"context"
	"net/http"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// interfacesOf returns all addresses of a server, sorted by the network's name;
// within one as Nova gives them.
func interfacesOf(obj client.Object) []any {
	all, _ := obj["addresses"].(client.Object)
	var networks []string
	for n := range all {
		networks = append(networks, n)
	}
	slices.Sort(networks)
	out := []any{}
	for _, n := range networks {
		for _, a := range objects(all, n) {
			kind := str(a, "OS-EXT-IPS:type")
			if kind == "" {
				kind = "fixed"
			}
			out = append(out, map[string]any{"network": n, "address": str(a, "addr"), "family": number(a, "version"), "kind": kind, "mac": str(a, "OS-EXT-IPS-MAC:mac_addr")})
		}
	}
	return out
}

type addressOnArgs struct {
	Network  effect.Reference `star:"network,positional" of:"openstack.network" doc:"The network that it is on, by name or object. Default: any."`
	Family   int              `star:"family" doc:"4 or 6. Default: either, IPv4 first."`
	Floating bool             `star:"floating" doc:"The floating address, in place of the fixed one."`
}

func addressOnMethod() builtin.Func {
	return builtin.Of(builtin.Spec[*Server, addressOnArgs]{
		Name:    "address_on",
		Doc:     "Return the first of the server's addresses that fits. They are those that it had when it was read. That none fits is an error that names those that it has.",
		Returns: "str",
		Example: "net = cloud.network.ensure(\"mgmt\")\n" +
			"cloud.subnet.ensure(\"mgmt\", network = net, cidr = \"10.20.0.0/24\")\n" +
			"vm = cloud.server.ensure(\"gw\", image = \"lab-tiny\", flavor = \"m1.small\", networks = [net])\n" +
			`inside = vm.address_on("mgmt", family = 4)`,
		Effect: builtin.Reads,
		Errors: []fault.Kind{fault.NotFound, fault.Invalid},
		Run:    func(_ context.Context, s *Server, a addressOnArgs) (any, error) { return s.addressOn(a) },
	})
}

func (s *Server) addressOn(a addressOnArgs) (any, error) {
	if a.Family != 0 && a.Family != 4 && a.Family != 6 {
		return nil, fault.New(fault.Invalid, "address_on of server %s: family is %d, not 4 or 6", s, a.Family)
	}
	all, known := s.attrs["interfaces"].([]any)
	if !known || !a.Network.Empty() && !a.Network.Known() && a.Network.Name == "" {
		return effect.Unknown{Of: "an address of server " + s.String()}, nil
	}
	network := a.Network.Name
	if network == "" && !a.Network.Empty() {
		network = a.Network.ID.Reveal()
	}
	kind := "fixed"
	if a.Floating {
		kind = "floating"
	}
	var has []string
	first := ""
	for _, x := range all {
		i := x.(map[string]any)
		address, family := i["address"].(string), i["family"]
		has = append(has, i["kind"].(string)+" "+address+" on "+i["network"].(string))
		fits := (network == "" || i["network"] == network) && i["kind"] == kind && (a.Family == 0 || family == int64(a.Family))
		switch {
		case fits && (family == int64(4) || a.Family != 0):
			return address, nil
		case fits && first == "":
			first = address
		}
	}
	if first != "" {
		return first, nil
	}
	hint := "it has none"
	if len(has) > 0 {
		hint = "it has " + strings.Join(has, ", ")
	}
	where := ""
	if network != "" {
		where = " on network " + network
	}
	if a.Family != 0 {
		where += map[int]string{4: " of IPv4", 6: " of IPv6"}[a.Family]
	}
	return nil, fault.Hinted(fault.NotFound, hint, "server %s has no %s address%s", s, kind, where)
}

type consoleLogArgs struct {
	Lines int `star:"lines,positional" doc:"Only so many of the last lines. Default: all that the cloud keeps."`
}

func consoleLogMethod() builtin.Func {
	return builtin.Of(builtin.Spec[*Server, consoleLogArgs]{
		Name:    "console_log",
		Doc:     "Return what the server has written to its console. Clouds keep the end of it only.",
		Returns: "str",
		Example: "net = cloud.network.ensure(\"mgmt\")\n" +
			"cloud.subnet.ensure(\"mgmt\", network = net, cidr = \"10.20.0.0/24\")\n" +
			"vm = cloud.server.ensure(\"gw\", image = \"lab-tiny\", flavor = \"m1.small\", networks = [net])\n" +
			`tail = vm.console_log(lines = 20)`,
		Effect: builtin.Reads,
		Errors: []fault.Kind{fault.Conflict, fault.NotFound},
		Run: func(ctx context.Context, s *Server, a consoleLogArgs) (any, error) {
			id, ok := s.attrs["id"].(string)
			if !ok {
				return effect.Unknown{Of: "the console of server " + s.String()}, nil
			}
			t := s.cloud.target("server", s.String())
			return effect.Read(ctx, effect.Query{Target: t, Scope: t.String()}, func(ctx context.Context) (string, error) {
				cl, err := s.cloud.client(ctx)
				if err != nil {
					return "", err
				}
				return consoleLog(ctx, cl, id, a.Lines)
			})
		},
	})
}

// consoleLog returns a console's last lines; all with 0. The call is a POST
// that changes nothing.
func consoleLog(ctx context.Context, cl *client.Client, id string, lines int) (string, error) {
	body := client.Object{}
	if lines > 0 {
		body["length"] = lines
	}
	log, err := cl.Do(ctx, serverCall(http.MethodPost, "/"+id+"/action", client.Object{"os-getConsoleOutput": body}))
	return str(log, "output"), err
}
