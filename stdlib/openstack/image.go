package openstack

import (
	"context"
	"net/http"
	"net/url"
	"slices"
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
	imageSource = "gsrun_source" // the URL that the cloud fetched it from
)

func imageAttrs() []builtin.Attr {
	return []builtin.Attr{
		{Name: "id", Type: "str", Doc: "The id."},
		{Name: "name", Type: "str", Doc: "The name."},
		{Name: "status", Type: "str", Doc: "active once servers can boot from it."},
		{Name: "sha256", Type: "str", Doc: "Digest of the file that this module uploaded; empty for other images."},
		{Name: "sha512", Type: "str", Doc: "Digest of the content as the cloud has made it; empty before there is one."},
		{Name: "checksum", Type: "str", Doc: "MD5 of the content as the cloud has made it; empty before there is one."},
		{Name: "source", Type: "str", Doc: "URL that the cloud fetched it from for this module; empty for other images."},
		{Name: "size", Type: "int", Doc: "Size in bytes."},
		{Name: "disk_format", Type: "str", Doc: "Format of the file."},
		{Name: "container_format", Type: "str", Doc: "Mostly bare."},
		{Name: "min_disk", Type: "int", Doc: "Smallest root disk in GiB."},
		{Name: "min_ram", Type: "int", Doc: "Least memory in MiB."},
		{Name: "visibility", Type: "str", Doc: "public, private, shared or community."},
		{Name: "protected", Type: "bool", Doc: "Whether it can't be deleted."},
		{Name: "hidden", Type: "bool", Doc: "Whether lists leave it out."},
		{Name: "tags", Type: "list[str]", Doc: "Its tags, sorted."},
		{Name: "owner", Type: "str", Doc: "Id of the project that it belongs to."},
		{Name: "created_at", Type: "str", Doc: "When it was made, in UTC: 2026-01-31T12:00:00Z."},
		{Name: "properties", Type: "dict[str, str]", Doc: "Its properties, without what Glance and this module keep there."},
		{Name: "mark", Type: "str", Doc: "The owner mark; empty if it has none."},
	}
}

func imageData(o client.Object) map[string]any {
	sha512 := ""
	if str(o, "os_hash_algo") == "sha512" {
		sha512 = str(o, "os_hash_value")
	}
	return map[string]any{
		"sha512": sha512, "checksum": str(o, "checksum"), "source": str(o, imageSource), "protected": o["protected"] == true, "hidden": o["os_hidden"] == true,
		"tags": tagsAttr().read(o), "owner": str(o, "owner"), "created_at": str(o, "created_at"),
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
		if s, ok := v.(string); ok && !strings.HasPrefix(k, ownMetadata) && !strings.HasPrefix(k, "os_glance_") {
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

type imageArgs struct {
	Name            string                 `star:"name,required" doc:"The name."`
	File            effect.LocalFile       `star:"file" doc:"What artifact.fetch returned. Its digest decides whether it is uploaded."`
	URL             effect.Text            `star:"url" doc:"Where the cloud fetches the image from itself, in place of file; not every cloud does. It is kept with the image. Can't be changed."`
	SHA512          string                 `star:"sha512" doc:"SHA-512 that the content must have, in hex: with url it is compared with what the cloud received. Can't be changed."`
	DiskFormat      string                 `star:"disk_format" doc:"Format of the file: qcow2, raw, vmdk, ... Can't be changed."`
	ContainerFormat string                 `star:"container_format" doc:"Mostly bare. Can't be changed."`
	MinDisk         *int                   `star:"min_disk" doc:"Smallest root disk in GiB."`
	MinRAM          *int                   `star:"min_ram" doc:"Least memory in MiB."`
	Visibility      string                 `star:"visibility" doc:"private, shared, community, or public, which is for administrators. Default: the cloud's."`
	Properties      map[string]effect.Text `star:"properties" secret:"never" doc:"Properties to have, such as hw_machine_type; others stay."`
	Exact           bool                   `star:"exact" doc:"Remove properties, and end sharing, that isn't given."`
	Tags            []effect.Text          `star:"tags" secret:"never" doc:"Its tags; [] removes them."`
	Protected       *bool                  `star:"protected" doc:"Whether it can't be deleted."`
	Hidden          *bool                  `star:"hidden" doc:"Whether lists leave it out, as for a version that is kept for old servers."`
	Shared          []string               `star:"shared_with" doc:"Ids of projects to share it with; others stay. They have to accept it."`
	Timeout         time.Duration          `star:"timeout" doc:"How long the upload may take."`
	Stall           time.Duration          `star:"stall" doc:"How long the cloud may take nothing of an upload."`
	Adopt           effect.Data            `star:"adopt" doc:"True takes over the one of that name that lacks this recipe's mark, if its content is the file's; an id or \"tag:NAME\" the one that has it, whatever its name."`
	Replace         bool                   `star:"replace" doc:"Where the content or what can't be changed differs, delete the image and make it anew."`
}

func imageVerbs() builtin.Noun {
	return builtin.Noun{
		Name: "image", Doc: "A disk that servers boot from.", Identity: builtin.Marked, Attrs: imageAttrs(),
		Verbs: []builtin.Func{
			builtin.Of(builtin.Spec[*Cloud, imageArgs]{
				Name: "ensure",
				Doc: "Make an image be there whose content is the file's, or lies at a URL. A file is uploaded once: its SHA-256 is kept as a property, and what the cloud received is compared with what was sent, " +
					"by size and digest. An upload that broke off is begun anew on the same image, since Glance can't append to one.",
				Returns: "openstack.image",
				Example: "file = artifact.fetch(\"capo-image.qcow2\")\n" +
					`image = cloud.image.ensure("capo-1.37", file = file, disk_format = "qcow2", min_disk = 10)`,
				Effect:   builtin.Changes,
				Errors:   []fault.Kind{fault.Exists, fault.Invalid, fault.NotFound, fault.Untrusted, fault.Quota},
				Defaults: imageArgs{DiskFormat: "qcow2", ContainerFormat: "bare", Timeout: time.Hour, Stall: 2 * time.Minute},
				Run:      ensureImage,
			}),
			imageGet(), imageList(), imageDelete(), imageWait(),
		},
	}
}

func ensureImage(ctx context.Context, c *Cloud, a imageArgs) (any, error) {
	if a.Name == "" {
		return nil, fault.New(fault.Invalid, "the image's name is empty")
	}
	t := c.target("image", a.Name)
	if err := a.check(); err != nil {
		return nil, fault.Wrap("", t.String(), err)
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
	adopt, err := adoptionOf(a.Adopt, "image", true)
	if err != nil {
		return nil, fault.Wrap("", c.target("image", a.Name).String(), err)
	}
	return c.do(ctx, &imageOp{cloud: c, args: a, mark: mark, adopt: adopt})
}

// check refuses what can be known to be wrong without asking.
func (a imageArgs) check() error {
	file := a.File.Path != "" || a.File.SHA256 != ""
	switch {
	case file && !a.URL.Empty():
		return fault.New(fault.Invalid, "file and url exclude each other")
	case !file && a.URL.Empty():
		return fault.Hinted(fault.Invalid, "pass what artifact.fetch returned, or a URL that the cloud fetches it from", "neither file nor url is given")
	case file && (a.File.Path == "" || a.File.SHA256 == ""):
		return fault.Hinted(fault.Invalid, "pass what artifact.fetch returned", "file has no path and digest")
	case a.SHA512 != "" && (len(a.SHA512) != 128 || strings.Trim(strings.ToLower(a.SHA512), "0123456789abcdef") != ""):
		return fault.New(fault.Invalid, "sha512 is no digest of 128 hexadecimal digits")
	case a.Shared != nil && a.Visibility != "" && a.Visibility != "shared":
		return fault.New(fault.Invalid, "an image that is %s can't be shared with projects: visibility has to be shared", a.Visibility)
	case slices.ContainsFunc(a.Tags, effect.Text.Empty):
		return fault.New(fault.Invalid, "one of its tags is empty")
	}
	return nil
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
		Doc:     "Return the images that the project may use, the newest first. Those that are hidden are listed with filters = {\"os_hidden\": \"true\"}. A filter that isn't Glance's own is a property: images that lack it aren't listed.",
		Returns: "list[openstack.image]",
		Example: `names = [i.name for i in cloud.image.list()]`,
		Effect:  builtin.Reads,
		Run: func(ctx context.Context, c *Cloud, a listArgs) (any, error) {
			return readList(ctx, c, "image", func(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
				query := url.Values{}
				for k, v := range a.Filters {
					query.Set(k, v)
				}
				if a.Name != "" {
					query.Set("name", a.Name)
				}
				if len(a.Tags) > 0 {
					query["tag"] = a.Tags
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

func imageWait() builtin.Func {
	return waiter{kind: "image", example: `image = cloud.image.wait("lab-tiny")`, find: imageByName, data: imageData,
		phase: func(o client.Object) phase {
			s := str(o, "status")
			return phase{state: s, ready: s == "active", failed: s == "killed" || s == "deactivated"}
		}}.verb()
}

func imageDelete() builtin.Func {
	return deletion{
		kind: "image", example: "capo-1.37",
		doc:    "Delete the image of that name. That there is none is no error; one that isn't this recipe's is refused.",
		errors: []fault.Kind{fault.Exists, fault.Conflict},
		find: func(ctx context.Context, _ *Cloud, cl *client.Client, a deleteArgs, mark string) (client.Object, error) {
			return findImage(ctx, cl, a.Name, mark, adoption{same: a.Adopt})
		},
		remove: func(ctx context.Context, c *Cloud, cl *client.Client, obj client.Object) error {
			return removeImage(ctx, c, cl, str(obj, "id"))
		},
	}.verb()
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
	switch fault.KindOf(err) {
	case fault.NotFound:
		return nil
	case fault.Denied:
		if strings.Contains(err.Error(), "protected") {
			return &fault.Error{Kind: fault.Denied, Hint: "ensure it with protected = False first", Err: err}
		}
	case fault.Conflict: // Glance says whether volumes or the like use it
		return blamed(err, imageUsers(ctx, cl, id))
	}
	return err
}

// imageUsers names the servers that were made from an image.
func imageUsers(ctx context.Context, cl *client.Client, id string) []string {
	all, err := listServers(ctx, cl, "")
	if err != nil {
		return nil // the first error says what went wrong
	}
	var out []string
	for _, s := range all {
		if m, _ := s["image"].(client.Object); str(m, "id") == id {
			out = append(out, "server "+str(s, "name")+" ("+str(s, "id")+")")
		}
	}
	return out
}
