package openstack

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A containerOp makes one container be as a recipe wants it. The owner mark is
// among the headers of the PUT that makes it. Swift has no call that makes a
// container only if there is none: of two recipes that make one of the same name
// at the same moment the later gets it.
type containerOp struct {
	cloud  *Cloud
	args   containerArgs
	mark   string
	fields []field // key is the header, send its value
}

func newContainerOp(ctx context.Context, c *Cloud, a containerArgs) (*containerOp, error) {
	t := c.target(containerKind, a.Name)
	switch {
	case a.Name == "":
		return nil, fault.New(fault.Invalid, "the container's name is empty")
	case strings.Contains(a.Name, "/") || len(a.Name) > 256:
		return nil, fault.New(fault.Invalid, "%s: a container's name has no slash, and at most 256 bytes", t)
	}
	mark, err := markFor(ctx, c, containerKind, a.Name)
	if err != nil {
		return nil, err
	}
	o := &containerOp{cloud: c, args: a, mark: mark}
	add := func(attr, header string, want any, send string) {
		o.fields = append(o.fields, field{attr: attr, key: header, want: want, send: send})
	}
	for _, acl := range []struct {
		attr, header string
		text         effect.Text
	}{{"read_acl", "X-Container-Read", a.Read}, {"write_acl", "X-Container-Write", a.Write}} {
		switch {
		case acl.text.Empty():
		case acl.text.Known() && acl.text.Reveal() == "none":
			add(acl.attr, acl.header, "", "")
		case acl.text.Known() && !acl.text.IsSecret():
			clean := cleanACL(acl.text.Reveal())
			add(acl.attr, acl.header, clean, clean)
		default:
			add(acl.attr, acl.header, acl.text.Value(), acl.text.Reveal())
		}
	}
	if a.Versioning != nil {
		add("versioning", "X-Versions-Enabled", *a.Versioning, strconv.FormatBool(*a.Versioning))
	}
	for _, q := range []struct {
		attr, header string
		limit        *int
	}{{"quota_bytes", quotaBytes, a.Bytes}, {"quota_count", quotaCount, a.Count}} {
		switch {
		case q.limit == nil:
		case *q.limit < 0:
			add(q.attr, q.header, nil, "")
		default:
			add(q.attr, q.header, *q.limit, strconv.Itoa(*q.limit))
		}
	}
	if !a.Policy.Empty() {
		o.fields = append(o.fields, field{attr: "storage_policy", key: "X-Storage-Policy", want: a.Policy.Value(), send: a.Policy.Reveal(), fixed: true})
	}
	for _, k := range slices.Sorted(maps.Keys(a.Metadata)) {
		v := a.Metadata[k]
		header := http.CanonicalHeaderKey(metaPrefix + k)
		if k == "" || strings.Trim(strings.ToLower(k), "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || header == containerMark || header == client.BucketMark || header == quotaBytes || header == quotaCount {
			return nil, fault.New(fault.Invalid, "%s: metadata: %q can't be a key: letters, digits and dashes can, but for what this module keeps there", t, k)
		}
		if strings.ContainsAny(v.Reveal(), "\r\n") || len(v.Reveal()) > 256 {
			return nil, fault.New(fault.Invalid, "%s: metadata: %s has more than 256 bytes or several lines", t, k)
		}
		f := field{attr: "metadata " + strings.ToLower(k), key: header, want: v.Value(), send: v.Reveal()}
		if v.Empty() { // Swift has no empty value: that is none
			f.equal = func(have any) bool { return have == nil }
		}
		o.fields = append(o.fields, f)
	}
	return o, nil
}

func (o *containerOp) Target() effect.Target { return o.cloud.target(containerKind, o.args.Name) }

// find returns the container, if it is ours or may be taken over.
func (o *containerOp) find(ctx context.Context, cl *client.Client) (client.Object, error) {
	have, err := getContainer(ctx, cl, o.args.Name)
	switch {
	case fault.KindOf(err) == fault.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case have["mark"] == o.mark || o.args.Adopt:
		return have, nil
	}
	other := "has no owner mark"
	if m := have["mark"].(string); m != "" {
		other = "is owned by " + m
	}
	return nil, fault.Hinted(fault.Exists, adoptHint, "a container %q exists that isn't ours: it %s, ours would be %s", o.args.Name, other, o.mark)
}

func (o *containerOp) Observe(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	have, err := o.find(ctx, cl)
	if err != nil || have == nil {
		return effect.State{}, err
	}
	return effect.State{Exists: true, Attrs: have}, nil
}

// flat returns attributes with each key of one of them, a dict, as one of its own.
func flat(attrs map[string]any, name string) map[string]any {
	out := maps.Clone(attrs)
	dict, _ := attrs[name].(map[string]any)
	for k, v := range dict {
		out[name+" "+k] = v
	}
	return out
}

func (o *containerOp) Diff(st effect.State) (effect.Change, error) {
	after := func(before map[string]any) map[string]any {
		out, meta := map[string]any{}, map[string]any{}
		for _, a := range containerAttrs() {
			out[a.Name] = effect.Unknown{Of: o.Target().String() + " " + a.Name}
			if before != nil {
				out[a.Name] = before[a.Name]
			}
		}
		out["id"], out["name"] = o.args.Name, o.args.Name
		if before == nil {
			out["mark"] = o.mark
			for k, v := range map[string]any{"read_acl": "", "write_acl": "", "versioning": false, "quota_bytes": nil, "quota_count": nil, "bytes": 0, "objects": 0} {
				out[k] = v
			}
		} else if m, ok := before["metadata"].(map[string]any); ok {
			meta = maps.Clone(m)
		}
		for _, f := range o.fields {
			if k, found := strings.CutPrefix(f.attr, "metadata "); found {
				if meta[k] = f.want; f.want == "" {
					delete(meta, k)
				}
			} else {
				out[f.attr] = f.want
			}
		}
		out["metadata"] = meta
		return out
	}
	var made []effect.Field
	for _, f := range o.fields {
		made = append(made, effect.Field{Path: f.attr, New: f.want})
	}
	if !st.Exists {
		return effect.Change{Kind: effect.Create, Fields: made, After: after(nil)}, nil
	}
	change, fixed, later := compare(o.fields, flat(st.Attrs, "metadata"))
	switch {
	case len(fixed) > 0 && !o.args.Replace:
		return effect.Change{}, immutable(o.Target().String(), o.args.Name, fixed)
	case len(fixed) > 0:
		return effect.Change{Kind: effect.Replace, Fields: append(fixed, change...), After: after(nil)}, nil
	case later:
		return effect.Change{Kind: effect.Later, Note: "it depends on what isn't known yet whether it changes"}, nil
	case len(change) == 0:
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Update, Fields: change, After: after(st.Attrs)}, nil
}

func (o *containerOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	header := map[string]string{}
	call := client.Call{Method: http.MethodPost, Path: containerPath(o.args.Name), Header: header}
	have := flat(c.Before.Attrs, "metadata")
	if c.Kind == effect.Replace {
		if err := removeContainer(ctx, cl, o.args.Name, false); err != nil {
			return effect.State{}, err
		}
	}
	if c.Kind != effect.Update {
		call.Method, have = http.MethodPut, nil
		header[containerMark] = o.mark
	}
	for _, f := range o.fields {
		switch value := fmt.Sprint(f.send); {
		case have != nil && f.same(have[f.attr]):
		case value != "":
			header[f.key] = value
		case have != nil:
			header["X-Remove-"+strings.TrimPrefix(f.key, "X-")] = "x"
		}
	}
	if _, err := sendContainer(ctx, cl, call); err != nil {
		return effect.State{}, err
	}
	now, err := getContainer(ctx, cl, o.args.Name)
	return effect.State{Exists: err == nil, Attrs: now}, err
}

// cleanACL returns an ACL in the form that Swift keeps; what Swift refuses is left for it to.
func cleanACL(acl string) string {
	var out []string
	for item := range strings.SplitSeq(acl, ",") {
		item = strings.TrimSpace(item)
		first, host, pair := strings.Cut(item, ":")
		first = strings.TrimSpace(first)
		if pair && slices.Contains([]string{".r", ".ref", ".referer", ".referrer"}, first) {
			not := ""
			if host = strings.TrimSpace(host); strings.HasPrefix(host, "-") {
				not, host = "-", strings.TrimSpace(host[1:])
			}
			if host != "*" {
				host = strings.TrimSpace(strings.TrimPrefix(host, "*"))
			}
			item = ".r:" + not + host
		}
		if item != "" {
			out = append(out, item)
		}
	}
	return strings.Join(out, ",")
}
