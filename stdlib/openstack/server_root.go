package openstack

import (
	"context"
	"fmt"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// rootVolumeOf returns the id of the volume that a server boots from; "" if it
// boots from its host's disk.
func rootVolumeOf(ctx context.Context, cl *client.Client, obj client.Object) (string, error) {
	volumes := objects(obj, "os-extended-volumes:volumes_attached")
	if _, onHost := obj["image"].(client.Object); onHost || len(volumes) == 0 {
		return "", nil
	}
	if len(volumes) > 1 {
		all, err := listAttachments(ctx, cl, str(obj, "id"), "")
		if err != nil {
			return "", err
		}
		for _, a := range all {
			if diskLetters(str(a, "device")) == "a" {
				return str(a, "volumeId"), nil
			}
		}
	}
	return str(volumes[0], "id"), nil
}

// imageToRebuild returns the id of the image that a server runs, or that its root
// volume was made of.
func imageToRebuild(ctx context.Context, cl *client.Client, obj client.Object) (any, error) {
	if id := serverData(obj)["image"]; id != "" {
		return id, nil
	}
	root, err := rootVolumeOf(ctx, cl, obj)
	if err != nil {
		return nil, err
	}
	volume, err := volumeNoun().byID(ctx, cl, root)
	if err != nil {
		return nil, err
	}
	meta, _ := volume["volume_image_metadata"].(client.Object)
	if meta["image_id"] == nil {
		return nil, fault.Hinted(fault.Invalid, "delete the server and make it anew; its volume stays",
			"server %s (%s) can't be rebuilt: volume %s, which it boots from, was made of no image", str(obj, "name"), str(obj, "id"), root)
	}
	return meta["image_id"], nil
}

// A rootSpec is what a recipe says of the root volume.
type rootSpec struct {
	size   int64
	kind   string
	delete bool
}

// String is the form that the metadata keep.
func (r rootSpec) String() string {
	s := fmt.Sprintf("size=%d delete_on_termination=%t", r.size, r.delete)
	if r.kind != "" {
		s += " type=" + r.kind
	}
	return s
}

func rootVolume(v any) rootSpec {
	m, _ := v.(map[string]any)
	r := rootSpec{delete: true}
	r.size, _ = m["size"].(int64)
	r.kind, _ = m["type"].(string)
	if d, given := m["delete_on_termination"].(bool); given {
		r.delete = d
	}
	return r
}

// checkRootVolume refuses what is no description of a root volume.
func checkRootVolume(target string, v any) error {
	if v == nil {
		return nil
	}
	m, isDict := v.(map[string]any)
	bad := func(text string) error {
		return fault.Hinted(fault.Invalid, `such as {"size": 20, "type": "ssd", "delete_on_termination": False}`, "%s: root_volume %s", target, text)
	}
	if !isDict {
		return bad("is no dict")
	}
	for k, x := range m {
		right := false
		switch k {
		case "size":
			n, isInt := x.(int64)
			right = isInt && n > 0
		case "type":
			_, right = x.(string)
		case "delete_on_termination":
			_, right = x.(bool)
		default:
			return bad("has no member " + k)
		}
		if !right {
			return bad(fmt.Sprintf("has %v as its %s", x, k))
		}
	}
	if m["size"] == nil {
		return bad("has no size")
	}
	return nil
}
