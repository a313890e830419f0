package openstack

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A bucketOp makes one bucket be as a recipe wants it.
type bucketOp struct {
	cloud  *Cloud
	place  bucketPlace
	args   bucketArgs
	mark   string
	fields []field // of tags the attribute is "tags KEY"
}

func newBucketOp(ctx context.Context, c *Cloud, a bucketArgs) (*bucketOp, error) {
	place, err := bucketPlaceOf(c, "ensure", a.Credential, a.Endpoint, a.Region)
	if err != nil {
		return nil, err
	}
	o := &bucketOp{cloud: c, place: place, args: a}
	t := o.Target()
	if n := len(a.Name); n < 3 || n > 63 || strings.Trim(a.Name, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" || strings.Trim(a.Name[:1]+a.Name[n-1:], "-.") != a.Name[:1]+a.Name[n-1:] {
		return nil, fault.New(fault.Invalid, "%s: a bucket's name has 3 to 63 small letters, digits, dots and dashes, with a letter or digit at both ends", t)
	}
	if o.mark, err = markFor(ctx, c, bucketKind, a.Name); err != nil {
		return nil, err
	}
	if a.Versioning != nil {
		o.fields = append(o.fields, field{attr: "versioning", want: *a.Versioning})
	}
	for _, k := range slices.Sorted(maps.Keys(a.Tags)) {
		v := a.Tags[k]
		if k == "" || k == bucketTag || len(k) > 128 || len(v.Reveal()) > 256 {
			return nil, fault.New(fault.Invalid, "%s: tags: %q can't be one: keys have 1 to 128 bytes, values up to 256, and %s is this module's", t, k, bucketTag)
		}
		o.fields = append(o.fields, tagField(k, v.Value(), v.Empty()))
	}
	for attr, days := range map[string]*int{"expire_days": a.Expire, "expire_old_days": a.ExpireOld} {
		switch {
		case days == nil:
		case *days == -1:
			o.fields = append(o.fields, field{attr: attr})
		case *days < 1:
			return nil, fault.New(fault.Invalid, "%s: %s is %d: it is a number of days, or -1 for never", t, attr, *days)
		default:
			o.fields = append(o.fields, field{attr: attr, want: *days})
		}
	}
	switch {
	case a.Quota == nil:
	case *a.Quota < 0:
		o.fields = append(o.fields, field{attr: "quota_bytes", send: ""})
	default:
		o.fields = append(o.fields, field{attr: "quota_bytes", want: *a.Quota, send: strconv.Itoa(*a.Quota)})
	}
	slices.SortFunc(o.fields, func(a, b field) int { return strings.Compare(a.attr, b.attr) })
	return o, nil
}

// tagField is of one tag, or of there being none.
func tagField(key string, want any, none bool) field {
	f := field{attr: "tags " + key, want: want}
	if none {
		f.want = ""
		f.equal = func(have any) bool { return have == nil }
	}
	return f
}

func (o *bucketOp) Target() effect.Target { return o.place.target(o.args.Name) }

// Claims returns what the op wants of its bucket.
func (o *bucketOp) Claims() []effect.Claim { return claimsOf(o.fields) }

// look returns the bucket that is there, if it is ours or may be taken over.
func (o *bucketOp) look(ctx context.Context) (s *seenBucket, lacks bool, err error) {
	cl, b, err := o.place.open(ctx)
	if err != nil {
		return nil, false, err
	}
	defer b.Close()
	s, err = o.place.read(ctx, cl, b, o.args.Name)
	if fault.KindOf(err) == fault.NotFound {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	lacks, err = s.own(ctx, b, o.mark, o.args.Adopt)
	return s, lacks, err
}

func (o *bucketOp) Observe(ctx context.Context) (effect.State, error) {
	s, lacks, err := o.look(ctx)
	if err != nil || s == nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: s.attrs, Raw: o.wants(s, lacks)}, nil
}

// wants returns the fields that count for what is there.
func (o *bucketOp) wants(s *seenBucket, lacks bool) []field {
	out := slices.Clone(o.fields)
	if lacks {
		out = append(out, field{attr: "mark", want: o.mark})
	}
	if !o.args.Exact {
		return out
	}
	for _, k := range slices.Sorted(maps.Keys(s.Tags)) {
		if _, wanted := o.args.Tags[k]; !wanted && k != bucketTag {
			out = append(out, tagField(k, nil, true))
		}
	}
	if s.OtherRules > 0 {
		out = append(out, field{attr: "other_rules", want: 0, equal: func(any) bool { return false }})
	}
	return out
}

func (o *bucketOp) Diff(st effect.State) (effect.Change, error) {
	fields, _ := st.Raw.([]field)
	kind := effect.Update
	var change []effect.Field
	if !st.Exists {
		fields, kind = o.fields, effect.Create
		for _, f := range fields {
			change = append(change, effect.Field{Path: f.attr, New: f.want})
		}
	} else {
		var later bool
		if change, _, later = compare(fields, flat(st.Attrs, "tags")); later {
			return effect.Change{Kind: effect.Later, Note: "it depends on what isn't known yet whether it changes"}, nil
		}
		if len(change) == 0 {
			return effect.Unchanged(), nil
		}
	}
	return effect.Change{Kind: kind, Fields: change, After: o.after(st, fields)}, nil
}

// after returns the attributes to come.
func (o *bucketOp) after(st effect.State, fields []field) map[string]any {
	out, tags := map[string]any{}, map[string]any{}
	for _, a := range bucketAttrs() {
		out[a.Name] = effect.Unknown{Of: o.Target().String() + " " + a.Name}
	}
	if st.Exists {
		maps.Copy(out, st.Attrs)
		if have, ok := st.Attrs["tags"].(map[string]any); ok {
			tags = maps.Clone(have)
		}
	} else {
		maps.Copy(out, map[string]any{"id": o.args.Name, "name": o.args.Name, "versioning": false, "expire_days": nil, "expire_old_days": nil, "quota_bytes": nil})
	}
	for _, f := range fields {
		k, tag := strings.CutPrefix(f.attr, "tags ")
		switch {
		case f.attr == "other_rules":
		case !tag:
			out[f.attr] = f.want
		case f.want == "":
			delete(tags, k)
		default:
			tags[k] = f.want
		}
	}
	out["tags"] = tags
	return out
}

func (o *bucketOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, b, err := o.place.open(ctx)
	if err != nil {
		return effect.State{}, err
	}
	defer b.Close()
	if c.Kind == effect.Create {
		mark := ""
		if o.place.ofSwift(cl) {
			mark = o.mark
		}
		if err := b.Create(ctx, o.args.Name, mark); err != nil {
			return effect.State{}, err
		}
	}
	s, err := o.place.read(ctx, cl, b, o.args.Name)
	if err != nil {
		return effect.State{}, err
	}
	fields := o.wants(s, s.mark == "" && s.Taggable && !o.args.Adopt)
	differ := differing(fields, flat(s.attrs, "tags"))
	if len(differ) > 0 {
		if err := o.set(ctx, cl, b, s, differ); err != nil {
			return effect.State{}, err
		}
		if s, err = o.place.read(ctx, cl, b, o.args.Name); err != nil {
			return effect.State{}, err
		}
	}
	return effect.State{Exists: true, Attrs: s.attrs}, nil
}

// set changes what differs. The mark comes first: what follows may fail.
func (o *bucketOp) set(ctx context.Context, cl *client.Client, b *client.Buckets, s *seenBucket, differ []field) error {
	tags, expire := maps.Clone(s.Tags), map[string]int{"expire_days": s.ExpireDays, "expire_old_days": s.OldDays}
	var tagged, expires bool
	var versioning, quota *field
	for _, f := range differ {
		k, tag := strings.CutPrefix(f.attr, "tags ")
		switch {
		case f.attr == "versioning":
			versioning = &f
		case f.attr == "quota_bytes":
			quota = &f
		case f.attr == "mark":
			tags[bucketTag], tagged = o.mark, true
		case tag && f.want == "":
			delete(tags, k)
			tagged = true
		case tag:
			tags[k], tagged = o.args.Tags[k].Reveal(), true
		case f.attr == "other_rules":
			expires = true
		default:
			expire[f.attr], _ = f.want.(int)
			expires = true
		}
	}
	if tagged {
		if err := b.SetTags(ctx, o.args.Name, tags); err != nil {
			return err
		}
	}
	if versioning != nil {
		if err := b.SetVersioning(ctx, o.args.Name, versioning.want == true); err != nil {
			return err
		}
	}
	if quota != nil {
		if !s.swift {
			return fault.New(fault.Invalid, "S3 at %s has no quotas for buckets", b.Endpoint())
		}
		// An empty value removes it.
		if _, err := sendContainer(ctx, cl, client.Call{Method: http.MethodPost, Path: containerPath(o.args.Name), Header: map[string]string{quotaBytes: quota.send.(string)}}); err != nil {
			return err
		}
	}
	if expires {
		return b.SetExpiry(ctx, o.args.Name, expire["expire_days"], expire["expire_old_days"], o.args.Exact)
	}
	return nil
}

// A bucketDeletion deletes a bucket, if it is there.
type bucketDeletion struct {
	*deleteOp
	target effect.Target
}

func (d *bucketDeletion) Target() effect.Target { return d.target }

func (o *bucketOp) deletion(force bool) effect.Op {
	return &bucketDeletion{target: o.Target(), deleteOp: &deleteOp{cloud: o.cloud, kind: bucketKind, name: o.args.Name,
		find: func(ctx context.Context, _ *client.Client) (client.Object, error) {
			s, _, err := o.look(ctx)
			if err != nil || s == nil {
				return nil, err
			}
			return client.Object{"id": s.Name, "name": s.Name}, nil
		},
		remove: func(ctx context.Context, cl *client.Client, _ client.Object) error {
			b, err := cl.Buckets(o.place.store)
			if err != nil {
				return err
			}
			defer b.Close()
			return removeBucket(ctx, b, o.args.Name, force)
		}}}
}

// Undo returns the bucket as something to delete, unless it holds something.
func (o *bucketOp) Undo(st effect.State) effect.Owned {
	mark, _ := st.Attrs["mark"].(string)
	return effect.Owned{Target: o.Target(), Mark: mark, ID: o.args.Name, Rank: rankOf(bucketKind), Delete: o.deletion(false)}
}

var _ effect.Undoer = (*bucketOp)(nil)
