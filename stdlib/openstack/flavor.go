package openstack

import (
	"context"
	"strings"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func flavorAttrs() []builtin.Attr {
	return []builtin.Attr{
		{Name: "id", Type: "str", Doc: "The id."},
		{Name: "name", Type: "str", Doc: "The name."},
		{Name: "vcpus", Type: "int", Doc: "Virtual processors."},
		{Name: "ram", Type: "int", Doc: "Memory in MiB."},
		{Name: "disk", Type: "int", Doc: "Root disk in GiB; 0 means as large as the image."},
		{Name: "ephemeral", Type: "int", Doc: "Second disk in GiB that goes with the server."},
		{Name: "swap", Type: "int", Doc: "Swap space in MiB."},
		{Name: "public", Type: "bool", Doc: "Whether every project may use it."},
	}
}

func flavorData(o client.Object) map[string]any {
	return map[string]any{"id": o["id"], "name": o["name"], "vcpus": o["vcpus"], "ram": o["ram"], "disk": o["disk"],
		"ephemeral": number(o, "OS-FLV-EXT-DATA:ephemeral"), "swap": sizeOf(o, "swap"), "public": o["os-flavor-access:is_public"]}
}

func listFlavors(ctx context.Context, cl *client.Client) ([]client.Object, error) {
	return cl.List(ctx, client.Call{Service: client.Compute, Version: client.FlavorVersion, Path: "/flavors/detail"}, "flavors")
}

// findFlavor returns the flavor of that name, else of that id.
func findFlavor(ctx context.Context, cl *client.Client, name string) (client.Object, error) {
	all, err := listFlavors(ctx, cl)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, key := range []string{"name", "id"} {
		for _, f := range all {
			if str(f, key) == name {
				return f, nil
			}
			if key == "name" {
				names = append(names, str(f, key))
			}
		}
	}
	hint := "the cloud has: " + joinSome(names)
	if near := builtin.Nearest(name, names); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return nil, fault.Hinted(fault.NotFound, hint, "there is no flavor %q", name)
}

func flavorVerbs() builtin.Noun {
	return builtin.Noun{
		Name: "flavor", Doc: "A size that servers come in. The owner mark of one that a recipe made is its description.", Identity: builtin.NaturalKey, Attrs: flavorAttrs(),
		Verbs: []builtin.Func{
			flavorEnsure(),
			builtin.Of(builtin.Spec[*Cloud, getArgs]{
				Name:    "get",
				Doc:     "Return the flavor of that name or id, or None.",
				Returns: "openstack.flavor or None",
				Example: `small = cloud.flavor.get("m1.small")`,
				Effect:  builtin.Reads,
				Run: func(ctx context.Context, c *Cloud, a getArgs) (any, error) {
					return readOne(ctx, c, "flavor", a.Name, func(ctx context.Context, cl *client.Client) (effect.State, error) {
						f, err := findFlavor(ctx, cl, a.Name)
						if err != nil {
							return effect.State{}, err
						}
						return effect.State{Exists: true, Attrs: flavorData(f)}, nil
					})
				},
			}),
			builtin.Of(builtin.Spec[*Cloud, flavorListArgs]{
				Name:    "list",
				Doc:     "Return the flavors that the project may use and that are large enough.",
				Returns: "list[openstack.flavor]",
				Example: `fits = cloud.flavor.list(vcpus = 2, ram = 4096)`,
				Effect:  builtin.Reads,
				Run: func(ctx context.Context, c *Cloud, a flavorListArgs) (any, error) {
					return readList(ctx, c, "flavor", func(ctx context.Context, cl *client.Client) ([]map[string]any, error) {
						all, err := listFlavors(ctx, cl)
						if err != nil {
							return nil, err
						}
						var out []map[string]any
						for _, f := range all {
							if number(f, "vcpus") >= int64(a.VCPUs) && number(f, "ram") >= int64(a.RAM) && number(f, "disk") >= int64(a.Disk) &&
								strings.Contains(str(f, "name"), a.Name) {
								out = append(out, flavorData(f))
							}
						}
						return out, nil
					})
				},
			}),
			flavorDelete(),
		},
	}
}

type flavorListArgs struct {
	Name  string `star:"name,positional" doc:"Only those whose name contains this."`
	VCPUs int    `star:"vcpus" doc:"At least so many virtual processors."`
	RAM   int    `star:"ram" doc:"At least so much memory, in MiB."`
	Disk  int    `star:"disk" doc:"At least so large a root disk, in GiB."`
}

// number returns a field as a whole number; 0 if it is none.
func number(o client.Object, key string) int64 {
	n, _ := o[key].(int64)
	return n
}
