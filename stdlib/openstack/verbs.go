package openstack

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// verbs returns the noun's declaration: ensure, which is given, and get, list
// and delete, which are alike for all of Neutron.
func (n *noun) verbs(doc, example string, ensure builtin.Func) builtin.Noun {
	return builtin.Noun{
		Name: n.name, Doc: doc, Identity: builtin.Marked, Attrs: n.docs(),
		Verbs: []builtin.Func{ensure, n.getVerb(example), n.listVerb(), n.deleteVerb(example)},
	}
}

// login is the beginning of an example.
func (n *noun) login() string {
	if n.admin {
		return "cloud = openstack.connect(\"admin\")\n"
	}
	return ""
}

type getArgs struct {
	Name string `star:"name,required" doc:"The name, or the id."`
}

func (n *noun) getVerb(example string) builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, getArgs]{
		Name:    "get",
		Doc:     "Return the " + n.label() + " of that name or id, or None. Of several with one name, that of the login's own project is meant.",
		Returns: "openstack." + n.name + " or None",
		Example: n.login() + fmt.Sprintf("%s = cloud.%s.get(%q)", n.name, n.name, example),
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, c *Cloud, a getArgs) (any, error) {
			return readOne(ctx, c, n.name, a.Name, func(ctx context.Context, cl *client.Client) (effect.State, error) {
				obj, err := n.byName(ctx, cl, a.Name)
				if err != nil {
					return effect.State{}, err
				}
				if n.expand != nil {
					if err := n.expand(ctx, cl, obj); err != nil {
						return effect.State{}, err
					}
				}
				return effect.State{Exists: true, Attrs: n.data(obj)}, nil
			})
		},
	})
}

// readOne reads one resource through the door; None if ask says NotFound.
func readOne[T any](ctx context.Context, c *Cloud, kind, name string, ask func(context.Context, *client.Client) (T, error)) (any, error) {
	t := c.target(kind, name)
	scope := t.String()
	if isID(name) { // a change names it otherwise
		scope = c.target(kind, "").String()
	}
	v, err := effect.Read(ctx, effect.Query{Target: t, Scope: scope, Absent: true}, func(ctx context.Context) (T, error) {
		cl, err := c.client(ctx)
		if err != nil {
			var none T
			return none, err
		}
		return ask(ctx, cl)
	})
	return v, err
}

type listArgs struct {
	Name    string            `star:"name,positional" doc:"Only those of this name."`
	Mark    string            `star:"mark" doc:"Only those whose owner mark begins so, such as \"gsrun:lab/gateway/\"."`
	Tags    []string          `star:"tags" doc:"Only those that have all of these tags."`
	Filters map[string]string `star:"filters" doc:"Further filters, as the API takes them in its query, such as {\"status\": \"ACTIVE\"}."`
}

// query returns what of a is for the API to filter by.
func (n *noun) query(a listArgs) (url.Values, error) {
	q := url.Values{}
	if err := filters(q, a.Filters, n.label(), n.filterNames()); err != nil {
		return nil, err
	}
	if err := plainTags(a.Tags); err != nil {
		return nil, err
	}
	if a.Name != "" && !n.unnamed {
		q.Set("name", a.Name)
	}
	if len(a.Tags) > 0 {
		if n.tagged == untagged {
			return nil, fault.New(fault.Invalid, "%ss have no tags", n.label())
		}
		q.Set("tags", strings.Join(a.Tags, ","))
	}
	return q, nil
}

func (n *noun) listVerb() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, listArgs]{
		Name:    "list",
		Doc:     "Return the " + n.label() + "s that the login may see, sorted as the cloud gives them.",
		Returns: "list[openstack." + n.name + "]",
		Example: n.login() + fmt.Sprintf("names = [x.name for x in cloud.%s.list()]", n.name),
		Effect:  builtin.Reads,
		Run: func(ctx context.Context, c *Cloud, a listArgs) (any, error) {
			query, err := n.query(a)
			if err != nil {
				return nil, err
			}
			return readList(ctx, c, n.name, func(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
				all, err := n.list(ctx, cl, query)
				if err != nil {
					return nil, err
				}
				var out []map[string]any
				for _, obj := range all {
					if !matches(obj, a) {
						continue
					}
					if n.expand != nil {
						if err := n.expand(ctx, cl, obj); err != nil {
							return nil, err
						}
					}
					out = append(out, n.data(obj))
				}
				return out, nil
			})
		},
	})
}

// matches reports whether a listed resource is among those asked for.
func matches(obj client.Object, a listArgs) bool {
	name, named := obj["name"].(string)
	if !named {
		name = nameInMark(obj)
	}
	return (a.Name == "" || name == a.Name) && strings.HasPrefix(markOf(obj).(string), a.Mark)
}

// readList reads a list through the door and returns it as objects.
func readList(ctx context.Context, c *Cloud, kind string, ask func(context.Context, *client.Client) ([]map[string]any, error)) (any, error) {
	t := c.target(kind, "")
	v, err := effect.Read(ctx, effect.Query{Target: t, Scope: t.String()}, func(ctx context.Context) ([]any, error) {
		cl, err := c.client(ctx)
		if err != nil {
			return nil, err
		}
		all, err := ask(ctx, cl)
		if err != nil {
			return nil, err
		}
		out := make([]any, len(all))
		for i, attrs := range all {
			out[i] = effect.NewObject("openstack."+kind, attrs)
		}
		return out, nil
	})
	return v, err
}

type deleteArgs struct {
	Name   string `star:"name,required" doc:"The name that it was ensured with."`
	Adopt  bool   `star:"adopt" doc:"Delete it even if it lacks this recipe's owner mark."`
	Recipe string `star:"recipe" doc:"Path of the recipe that made it, such as \"spoke\", and whose owner mark it bears. Default: this one."`
}

func (n *noun) deleteVerb(example string) builtin.Func {
	return deletion{
		kind: n.name, login: n.login(), example: example,
		doc:    "Delete the " + n.label() + " of that name and wait until it is gone. That there is none is no error; one that isn't this recipe's is refused.",
		errors: []fault.Kind{fault.Exists, fault.Conflict},
		find: func(ctx context.Context, c *Cloud, cl *client.Client, a deleteArgs, mark string) (client.Object, error) {
			return finder{cloud: c, noun: n, name: a.Name, mark: mark, adopt: adoption{same: a.Adopt}}.find(ctx, cl)
		},
		remove: n.remove,
	}.verb()
}

// A deletion is what the delete verbs of marked resources differ in.
type deletion struct {
	kind, doc      string
	login, example string
	errors         []fault.Kind
	find           func(ctx context.Context, c *Cloud, cl *client.Client, a deleteArgs, mark string) (client.Object, error)
	remove         func(ctx context.Context, c *Cloud, cl *client.Client, obj client.Object) error
}

func (d deletion) verb() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, deleteArgs]{
		Name:    "delete",
		Doc:     d.doc,
		Returns: "None",
		Example: d.login + fmt.Sprintf("cloud.%s.delete(%q)", d.kind, d.example),
		Effect:  builtin.Changes,
		Errors:  d.errors,
		Run: func(ctx context.Context, c *Cloud, a deleteArgs) (any, error) {
			mark, err := markFor(ctx, c, d.kind, a.Name)
			if err != nil {
				return nil, err
			}
			if s := effect.From(ctx); s != nil && a.Recipe != "" {
				owner := s.Owner
				owner.Recipe = a.Recipe
				mark = owner.Mark(a.Name)
			}
			_, err = c.do(ctx, &deleteOp{cloud: c, kind: d.kind, name: a.Name,
				find: func(ctx context.Context, cl *client.Client) (client.Object, error) {
					return d.find(ctx, c, cl, a, mark)
				},
				remove: func(ctx context.Context, cl *client.Client, obj client.Object) error {
					return d.remove(ctx, c, cl, obj)
				}})
			return nil, err
		},
	})
}

// A deleteOp deletes one resource, if it is there.
type deleteOp struct {
	cloud      *Cloud
	kind, name string
	find       func(ctx context.Context, cl *client.Client) (client.Object, error)
	remove     func(ctx context.Context, cl *client.Client, obj client.Object) error
}

// Removes reports that the op only deletes.
func (*deleteOp) Removes() bool { return true }

func (o *deleteOp) Target() effect.Target { return o.cloud.target(o.kind, o.name) }

func (o *deleteOp) Observe(ctx context.Context) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	obj, err := o.find(ctx, cl)
	if err != nil || obj == nil {
		return effect.State{}, adoptMeans(err, "adopt = True deletes it though it is somebody else's: be sure that nobody needs it")
	}
	return effect.State{Exists: true, Attrs: map[string]any{"id": str(obj, "id"), "name": str(obj, "name")}, Raw: obj}, nil
}

func (o *deleteOp) Diff(st effect.State) (effect.Change, error) {
	if !st.Exists {
		return effect.Unchanged(), nil
	}
	return effect.Change{Kind: effect.Delete, Fields: []effect.Field{{Path: "id", Old: st.Attrs["id"]}}, Reach: o.cloud.reach(o.kind)}, nil
}

func (o *deleteOp) Apply(ctx context.Context, c effect.Change) (effect.State, error) {
	cl, err := o.cloud.client(ctx)
	if err != nil {
		return effect.State{}, err
	}
	return effect.State{}, o.remove(ctx, cl, c.Before.Raw.(client.Object))
}

// joinSome names the first few.
func joinSome(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", len(names)-5)
	}
	return strings.Join(names, ", ")
}
