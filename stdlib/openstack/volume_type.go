package openstack

import (
	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
)

func volumeTypeNoun() *noun {
	return &noun{
		name: "volume_type", service: client.BlockStorage, plural: "volume_types", path: "/types", whole: true, scans: true,
		attrs: []attr{
			idAttr(), nameAttr(),
			{builtin.Attr{Name: "description", Type: "str", Doc: "What it is good for, as the operators say."}, func(o client.Object) any { return str(o, "description") }},
			{builtin.Attr{Name: "public", Type: "bool", Doc: "Whether every project may use it."}, func(o client.Object) any { return o["is_public"] == true }},
			{builtin.Attr{Name: "extra_specs", Type: "dict[str, str]", Doc: "What it asks of a backend, as far as the login may see it."}, func(o client.Object) any {
				if m, ok := o["extra_specs"].(client.Object); ok {
					return m
				}
				return map[string]any{}
			}},
			{builtin.Attr{Name: "multiattach", Type: "bool", Doc: "Whether several servers may have a volume of this type."}, func(o client.Object) any {
				m, _ := o["extra_specs"].(client.Object)
				return str(m, "multiattach") == "<is> True"
			}},
		},
	}
}

func volumeTypeVerbs() builtin.Noun {
	n := volumeTypeNoun()
	return builtin.Noun{
		Name: n.name, Doc: "A kind of volume that the cloud offers.", Identity: builtin.NaturalKey, Attrs: n.docs(),
		Verbs: []builtin.Func{n.getVerb("fake"), n.listVerb()},
	}
}
