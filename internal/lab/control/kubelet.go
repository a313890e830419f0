package control

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A kubelet plays the scheduler and the kubelet of the one node.
type kubelet struct {
	*engine
	mu        sync.Mutex
	addresses map[types.UID]string
}

func (k *kubelet) register() {
	k.addresses = map[types.UID]string{}
	k.watch("", "v1", "pods", k.pod)
	k.watch("", "v1", "nodes", k.node)
	for _, r := range []schema.GroupResource{services, secrets, configMaps} {
		k.watch(r.Group, "v1", r.Resource, nil)
	}
	k.watch("discovery.k8s.io", "v1", "endpointslices", nil)
}

// join makes the node's object, as a kubelet does when it starts.
func (k *kubelet) join(ctx context.Context) error {
	labels := map[string]any{"kubernetes.io/hostname": k.Node.Name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
	spec := map[string]any{}
	if k.Node.Control {
		labels["node-role.kubernetes.io/control-plane"] = ""
		spec["taints"] = []any{map[string]any{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}}
	}
	node := &object{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": k.Node.Name, "labels": labels},
		"spec":     spec,
	}}
	_, err := k.client.Resource(nodes.WithVersion("v1")).Create(ctx, node, metav1.CreateOptions{FieldManager: manager})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// node keeps the node's status, and its taint, in step with its network.
func (k *kubelet) node(ctx context.Context, o *object) (time.Duration, error) {
	if o.GetName() != k.Node.Name {
		return 0, nil
	}
	ready := k.networkReady()
	tainted := false
	var taints []any
	for _, t := range array(o.Object, "spec", "taints") {
		if t["key"] == "node.kubernetes.io/not-ready" {
			tainted = true
			continue
		}
		taints = append(taints, t)
	}
	if ready && tainted {
		set(o.Object, taints, "spec", "taints")
		if _, err := k.on(nodes, "").Update(ctx, o, metav1.UpdateOptions{FieldManager: manager}); err != nil {
			return 0, err
		}
		return time.Millisecond, nil
	}
	status := map[string]any{
		"addresses": []any{
			map[string]any{"type": "InternalIP", "address": k.Node.Address},
			map[string]any{"type": "Hostname", "address": k.Node.Name},
		},
		"capacity":    map[string]any{"cpu": "4", "memory": "8Gi", "pods": "250"},
		"allocatable": map[string]any{"cpu": "4", "memory": "8Gi", "pods": "250"},
		"nodeInfo": map[string]any{
			"kubeletVersion": k.Node.Version, "kubeProxyVersion": "", "osImage": "Debian GNU/Linux 13 (trixie)", "architecture": "amd64",
			"operatingSystem": "linux", "containerRuntimeVersion": "containerd://2.1.4", "kernelVersion": "6.12.0",
			"machineID": string(o.GetUID()), "systemUUID": string(o.GetUID()), "bootID": string(o.GetUID()),
		},
	}
	for name, value := range status {
		set(o.Object, value, "status", name)
	}
	if ready {
		k.setCondition(o, "Ready", true, "KubeletReady", "kubelet is posting ready status")
	} else {
		k.setCondition(o, "Ready", false, "KubeletNotReady", "container runtime network not ready: cni plugin not initialized")
	}
	if err := k.saveStatus(ctx, nodes, o); err != nil {
		return 0, err
	}
	if !ready {
		return k.Pace.Retry, nil
	}
	return 0, nil
}

// networkReady reports whether a pod that writes the node's CNI configuration runs: every CNI
// plugin's DaemonSet mounts that folder.
func (k *kubelet) networkReady() bool {
	if !k.Node.Network {
		return true
	}
	installers := k.list(pods, "", func(o *object) bool {
		if text(o.Object, "status", "phase") != "Running" {
			return false
		}
		for _, v := range array(o.Object, "spec", "volumes") {
			if text(v, "hostPath", "path") == "/etc/cni/net.d" {
				return true
			}
		}
		return false
	})
	return len(installers) > 0
}

// pod schedules a pod, starts it, ends it.
func (k *kubelet) pod(ctx context.Context, o *object) (time.Duration, error) {
	phase := text(o.Object, "status", "phase")
	if o.GetDeletionTimestamp() != nil {
		if left := k.wait(o, "stop", k.Pace.Stop); left > 0 {
			return left, nil
		}
		now, uid := int64(0), o.GetUID()
		return 0, ignoreNotFound(k.on(pods, o.GetNamespace()).Delete(ctx, o.GetName(),
			metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid}}))
	}
	if phase == "Succeeded" || phase == "Failed" {
		return 0, nil
	}
	if text(o.Object, "spec", "nodeName") == "" {
		return k.schedule(ctx, o)
	}
	if text(o.Object, "spec", "nodeName") != k.Node.Name {
		return 0, nil
	}
	if why := k.blocked(o); why != "" {
		k.containers(o, "ContainerCreating", why)
		k.setCondition(o, "ContainersReady", false, "ContainersNotReady", why)
		k.setCondition(o, "Ready", false, "ContainersNotReady", why)
		return k.Pace.Retry, k.saveStatus(ctx, pods, o)
	}
	if why := crash(o); why != "" {
		k.containers(o, "CrashLoopBackOff", why)
		k.setCondition(o, "ContainersReady", false, "ContainersNotReady", why)
		k.setCondition(o, "Ready", false, "ContainersNotReady", why)
		return k.Pace.Retry, k.saveStatus(ctx, pods, o)
	}
	if r := k.Faults.take(o, Stall, Fail); r != nil {
		reason, message := r.because("ImagePullBackOff", "Back-off pulling image")
		k.containers(o, reason, message)
		k.setCondition(o, "Ready", false, "ContainersNotReady", reason+": "+message)
		return k.Pace.Retry, k.saveStatus(ctx, pods, o)
	}
	if left := k.wait(o, "start", k.Pace.Pod); left > 0 {
		return left, nil
	}
	return k.live(ctx, o)
}

// live reports a started pod as running, or a Job's as done once its time is over.
func (k *kubelet) live(ctx context.Context, o *object) (time.Duration, error) {
	again := time.Duration(0)
	state := "Running"
	if text(o.Object, "spec", "restartPolicy") != "Always" {
		if again = k.wait(o, "finish", k.Pace.Finish); again == 0 {
			state = "Succeeded"
		}
	}
	ready := state == "Running"
	if r := k.Faults.take(o, Flap); r != nil {
		ready, again = !isTrue(o, "Ready"), k.Pace.Pod
	}
	k.containers(o, state, "")
	set(o.Object, state, "status", "phase")
	set(o.Object, k.Node.Address, "status", "hostIP")
	if text(o.Object, "status", "podIP") == "" {
		address := k.address(o)
		set(o.Object, address, "status", "podIP")
		set(o.Object, []any{map[string]any{"ip": address}}, "status", "podIPs")
	}
	if text(o.Object, "status", "startTime") == "" {
		set(o.Object, k.Clock.Now().UTC().Format(time.RFC3339), "status", "startTime")
	}
	reason := ""
	if !ready {
		reason = "ContainersNotReady"
		if state == "Succeeded" {
			reason = "PodCompleted"
		}
	}
	k.setCondition(o, "Initialized", true, "", "")
	k.setCondition(o, "ContainersReady", ready, reason, "")
	k.setCondition(o, "Ready", ready, reason, "")
	return again, k.saveStatus(ctx, pods, o)
}

// containers sets the statuses of a pod's containers: Running, Succeeded, or what they wait for.
func (k *kubelet) containers(o *object, state, message string) {
	started := text(o.Object, "status", "startTime")
	if started == "" {
		started = k.Clock.Now().UTC().Format(time.RFC3339)
	}
	done := map[string]any{"terminated": map[string]any{"exitCode": int64(0), "reason": "Completed", "startedAt": started, "finishedAt": k.Clock.Now().UTC().Format(time.RFC3339)}}
	for field, statuses := range map[string]string{"initContainers": "initContainerStatuses", "containers": "containerStatuses"} {
		old := array(o.Object, "status", statuses)
		var list []any
		for i, c := range array(o.Object, "spec", field) {
			now := map[string]any{"waiting": map[string]any{"reason": state, "message": message}}
			ready := false
			switch {
			case state == "Succeeded" || state == "Running" && field == "initContainers":
				now, ready = done, field == "initContainers"
			case state == "Running":
				now, ready = map[string]any{"running": map[string]any{"startedAt": started}}, true
			}
			// What has ended keeps its time.
			if i < len(old) && now["terminated"] != nil {
				if was := table(old[i], "state"); was["terminated"] != nil {
					now = was
				}
			}
			list = append(list, map[string]any{"name": c["name"], "image": c["image"], "imageID": "", "ready": ready,
				"started": ready, "restartCount": int64(0), "state": now})
		}
		if list != nil {
			set(o.Object, list, "status", statuses)
		}
	}
}

// schedule binds a pod to the node, or says why it can't.
func (k *kubelet) schedule(ctx context.Context, o *object) (time.Duration, error) {
	node, _ := k.get(nodes, "", k.Node.Name)
	why := ""
	if node == nil {
		why = "no nodes available to schedule pods"
	} else {
		why = unfit(o, node)
	}
	if why != "" {
		k.setCondition(o, "PodScheduled", false, "Unschedulable", why)
		return k.Pace.Retry, k.saveStatus(ctx, pods, o)
	}
	binding := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Binding",
		"metadata": map[string]any{"name": o.GetName(), "namespace": o.GetNamespace()},
		"target":   map[string]any{"apiVersion": "v1", "kind": "Node", "name": k.Node.Name},
	}}
	_, err := k.on(pods, o.GetNamespace()).Create(ctx, binding, metav1.CreateOptions{}, "binding")
	return 0, err
}

// unfit says why a pod can't run on node, or "".
func unfit(pod, node *object) string {
	for name, value := range table(pod.Object, "spec", "nodeSelector") {
		if node.GetLabels()[name] != value {
			return "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
		}
	}
	for _, taint := range array(node.Object, "spec", "taints") {
		if taint["effect"] == "PreferNoSchedule" {
			continue
		}
		tolerated := false
		for _, t := range array(pod.Object, "spec", "tolerations") {
			sameKey := t["key"] == taint["key"] || t["key"] == nil && t["operator"] == "Exists"
			sameEffect := t["effect"] == nil || t["effect"] == taint["effect"]
			sameValue := t["operator"] == "Exists" || t["value"] == taint["value"]
			tolerated = tolerated || sameKey && sameEffect && sameValue
		}
		if !tolerated {
			return fmt.Sprintf("0/1 nodes are available: 1 node(s) had untolerated taint {%v}.", taint["key"])
		}
	}
	return ""
}

// blocked says what a scheduled pod still lacks, or "".
func (k *kubelet) blocked(o *object) string {
	if !k.networkReady() {
		if host, _, _ := unstructured.NestedBool(o.Object, "spec", "hostNetwork"); !host {
			return "network is not ready: cni plugin not initialized"
		}
	}
	for _, v := range array(o.Object, "spec", "volumes") {
		if name := text(v, "secret", "secretName"); name != "" && table(v, "secret")["optional"] != true {
			if found, _ := k.get(secrets, o.GetNamespace(), name); found == nil {
				return fmt.Sprintf("MountVolume.SetUp failed for volume %q : secret %q not found", v["name"], name)
			}
		}
		if name := text(v, "configMap", "name"); name != "" && table(v, "configMap")["optional"] != true {
			if found, _ := k.get(configMaps, o.GetNamespace(), name); found == nil {
				return fmt.Sprintf("MountVolume.SetUp failed for volume %q : configmap %q not found", v["name"], name)
			}
		}
	}
	return ""
}

// crash says why a pod's program ends at once, or "": a variable of clusterctl that nobody
// replaced is no value of any flag.
func crash(o *object) string {
	for _, c := range array(o.Object, "spec", "containers") {
		args, _, _ := unstructured.NestedStringSlice(c, "args")
		for _, arg := range args {
			if strings.Contains(arg, "${") {
				return fmt.Sprintf("container %v: invalid argument %q", c["name"], arg)
			}
		}
	}
	return ""
}

// address returns a pod's address: the node's, or one of the pod network that no other has.
func (k *kubelet) address(o *object) string {
	if host, _, _ := unstructured.NestedBool(o.Object, "spec", "hostNetwork"); host {
		return k.Node.Address
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	taken := map[string]bool{}
	living := map[types.UID]bool{}
	for _, p := range k.list(pods, "", all) {
		living[p.GetUID()] = true
		taken[text(p.Object, "status", "podIP")] = true
	}
	for uid, address := range k.addresses {
		if !living[uid] {
			delete(k.addresses, uid)
			continue
		}
		taken[address] = true
	}
	for i := 2; ; i++ {
		address := fmt.Sprintf("10.244.%d.%d", i/256, i%256)
		if !taken[address] {
			k.addresses[o.GetUID()] = address
			return address
		}
	}
}
