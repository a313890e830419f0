package openstack

import (
	"context"
	"net/http"
	"slices"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// interfaces are the parts of a router.
type interfaces struct {
	cloud          *Cloud
	subnets, ports []effect.Reference
	exact          bool
	want, wantPort []any
}

func (p *interfaces) prepare(ctx context.Context, cl *client.Client) (err error) {
	if p.want, err = subnetNoun().resolveAll(ctx, p.cloud, cl, p.subnets); err != nil {
		return err
	}
	p.wantPort, err = portNoun().resolveAll(ctx, p.cloud, cl, p.ports)
	return err
}

// A joint is an interface to add or to remove: one on a subnet, or a port.
type joint struct {
	path string // "subnets" or "ports"
	id   any
}

// body names the interface for Neutron.
func (j joint) body() client.Object {
	if j.path == "ports" {
		return client.Object{"port_id": j.id}
	}
	return client.Object{"subnet_id": j.id}
}

// missing and extra return the interfaces to add, and to remove.
func (p *interfaces) missing(obj client.Object) []joint {
	var out []joint
	for _, w := range []struct {
		path string
		want []any
	}{{"subnets", p.want}, {"ports", p.wantPort}} {
		have, _ := obj[w.path].([]any)
		for _, x := range w.want {
			if !known(x) || !slices.Contains(have, x) {
				out = append(out, joint{w.path, x})
			}
		}
	}
	return out
}

func (p *interfaces) extra(obj client.Object) []joint {
	if !p.exact {
		return nil
	}
	// What a wanted port brings along isn't known until it is attached.
	if slices.ContainsFunc(p.wantPort, func(x any) bool { return !known(x) }) {
		return nil
	}
	keep := slices.Clone(p.want)
	byPort, _ := obj["subnets_of_ports"].(client.Object)
	for _, port := range p.wantPort {
		if id, ok := port.(string); ok {
			l, _ := byPort[id].([]any)
			keep = append(keep, l...)
		}
	}
	have, _ := obj["subnets"].([]any)
	var out []joint
	for _, x := range have {
		if !slices.Contains(keep, x) {
			out = append(out, joint{"subnets", x})
		}
	}
	return out
}

func (p *interfaces) diff(obj client.Object) []effect.Field {
	var out []effect.Field
	for _, j := range p.missing(obj) {
		out = append(out, effect.Field{Path: j.path, New: j.id})
	}
	for _, j := range p.extra(obj) {
		out = append(out, effect.Field{Path: j.path, Old: j.id})
	}
	return out
}

func (p *interfaces) attrs(obj client.Object) map[string]any {
	have, _ := obj["subnets"].([]any)
	missing, extra := p.missing(obj), p.extra(obj)
	all := slices.DeleteFunc(slices.Clone(have), func(x any) bool { return slices.Contains(extra, joint{"subnets", x}) })
	out := map[string]any{}
	byPort := false
	for _, j := range missing {
		if j.path == "ports" {
			byPort = true
		} else {
			all = append(all, j.id)
		}
	}
	out["subnets"] = sorted(all)
	if byPort {
		out["subnets"] = effect.Unknown{Of: "the router's subnets"}
	}
	if len(missing)+len(extra) > 0 {
		out["ports"] = effect.Unknown{Of: "the router's ports"}
	}
	return out
}

func (p *interfaces) apply(ctx context.Context, cl *client.Client, obj client.Object) error {
	missing, extra := p.missing(obj), p.extra(obj)
	call := func(verb string, j joint) error {
		_, err := cl.Do(ctx, client.Call{Service: client.Network, Method: http.MethodPut, Path: "/routers/" + str(obj, "id") + "/" + verb, Body: j.body()})
		return err
	}
	// What goes makes room for what comes.
	for _, j := range extra {
		if err := call("remove_router_interface", j); err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
	}
	for _, j := range missing {
		if err := call("add_router_interface", j); err != nil {
			return err
		}
	}
	if len(missing)+len(extra) == 0 {
		return nil
	}
	return readInterfaces(ctx, cl, obj)
}
