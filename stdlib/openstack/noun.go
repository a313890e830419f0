package openstack

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A noun is a kind of resource: how it is called, and what recipes see of it.
// Its owner mark is its description, which the create call sets.
type noun struct {
	name    string         // "network": kind of the target, and key of a body unless key is set
	service client.Service // empty is Neutron
	version string         // the microversion of its calls; empty is the base version
	key     string         // "floatingip"
	plural  string         // key of a list
	path    string         // "/networks"
	detail  string         // path of a list, if that is another: "/volumes/detail"
	patch   bool           // it is updated by PATCH, in place of PUT
	whole   bool           // a list is of the login's project alone, and has no filter for one
	scans   bool           // a list can't be filtered by the description
	domain  string         // it is looked for in this domain: names are unique in one; empty is all
	unnamed bool           // it has no name, only a mark
	denied  bool           // who may not see all is denied what isn't there, in place of being told so
	opaque  bool           // its ids don't look like ids: what looks like one is a name
	filter  url.Values     // added to the query of each list
	admin   bool           // only administrators may see it: examples log in as one
	tagged  tagging
	attrs   []attr

	// phase tells how far a resource is whose making takes time; nil means that
	// it is ready at once.
	phase func(client.Object) phase

	// shape brings a resource into the form that the common code knows, and
	// form the body of a create into the API's; may be nil.
	shape func(client.Object)
	form  func(client.Object) (client.Object, error)

	// goes reports whether a resource is being deleted, and as good as gone; may be nil.
	goes func(client.Object) bool

	// expand adds to a resource what lies in others, before attributes are read; may be nil.
	expand func(ctx context.Context, cl *client.Client, obj client.Object) error
	// release takes off what keeps a resource from being deleted and is part of it; may be nil.
	release func(ctx context.Context, cl *client.Client, obj client.Object) error
	// ports returns the query for the ports that use a resource; may be nil.
	ports func(id string) url.Values
	// users names what else uses a resource, for the hint when it can't be deleted; may be nil.
	users func(ctx context.Context, cl *client.Client, id string) ([]string, error)
	// rivals names what stands in the way of a create that met a conflict; may be nil.
	rivals func(ctx context.Context, cl *client.Client, body client.Object) ([]string, error)
	// touches returns the reach of a change of those fields, beside that of the
	// kind; a plan asks. May be nil.
	touches func(ctx context.Context, c *Cloud, cl *client.Client, change []field, st effect.State) ([]string, error)
}

// Tagging says how the API takes tags.
type tagging int

// The ways.
const (
	untagged   tagging = iota
	tagsByCall         // PUT of PATH/ID/tags, once it is there
	tagsInBody         // with all else
)

// A phase is how far a resource is.
type phase struct {
	state  string // as the API calls it: "creating"
	ready  bool
	failed bool   // it won't become ready any more
	why    string // it failed, where the API says it
	mend   string // what to do where it failed and may hold data, so that it isn't made anew
}

// An attr is an attribute that recipes see.
type attr struct {
	builtin.Attr
	read func(client.Object) any // nil reads the field of the same name
}

// markPrefix is what every owner mark begins with.
const markPrefix = "gsrun:"

// maxMark is how many bytes a description holds, in Neutron as in Nova.
const maxMark = 255

func idAttr() attr { return attr{Attr: builtin.Attr{Name: "id", Type: "str", Doc: "The id."}} }
func nameAttr() attr {
	return attr{Attr: builtin.Attr{Name: "name", Type: "str", Doc: "The name."}}
}
func markAttr() attr {
	return attr{builtin.Attr{Name: "mark", Type: "str", Doc: "The owner mark; empty if it has none."}, markOf}
}

// markOf returns the owner mark of a resource, or "".
func markOf(obj client.Object) any {
	if d := str(obj, "description"); strings.HasPrefix(d, markPrefix) {
		return d
	}
	return ""
}

// phaseOf tells how far a resource is.
func (n *noun) phaseOf(obj client.Object) phase {
	if n.phase == nil {
		return phase{ready: true}
	}
	return n.phase(obj)
}

func tagsAttr() attr {
	return attr{builtin.Attr{Name: "tags", Type: "list[str]", Doc: "Its tags, sorted."}, func(o client.Object) any {
		if l, ok := o["tags"].([]any); ok {
			return sorted(l)
		}
		return []any{}
	}}
}

// data returns what recipes see of a resource.
func (n *noun) data(obj client.Object) map[string]any {
	out := make(map[string]any, len(n.attrs))
	for _, a := range n.attrs {
		if a.read != nil {
			out[a.Name] = a.read(obj)
		} else {
			out[a.Name] = obj[a.Name]
		}
	}
	return out
}

// docs returns the attributes' documentation.
func (n *noun) docs() []builtin.Attr {
	out := make([]builtin.Attr, len(n.attrs))
	for i, a := range n.attrs {
		out[i] = a.Attr
	}
	return out
}

// list returns the resources that match query, of all projects that the login
// may see.
func (n *noun) list(ctx context.Context, cl *client.Client, query url.Values) ([]client.Object, error) {
	call := n.call("", "", nil)
	if n.detail != "" {
		call.Path = n.detail
	}
	call.Query = maps.Clone(query)
	for k, v := range n.filter {
		if call.Query == nil {
			call.Query = url.Values{}
		}
		call.Query[k] = v
	}
	all, err := cl.List(ctx, call, n.plural)
	for _, obj := range all {
		n.shaped(obj)
	}
	if n.goes != nil {
		all = slices.DeleteFunc(all, n.goes)
	}
	return all, err
}

// ours returns the query for what the login's project has: an administrator
// would see all projects.
func (n *noun) ours(cl *client.Client) url.Values {
	if n.domain != "" {
		return url.Values{"domain_id": {n.domain}}
	}
	if n.whole {
		return url.Values{}
	}
	return projectOnly(cl)
}

// call returns a call about the resource of that id, or about all; what
// follows the id in the path is part of it.
func (n *noun) call(method, id string, body client.Object) client.Call {
	c := client.Call{Service: n.api(), Version: n.version, Method: method, Path: n.path}
	if id != "" {
		c.Path += "/" + id
	}
	if body != nil {
		c.Body = client.Object{n.bodyKey(): body}
	}
	return c
}

func (n *noun) api() client.Service {
	if n.service == "" {
		return client.Network
	}
	return n.service
}

// byID returns one resource; an error of kind NotFound if there is none.
func (n *noun) byID(ctx context.Context, cl *client.Client, id string) (client.Object, error) {
	obj, err := cl.One(ctx, n.call(http.MethodGet, url.PathEscape(id), nil), n.bodyKey())
	if n.denied && fault.KindOf(err) == fault.Denied {
		err = &fault.Error{Kind: fault.NotFound, Err: err}
	}
	n.shaped(obj)
	return obj, err
}

// shaped is obj in the form that the common code knows; nil stays nil.
func (n *noun) shaped(obj client.Object) {
	if n.shape != nil && obj != nil {
		n.shape(obj)
	}
}

func (n *noun) create(ctx context.Context, cl *client.Client, body client.Object) (client.Object, error) {
	if n.form != nil {
		var err error
		if body, err = n.form(body); err != nil {
			return nil, err
		}
	}
	obj, err := cl.One(ctx, n.call(http.MethodPost, "", body), n.bodyKey())
	n.shaped(obj)
	return obj, err
}

func (n *noun) update(ctx context.Context, cl *client.Client, id string, body client.Object) (client.Object, error) {
	method := http.MethodPut
	if n.patch {
		method = http.MethodPatch
	}
	return cl.One(ctx, n.call(method, id, body), n.bodyKey())
}

// setTags replaces the tags of a resource by a call of its own.
func (n *noun) setTags(ctx context.Context, cl *client.Client, id string, tags any) error {
	call := n.call(http.MethodPut, id+"/tags", nil)
	call.Body = client.Object{"tags": tags}
	_, err := cl.Do(ctx, call)
	return err
}

// byName returns the one resource that is called name or has it as its id: of
// the login's project, else of those that are shared with it. An error of kind
// NotFound says that there is none, one of kind Invalid that there are several.
func (n *noun) byName(ctx context.Context, cl *client.Client, name string) (client.Object, error) {
	if isID(name) && !n.opaque {
		obj, err := n.byID(ctx, cl, name)
		if err == nil || fault.KindOf(err) != fault.NotFound {
			return obj, err
		}
	}
	if n.unnamed {
		return n.byMark(ctx, cl, name)
	}
	all, err := n.list(ctx, cl, url.Values{"name": {name}})
	if err != nil {
		return nil, err
	}
	var own, other []client.Object
	for _, obj := range all {
		switch {
		case str(obj, "name") != name:
		case n.whole || cl.Project() == "" || str(obj, "project_id") == cl.Project():
			own = append(own, obj)
		default:
			other = append(other, obj)
		}
	}
	if len(own) == 0 {
		own = other
	}
	switch len(own) {
	case 0:
		return nil, fault.New(fault.NotFound, "there is no %s called %q", n.label(), name)
	case 1:
		return own[0], nil
	}
	return nil, fault.Hinted(fault.Invalid, "name the one that is meant by its id", "%d %ss are called %q: %s", len(own), n.label(), name, ids(own))
}

// byMark returns the resource without a name that was ensured under that name:
// by this recipe, else by another one.
func (n *noun) byMark(ctx context.Context, cl *client.Client, name string) (client.Object, error) {
	all, err := n.list(ctx, cl, n.ours(cl))
	if err != nil {
		return nil, err
	}
	found := markedOnes(all, effect.Mark(ctx, name))
	if len(found) == 0 {
		for _, obj := range all {
			if nameInMark(obj) == name {
				found = append(found, obj)
			}
		}
	}
	switch len(found) {
	case 0:
		return nil, fault.New(fault.NotFound, "there is no %s with the id %q, nor one whose owner mark ends in it", n.label(), name)
	case 1:
		return found[0], nil
	}
	return nil, fault.Hinted(fault.Invalid, "name the one that is meant by its id", "%d %ss bear a mark for %q: %s", len(found), n.label(), name, ids(found))
}

// nameInMark returns the name that a resource was ensured under.
func nameInMark(obj client.Object) string {
	mark := markOf(obj).(string)
	return mark[strings.LastIndex(mark, "/")+1:]
}

// bodyKey is the key of a body.
func (n *noun) bodyKey() string {
	if n.key != "" {
		return n.key
	}
	return n.name
}

// label is the noun in messages.
func (n *noun) label() string { return strings.ReplaceAll(n.name, "_", " ") }

// resolve returns the id that ref stands for: a text that isn't an id is
// looked up as a name. The result is an effect.Unknown where it isn't known
// yet.
func (n *noun) resolve(ctx context.Context, c *Cloud, cl *client.Client, ref effect.Reference) (any, error) {
	if !ref.Known() {
		return ref.ID.Value(), nil
	}
	id := ref.ID.Reveal()
	if id == "" || ref.Name != "" || isID(id) {
		return id, nil
	}
	t := c.target(n.name, id)
	return effect.Read(ctx, effect.Query{Target: t, Scope: t.String()}, func(ctx context.Context) (string, error) {
		obj, err := n.byName(ctx, cl, id)
		if err != nil {
			return "", err
		}
		return str(obj, "id"), nil
	})
}

// resolveAll resolves a list; nil stays nil.
func (n *noun) resolveAll(ctx context.Context, c *Cloud, cl *client.Client, refs []effect.Reference) ([]any, error) {
	if refs == nil {
		return nil, nil
	}
	out := make([]any, len(refs))
	for i, r := range refs {
		id, err := n.resolve(ctx, c, cl, r)
		if err != nil {
			return nil, err
		}
		if id == "" {
			return nil, fault.New(fault.Invalid, "the %s's id is empty", n.label())
		}
		out[i] = id
	}
	return out, nil
}
