package kube

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// ownerAnnotation carries the owner mark of what a recipe applied.
const ownerAnnotation = "gsrun.dev/owner"

// An item is an object to apply.
type item struct {
	origin  string             // where the recipe gave it, for messages
	object  *kubeclient.Object // with secrets revealed, and Unknown leaves in it
	kind    kubeclient.Kind    // guessed if it isn't served
	served  bool
	unknown bool     // something in it isn't known yet
	secrets []string // the secret texts in it
	hidden  bool     // all of it is secret
	owner   string
}

// items returns the objects that an apply was given, and the origins of those
// that can't be told yet. Errors are of kind Invalid.
func items(ctx context.Context, a applyArgs) (list []*item, later []string, err error) {
	if list, later, err = given(a.Objects.V); err != nil {
		return nil, nil, err
	}
	if !a.Manifests.Known() {
		later = append(later, "manifests")
	} else if !a.Manifests.Empty() {
		found, err := kubeclient.ParseManifests(a.Manifests.Reveal())
		if err != nil {
			return nil, nil, err
		}
		for _, m := range found {
			list = append(list, &item{origin: m.Origin, object: m.Object, hidden: a.Manifests.IsSecret()})
		}
	}
	for _, it := range list {
		it.tidy()
		it.owner = effect.Mark(ctx, it.object.GetName())
		annotate(it.object, ownerAnnotation, it.owner)
	}
	return list, later, nil
}

// given returns the objects of the argument `objects`.
func given(v any) (list []*item, later []string, err error) {
	var elements []any
	switch v := v.(type) {
	case nil:
		return nil, nil, nil
	case effect.Unknown:
		return nil, []string{"objects"}, nil
	case []any:
		elements = v
	case map[string]any:
		elements = []any{v}
	default:
		return nil, nil, fault.New(fault.Invalid, "argument objects: got %T, want a list of dicts", v)
	}
	for i, e := range elements {
		found, open, err := one(e, fmt.Sprintf("objects[%d]", i))
		if err != nil {
			return nil, nil, err
		}
		list, later = append(list, found...), append(later, open...)
	}
	return list, later, nil
}

// one returns the object that an element is, or those of the List that it is.
func one(e any, origin string) (list []*item, later []string, err error) {
	if nested, ok := e.([]any); ok {
		return nil, nil, fault.Hinted(fault.Invalid, "join lists with +", "%s is a list of %d elements, not an object", origin, len(nested))
	}
	m, ok := e.(map[string]any)
	if !ok {
		if isUnknown(e) {
			return nil, []string{origin}, nil
		}
		return nil, nil, fault.New(fault.Invalid, "%s: it is a %T, not an object", origin, e)
	}
	if items, ok := m["items"].([]any); ok {
		if kind, _ := m["kind"].(string); strings.HasSuffix(kind, "List") {
			for i, e := range items {
				found, open, err := one(e, fmt.Sprintf("%s, items[%d]", origin, i))
				if err != nil {
					return nil, nil, err
				}
				list, later = append(list, found...), append(later, open...)
			}
			return list, later, nil
		}
	}
	for _, v := range identity(m) {
		if isUnknown(v) {
			return nil, []string{origin}, nil
		}
		if _, ok := v.(*effect.Secret); ok {
			return nil, nil, fault.New(fault.Invalid, "%s: neither kind nor name can be secret: plans and journals show them", origin)
		}
	}
	r := revealing{}
	data, err := r.reveal(m, "")
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", origin, err)
	}
	found, err := kubeclient.Flatten(data, origin)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range found {
		list = append(list, &item{origin: m.Origin, object: m.Object, secrets: r.secrets, unknown: r.unknown})
	}
	return list, nil, nil
}

// identity returns the values that say which object m is.
func identity(m map[string]any) []any {
	out := []any{m["apiVersion"], m["kind"], m["metadata"], m["items"]}
	if meta, ok := m["metadata"].(map[string]any); ok {
		out = append(out, meta["name"], meta["namespace"])
	}
	return out
}

func isUnknown(v any) bool {
	_, ok := v.(effect.Unknown)
	return ok
}

// revealing makes the data of a recipe into what is sent to the API server, but
// for Unknowns, which stay.
type revealing struct {
	secrets []string
	unknown bool
}

func (r *revealing) reveal(v any, path string) (any, error) {
	switch v := v.(type) {
	case *effect.Secret:
		r.secrets = append(r.secrets, v.Reveal())
		return v.Reveal(), nil
	case effect.Unknown:
		r.unknown = true
		return v, nil
	case []byte:
		return base64.StdEncoding.EncodeToString(v), nil
	case *big.Int:
		return nil, fault.New(fault.Invalid, "%s: %s is too large a number", path, v)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			x, err := r.reveal(e, path+"."+k)
			if err != nil {
				return nil, err
			}
			out[k] = x
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			x, err := r.reveal(e, fmt.Sprintf("%s[%d]", path, i))
			if err != nil {
				return nil, err
			}
			out[i] = x
		}
		return out, nil
	}
	return v, nil
}

// tidy brings the object into one form, and removes what manifests carry by
// habit and what isn't anybody's wish: an empty status and creation time, and the placeholder that generators put where
// a certificate authority is injected later. To apply the placeholder would be
// to fight with the injector.
func (it *item) tidy() {
	delete(it.object.Object, "status")
	if meta, ok := it.object.Object["metadata"].(map[string]any); ok && meta["creationTimestamp"] == nil {
		delete(meta, "creationTimestamp")
	}
	switch it.object.GetKind() {
	case "Secret":
		it.encode()
	case "CustomResourceDefinition", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService":
		dropPlaceholders(it.object.Object)
	}
}

// encode turns the stringData of a Secret into data, as the API server would:
// of what it turns itself it doesn't remember who set it.
func (it *item) encode() {
	plain, ok := it.object.Object["stringData"].(map[string]any)
	if it.object.GetAPIVersion() != "v1" || !ok {
		return
	}
	held, ok := it.object.Object["data"].(map[string]any)
	if !ok {
		held = make(map[string]any, len(plain))
		it.object.Object["data"] = held
	}
	for k, v := range plain {
		if text, ok := v.(string); ok {
			v = base64.StdEncoding.EncodeToString([]byte(text))
		}
		held[k] = v
	}
	delete(it.object.Object, "stringData")
}

func dropPlaceholders(v any) {
	switch v := v.(type) {
	case map[string]any:
		if ca, ok := v["caBundle"].(string); ok && (ca == "" || ca == "Cg==") {
			delete(v, "caBundle")
		}
		for k, e := range v {
			if k != "openAPIV3Schema" {
				dropPlaceholders(e)
			}
		}
	case []any:
		for _, e := range v {
			dropPlaceholders(e)
		}
	}
}

// annotate sets an annotation without touching others, whose values may be not
// known yet.
func annotate(o *kubeclient.Object, key, value string) {
	meta := o.Object["metadata"].(map[string]any) // there is a name in it
	notes, ok := meta["annotations"].(map[string]any)
	if !ok {
		notes = make(map[string]any, 1)
		meta["annotations"] = notes
	}
	notes[key] = value
}

// place resolves the items' kinds and namespaces. What the cluster doesn't serve
// yet is placed as well as can be told.
func (c *Cluster) place(ctx context.Context, list []*item, namespace string) error {
	for _, it := range list {
		if gk := it.object.GroupVersionKind().GroupKind(); gk == definitionKind {
			if made, namespaced, ok := definedKind(it.object); ok {
				c.kube.expect(c.name, made.GroupKind(), namespaced)
			}
		}
	}
	missing := make(map[schema.GroupVersionKind]bool)
	for _, it := range list {
		gvk := it.object.GroupVersionKind()
		it.kind = kubeclient.Kind{GroupVersionKind: gvk, Namespaced: c.kube.expected(c.name, gvk.GroupKind())}
		if c.known() && !missing[gvk] {
			client, err := c.client()
			if err != nil {
				return err
			}
			found, err := effect.Read(ctx, effect.Query{Target: c.target("kinds", "", gvk.GroupVersion().String()), Absent: true}, func(ctx context.Context) (kubeclient.Kind, error) {
				return client.Kind(ctx, gvk)
			})
			if err != nil {
				return err
			}
			if k, ok := found.(kubeclient.Kind); ok {
				it.kind, it.served = k, true
			} else {
				missing[gvk] = true
			}
		}
		if it.kind.Namespaced && it.object.GetNamespace() == "" {
			it.object.SetNamespace(within(it.kind, namespace))
		}
	}
	return unique(list)
}

// definedKind returns the kind that a CustomResourceDefinition makes.
func definedKind(o *kubeclient.Object) (kind schema.GroupVersionKind, namespaced, ok bool) {
	spec, _ := o.Object["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	group, _ := spec["group"].(string)
	name, _ := names["kind"].(string)
	scope, _ := spec["scope"].(string)
	version := ""
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		m, _ := v.(map[string]any)
		if served, _ := m["served"].(bool); served {
			version, _ = m["name"].(string)
			break
		}
	}
	return schema.GroupVersionKind{Group: group, Version: version, Kind: name}, scope != "Cluster", group != "" && name != "" && version != ""
}

// unique refuses two objects that are the same one.
func unique(list []*item) error {
	first := make(map[string]*item, len(list))
	for _, it := range list {
		key := it.String()
		if other, ok := first[key]; ok {
			return fault.Hinted(fault.Invalid, "leave one of them out", "%s is given twice: as %s and as %s", key, other.origin, it.origin)
		}
		first[key] = it
	}
	return nil
}

// String names the object: "Deployment.apps web/api".
func (it *item) String() string {
	return it.kind.String() + " " + strings.TrimPrefix(it.object.GetNamespace()+"/"+it.object.GetName(), "/")
}

// attrs returns the object's attributes as a recipe gets them.
func (it *item) attrs(uid any) map[string]any {
	return map[string]any{
		"api_version": it.object.GetAPIVersion(),
		"kind":        it.object.GetKind(),
		"namespace":   it.object.GetNamespace(),
		"name":        it.object.GetName(),
		"uid":         uid,
	}
}
