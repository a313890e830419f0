package kube

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The stages in which objects are applied. What is in one needs what is in the
// ones before it.
const (
	stageGround  = iota // namespaces and CRDs; waited for
	stageCluster        // what belongs to no namespace
	stageConfig         // what workloads are made with
	stageWork           // workloads and custom resources
	stageHooks          // webhooks: from then on every write asks a workload
	stages
)

// clusterScoped reports whether the kind is one of Kubernetes' own whose objects
// are in no namespace. It serves where the cluster can't be asked.
func clusterScoped(k schema.GroupKind) bool {
	var kinds []string
	switch k.Group {
	case "":
		kinds = []string{"Namespace", "Node", "PersistentVolume"}
	case "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "certificates.k8s.io", "flowcontrol.apiserver.k8s.io", "node.k8s.io", "scheduling.k8s.io":
		return true
	case "networking.k8s.io":
		kinds = []string{"IngressClass", "IPAddress", "ServiceCIDR"}
	case "rbac.authorization.k8s.io":
		kinds = []string{"ClusterRole", "ClusterRoleBinding"}
	case "resource.k8s.io":
		kinds = []string{"DeviceClass", "ResourceSlice"}
	case "storage.k8s.io":
		kinds = []string{"StorageClass", "CSIDriver", "CSINode", "VolumeAttachment", "VolumeAttributesClass"}
	}
	return slices.Contains(kinds, k.Kind)
}

var (
	namespaceKind  = schema.GroupKind{Kind: "Namespace"}
	definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	secretKind     = schema.GroupKind{Kind: "Secret"}
)

// stageOf returns the stage in which an object is applied.
func stageOf(kind schema.GroupKind, namespaced bool) int {
	switch {
	case kind == namespaceKind, kind == definitionKind:
		return stageGround
	case kind.Group == "admissionregistration.k8s.io", kind.Group == "apiregistration.k8s.io":
		return stageHooks
	case !namespaced && clusterScoped(kind):
		return stageCluster
	}
	switch kind.Group {
	case "", "policy", "rbac.authorization.k8s.io", "networking.k8s.io":
		switch kind.Kind {
		case "Pod", "ReplicationController", "Ingress":
			return stageWork
		}
		return stageConfig
	}
	return stageWork
}

// inStages returns the items by stage, each in an order that doesn't depend on
// how they were given.
func inStages(items []*item) [stages][]*item {
	var out [stages][]*item
	for _, it := range items {
		s := stageOf(it.kind.GroupKind(), it.kind.Namespaced)
		out[s] = append(out[s], it)
	}
	for _, list := range out {
		slices.SortStableFunc(list, func(a, b *item) int {
			return cmp.Or(cmp.Compare(a.kind.String(), b.kind.String()), cmp.Compare(a.object.GetNamespace(), b.object.GetNamespace()), cmp.Compare(a.object.GetName(), b.object.GetName()))
		})
	}
	return out
}
