package lab

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"git.vanillacore.net/govstack/gsrun/internal/lab/hosts"
)

// addKubernetes adds the objects of a host's Kubernetes, if it has one.
func (w *world) addKubernetes(ctx context.Context, out Snapshot, h hosts.Info) error {
	k := w.clusterOf(h.ID)
	if k == nil {
		return nil
	}
	conf, err := k.api.Control()
	if err != nil {
		return err
	}
	finder, err := discovery.NewDiscoveryClientForConfig(conf)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(conf)
	if err != nil {
		return err
	}
	lists, err := finder.ServerPreferredResources()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || passing[r.Kind] {
				continue
			}
			// All at once: of a kind that is new the server says "in a second".
			group.Go(func() error {
				all, err := client.Resource(gv.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				return out.addObjects("kubernetes/"+h.Name+"/"+schema.GroupKind{Group: gv.Group, Kind: r.Kind}.String(), all.Items)
			})
		}
	}
	return group.Wait()
}

// addObjects adds objects of one kind. Those that controllers made for others,
// under names that they made up, are counted.
func (out Snapshot) addObjects(prefix string, objects []unstructured.Unstructured) error {
	made := 0
	for i := range objects {
		o := &objects[i]
		if !isWished(o) && len(o.GetOwnerReferences()) > 0 {
			made++
			continue
		}
		text, err := json.MarshalIndent(timeless(o), "", " ")
		if err != nil {
			return err
		}
		out[prefix+"/"+o.GetNamespace()+"/"+o.GetName()] = string(text)
	}
	if made > 0 {
		out[prefix] = fmt.Sprintf("%d made by controllers", made)
	}
	return nil
}

// passing are the kinds of what comes and goes by itself, and of what mirrors others.
var passing = map[string]bool{"Event": true, "Lease": true, "EndpointSlice": true, "Endpoints": true, "IPAddress": true, "ControllerRevision": true, "ComponentStatus": true}

// isWished reports whether somebody applied the object.
func isWished(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Operation == metav1.ManagedFieldsOperationApply })
}

// timeless returns what was wished of an object, without what the API server
// and controllers wrote.
func timeless(o *unstructured.Unstructured) any {
	if !isWished(o) {
		return "made by the cluster"
	}
	out := o.DeepCopy().Object
	delete(out, "status")
	out["metadata"] = map[string]any{"labels": o.GetLabels(), "annotations": o.GetAnnotations(), "finalizers": o.GetFinalizers()}
	if data, ok := out["data"].(map[string]any); ok && o.GetKind() == "Secret" {
		for k, v := range data {
			if plain, err := base64.StdEncoding.DecodeString(fmt.Sprint(v)); err == nil {
				if data[k] = string(plain); strings.Contains(string(plain), "-----BEGIN ") && !strings.Contains(string(plain), "OPENSSH") {
					data[k] = "..." // a controller's certificate or key
				}
			}
		}
	}
	return allocated(o, out)
}

// allocated returns v without what the cluster chose: addresses and
// certificates.
func allocated(o *unstructured.Unstructured, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			switch {
			case (k == "caBundle" || k == "clusterIP") && x != "" && x != "None":
				v[k] = "..."
			case k == "clusterIPs" && v["clusterIP"] != "None":
				v[k] = "..."
			case (k == "infrastructureRef" || k == "controlPlaneRef") && o.GetKind() == "Cluster":
				v[k] = "..." // names that Cluster API made up
			default:
				v[k] = allocated(o, x)
			}
		}
	case []any:
		for i := range v {
			v[i] = allocated(o, v[i])
		}
	}
	return v
}
