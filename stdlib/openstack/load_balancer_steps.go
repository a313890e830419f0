package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// balancerParts are the listeners of a load balancer with what belongs to
// them. Those of this recipe have its mark: listeners and pools as their
// description, members and monitors, which have none, as their name.
type balancerParts struct {
	op    *ensureOp
	given any
	exact bool
	want  []*listenerWant
	later bool // what is wanted isn't known yet
}

// A step is one change of a part, as a plan shows it and as it is made.
type step struct {
	field effect.Field
	do    func(ctx context.Context, w *balancerWriter) error
}

func (p *balancerParts) prepare(ctx context.Context, cl *client.Client) error {
	return p.parse(func(v any) (any, error) {
		ref := effect.Reference{}
		switch v := v.(type) {
		case effect.Unknown:
			return v, nil
		case map[string]any:
			if id, ok := v["id"].(string); ok {
				return id, nil
			}
			return effect.Unknown{Of: "the id of a subnet"}, nil
		case string:
			ref.ID = effect.Plain(v)
		}
		return subnetNoun().resolve(ctx, p.op.cloud, cl, ref)
	})
}

// parse reads what the recipe gave.
func (p *balancerParts) parse(resolve subnetRef) error {
	p.want, p.later = nil, !known(p.given)
	list, ok := p.given.([]any)
	if !ok {
		if p.later {
			return nil
		}
		return fault.New(fault.Invalid, "listeners: got %s, want a list", show(p.given))
	}
	for i, v := range list {
		if _, unknown := v.(effect.Unknown); unknown {
			continue
		}
		l, err := parseListener(p.op.name, v, resolve)
		if err == nil && slices.ContainsFunc(p.want, func(o *listenerWant) bool { return known(l.get("port")) && slotOf(o.data()) == slotOf(l.data()) }) {
			err = fault.New(fault.Invalid, "another one listens on %s", slotOf(l.data()))
		}
		if err != nil {
			return &fault.Error{Kind: fault.KindOf(err), Hint: fault.HintOf(err), Err: fmt.Errorf("listeners[%d]: %w", i, err)}
		}
		p.want = append(p.want, l)
	}
	return nil
}

// slotOf is what only one listener can have: what it is known by.
func slotOf(have map[string]any) string {
	t := "TCP"
	if p := have["protocol"]; p == "UDP" || p == "SCTP" {
		t = p.(string)
	}
	return fmt.Sprintf("%s %v", t, have["port"])
}

func (p *balancerParts) ours(mark string) bool { return mark == p.op.mark }

// check refuses parts that can't be changed to what is wanted, or aren't ours.
func (p *balancerParts) check(obj client.Object) error {
	_, err := p.steps(obj)
	return err
}

func (p *balancerParts) diff(obj client.Object) []effect.Field {
	steps, err := p.steps(obj)
	if err != nil {
		return nil // check has said so
	}
	var out []effect.Field
	for _, s := range steps {
		out = append(out, s.field)
	}
	if _, whole := p.given.(effect.Unknown); whole {
		out = append(out, effect.Field{Path: "listeners", New: p.given})
	}
	return out
}

func (p *balancerParts) attrs(client.Object) map[string]any {
	return map[string]any{"listeners": effect.Unknown{Of: p.op.Target().String() + " listeners"}, "pools": effect.Unknown{Of: p.op.Target().String() + " pools"}}
}

func (p *balancerParts) apply(ctx context.Context, cl *client.Client, obj client.Object) error {
	steps, err := p.steps(obj)
	if err != nil {
		return err
	}
	w := &balancerWriter{op: p.op, cl: cl, id: str(obj, "id")}
	for _, s := range steps {
		if err := s.do(ctx, w); err != nil {
			return err
		}
	}
	if len(steps) == 0 {
		return nil
	}
	now, err := w.settled(ctx)
	if err != nil {
		return err
	}
	for k, v := range now {
		obj[k] = v
	}
	return readBalancer(ctx, cl, obj)
}

// steps returns what is to be done to the parts of obj, which is nil for a
// load balancer that isn't there yet.
func (p *balancerParts) steps(obj client.Object) ([]step, error) {
	t, _ := obj["tree"].(*balancerTree)
	if t == nil {
		t = &balancerTree{}
	}
	var out []step
	kept := map[string]bool{} // ids of the listeners and pools that stay
	for _, want := range p.want {
		i := slices.IndexFunc(t.listeners, func(o client.Object) bool { return slotOf(want.have(o)) == slotOf(want.data()) })
		var have client.Object
		if i >= 0 {
			have = t.listeners[i]
			kept[str(have, "id")] = true
		}
		path := "listeners " + slotOf(want.data())
		here, pool := &node{}, t.pool(str(have, "default_pool_id"))
		if have != nil {
			kept[str(pool, "id")] = true
		}
		steps, anew, err := p.align(path, "listener", want.partWant, have, here, func(w *balancerWriter) client.Object { return client.Object{"loadbalancer_id": w.id} })
		if err != nil {
			return nil, err
		}
		out = append(out, steps...)
		if anew && pool != nil {
			// Its pool would have to fit the other protocol: it is made anew too.
			out = append(out, removal(path+" pool", "pools", pool))
			pool = nil
		}
		if want.pool != nil {
			steps, err := p.poolSteps(path+" pool", want.pool, pool, here, t)
			if err != nil {
				return nil, err
			}
			out = append(out, steps...)
		}
	}
	for _, kind := range []string{"listeners", "pools"} {
		all := t.listeners
		if kind == "pools" {
			all = t.pools
		}
		for _, o := range all {
			if !kept[str(o, "id")] && !p.later && (p.exact || p.ours(str(o, "description"))) {
				out = append(out, removal(kind+" "+str(o, "name"), kind, o))
			}
		}
	}
	return out, nil
}

// A node is where the id of a part is kept, which a step before may make.
type node struct{ id string }

// align returns the steps that make one part as wanted, and whether that is by
// making it anew.
func (p *balancerParts) align(path, key string, want *partWant, have client.Object, here *node, parent func(*balancerWriter) client.Object) (out []step, anew bool, err error) {
	paths := map[string]string{"listener": "listeners", "pool": "pools", "healthmonitor": "healthmonitors"}
	marked := "description"
	if key == "healthmonitor" {
		marked = "name"
	}
	create := step{effect.Field{Path: path, New: want.data()}, func(ctx context.Context, w *balancerWriter) error {
		more := parent(w)
		more[marked] = p.op.mark
		made, err := w.send(ctx, http.MethodPost, "/lbaas/"+paths[key], client.Object{key: want.body(more)})
		if err == nil {
			o, _ := made[key].(client.Object)
			here.id = str(o, "id")
		}
		return err
	}}
	if have == nil {
		return []step{create}, true, nil
	}
	if !p.ours(str(have, marked)) && !p.op.adopt.given() && key != "healthmonitor" {
		return nil, false, fault.Hinted(fault.Exists, "adopt = True takes it over as it is; or listen on another port", "%s: %s (%s) isn't ours", p.op.Target(), path, str(have, "id"))
	}
	here.id = str(have, "id")
	now := want.have(have)
	change, fixed, _ := compare(want.fields, now)
	if str(have, "provisioning_status") == "ERROR" {
		fixed = append(fixed, effect.Field{Path: "status", Old: "ERROR", New: "ACTIVE"})
	}
	if len(fixed) > 0 {
		if !p.op.replace {
			return nil, false, immutable(p.op.Target().String()+" "+path, here.id, fixed)
		}
		here.id = ""
		return []step{removal(path, paths[key], have), create}, true, nil
	}
	for _, f := range change {
		out = append(out, step{effect.Field{Path: path + " " + f.Path, Old: f.Old, New: f.New}, func(context.Context, *balancerWriter) error { return nil }})
	}
	if len(out) > 0 { // the first shown does it all
		id := here.id
		out[0].do = func(ctx context.Context, w *balancerWriter) error {
			_, err := w.send(ctx, http.MethodPut, "/lbaas/"+paths[key]+"/"+id, client.Object{key: want.changes(now)})
			return err
		}
	}
	return out, false, nil
}

// changes returns the body of an update.
func (w *partWant) changes(have map[string]any) client.Object {
	b := client.Object{}
	for _, f := range w.fields {
		if f.fixed || f.same(have[f.attr]) {
			continue
		}
		if m, isDict := f.want.(map[string]any); isDict && len(m) == 0 {
			f.send = null{}
		}
		f.put(b)
	}
	return b
}

// over returns the body that changes have to what is wanted in a call that
// would reset what it doesn't say.
func (w *partWant) over(have client.Object) client.Object {
	b := client.Object{"name": str(have, "name")}
	for _, k := range w.keys {
		if v := have[k.key()]; v != nil {
			b[k.key()] = v
		}
	}
	for _, f := range w.fields {
		f.put(b)
	}
	return b
}

func removal(path, kind string, have client.Object) step {
	return step{effect.Field{Path: path, Old: str(have, "id")}, func(ctx context.Context, w *balancerWriter) error {
		_, err := w.send(ctx, http.MethodDelete, "/lbaas/"+kind+"/"+str(have, "id"), nil)
		return err
	}}
}

// poolSteps returns the steps that make a listener's pool as wanted.
func (p *balancerParts) poolSteps(path string, want *poolWant, have client.Object, listener *node, t *balancerTree) ([]step, error) {
	here := &node{}
	out, anew, err := p.align(path, "pool", want.partWant, have, here, func(*balancerWriter) client.Object { return client.Object{"listener_id": listener.id} })
	if err != nil {
		return nil, err
	}
	id := str(have, "id")
	var members []client.Object
	var monitor client.Object
	if !anew {
		members, monitor = t.members[id], t.monitors[id]
	}
	switch {
	case want.monitor != nil:
		steps, _, err := p.align(path+" monitor", "healthmonitor", want.monitor, monitor, &node{}, func(*balancerWriter) client.Object { return client.Object{"pool_id": here.id} })
		if err != nil {
			return nil, err
		}
		out = append(out, steps...)
	case monitor != nil && (p.exact || p.ours(str(monitor, "name"))):
		out = append(out, removal(path+" monitor", "healthmonitors", monitor))
	}
	if want.members == nil {
		return out, nil
	}
	steps, err := p.memberSteps(path, want.members, members, here)
	return append(out, steps...), err
}

// memberSteps returns the steps that make a pool's members as wanted: one call
// for all where nobody else has members in the pool, else one for each.
func (p *balancerParts) memberSteps(path string, want []*partWant, have []client.Object, pool *node) ([]step, error) {
	var out []step
	var whole []any
	foreign := false
	left := slices.Clone(have)
	kept := len(want) // those that a call for all could list: it can't change a subnet
	for _, w := range want {
		i := slices.IndexFunc(left, func(o client.Object) bool {
			h := w.have(o)
			h["address"] = canonicalAddress(str(o, "address"))
			return fmt.Sprintf("%v:%v", h["address"], h["port"]) == memberName(w)
		})
		at := path + " members " + memberName(w)
		create := step{effect.Field{Path: at, New: w.data()}, func(ctx context.Context, b *balancerWriter) error {
			_, err := b.send(ctx, http.MethodPost, "/lbaas/pools/"+pool.id+"/members", client.Object{"member": w.body(client.Object{"name": p.op.mark})})
			return err
		}}
		if i < 0 {
			whole = append(whole, w.body(client.Object{"name": p.op.mark}))
			out = append(out, create)
			continue
		}
		o := left[i]
		whole = append(whole, w.over(o))
		left = slices.Delete(left, i, i+1)
		now := w.have(o)
		now["address"] = canonicalAddress(str(o, "address"))
		change, fixed, _ := compare(w.fields, now)
		if len(fixed) > 0 {
			if !p.op.replace {
				return nil, immutable(p.op.Target().String()+" "+at, str(o, "id"), fixed)
			}
			kept--
			out = append(out, removal(at, "pools/"+pool.id+"/members", o), create)
			continue
		}
		foreign = foreign || !p.ours(str(o, "name"))
		for j, f := range change {
			s := step{effect.Field{Path: at + " " + f.Path, Old: f.Old, New: f.New}, func(context.Context, *balancerWriter) error { return nil }}
			if j == 0 {
				s.do = func(ctx context.Context, b *balancerWriter) error {
					_, err := b.send(ctx, http.MethodPut, "/lbaas/pools/"+pool.id+"/members/"+str(o, "id"), client.Object{"member": w.changes(now)})
					return err
				}
			}
			out = append(out, s)
		}
	}
	for _, o := range left {
		if p.later || !p.exact && !p.ours(str(o, "name")) {
			foreign = true
			continue
		}
		out = append(out, removal(fmt.Sprintf("%s members %s:%v", path, str(o, "address"), o["protocol_port"]), "pools/"+pool.id+"/members", o))
	}
	if len(out) < 2 || foreign || kept < len(want) || p.later {
		return out, nil
	}
	for i := range out {
		out[i].do = func(context.Context, *balancerWriter) error { return nil }
	}
	out[0].do = func(ctx context.Context, b *balancerWriter) error {
		_, err := b.send(ctx, http.MethodPut, "/lbaas/pools/"+pool.id+"/members", client.Object{"members": append([]any{}, whole...)})
		return err
	}
	return out, nil
}
