package openstack

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A container is spoken of by headers alone: those of its metadata begin with
// metaPrefix, and one of them is the owner mark.
const (
	metaPrefix    = "X-Container-Meta-"
	containerMark = metaPrefix + "Gsrun-Owner"
	quotaBytes    = metaPrefix + "Quota-Bytes"
	quotaCount    = metaPrefix + "Quota-Count"
	containerKind = "container"
	containerHint = "the cloud may have another object storage: gsrun speaks to Swift, which Ceph's gateway can be too"
)

func containerAttrs() []builtin.Attr {
	return []builtin.Attr{
		{Name: "id", Type: "str", Doc: "Its name, by which the API knows it."},
		{Name: "name", Type: "str", Doc: "The name."},
		{Name: "read_acl", Type: "str", Doc: "Who may read, besides the project; empty for nobody."},
		{Name: "write_acl", Type: "str", Doc: "Who may write, besides the project; empty for nobody."},
		{Name: "metadata", Type: "dict[str, str]", Doc: "Its metadata, keys in lower case, without what this module keeps there."},
		{Name: "versioning", Type: "bool", Doc: "Whether old versions of objects are kept."},
		{Name: "storage_policy", Type: "str", Doc: "Name of the storage policy; empty if the cloud doesn't say."},
		{Name: "quota_bytes", Type: "int", Doc: "How many bytes it may hold; None for no limit."},
		{Name: "quota_count", Type: "int", Doc: "How many objects it may hold; None for no limit."},
		{Name: "bytes", Type: "int", Doc: "How many bytes it holds."},
		{Name: "objects", Type: "int", Doc: "How many objects it holds."},
		{Name: "mark", Type: "str", Doc: "The owner mark; empty if it has none."},
	}
}

func containerPath(name string) string { return "/" + url.PathEscape(name) }

// sendContainer sends a call about a container, or an object of one.
func sendContainer(ctx context.Context, cl *client.Client, call client.Call) (client.Answer, error) {
	call.Service = client.ObjectStorage
	if !cl.Offers(client.ObjectStorage) {
		return client.Answer{}, fault.Hinted(fault.Invalid, containerHint, "cloud %s offers no object storage", cl.Entry().Name)
	}
	return cl.Send(ctx, call)
}

// getContainer returns a container as recipes see it; an error of kind
// NotFound if there is none.
func getContainer(ctx context.Context, cl *client.Client, name string) (map[string]any, error) {
	a, err := sendContainer(ctx, cl, client.Call{Method: http.MethodHead, Path: containerPath(name)})
	if err != nil {
		return nil, err
	}
	number := func(header string) any { return headerNumber(a.Header, header) }
	meta := map[string]any{}
	for k, v := range a.Header {
		if rest, found := strings.CutPrefix(k, metaPrefix); found && k != containerMark && k != client.BucketMark && k != quotaBytes && k != quotaCount {
			meta[strings.ToLower(rest)] = v[0]
		}
	}
	on, _ := strconv.ParseBool(strings.ToLower(a.Header.Get("X-Versions-Enabled"))) // absent is off
	return map[string]any{"id": name, "name": name, "read_acl": a.Header.Get("X-Container-Read"), "write_acl": a.Header.Get("X-Container-Write"),
		"metadata": meta, "versioning": on, "storage_policy": a.Header.Get("X-Storage-Policy"), "quota_bytes": number(quotaBytes), "quota_count": number(quotaCount),
		"bytes": number("X-Container-Bytes-Used"), "objects": number("X-Container-Object-Count"), "mark": a.Header.Get(containerMark)}, nil
}

// headerNumber returns the number in a header, nil if it has none.
func headerNumber(h http.Header, name string) any {
	n, err := strconv.ParseInt(h.Get(name), 10, 64)
	if err != nil {
		return nil
	}
	return n
}

// listNames returns the names in the account, or in a container, of all pages.
func listNames(ctx context.Context, cl *client.Client, path string, query url.Values) ([]string, error) {
	var out []string
	for {
		query.Set("format", "json")
		a, err := sendContainer(ctx, cl, client.Call{Method: http.MethodGet, Path: path, Query: query})
		if err != nil {
			return nil, err
		}
		var page []struct{ Name string }
		if a.Status != http.StatusNoContent {
			if err := json.Unmarshal(a.Body, &page); err != nil {
				return nil, fault.New(fault.Unavailable, "Swift answered GET %s with something that isn't a list", path)
			}
		}
		if len(page) == 0 {
			return out, nil
		}
		for _, x := range page {
			out = append(out, x.Name)
		}
		query.Set("marker", out[len(out)-1])
	}
}

// eachContainer returns what get says of each container, by their names.
func eachContainer(ctx context.Context, cl *client.Client, query url.Values, get func(ctx context.Context, name string) (map[string]any, error)) ([]map[string]any, error) {
	names, err := listNames(ctx, cl, "", query)
	if err != nil {
		return nil, err
	}
	all := make([]map[string]any, len(names)) // a list shows neither metadata nor mark
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, name := range names {
		group.Go(func() error {
			c, err := get(gctx, name)
			if fault.KindOf(err) == fault.NotFound {
				return nil // it went meanwhile
			}
			all[i] = c
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(c map[string]any) bool { return c == nil }), nil
}

// listContainers returns the containers that want takes, by their names.
func listContainers(ctx context.Context, cl *client.Client, query url.Values, want func(map[string]any) bool) ([]map[string]any, error) {
	all, err := eachContainer(ctx, cl, query, func(ctx context.Context, name string) (map[string]any, error) { return getContainer(ctx, cl, name) })
	return slices.DeleteFunc(all, func(c map[string]any) bool { return !want(c) }), err
}

// removeContainer deletes a container; with force its objects before.
func removeContainer(ctx context.Context, cl *client.Client, name string, force bool) error {
	empty := func() error {
		names, err := listNames(ctx, cl, containerPath(name), url.Values{})
		if err != nil {
			return err
		}
		for _, object := range names {
			_, err := sendContainer(ctx, cl, client.Call{Method: http.MethodDelete, Path: containerPath(name) + containerPath(object)})
			if err != nil && fault.KindOf(err) != fault.NotFound {
				return err
			}
		}
		return nil
	}
	return removeHolder("container "+name, force, empty, func() error {
		_, err := sendContainer(ctx, cl, client.Call{Method: http.MethodDelete, Path: containerPath(name)})
		return err
	})
}

// emptyings is how often what holds something is emptied before it is deleted.
const emptyings = 3

// removeHolder deletes what can only be deleted when it is empty; with force it
// is emptied before.
func removeHolder(what string, force bool, empty, remove func() error) error {
	for try := 0; ; try++ {
		if force {
			if err := empty(); err != nil && fault.KindOf(err) != fault.NotFound {
				return err
			}
		}
		err := remove()
		switch k := fault.KindOf(err); {
		case k == fault.NotFound:
			return nil
		case k != fault.Conflict:
			return err
		case !force:
			return fault.Hinted(fault.Exists, "force = True deletes what is in it too", "%s isn't empty: %w", what, err)
		case try == emptyings:
			return err // something goes on writing
		}
	}
}

func containerHolding() holding {
	object := func(c map[string]any) client.Object { return c }
	return holding{kind: containerKind,
		list: func(ctx context.Context, cl *client.Client) ([]client.Object, error) {
			if !cl.Offers(client.ObjectStorage) {
				return nil, nil
			}
			var out []client.Object
			all, err := listContainers(ctx, cl, url.Values{}, func(c map[string]any) bool { return c["mark"] != "" })
			for _, c := range all {
				out = append(out, object(c))
			}
			return out, err
		},
		one: func(ctx context.Context, cl *client.Client, id string) (client.Object, error) {
			return getContainer(ctx, cl, id)
		},
		mark: func(o client.Object) string { return str(o, "mark") },
		remove: func(ctx context.Context, _ *Cloud, cl *client.Client, o client.Object) error {
			return removeContainer(ctx, cl, str(o, "name"), false)
		},
	}
}

type containerArgs struct {
	Name       string                 `star:"name,required" doc:"The name."`
	Read       effect.Text            `star:"read_acl" doc:"Who may read besides the project, such as \".r:*,.rlistings\" (everybody) or \"PROJECT:USER\"; \"none\" is nobody."`
	Write      effect.Text            `star:"write_acl" doc:"Who may write besides the project, such as \"PROJECT:USER\"; \"none\" is nobody."`
	Metadata   map[string]effect.Text `star:"metadata" secret:"never" doc:"Metadata to have; other keys stay, and one of an empty value goes. Case doesn't count in keys."`
	Versioning *bool                  `star:"versioning" doc:"Whether to keep old versions of objects."`
	Policy     effect.Text            `star:"storage_policy" doc:"Name of the storage policy. Can't be changed."`
	Bytes      *int                   `star:"quota_bytes" doc:"How many bytes it may hold; -1 for no limit."`
	Count      *int                   `star:"quota_count" doc:"How many objects it may hold; -1 for no limit."`
	Adopt      bool                   `star:"adopt" doc:"Take over a container of that name that lacks this recipe's mark."`
	Replace    bool                   `star:"replace" doc:"Where what can't be changed differs, delete the container, which must be empty, and make it anew."`
}

type containerDeleteArgs struct {
	Name  string `star:"name,required" doc:"The name that it was ensured with."`
	Force bool   `star:"force" doc:"Delete what is in it too."`
	Adopt bool   `star:"adopt" doc:"Delete it even if it lacks this recipe's owner mark."`
}

type containerListArgs struct {
	Prefix string `star:"prefix,positional" doc:"Only those whose names begin so."`
	Mark   string `star:"mark" doc:"Only those whose owner mark begins so."`
}

func containerVerbs() builtin.Noun {
	return builtin.Noun{
		Name: containerKind, Identity: builtin.Marked, Attrs: containerAttrs(),
		Doc: "A container of Swift's object storage. Where the cloud speaks S3 too, it is the bucket of that name for who has an ec2_credential of the project; the noun bucket makes one by S3.",
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Cloud, containerArgs]{
				Name:    "ensure",
				Doc:     "Make a container be there with the given settings. What isn't given isn't compared.",
				Returns: "openstack.container",
				Example: `box = cloud.container.ensure("backups", metadata = {"purpose": "etcd"}, quota_bytes = 10000000000)`,
				Effect:  builtin.Changes,
				Errors:  []fault.Kind{fault.Exists, fault.Invalid},
				Run: func(ctx context.Context, c *Cloud, a containerArgs) (any, error) {
					op, err := newContainerOp(ctx, c, a)
					if err != nil {
						return nil, err
					}
					return c.do(ctx, op)
				},
			}),
			builtin.Of(builtin.Spec[*Cloud, getArgs]{
				Name:    "get",
				Doc:     "Return the container of that name, or None.",
				Returns: "openstack.container or None",
				Example: `box = cloud.container.get("backups")`,
				Effect:  builtin.Reads,
				Run: func(ctx context.Context, c *Cloud, a getArgs) (any, error) {
					return readOne(ctx, c, containerKind, a.Name, func(ctx context.Context, cl *client.Client) (effect.State, error) {
						attrs, err := getContainer(ctx, cl, a.Name)
						return effect.State{Exists: err == nil, Attrs: attrs}, err
					})
				},
			}),
			builtin.Of(builtin.Spec[*Cloud, containerListArgs]{
				Name:    "list",
				Doc:     "Return the project's containers, sorted by name. It takes a call for each.",
				Returns: "list[openstack.container]",
				Example: `names = [x.name for x in cloud.container.list("back")]`,
				Effect:  builtin.Reads,
				Run: func(ctx context.Context, c *Cloud, a containerListArgs) (any, error) {
					return readList(ctx, c, containerKind, func(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
						query := url.Values{}
						if a.Prefix != "" {
							query.Set("prefix", a.Prefix)
						}
						return listContainers(ctx, cl, query, func(x map[string]any) bool { return strings.HasPrefix(x["mark"].(string), a.Mark) })
					})
				},
			}),
			builtin.Of(builtin.Spec[*Cloud, containerDeleteArgs]{
				Name:    "delete",
				Doc:     "Delete the container of that name. That there is none is no error; one that isn't this recipe's, or isn't empty, is refused.",
				Returns: "None",
				Example: `cloud.container.delete("backups", force = True)`,
				Effect:  builtin.Changes,
				Errors:  []fault.Kind{fault.Exists},
				Run: func(ctx context.Context, c *Cloud, a containerDeleteArgs) (any, error) {
					op, err := newContainerOp(ctx, c, containerArgs{Name: a.Name, Adopt: a.Adopt})
					if err != nil {
						return nil, err
					}
					_, err = c.do(ctx, &deleteOp{cloud: c, kind: containerKind, name: a.Name,
						find: func(ctx context.Context, cl *client.Client) (client.Object, error) { return op.find(ctx, cl) },
						remove: func(ctx context.Context, cl *client.Client, _ client.Object) error {
							return removeContainer(ctx, cl, a.Name, a.Force)
						}})
					return nil, err
				},
			}),
		},
	}
}
