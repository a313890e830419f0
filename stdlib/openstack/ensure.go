package openstack

import (
	"context"
	"slices"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// An ensureOp makes one Neutron resource be as a recipe wants it. The owner
// mark is its description, which the create call sets. A resource that is
// adopted keeps its description: it stays its owner's, is never deleted as
// ours, and the recipe goes on saying adopt = True.
type ensureOp struct {
	cloud      *Cloud
	noun       *noun
	name, mark string
	adopt      adoption
	replace    bool
	timeout    time.Duration // how long to wait until it is ready, if that takes time; 0 means 10 minutes
	// wanted returns the fields to have; it may look names up.
	wanted func(ctx context.Context, cl *client.Client) ([]field, error)
	// absent is asked where there is none yet: it may complete the fields, and
	// returns what stands in the way of a new one, beside one of the same
	// name; may be nil.
	absent func(ctx context.Context, cl *client.Client) ([]client.Object, error)
	parts  parts // what is created by calls of its own; may be nil

	fields  []field
	touched []string // the reach of what the noun touches
	sent    sent
	glanced glanced
}

// Parts are what belongs to a resource and is made by calls of its own.
type parts interface {
	// prepare looks up what the parts refer to.
	prepare(ctx context.Context, cl *client.Client) error
	// diff compares the parts of obj, which is nil if it doesn't exist yet.
	diff(obj client.Object) []effect.Field
	// apply makes the parts as wanted, and keeps obj true.
	apply(ctx context.Context, cl *client.Client, obj client.Object) error
	// attrs returns the attributes that the parts will make.
	attrs(obj client.Object) map[string]any
}

// A checker is parts that may refuse to be what is wanted.
type checker interface {
	check(obj client.Object) error
}

// newEnsure returns an op for a resource of that name. Adopt is a bool, or what
// a recipe gave for the argument.
func newEnsure(ctx context.Context, c *Cloud, n *noun, name string, adopt any, replace bool) (*ensureOp, error) {
	if name == "" {
		return nil, fault.New(fault.Invalid, "the %s's name is empty", n.label())
	}
	mark, err := markFor(ctx, c, n.name, name)
	if err != nil {
		return nil, err
	}
	from, err := adoptionOf(adopt, n.label(), n.tagged != untagged)
	if err != nil {
		return nil, fault.Wrap("", c.target(n.name, name).String(), err)
	}
	return &ensureOp{cloud: c, noun: n, name: name, mark: mark, adopt: from, replace: replace}, nil
}

// markFor returns the owner mark for a resource, if it fits where it is kept.
func markFor(ctx context.Context, c *Cloud, kind, name string) (string, error) {
	mark := effect.Mark(ctx, name)
	if len(mark) > maxMark {
		return "", fault.Hinted(fault.Invalid, "choose a shorter name", "%s: its owner mark would have %d bytes; OpenStack keeps %d", c.target(kind, name), len(mark), maxMark)
	}
	return mark, nil
}

func (o *ensureOp) Target() effect.Target { return o.cloud.target(o.noun.name, o.name) }

func (o *ensureOp) Observe(ctx context.Context) (effect.State, error) {
	return o.cloud.observe(ctx, o, &o.glanced, o.look)
}

// look reads what there is.
func (o *ensureOp) look(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	if o.fields, err = o.wanted(ctx, cl); err != nil {
		return effect.State{}, err
	}
	if err := checkTags(o.Target(), o.fields); err != nil {
		return effect.State{}, err
	}
	if o.parts != nil {
		if err := o.parts.prepare(ctx, cl); err != nil {
			return effect.State{}, err
		}
	}
	find := finder{cloud: o.cloud, noun: o.noun, name: o.name, mark: o.mark, adopt: o.adopt, sent: o.sent}
	if o.absent != nil {
		find.absent = func() ([]client.Object, error) { return o.absent(ctx, cl) }
	}
	obj, err := find.find(ctx, cl)
	if err != nil || obj == nil {
		return effect.State{}, err
	}
	o.sent = sent{}
	st, err := o.state(ctx, cl, obj)
	for i, f := range o.fields {
		if err == nil && f.over != nil {
			o.fields[i].want = f.over(st.Attrs)
		}
	}
	if err == nil && o.noun.touches != nil && effect.From(ctx).Door.Mode == effect.Plan {
		o.touched, err = o.noun.touches(ctx, o.cloud, cl, differing(o.fields, st.Attrs), st)
	}
	return st, err
}

func (o *ensureOp) state(ctx context.Context, cl *client.Client, obj client.Object) (effect.State, error) {
	if o.noun.expand != nil {
		if err := o.noun.expand(ctx, cl, obj); err != nil {
			return effect.State{}, err
		}
	}
	return effect.State{Exists: true, Attrs: o.noun.data(obj), Raw: obj}, nil
}

func (o *ensureOp) Diff(st effect.State) (effect.Change, error) {
	c, err := o.diff(st)
	c.Reach = slices.Concat(o.cloud.reach(o.noun.name), o.touched)
	return c, err
}

func (o *ensureOp) diff(st effect.State) (effect.Change, error) {
	target := o.Target()
	names := make([]string, len(o.noun.attrs))
	for i, a := range o.noun.attrs {
		names[i] = a.Name
	}
	all := append([]field{{attr: "name", want: o.name}, {attr: "mark", want: o.mark}}, o.fields...)
	if o.noun.unnamed {
		all = all[1:]
	}
	fresh := func(kind effect.ChangeKind, fields []effect.Field) effect.Change {
		c := effect.Change{Kind: kind, Fields: fields, After: after(target, names, nil, all)}
		if o.parts != nil {
			for k, v := range o.parts.attrs(nil) {
				c.After[k] = v
			}
		}
		return c
	}
	if !st.Exists {
		var fields []effect.Field
		for _, f := range o.fields {
			if f.attr != "" {
				fields = append(fields, effect.Field{Path: f.attr, New: f.want})
			}
		}
		if o.parts != nil {
			fields = append(fields, o.parts.diff(nil)...)
		}
		return fresh(effect.Create, fields), nil
	}
	obj := st.Raw.(client.Object)
	change, fixed, later := compare(o.fields, st.Attrs)
	if o.misnamed(obj) {
		change = append([]effect.Field{{Path: "name", Old: str(obj, "name"), New: o.name}}, change...)
	}
	p := o.noun.phaseOf(obj)
	if p.failed {
		if !o.replace || p.mend != "" {
			return effect.Change{}, o.failed(obj, p)
		}
		fixed = append(fixed, effect.Field{Path: "status", Old: p.state, New: effect.Unknown{Of: target.String() + " status"}})
	}
	if len(fixed) > 0 {
		if !o.replace {
			return effect.Change{}, immutable(target.String(), str(obj, "id"), fixed)
		}
		return fresh(effect.Replace, append(fixed, change...)), nil
	}
	if !p.ready {
		change = append(change, effect.Field{Path: "status", Old: p.state, New: effect.Unknown{Of: target.String() + " status"}})
	}
	if later {
		return effect.Change{Kind: effect.Later, Note: "it depends on what isn't known yet whether it changes"}, nil
	}
	if c, ok := o.parts.(checker); ok {
		if err := c.check(obj); err != nil {
			return effect.Change{}, err
		}
	}
	if o.parts != nil {
		change = append(change, o.parts.diff(obj)...)
	}
	if len(change) == 0 {
		return effect.Unchanged(), nil
	}
	c := effect.Change{Kind: effect.Update, Fields: change, After: after(target, names, st.Attrs, differing(o.fields, st.Attrs))}
	if o.misnamed(obj) {
		c.After["name"] = o.name
	}
	if _, shown := c.After["status"]; shown && !p.ready {
		c.After["status"] = effect.Unknown{Of: target.String() + " status"}
	}
	if o.parts != nil {
		for k, v := range o.parts.attrs(obj) {
			c.After[k] = v
		}
	}
	return c, nil
}

// misnamed reports whether a resource has to be renamed. One that was chosen to
// be taken over keeps its name.
func (o *ensureOp) misnamed(obj client.Object) bool {
	return !o.noun.unnamed && !o.adopt.chosen() && str(obj, "name") != o.name
}

// compare returns the fields that differ, those among them that can't be
// changed, and whether that isn't known yet of one that can't.
func compare(fields []field, have map[string]any) (change, fixed []effect.Field, later bool) {
	for _, f := range fields {
		d := effect.Field{Path: f.attr, Old: have[f.attr], New: f.want}
		switch {
		case f.attr == "":
		case !f.known() && f.fixed:
			later = true
		case f.known() && f.same(have[f.attr]):
		case f.fixed || f.fixedFrom != nil && f.fixedFrom(have[f.attr]):
			fixed = append(fixed, d)
		default:
			change = append(change, d)
		}
	}
	return change, fixed, later
}

func (o *ensureOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	obj, _ := c.Before.Raw.(client.Object)
	switch c.Kind {
	case effect.Replace:
		if err := o.noun.remove(ctx, o.cloud, cl, obj); err != nil {
			return effect.State{}, err
		}
		obj, err = o.create(ctx, cl)
	case effect.Create:
		obj, err = o.create(ctx, cl)
	case effect.Update:
		obj, err = o.change(ctx, cl, obj, c.Before.Attrs)
	}
	if err != nil {
		return effect.State{}, err
	}
	if obj, err = o.settle(ctx, cl, obj); err != nil {
		return effect.State{}, err
	}
	st, err := o.state(ctx, cl, obj)
	if err != nil {
		return effect.State{}, err
	}
	if o.parts != nil {
		if err := o.parts.apply(ctx, cl, obj); err != nil {
			return effect.State{}, err
		}
		st.Attrs = o.noun.data(obj)
	}
	return o.finish(ctx, cl, st)
}

// finish sets the fields that need the parts.
func (o *ensureOp) finish(ctx context.Context, cl *client.Client, st effect.State) (effect.State, error) {
	obj := st.Raw.(client.Object)
	id := str(obj, "id")
	body := client.Object{}
	for _, f := range o.fields {
		switch {
		case f.same(st.Attrs[f.attr]):
		case f.act != nil:
			var err error
			if st, err = o.act(ctx, cl, f, obj); err != nil {
				return effect.State{}, err
			}
			obj = st.Raw.(client.Object)
		case f.late:
			f.put(body)
		case f.apart:
			if err := o.noun.setTags(ctx, cl, id, f.want); err != nil {
				return effect.State{}, err
			}
			obj["tags"] = f.want
			st.Attrs = o.noun.data(obj)
		}
	}
	if len(body) == 0 {
		return st, nil
	}
	obj, err := o.noun.update(ctx, cl, id, body)
	if err != nil {
		return effect.State{}, err
	}
	if obj, err = o.settle(ctx, cl, obj); err != nil {
		return effect.State{}, err
	}
	return o.state(ctx, cl, obj)
}

// act changes one field by a call of its own.
func (o *ensureOp) act(ctx context.Context, cl *client.Client, f field, obj client.Object) (effect.State, error) {
	if err := f.act(ctx, cl, obj); err != nil {
		return effect.State{}, err
	}
	obj, err := o.noun.byID(ctx, cl, str(obj, "id"))
	if err == nil {
		obj, err = o.settle(ctx, cl, obj)
	}
	if err != nil {
		return effect.State{}, err
	}
	st, err := o.state(ctx, cl, obj)
	if have := st.Attrs[f.attr]; err == nil && !f.same(have) {
		err = fault.Hinted(fault.Failed, f.unmoved, "%s (%s): %s is still %s, not %s", o.Target(), str(obj, "id"), f.attr, show(have), show(f.want))
	}
	return st, err
}

func (o *ensureOp) create(ctx context.Context, cl *client.Client) (client.Object, error) {
	body := client.Object{"description": o.mark}
	if !o.noun.unnamed {
		body["name"] = o.name
	}
	for _, f := range o.fields {
		if !f.late && !f.apart {
			f.put(body)
		}
	}
	obj, err := o.noun.create(ctx, cl, body)
	o.sent.note(ctx, obj, err)
	if k := fault.KindOf(err); (k == fault.Conflict || k == fault.Invalid) && o.noun.rivals != nil {
		names, rerr := o.noun.rivals(ctx, cl, body)
		if rerr == nil {
			err = blamed(err, names)
		}
	}
	if err != nil {
		return obj, err
	}
	return o.cloud.onlyOne(ctx, o.Target(), obj, func() ([]client.Object, error) {
		return finder{cloud: o.cloud, noun: o.noun, name: o.name, mark: o.mark}.marked(ctx, cl)
	}, func(obj client.Object) error { return o.noun.remove(ctx, o.cloud, cl, obj) })
}

func (o *ensureOp) change(ctx context.Context, cl *client.Client, obj client.Object, have map[string]any) (client.Object, error) {
	body := client.Object{}
	for _, f := range o.fields {
		if f.attr != "" && !f.late && !f.apart && f.act == nil && !f.same(have[f.attr]) {
			f.put(body)
		}
	}
	if o.misnamed(obj) {
		body["name"] = o.name
	}
	if len(body) == 0 {
		return obj, nil // only parts differ
	}
	obj, err := o.settle(ctx, cl, obj)
	if err != nil {
		return nil, err
	}
	return o.noun.update(ctx, cl, str(obj, "id"), body)
}
