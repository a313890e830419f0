package control

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// A tracked is one object of an Application: as Git has it, and as it is.
type tracked struct {
	want   *object // nil is one that Git doesn't have any more
	live   *object // nil isn't there
	same   bool    // what is there is what Git has
	client dynamic.ResourceInterface
	id     map[string]any // as status.resources names it
}

// track finds the objects that belong to an Application: those of the commit, and those that an
// earlier one left. missing says which of Git's can't be had: their
// kind is unknown, or their project forbids them.
func (a *argo) track(ctx context.Context, o *object, manifests []*object) (items []tracked, missing []string, err error) {
	seen := map[string]bool{}
	for _, want := range manifests {
		want = want.DeepCopy()
		mapping, err := a.mapping(want.GetAPIVersion(), want.GetKind())
		if err != nil {
			missing = append(missing, fmt.Sprintf("resource mapping not found for %s %q in version %q: ensure CRDs are installed first", want.GetKind(), want.GetName(), want.GetAPIVersion()))
			continue
		}
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace && want.GetNamespace() == "" {
			want.SetNamespace(text(o.Object, "spec", "destination", "namespace"))
		}
		if project, _ := a.get(projects, o.GetNamespace(), text(o.Object, "spec", "project")); project != nil {
			if why := forbidden(project, want, mapping.Scope.Name()); why != "" {
				missing = append(missing, why)
				continue
			}
		}
		gvk := want.GroupVersionKind()
		annotations := want.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[nameAnnotation] = fmt.Sprintf("%s:%s/%s:%s/%s", o.GetName(), gvk.Group, gvk.Kind, want.GetNamespace(), want.GetName())
		want.SetAnnotations(annotations)
		id := map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind, "namespace": want.GetNamespace(), "name": want.GetName()}
		seen[fmt.Sprint(gvk.Group, gvk.Kind, want.GetNamespace(), want.GetName())] = true
		item, err := a.find(ctx, mapping, id, want)
		if err != nil {
			return nil, nil, err
		}
		items = append(items, item)
	}
	for _, r := range array(o.Object, "status", "resources") {
		if seen[fmt.Sprint(text(r, "group"), text(r, "kind"), text(r, "namespace"), text(r, "name"))] {
			continue
		}
		mapping, err := a.mapping(metav1.GroupVersion{Group: text(r, "group"), Version: text(r, "version")}.String(), text(r, "kind"))
		if err != nil {
			continue // its kind is gone, and it with it
		}
		item, err := a.find(ctx, mapping, r, nil)
		if err != nil {
			return nil, nil, err
		}
		// What another Application has taken over isn't ours to prune.
		if item.live != nil && strings.HasPrefix(item.live.GetAnnotations()[nameAnnotation], o.GetName()+":") {
			items = append(items, item)
		}
	}
	slices.SortStableFunc(items, func(x, y tracked) int { return wave(x) - wave(y) })
	return items, missing, nil
}

// wave orders objects: by the wave that they ask for, then namespaces and definitions first.
func wave(t tracked) int {
	if t.want == nil {
		return 1 << 20
	}
	n, err := strconv.Atoi(t.want.GetAnnotations()["argocd.argoproj.io/sync-wave"])
	if err != nil {
		n = 0
	}
	kind := slices.Index([]string{"Namespace", "ServiceAccount", "Secret", "ConfigMap", "CustomResourceDefinition"}, t.want.GetKind())
	if kind < 0 {
		kind = 9
	}
	return n*10 + kind
}

func (a *argo) mapping(apiVersion, kind string) (*meta.RESTMapping, error) {
	gvk := metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
	k := gvk.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(k.GroupKind(), k.Version)
	if meta.IsNoMatchError(err) {
		// Its definition may be newer than what was discovered.
		a.mapper.Reset()
		mapping, err = a.mapper.RESTMapping(k.GroupKind(), k.Version)
	}
	return mapping, err
}

func (a *argo) find(ctx context.Context, mapping *meta.RESTMapping, id map[string]any, want *object) (tracked, error) {
	var client dynamic.ResourceInterface = a.client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		client = a.client.Resource(mapping.Resource).Namespace(text(id, "namespace"))
	}
	item := tracked{want: want, client: client, id: id}
	live, err := client.Get(ctx, text(id, "name"), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return item, nil
	}
	if err != nil {
		return item, err
	}
	item.live = live
	if want == nil {
		return item, nil
	}
	if item.same = covers(plain(live.Object), plain(want.Object)); !item.same {
		// It may be written in another way than it is stored: what applying it would give decides.
		if would, err := item.apply(ctx, metav1.DryRunAll); err == nil {
			item.same = reflect.DeepEqual(timeless(would), timeless(live))
		}
	}
	return item, nil
}

// apply applies what Git has, as Argo CD does with server-side apply.
func (t tracked) apply(ctx context.Context, dryRun ...string) (*object, error) {
	body, err := json.Marshal(t.want.Object)
	if err != nil {
		return nil, err
	}
	force := true
	return t.client.Patch(ctx, t.want.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: appController, Force: &force, DryRun: dryRun})
}

// timeless returns o without what each write changes.
func timeless(o *object) any {
	o = o.DeepCopy()
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	return plain(o.Object)
}

// permitted reports whether a project lets its Applications write to a namespace.
func permitted(project *object, namespace string) bool {
	for _, d := range array(project.Object, "spec", "destinations") {
		if match(text(d, "namespace"), namespace) {
			return true
		}
	}
	return false
}

// forbidden says why an object may not be in an Application of a project, or "".
func forbidden(project, o *object, scope meta.RESTScopeName) string {
	gvk := o.GroupVersionKind()
	if scope == meta.RESTScopeNameNamespace {
		if permitted(project, o.GetNamespace()) {
			return ""
		}
		return fmt.Sprintf("namespace %s is not permitted in project '%s'", o.GetNamespace(), project.GetName())
	}
	for _, allowed := range array(project.Object, "spec", "clusterResourceWhitelist") {
		if matches(text(allowed, "group"), gvk.Group) && matches(text(allowed, "kind"), gvk.Kind) {
			return ""
		}
	}
	return fmt.Sprintf("resource %s:%s is not permitted in project %s", gvk.Group, gvk.Kind, project.GetName())
}

// matches compares as Argo CD's lists do: an empty group is the core group, not any.
func matches(pattern, name string) bool {
	return pattern == name || pattern != "" && match(pattern, name)
}
