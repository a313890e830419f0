package control_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/control"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
)

var (
	podsAt     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	clustersAt = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}
	machinesAt = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machines"}
)

const spoke = "cluster.x-k8s.io/v1beta2 Cluster default/spoke"

// cloud counts the servers that are asked for.
type cloud struct {
	mu      sync.Mutex
	servers map[string]control.Machine
	most    int
}

func (c *cloud) Ensure(_ context.Context, m control.Machine) (string, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[m.UID] = m
	c.most = max(c.most, len(c.servers))
	return m.UID, "10.6.0.20", nil
}

func (c *cloud) Delete(_ context.Context, m control.Machine) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.servers, m.UID)
	return nil
}

// count returns how many servers there are, and the most that there were since the last call.
func (c *cloud) count() (now, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, most = len(c.servers), c.most
	c.most = now
	return now, most
}

// machines returns the names of the Machines that run, by whether they are of the control plane.
func (l *lab) machines(plane bool) []string {
	list, err := l.client.Resource(machinesAt).Namespace("default").List(l.ctx, metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	var names []string
	for _, m := range list.Items {
		if _, ok := m.GetLabels()["cluster.x-k8s.io/control-plane"]; ok == plane {
			names = append(names, m.GetName())
		}
	}
	return names
}

func (l *lab) patch(text string) {
	l.t.Helper()
	if _, err := l.client.Resource(clustersAt).Namespace("default").Patch(l.ctx, "spoke", types.MergePatchType, []byte(text), metav1.PatchOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

// settled waits until a cluster is available with so many machines of the version, and no more.
func (l *lab) settled(plane, workers int, version string) {
	l.t.Helper()
	l.await(fmt.Sprintf("%d and %d machines at %s", plane, workers, version), func() error {
		o, err := l.get(spoke)
		if err != nil {
			return err
		}
		for _, name := range []string{"Available", "TopologyReconciled"} {
			if got := status(o, name); !strings.HasPrefix(got, "True") {
				return fmt.Errorf("%s is %s", name, got)
			}
		}
		if seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); seen != o.GetGeneration() {
			return errWant
		}
		list, err := l.client.Resource(machinesAt).Namespace("default").List(l.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		have := map[bool]int{}
		for _, m := range list.Items {
			_, p := m.GetLabels()["cluster.x-k8s.io/control-plane"]
			have[p]++
			if got, _, _ := unstructured.NestedString(m.Object, "spec", "version"); got != version {
				return fmt.Errorf("machine %s has version %s", m.GetName(), got)
			}
			if phase, _, _ := unstructured.NestedString(m.Object, "status", "phase"); phase != "Running" {
				return fmt.Errorf("machine %s is %s", m.GetName(), phase)
			}
		}
		if have[true] != plane || have[false] != workers {
			return fmt.Errorf("there are %d and %d machines", have[true], have[false])
		}
		return nil
	})
}

func TestClusterLifecycle(t *testing.T) {
	servers := &cloud{servers: map[string]control.Machine{}}
	l := newLab(t, func(c *control.Config) { c.Servers = servers })
	l.install()

	// Each thing that is missing is named by a condition.
	l.apply(spokeCluster, "")
	l.until(spoke, "TopologyReconciled", "False ClusterClassNotReconciled: ClusterClass default/spoke not found")
	l.apply(spokeClass, "")
	l.until(spoke, "InfrastructureReady", "False OpenStackAuthenticationFailed: Failed to create OpenStack client scope: Secret \"spoke-cloud-config\" not found")
	if now, _ := servers.count(); now != 0 {
		t.Errorf("%d servers without a credential", now)
	}
	start := time.Now()
	l.apply(identity, "")
	l.settled(3, 2, "v1.37.2")
	t.Logf("provisioned %v after its credential came", time.Since(start).Round(time.Millisecond))
	o := l.until(spoke, "ControlPlaneInitialized", "True")
	if phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); phase != "Provisioned" {
		t.Errorf("phase is %q", phase)
	}
	for _, field := range []string{"infrastructureProvisioned", "controlPlaneInitialized"} {
		if done, _, _ := unstructured.NestedBool(o.Object, "status", "initialization", field); !done {
			t.Errorf("status.initialization.%s is false", field)
		}
	}
	secret, err := l.get("v1 Secret default/spoke-kubeconfig")
	if err != nil {
		t.Fatal(err)
	}
	if rest, err := clientcmd.RESTConfigFromKubeConfig(decodeSecret(t, secret, "value")); err != nil || rest.Host != "https://10.6.0.5:6443" {
		t.Errorf("kubeconfig: %v, %v", rest, err)
	}
	servers.count()

	// Scaling, and replacing: the new machine first, the oldest away.
	before := l.machines(false)
	l.patch(`{"spec": {"topology": {"workers": {"machineDeployments": [{"class": "worker", "name": "workers", "replicas": 3, "deletion": {"order": "Oldest"}}]}}}}`)
	l.settled(3, 3, "v1.37.2")
	l.patch(`{"spec": {"topology": {"workers": {"machineDeployments": [{"class": "worker", "name": "workers", "replicas": 1, "deletion": {"order": "Oldest"}}]}}}}`)
	l.settled(3, 1, "v1.37.2")
	if after := l.machines(false); slices.Contains(before, after[0]) {
		t.Errorf("the youngest worker went: %v stayed of %v", after, before)
	}
	l.patch(`{"spec": {"topology": {"controlPlane": {"replicas": 1}}}}`)
	l.settled(1, 1, "v1.37.2")
	old := append(l.machines(true), l.machines(false)...)
	servers.count()
	l.patch(fmt.Sprintf(`{"spec": {"topology": {"controlPlane": {"rollout": {"after": %q}}}}}`, time.Now().Add(2*time.Second).UTC().Format(time.RFC3339)))
	l.await("the rollout of the control plane", func() error {
		if m := l.machines(true); len(m) != 1 || slices.Contains(old, m[0]) {
			return fmt.Errorf("machines %v", m)
		}
		return nil
	})
	l.settled(1, 1, "v1.37.2")
	if _, most := servers.count(); most != 3 {
		t.Errorf("%d servers during the rollout, want the 2 and one more", most)
	}
	l.patch(`{"spec": {"topology": {"version": "v1.38.0"}}}`)
	l.settled(1, 1, "v1.38.0")

	// A lost machine, and one that doesn't boot.
	l.faults.Add(control.Rule{Count: -1, Kind: "OpenStackMachine", Name: "spoke-workers-*", Action: control.Fail, Message: "No valid host was found."})
	l.patch(`{"spec": {"topology": {"workers": {"machineDeployments": [{"class": "worker", "name": "workers", "replicas": 2, "deletion": {"order": "Oldest"}}]}}}}`)
	l.await("the machine that doesn't boot", func() error {
		list, err := l.client.Resource(machinesAt).Namespace("default").List(l.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, m := range list.Items {
			if strings.Contains(status(&m, "Ready"), "No valid host was found.") {
				return nil
			}
		}
		return errWant
	})
	l.until(spoke, "Available", "False")
	l.faults.Clear("")
	l.settled(1, 2, "v1.38.0")
	l.faults.Add(control.Rule{Kind: "OpenStackMachine", Name: "spoke-workers-*", Action: control.Lose, Count: 1})
	l.nudge("openstackmachines", l.machines(false)[0])
	l.until("cluster.x-k8s.io/v1beta2 Machine default/"+l.machines(false)[0], "Ready", "False InstanceDeleted")
	l.until(spoke, "WorkersAvailable", "False")
	// Whoever deletes the Machine gets another.
	l.remove("cluster.x-k8s.io/v1beta2 Machine default/" + l.machines(false)[0])
	l.settled(1, 2, "v1.38.0")

	const image = "apiVersion: openstack.k-orc.cloud/v1alpha1\nkind: Image\nmetadata: {name: node, namespace: default}\nspec: {cloudCredentialsRef: {secretName: %s, cloudName: openstack}}\n"
	l.apply(fmt.Sprintf(image, "nobody"), "")
	l.until("openstack.k-orc.cloud/v1alpha1 Image default/node", "Available", "False DependencyMissing: Waiting for Secret/nobody")
	l.apply(fmt.Sprintf(image, "spoke-cloud-config"), "")
	l.until("openstack.k-orc.cloud/v1alpha1 Image default/node", "Available", "True")

	// Without its credential, a cluster can't be deleted, and says so.
	l.remove("v1 Secret default/spoke-cloud-config")
	l.remove(spoke)
	l.await("the deletion's blocker", func() error {
		o, err := l.get(spoke)
		if err != nil {
			return err
		}
		if got := status(o, "Deleting"); !strings.HasPrefix(got, "True") {
			return fmt.Errorf("Deleting is %s", got)
		}
		list, err := l.client.Resource(schema.GroupVersionResource{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: "openstackmachines"}).List(l.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, m := range list.Items {
			if strings.Contains(status(&m, "Ready"), `Secret "spoke-cloud-config" not found`) {
				return nil
			}
		}
		return errWant
	})
	l.apply(identity, "")
	l.await("the deletion", func() error {
		if _, err := l.get(spoke); !apierrors.IsNotFound(err) {
			return errors.Join(errWant, err)
		}
		return nil
	})
	if now, _ := servers.count(); now != 0 {
		t.Errorf("%d servers are left", now)
	}
}

func (l *lab) remove(id string) {
	l.t.Helper()
	o, err := l.get(id)
	if err != nil {
		l.t.Fatal(err)
	}
	client, err := l.on(o, "")
	if err != nil {
		l.t.Fatal(err)
	}
	if err := client.Delete(l.ctx, o.GetName(), metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
}

func decodeSecret(t *testing.T, secret *unstructured.Unstructured, key string) []byte {
	t.Helper()
	text, _, _ := unstructured.NestedString(secret.Object, "data", key)
	value, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// nudge makes the part that plays an object look at it.
func (l *lab) nudge(resource, name string) {
	l.t.Helper()
	at := schema.GroupVersionResource{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Resource: resource}
	if _, err := l.client.Resource(at).Namespace("default").Patch(l.ctx, name, types.MergePatchType, []byte(`{"metadata": {"annotations": {"test": "nudged"}}}`), metav1.PatchOptions{}); err != nil {
		l.t.Fatal(err)
	}
}
