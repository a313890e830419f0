package openstack

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A quotaOf is a service's part of a quota.
type quotaOf struct {
	attr    string // as recipes call it
	service client.Service
	path    string // of the project's quota, but for its id
	detail  string // what follows the id where what is used is told
	query   url.Values
	key     string // of a body
	used    string // of what is used
}

// quotaParts are the services that have quotas.
func quotaParts() []quotaOf {
	return []quotaOf{
		{attr: "compute", service: client.Compute, path: "/os-quota-sets/", detail: "/detail", key: "quota_set", used: "in_use"},
		{attr: "network", service: client.Network, path: "/quotas/", detail: "/details.json", key: "quota", used: "used"},
		{attr: "volume", service: client.BlockStorage, path: "/os-quota-sets/", query: url.Values{"usage": {"true"}}, key: "quota_set", used: "in_use"},
		{attr: "load_balancer", service: client.LoadBalancer, path: "/lbaas/quotas/", key: "quota"},
	}
}

func quotaAttrs() []builtin.Attr {
	const doc = "A dict of `used` and `max` by name; -1 is no limit, and `used` is None where the service doesn't say. None where the cloud has no such service. "
	return []builtin.Attr{
		{Name: "id", Type: "str", Doc: "The project's id."},
		{Name: "compute", Type: "dict[str, dict]", Doc: doc + "Of Nova: instances, cores, ram (MiB), key_pairs, server_groups and more."},
		{Name: "network", Type: "dict[str, dict]", Doc: doc + "Of Neutron: network, subnet, port, router, floatingip, security_group, security_group_rule and more."},
		{Name: "volume", Type: "dict[str, dict]", Doc: doc + "Of Cinder: volumes, gigabytes, snapshots, backups, and those of each volume type, such as volumes_fast."},
		{Name: "load_balancer", Type: "dict[str, dict]", Doc: doc + "Of Octavia: load_balancer, listener, pool, member, health_monitor and more."},
	}
}

// read returns what a project may have and has of a service.
func (p quotaOf) read(ctx context.Context, cl *client.Client, project string) (map[string]any, error) {
	call := client.Call{Service: p.service, Method: http.MethodGet, Path: p.path + project + p.detail, Query: p.query}
	q, err := cl.One(ctx, call, p.key)
	if fault.KindOf(err) == fault.NotFound && p.detail != "" {
		// A cloud without the extension that tells what is used.
		call.Path = p.path + project
		q, err = cl.One(ctx, call, p.key)
	}
	if err != nil {
		return nil, err
	}
	out := make(map[string]any, len(q))
	for name, v := range q {
		switch v := v.(type) {
		case client.Object:
			out[name] = map[string]any{"used": v[p.used], "max": v["limit"]}
		case int64:
			out[name] = map[string]any{"used": nil, "max": v}
		}
	}
	return out, nil
}

// readQuota returns what a project may have and has, of all services.
func readQuota(ctx context.Context, cl *client.Client, project string) (map[string]any, error) {
	out := map[string]any{"id": project}
	for _, p := range quotaParts() {
		out[p.attr] = nil
		if !cl.Offers(p.service) {
			continue
		}
		q, err := p.read(ctx, cl, project)
		if err != nil {
			return nil, err
		}
		out[p.attr] = q
	}
	return out, nil
}

type quotaGetArgs struct {
	Project effect.Reference `star:"project,positional" of:"openstack.project" doc:"The project, by name or id. Default: the login's; those of others are for administrators."`
}

type quotaArgs struct {
	Project      effect.Reference `star:"project,positional" of:"openstack.project" doc:"The project, by name or id. Default: the login's."`
	Compute      effect.Data      `star:"compute" doc:"Limits of Nova by name, such as {\"cores\": 20, \"ram\": 51200}; -1 is no limit."`
	Network      effect.Data      `star:"network" doc:"Limits of Neutron, such as {\"floatingip\": 10}."`
	Volume       effect.Data      `star:"volume" doc:"Limits of Cinder, such as {\"volumes\": 10, \"gigabytes\": 1000}."`
	LoadBalancer effect.Data      `star:"load_balancer" doc:"Limits of Octavia, such as {\"load_balancer\": 5}."`
}

// limits returns the limits that are given, by service and name.
func (a quotaArgs) limits() (map[string]map[string]int64, error) {
	out := make(map[string]map[string]int64)
	for attr, data := range map[string]effect.Data{"compute": a.Compute, "network": a.Network, "volume": a.Volume, "load_balancer": a.LoadBalancer} {
		given, ok := data.V.(map[string]any)
		if !ok && data.V != nil {
			return nil, fault.Hinted(fault.Invalid, "it looks like: {\"cores\": 20}", "quota: %s is no dict", attr)
		}
		out[attr] = make(map[string]int64, len(given))
		for name, v := range given {
			n, ok := v.(int64)
			if !ok || n < -1 {
				return nil, fault.Hinted(fault.Invalid, "give a whole number, or -1 for no limit", "quota: %s: %s is %s", attr, name, show(v))
			}
			out[attr][name] = n
		}
	}
	return out, nil
}

func quotaVerbs() builtin.Noun {
	return builtin.Noun{
		Name: "quota", Doc: "What a project may have. There always is one, and it goes with its project.", Identity: builtin.NaturalKey, Attrs: quotaAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Cloud, quotaArgs]{
				Name:    "ensure",
				Doc:     "Make limits be as given; it takes an administrator. What isn't given isn't compared.",
				Returns: "openstack.quota",
				Example: "cloud = openstack.connect(\"admin\")\n" + `cloud.quota.ensure("demo", compute = {"cores": 40}, network = {"floatingip": 10})`,
				Effect:  builtin.Changes,
				Errors:  []fault.Kind{fault.Invalid, fault.Denied, fault.NotFound},
				Run: func(ctx context.Context, c *Cloud, a quotaArgs) (any, error) {
					limits, err := a.limits()
					if err != nil {
						return nil, err
					}
					return c.do(ctx, &quotaOp{cloud: c, of: a.Project, limits: limits})
				},
			}),
			builtin.Of(builtin.Spec[*Cloud, quotaGetArgs]{
				Name:    "get",
				Doc:     "Return what a project may have, and what it has.",
				Returns: "openstack.quota",
				Example: "cloud = openstack.connect(\"admin\")\n" + `cores = cloud.quota.get("demo").compute["cores"]["max"]`,
				Effect:  builtin.Reads,
				Errors:  []fault.Kind{fault.Denied, fault.NotFound},
				Run: func(ctx context.Context, c *Cloud, a quotaGetArgs) (any, error) {
					op := &quotaOp{cloud: c, of: a.Project}
					return effect.Read(ctx, effect.Query{Target: op.Target(), Scope: c.scope()}, func(ctx context.Context) (effect.State, error) {
						return op.Observe(ctx)
					})
				},
			}),
		},
	}
}

// A quotaOp sets limits.
type quotaOp struct {
	cloud   *Cloud
	of      effect.Reference
	limits  map[string]map[string]int64 // by service and name
	project any                         // its id; an effect.Unknown where it isn't known yet
}

func (o *quotaOp) Target() effect.Target {
	name := o.of.String()
	if name == "" {
		name = "own"
	}
	t := o.cloud.target("quota", name)
	t.Unknown = !o.of.Known() && o.of.Name == ""
	return t
}

func (o *quotaOp) Observe(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	if o.project = cl.Project(); !o.of.Empty() {
		if o.project, err = projectNoun().resolve(ctx, o.cloud, cl, o.of); err != nil {
			return effect.State{}, err
		}
	}
	for _, p := range quotaParts() {
		if len(o.limits[p.attr]) > 0 && !cl.Offers(p.service) {
			return effect.State{}, fault.New(fault.Invalid, "%s: %s: the cloud has no %s service", o.Target(), p.attr, p.service)
		}
	}
	id, ok := o.project.(string)
	if !ok {
		return effect.State{}, nil
	}
	attrs, err := readQuota(ctx, cl, id)
	return effect.State{Exists: true, Attrs: attrs}, err
}

func (o *quotaOp) Diff(st effect.State) (effect.Change, error) {
	var fields []effect.Field
	next := make(map[string]any)
	for _, a := range quotaAttrs() {
		next[a.Name] = effect.Unknown{Of: o.Target().String() + " " + a.Name}
		if st.Exists {
			next[a.Name] = st.Attrs[a.Name]
		}
	}
	for _, p := range quotaParts() {
		have, _ := st.Attrs[p.attr].(map[string]any)
		want := o.limits[p.attr]
		changed := make(map[string]any, len(have))
		for name, v := range have {
			changed[name] = v
		}
		for _, name := range sortedNames(want) {
			now, ok := have[name].(map[string]any)
			if st.Exists && !ok {
				names := sortedNames(have)
				hint := "it has: " + strings.Join(names, ", ")
				if near := builtin.Nearest(name, names); near != "" {
					hint = "did you mean " + near + "? " + hint
				}
				return effect.Change{}, fault.Hinted(fault.Invalid, hint, "%s: %s has no limit called %q", o.Target(), p.attr, name)
			}
			if ok && now["max"] == want[name] {
				continue
			}
			fields = append(fields, effect.Field{Path: p.attr + "." + name, Old: now["max"], New: want[name]})
			changed[name] = map[string]any{"used": now["used"], "max": want[name]}
		}
		if st.Exists && have != nil {
			next[p.attr] = changed
		}
	}
	if len(fields) == 0 {
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Update, Fields: fields, After: next}, nil
}

func (o *quotaOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	for _, p := range quotaParts() {
		have, _ := c.Before.Attrs[p.attr].(map[string]any)
		body := client.Object{}
		for name, limit := range o.limits[p.attr] {
			if now, _ := have[name].(map[string]any); now["max"] != limit {
				body[name] = limit
			}
		}
		if len(body) == 0 {
			continue
		}
		call := client.Call{Service: p.service, Method: http.MethodPut, Path: p.path + o.project.(string), Body: client.Object{p.key: body}}
		if _, err := cl.Do(ctx, call); err != nil {
			return effect.State{}, err
		}
	}
	attrs, err := readQuota(ctx, cl, o.project.(string))
	return effect.State{Exists: true, Attrs: attrs}, err
}

// sortedNames returns the keys of a map.
func sortedNames[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
