package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The Deployments that run each part of Cluster API.
const (
	coreManager      = "capi-controller-manager"
	planeManager     = "capi-kubeadm-control-plane-controller-manager"
	bootstrapManager = "capi-kubeadm-bootstrap-controller-manager"
	openStackManager = "capo-controller-manager"
	imageManager     = "orc-controller-manager"
)

const (
	planeLabel      = "cluster.x-k8s.io/control-plane"
	deploymentLabel = "cluster.x-k8s.io/deployment-name"
	ownedLabel      = "topology.cluster.x-k8s.io/owned"
	topologyLabel   = "topology.cluster.x-k8s.io/deployment-name"
)

// A clusterAPI plays Cluster API's core, its kubeadm providers and the OpenStack provider.
type clusterAPI struct{ *engine }

func (p *clusterAPI) register() {
	p.watch(clusters.Group, "", clusters.Resource, p.cluster)
	p.watch(deploymentsOf.Group, "", deploymentsOf.Resource, p.machineDeployment)
	p.watch(machines.Group, "", machines.Resource, p.machine)
	p.watch(controlPlanes.Group, "", controlPlanes.Resource, p.controlPlane)
	p.watch(openStackClusters.Group, "", openStackClusters.Resource, p.openStackCluster)
	p.watch(openStackMachines.Group, "", openStackMachines.Resource, p.openStackMachine)
	p.watch(images.Group, "", images.Resource, p.image)
	for _, r := range []schema.GroupResource{clusterClasses, machineTemplates, clusterTemplates, planeTemplates, bootTemplates} {
		p.watch(r.Group, "", r.Resource, nil)
	}
}

// ref returns a reference to an object, as the contract's version of the API has it.
func ref(o *object) map[string]any {
	group, _ := schema.ParseGroupVersion(o.GetAPIVersion())
	return map[string]any{"apiGroup": group.Group, "kind": o.GetKind(), "name": o.GetName()}
}

// refers returns the object that a reference names, in either of its forms, or nil.
func (p *clusterAPI) refers(namespace string, reference map[string]any) (*object, schema.GroupResource) {
	group := text(reference, "apiGroup")
	if group == "" {
		gv, _ := schema.ParseGroupVersion(text(reference, "apiVersion"))
		group = gv.Group
	}
	resource, ok := p.resourceOf(group+"/v1", text(reference, "kind"))
	if !ok {
		return nil, resource
	}
	o, _ := p.get(resource, namespace, text(reference, "name"))
	return o, resource
}

// suffix returns the five letters that end a generated name: the same for the same parts, so that
// a part that is stopped between a create and its record makes nothing twice.
func suffix(parts ...any) string {
	sum := sha256.Sum256(fmt.Append(nil, parts...))
	return hex.EncodeToString(sum[:])[:5]
}

// clusterOf returns the Cluster that o belongs to, or nil.
func (p *clusterAPI) clusterOf(o *object) *object {
	name := o.GetLabels()[clusterLabel]
	if name == "" {
		name = text(o.Object, "spec", "clusterName")
	}
	if name == "" {
		for _, owner := range o.GetOwnerReferences() {
			if owner.Kind == "Cluster" {
				name = owner.Name
			}
		}
	}
	cluster, _ := p.get(clusters, o.GetNamespace(), name)
	return cluster
}

// paused reports whether o or its cluster is to be left alone.
func (p *clusterAPI) paused(o *object) bool {
	if _, ok := o.GetAnnotations()["cluster.x-k8s.io/paused"]; ok {
		return true
	}
	cluster := o
	if o.GetKind() != "Cluster" {
		if cluster = p.clusterOf(o); cluster == nil {
			return false
		}
	}
	return table(cluster.Object, "spec")["paused"] == true
}

// members returns what in a resource belongs to the cluster.
func (p *clusterAPI) members(resource schema.GroupResource, cluster *object) []*object {
	return p.list(resource, cluster.GetNamespace(), func(o *object) bool {
		return o.GetLabels()[clusterLabel] == cluster.GetName()
	})
}

// child makes an object that belongs to owner and its cluster.
func child(owner, cluster *object, apiVersion, kind, name string, spec map[string]any) *object {
	o := &object{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "spec": spec}}
	o.SetNamespace(owner.GetNamespace())
	o.SetName(name)
	o.SetLabels(map[string]string{clusterLabel: cluster.GetName()})
	o.SetOwnerReferences(ownedBy(owner))
	return o
}

// create makes o, and takes what is there already for it.
func (p *clusterAPI) create(ctx context.Context, resource schema.GroupResource, o *object) error {
	client := p.on(resource, o.GetNamespace())
	if client == nil {
		return fmt.Errorf("no definition of %s is established", resource)
	}
	_, err := client.Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
	if err == nil {
		p.Log(fmt.Sprintf("%s %s/%s made", o.GetKind(), o.GetNamespace(), o.GetName()))
	}
	return ignoreExists(err)
}

// image plays the OpenStack resource controller's Image.
func (p *clusterAPI) image(ctx context.Context, o *object) (time.Duration, error) {
	if !p.running(imageManager) || o.GetDeletionTimestamp() != nil {
		return p.Pace.Retry, nil
	}
	if name := text(o.Object, "spec", "cloudCredentialsRef", "secretName"); name != "" {
		if found, _ := p.get(secrets, o.GetNamespace(), name); found == nil {
			p.setCondition(o, "Available", false, "DependencyMissing", "Waiting for Secret/"+name+" to be created")
			p.setCondition(o, "Progressing", true, "Progressing", "Waiting for Secret/"+name+" to be created")
			return p.Pace.Retry, p.saveStatus(ctx, images, o)
		}
	}
	if left := p.wait(o, "upload", p.Pace.Machine); left > 0 {
		return left, nil
	}
	set(o.Object, identifier(o), "status", "id")
	p.setCondition(o, "Available", true, "Success", "OpenStack resource is available")
	p.setCondition(o, "Progressing", false, "Success", "OpenStack resource is up to date")
	return 0, p.saveStatus(ctx, images, o)
}

// addresses is a cloud that only hands out ids and addresses.
type addresses struct {
	mu    sync.Mutex
	taken map[string]int
}

// Ensure gives a machine its UID as an id, and the next free address.
func (a *addresses) Ensure(_ context.Context, m Machine) (id, address string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken == nil {
		a.taken = map[string]int{}
	}
	n, ok := a.taken[m.UID]
	if !ok {
		used := map[int]bool{}
		for _, u := range a.taken {
			used[u] = true
		}
		for n = 10; used[n]; n++ {
		}
		a.taken[m.UID] = n
	}
	return m.UID, fmt.Sprintf("10.6.%d.%d", n/256, n%256), nil
}

// Delete frees the address.
func (a *addresses) Delete(_ context.Context, m Machine) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.taken, m.UID)
	return nil
}
