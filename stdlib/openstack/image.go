package openstack

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// The properties of an image that this module sets in the create call: the
// owner mark, and the digest of the file that it is made from.
const (
	imageMark   = "gsrun_mark"
	imageDigest = "gsrun_sha256"
)

func imageAttrs() []builtin.Attr {
	return []builtin.Attr{
		{Name: "id", Type: "str", Doc: "The id."},
		{Name: "name", Type: "str", Doc: "The name."},
		{Name: "status", Type: "str", Doc: "active once servers can boot from it."},
		{Name: "sha256", Type: "str", Doc: "Digest of the file that this module uploaded; empty for other images."},
		{Name: "size", Type: "int", Doc: "Size in bytes."},
		{Name: "disk_format", Type: "str", Doc: "Format of the file."},
		{Name: "container_format", Type: "str", Doc: "Mostly bare."},
		{Name: "min_disk", Type: "int", Doc: "Smallest root disk in GiB."},
		{Name: "min_ram", Type: "int", Doc: "Least memory in MiB."},
		{Name: "visibility", Type: "str", Doc: "public, private, shared or community."},
		{Name: "properties", Type: "dict[str, str]", Doc: "Its properties, without what Glance and this module keep there."},
		{Name: "mark", Type: "str", Doc: "The owner mark; empty if it has none."},
	}
}

func imageData(o client.Object) map[string]any {
	return map[string]any{
		"id": o["id"], "name": o["name"], "status": o["status"], "sha256": str(o, imageDigest), "size": o["size"],
		"disk_format": o["disk_format"], "container_format": o["container_format"], "min_disk": o["min_disk"], "min_ram": o["min_ram"],
		"visibility": o["visibility"], "properties": imageProperties(o), "mark": str(o, imageMark),
	}
}

// imageBase are the fields of an image that are no properties of the user's.
func imageBase() []string {
	return []string{"id", "name", "status", "visibility", "owner", "protected", "os_hidden", "min_disk", "min_ram", "disk_format", "container_format",
		"tags", "created_at", "updated_at", "size", "virtual_size", "checksum", "os_hash_algo", "os_hash_value", "self", "file", "schema", "direct_url", "locations", "stores"}
}

func imageProperties(o client.Object) map[string]any {
	out := map[string]any{}
	for k, v := range o {
		if s, ok := v.(string); ok && !strings.HasPrefix(k, ownMetadata) {
			out[k] = s
		}
	}
	for _, k := range imageBase() {
		delete(out, k)
	}
	return out
}

// imagePage is how many images a page has; Glance's own default is 25.
const imagePage = "200"

func listImages(ctx context.Context, cl *client.Client, query url.Values) ([]client.Object, error) {
	q := url.Values{"limit": {imagePage}}
	for k, v := range query {
		if k == "name" && strings.Contains(v[0], ":") {
			v = []string{"in:" + v[0]} // Glance takes what stands before a colon for an operator
		}
		q[k] = v
	}
	return cl.List(ctx, client.Call{Service: client.Image, Path: "/images", Query: q}, "images")
}

func getImage(ctx context.Context, cl *client.Client, id string) (client.Object, error) {
	return cl.Do(ctx, client.Call{Service: client.Image, Method: http.MethodGet, Path: "/images/" + url.PathEscape(id)})
}

// imageByName returns the one image of that name or id: of the project's own,
// else of the others.
func imageByName(ctx context.Context, cl *client.Client, name string) (client.Object, error) {
	if isID(name) {
		obj, err := getImage(ctx, cl, name)
		if err == nil || fault.KindOf(err) != fault.NotFound {
			return obj, err
		}
	}
	all, err := listImages(ctx, cl, url.Values{"name": {name}})
	if err != nil {
		return nil, err
	}
	var own, other []client.Object
	for _, o := range all {
		switch {
		case str(o, "name") != name:
		case str(o, "owner") == cl.Project():
			own = append(own, o)
		default:
			other = append(other, o)
		}
	}
	if len(own) == 0 {
		own = other
	}
	switch len(own) {
	case 0:
		return nil, fault.New(fault.NotFound, "there is no image called %q", name)
	case 1:
		return own[0], nil
	}
	return nil, fault.Hinted(fault.Invalid, "name the one that is meant by its id", "%d images are called %q: %s", len(own), name, ids(own))
}

// resolveImage returns the id that ref stands for.
func resolveImage(ctx context.Context, c *Cloud, cl *client.Client, ref effect.Reference) (any, error) {
	if !ref.Known() || ref.Name != "" || isID(ref.ID.Reveal()) {
		return ref.ID.Value(), nil
	}
	t := c.target("image", ref.ID.Reveal())
	return effect.Read(ctx, effect.Query{Target: t, Scope: t.String()}, func(ctx context.Context) (string, error) {
		obj, err := imageByName(ctx, cl, ref.ID.Reveal())
		return str(obj, "id"), err
	})
}

type imageArgs struct {
	Name            string                 `star:"name,required" doc:"The name."`
	File            effect.LocalFile       `star:"file,required" doc:"What artifact.fetch returned. Its digest decides whether it is uploaded."`
	DiskFormat      string                 `star:"disk_format" doc:"Format of the file: qcow2, raw, vmdk, ... Can't be changed."`
	ContainerFormat string                 `star:"container_format" doc:"Mostly bare. Can't be changed."`
	MinDisk         *int                   `star:"min_disk" doc:"Smallest root disk in GiB."`
	MinRAM          *int                   `star:"min_ram" doc:"Least memory in MiB."`
	Visibility      string                 `star:"visibility" doc:"private, shared, community, or public, which is for administrators. Default: the cloud's."`
	Properties      map[string]effect.Text `star:"properties" doc:"Properties to have, such as hw_machine_type; others stay."`
	Timeout         time.Duration          `star:"timeout" doc:"How long the upload may take."`
	Adopt           bool                   `star:"adopt" doc:"Take over an image of that name that lacks this recipe's mark, if its content is the file's."`
	Replace         bool                   `star:"replace" doc:"Where the content or what can't be changed differs, delete the image and make it anew."`
}

func imageVerbs() builtin.Noun {
	return builtin.Noun{
		Name: "image", Doc: "A disk that servers boot from.", Identity: builtin.Marked, Attrs: imageAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Cloud, imageArgs]{
				Name: "ensure",
				Doc: "Make an image be there whose content is the file's. It is uploaded once: its SHA-256 is kept as a property, and what the cloud received is compared with what was sent. " +
					"An upload that broke off is begun anew on the same image.",
				Returns: "openstack.image",
				Example: "file = artifact.fetch(\"capo-image.qcow2\")\n" +
					`image = cloud.image.ensure("capo-1.37", file = file, disk_format = "qcow2", min_disk = 10)`,
				Effect:   builtin.Changes,
				Errors:   []fault.Kind{fault.Exists, fault.Invalid, fault.Untrusted, fault.Quota},
				Defaults: imageArgs{DiskFormat: "qcow2", ContainerFormat: "bare", Timeout: time.Hour},
				Run:      ensureImage,
			}),
			imageGet(), imageList(), imageDelete(),
		},
	}
}

func ensureImage(ctx context.Context, c *Cloud, a imageArgs) (any, error) {
	if a.Name == "" {
		return nil, fault.New(fault.Invalid, "the image's name is empty")
	}
	t := c.target("image", a.Name)
	if a.File.Path == "" || a.File.SHA256 == "" {
		return nil, fault.Hinted(fault.Invalid, "pass what artifact.fetch returned", "%s: file has no path and digest", t)
	}
	for k := range a.Properties {
		if strings.HasPrefix(k, ownMetadata) {
			return nil, fault.New(fault.Invalid, "%s: property %s: names that begin with %s are this module's own", t, k, ownMetadata)
		}
	}
	mark, err := markFor(ctx, c, "image", a.Name)
	if err != nil {
		return nil, err
	}
	return c.do(ctx, &imageOp{cloud: c, args: a, mark: mark})
}

func imageGet() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, getArgs]{
		Name:    "get",
		Doc:     "Return the image of that name or id, or None. Of several with one name, that of the login's own project is meant.",
		Returns: "openstack.image or None",
		Example: `image = cloud.image.get("lab-tiny")`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid},
		Run: func(ctx context.Context, c *Cloud, a getArgs) (any, error) {
			return readOne(ctx, c, "image", a.Name, func(ctx context.Context, cl *client.Client) (effect.State, error) {
				obj, err := imageByName(ctx, cl, a.Name)
				if err != nil {
					return effect.State{}, err
				}
				return effect.State{Exists: true, Attrs: imageData(obj)}, nil
			})
		},
	})
}

func imageList() builtin.Func {
	return builtin.Of(builtin.Spec[*Cloud, listArgs]{
		Name:    "list",
		Doc:     "Return the images that the project may use.",
		Returns: "list[openstack.image]",
		Example: `names = [i.name for i in cloud.image.list()]`,
		Effect:  builtin.Reads,
		Run: func(ctx context.Context, c *Cloud, a listArgs) (any, error) {
			return readList(ctx, c, "image", func(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
				query := url.Values{}
				if a.Name != "" {
					query.Set("name", a.Name)
				}
				all, err := listImages(ctx, cl, query)
				if err != nil {
					return nil, err
				}
				var out []map[string]any
				for _, o := range all {
					if strings.HasPrefix(str(o, imageMark), a.Mark) {
						out = append(out, imageData(o))
					}
				}
				return out, nil
			})
		},
	})
}

func imageDelete() builtin.Func {
	return deletion{
		kind: "image", example: "capo-1.37",
		doc:    "Delete the image of that name. That there is none is no error; one that isn't this recipe's is refused.",
		errors: []fault.Kind{fault.Exists, fault.Conflict},
		find: func(ctx context.Context, _ *Cloud, cl *client.Client, a deleteArgs, mark string) (client.Object, error) {
			return findImage(ctx, cl, a.Name, mark, a.Adopt)
		},
		remove: func(ctx context.Context, c *Cloud, cl *client.Client, obj client.Object) error {
			return removeImage(ctx, c, cl, str(obj, "id"))
		},
	}.verb()
}

// findImage returns the image that bears the mark, or with adopt the project's
// own that only has the name; nil if there is neither.
func findImage(ctx context.Context, cl *client.Client, name, mark string, adopt bool) (client.Object, error) {
	owned := func(key, value string) url.Values {
		q := url.Values{key: {value}}
		if cl.Project() != "" {
			q.Set("owner", cl.Project()) // an administrator would see those of all projects
		}
		return q
	}
	all, err := listImages(ctx, cl, owned(imageMark, mark))
	if err != nil {
		return nil, err
	}
	var own, same []client.Object
	for _, o := range all {
		if str(o, imageMark) == mark {
			own = append(own, o)
		}
	}
	switch len(own) {
	case 0:
	case 1:
		return own[0], nil
	default:
		return nil, fault.Hinted(fault.Exists, "delete all but the one that is used", "%d images bear the owner mark %s: %s", len(own), mark, ids(own))
	}
	if all, err = listImages(ctx, cl, owned("name", name)); err != nil {
		return nil, err
	}
	for _, o := range all {
		if str(o, "name") == name {
			// Where foreign looks for a mark, an image has none.
			same = append(same, withMark(o))
		}
	}
	return foreign("image", name, mark, same, adopt)
}

// withMark puts an image's mark where other nouns have it.
func withMark(o client.Object) client.Object {
	if m := str(o, imageMark); m != "" {
		o["description"] = m
	}
	return o
}

func removeImage(ctx context.Context, c *Cloud, cl *client.Client, id string) error {
	_, err := cl.Do(ctx, client.Call{Service: client.Image, Method: http.MethodDelete, Path: "/images/" + id})
	if err == nil {
		err = c.gone(ctx, c.target("image", ""), id, func(ctx context.Context) (string, error) {
			obj, err := getImage(ctx, cl, id)
			if s := str(obj, "status"); s == "deleted" || s == "pending_delete" {
				err = fault.New(fault.NotFound, "it is %s", s)
			}
			return str(obj, "status"), err
		})
	}
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}
