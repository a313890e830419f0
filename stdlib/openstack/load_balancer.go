package openstack

import (
	"context"
	"net/http"
	"net/url"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func balancerNoun() *noun {
	idsOf := func(key string) func(client.Object) any {
		return func(o client.Object) any {
			out := []any{}
			for _, x := range objects(o, key) {
				out = append(out, str(x, "id"))
			}
			return sorted(out)
		}
	}
	return &noun{
		name: "load_balancer", service: client.LoadBalancer, key: "loadbalancer", plural: "loadbalancers", path: "/lbaas/loadbalancers", tagged: tagsInBody,
		attrs: []attr{
			idAttr(), nameAttr(),
			{builtin.Attr{Name: "address", Type: "str", Doc: "Its virtual address."}, func(o client.Object) any { return o["vip_address"] }},
			{builtin.Attr{Name: "port", Type: "str", Doc: "Id of the port that has the address; a floating IP can lead to it."},
				func(o client.Object) any { return o["vip_port_id"] }},
			{builtin.Attr{Name: "subnet", Type: "str", Doc: "Id of the subnet of the address."}, func(o client.Object) any { return o["vip_subnet_id"] }},
			{builtin.Attr{Name: "network", Type: "str", Doc: "Id of the network of the address."}, func(o client.Object) any { return o["vip_network_id"] }},
			{builtin.Attr{Name: "status", Type: "str", Doc: "ACTIVE once it is as described."}, func(o client.Object) any { return o["provisioning_status"] }},
			{Attr: builtin.Attr{Name: "operating_status", Type: "str", Doc: "What it sees of its members: ONLINE, DEGRADED, OFFLINE and others."}},
			{builtin.Attr{Name: "enabled", Type: "bool", Doc: "Whether it takes connections."}, func(o client.Object) any { return o["admin_state_up"] }},
			{Attr: builtin.Attr{Name: "provider", Type: "str", Doc: "What it is made of."}},
			{builtin.Attr{Name: "flavor", Type: "str", Doc: "Id of its flavor; empty if it has none."}, func(o client.Object) any { return str(o, "flavor_id") }},
			{builtin.Attr{Name: "availability_zone", Type: "str", Doc: "Where it runs; empty if the cloud doesn't say."},
				func(o client.Object) any { return str(o, "availability_zone") }},
			{builtin.Attr{Name: "listeners", Type: "list[str]", Doc: "Ids of its listeners, sorted; status() says more."}, idsOf("listeners")},
			{builtin.Attr{Name: "pools", Type: "list[str]", Doc: "Ids of its pools, sorted."}, idsOf("pools")},
			tagsAttr(), markAttr(),
		},
		phase: func(o client.Object) phase {
			state := str(o, "provisioning_status")
			return phase{state: state, ready: state == "ACTIVE", failed: state == "ERROR"}
		},
	}
}

type balancerArgs struct {
	Name      string           `star:"name,required" doc:"The name."`
	Subnet    effect.Reference `star:"subnet" of:"openstack.subnet" doc:"The subnet to have its address on, by name, id or object. Give this, network or port. Can't be changed."`
	Network   effect.Reference `star:"network" of:"openstack.network" doc:"The network to have its address on. Can't be changed."`
	Port      effect.Reference `star:"port" of:"openstack.port" doc:"A port of one's own whose address it uses, and which outlives it. Can't be changed."`
	Address   effect.Text      `star:"address" doc:"Its virtual address. Default: the cloud's choice. Can't be changed."`
	Provider  effect.Text      `star:"provider" doc:"What to make it of, such as \"amphora\" or \"ovn\". Can't be changed."`
	Flavor    effect.Text      `star:"flavor" doc:"Id of a load balancer flavor. Can't be changed."`
	Zone      effect.Text      `star:"availability_zone" doc:"Where to run. Can't be changed."`
	Enabled   *bool            `star:"enabled" doc:"Whether it takes connections."`
	Listeners effect.Data      `star:"listeners" doc:"What it listens on: a list of dicts, see above. Without it listeners aren't compared."`
	Tags      []effect.Text    `star:"tags" secret:"never" doc:"Its tags; other tags are removed. Octavia has them since 2019."`
	Exact     bool             `star:"exact" doc:"Remove listeners, pools, members and monitors that this recipe didn't make."`
	Timeout   time.Duration    `star:"timeout" doc:"How long to wait, after each change, until it is ready for the next."`
	Adopt     effect.Data      `star:"adopt" doc:"True takes over the one of that name, and listeners and pools of it, that lack this recipe's mark; an id or \"tag:NAME\" the one that has it, whatever its name."`
	Replace   bool             `star:"replace" doc:"Where what can't be changed differs, delete the part or the whole and make it anew; one that ended in ERROR too."`
}

const balancerDoc = "Make a load balancer be there with the given listeners, and wait until it is ready. What isn't given isn't compared. " +
	"A listener is {\"protocol\": \"TCP\", \"port\": 6443}, with what else Octavia knows of it by its names there (connection_limit, allowed_cidrs, timeout_client_data in ms, " +
	"default_tls_container_ref and so on), and \"pool\": {\"algorithm\": \"ROUND_ROBIN\" (default), \"protocol\": the listener's, \"session_persistence\": {\"type\": ...}, ...}. " +
	"A pool has \"members\", a list of {\"address\": ..., \"port\": the listener's, \"weight\": ..., \"backup\": ..., \"subnet\": ..., \"monitor_address\": ..., \"monitor_port\": ...}, and " +
	"\"monitor\": {\"type\": \"TCP\", \"delay\": 5, \"timeout\": 3, \"max_retries\": 3}, for HTTP with url_path, expected_codes and http_method. " +
	"A listener is known by its port, a member by its address and port. Parts that this recipe didn't make stay unless `exact = True`."

func balancerVerbs() builtin.Noun {
	n := balancerNoun()
	verbs := n.verbs("A load balancer with its listeners, pools, members and health monitors.", "api", builtin.Of(builtin.Spec[*Cloud, balancerArgs]{
		Name:    "ensure",
		Doc:     balancerDoc,
		Returns: "openstack.load_balancer",
		Example: "net = cloud.network.ensure(\"mgmt\")\n" +
			"sub = cloud.subnet.ensure(\"mgmt\", network = net, cidr = \"10.20.0.0/24\")\n" +
			"lb = cloud.load_balancer.ensure(\"api\", subnet = sub, listeners = [{\n" +
			"    \"protocol\": \"TCP\",\n    \"port\": 6443,\n" +
			"    \"pool\": {\n        \"members\": [{\"address\": \"10.20.0.11\"}],\n" +
			"        \"monitor\": {\"type\": \"TCP\", \"delay\": 5, \"timeout\": 3, \"max_retries\": 3},\n    },\n}])",
		Effect:   builtin.Changes,
		Errors:   []fault.Kind{fault.Exists, fault.Failed, fault.Invalid, fault.NotFound, fault.Quota, fault.Timeout},
		Defaults: balancerArgs{Timeout: 10 * time.Minute},
		Run: func(ctx context.Context, c *Cloud, a balancerArgs) (any, error) {
			// What is compared shows the parts too, which a list wouldn't ask for.
			whole := *n
			whole.expand = readBalancer
			op, err := newEnsure(ctx, c, &whole, a.Name, a.Adopt, a.Replace)
			if err != nil {
				return nil, err
			}
			op.timeout = a.Timeout
			if err := a.check(); err != nil {
				return nil, fault.Wrap("", op.Target().String(), err)
			}
			if a.Listeners.V != nil {
				parts := &balancerParts{op: op, given: a.Listeners.V, exact: a.Exact}
				// What is wrong with it is said before anything is asked.
				if err := parts.parse(func(v any) (any, error) { return v, nil }); err != nil {
					return nil, fault.Wrap("", op.Target().String(), err)
				}
				op.parts = parts
			} else {
				whole.expand = nil
			}
			op.wanted = func(ctx context.Context, cl *client.Client) ([]field, error) { return a.fields(ctx, c, cl, n) }
			return c.do(ctx, op)
		},
	}))
	verbs.Verbs[len(verbs.Verbs)-1] = balancerDelete(n)
	verbs.Verbs = append(verbs.Verbs, balancerStatus(n), balancerWait(n))
	return verbs
}

// check refuses what can be known to be wrong without asking.
func (a balancerArgs) check() error {
	given := 0
	for _, r := range []effect.Reference{a.Subnet, a.Network, a.Port} {
		if !r.Empty() {
			given++
		}
	}
	switch {
	case given == 0:
		return fault.Hinted(fault.Invalid, "give subnet, network or port", "it would have no address")
	case !a.Port.Empty() && given > 1:
		return fault.New(fault.Invalid, "port says on which subnet the address is: leave subnet and network out")
	case given > 1:
		return fault.New(fault.Invalid, "subnet says on which network the address is: leave network out")
	case a.Exact && a.Listeners.V == nil:
		return fault.New(fault.Invalid, "exact = True without listeners would remove all; give listeners = [] if that is meant")
	}
	return nil
}

func (a balancerArgs) fields(ctx context.Context, c *Cloud, cl *client.Client, n *noun) ([]field, error) {
	var fs []field
	for _, r := range []struct {
		attr, key string
		noun      *noun
		ref       effect.Reference
	}{{"subnet", "vip_subnet_id", subnetNoun(), a.Subnet}, {"network", "vip_network_id", networkNoun(), a.Network}, {"port", "vip_port_id", portNoun(), a.Port}} {
		if r.ref.Empty() {
			continue
		}
		id, err := r.noun.resolve(ctx, c, cl, r.ref)
		if err != nil {
			return nil, err
		}
		fs = append(fs, field{attr: r.attr, key: r.key, want: id, fixed: true})
	}
	fs = append(fs, addressField("address", "vip_address", a.Address, true)...)
	fs = append(fs, textField("provider", "", a.Provider, true)...)
	fs = append(fs, textField("flavor", "flavor_id", a.Flavor, true)...)
	fs = append(fs, textField("availability_zone", "", a.Zone, true)...)
	fs = append(fs, boolField("enabled", "admin_state_up", a.Enabled)...)
	return append(fs, n.tagsField(a.Tags)...), nil
}

// removeBalancer deletes a load balancer with all its parts, once nothing else
// is being done to it.
func removeBalancer(ctx context.Context, c *Cloud, cl *client.Client, obj client.Object) error {
	n, id := balancerNoun(), str(obj, "id")
	t := c.target(n.name, str(obj, "name"))
	w := waiting{target: t, what: t.String() + " (" + id + ") letting itself be deleted", timeout: goneTime, hint: "the cloud's operators can tell what holds it up"}
	err := c.await(ctx, w, func(ctx context.Context) (string, bool, error) {
		call := n.call(http.MethodDelete, id, nil)
		call.Query = url.Values{"cascade": {"true"}}
		_, err := cl.Do(ctx, call)
		switch fault.KindOf(err) {
		case "", fault.NotFound:
			return "", true, nil
		case fault.Conflict:
			return err.Error(), false, nil
		}
		return "", false, err
	})
	if err != nil {
		return err
	}
	return c.gone(ctx, t, id, func(ctx context.Context) (string, error) {
		left, err := n.byID(ctx, cl, id)
		if err == nil && str(left, "provisioning_status") == "ERROR" {
			return "", fault.Hinted(fault.Failed, "delete it again, or ask the cloud's operators", "%s (%s) ended in ERROR while it was deleted", t, id)
		}
		return str(left, "provisioning_status"), err
	})
}

func balancerDelete(n *noun) builtin.Func {
	return deletion{
		kind: n.name, example: "api",
		doc:    "Delete the load balancer of that name with all its parts and wait until it is gone. That there is none is no error; one that isn't this recipe's is refused.",
		errors: []fault.Kind{fault.Exists, fault.Failed, fault.Timeout},
		find: func(ctx context.Context, c *Cloud, cl *client.Client, a deleteArgs, mark string) (client.Object, error) {
			return finder{cloud: c, noun: n, name: a.Name, mark: mark, adopt: adoption{same: a.Adopt}}.find(ctx, cl)
		},
		remove: removeBalancer,
	}.verb()
}

func balancerHolding() holding {
	h := holdingOf(balancerNoun())
	list := h.list
	h.list = func(ctx context.Context, cl *client.Client) ([]client.Object, error) {
		if !cl.Offers(client.LoadBalancer) {
			return nil, nil
		}
		return list(ctx, cl)
	}
	h.remove = removeBalancer
	h.addresses = func(o client.Object) []string { return []string{str(o, "vip_address")} }
	return h
}
