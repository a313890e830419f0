package control

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

const clusterFinalizer = "cluster.cluster.x-k8s.io"

// cluster plays Cluster API's cluster and topology controllers.
func (p *clusterAPI) cluster(ctx context.Context, o *object) (time.Duration, error) {
	if !p.running(coreManager) {
		return p.Pace.Retry, nil
	}
	if o.GetDeletionTimestamp() != nil {
		return p.deleteCluster(ctx, o)
	}
	if p.paused(o) {
		p.setCondition(o, "Paused", true, "Paused", "Cluster spec.paused is set to true")
		return 0, p.saveStatus(ctx, clusters, o)
	}
	if err := p.hold(ctx, clusters, o, clusterFinalizer); err != nil {
		return 0, err
	}
	if r := p.Faults.take(o, Stall); r != nil {
		return p.Pace.Retry, nil
	}
	p.setCondition(o, "Paused", false, "NotPaused", "")
	waiting := false
	if table(o.Object, "spec", "topology") != nil {
		reason, message, err := p.topology(ctx, o)
		if err != nil {
			return 0, err
		}
		waiting = reason != ""
		if waiting {
			p.setCondition(o, "TopologyReconciled", false, reason, message)
		} else {
			p.setCondition(o, "TopologyReconciled", true, "ReconcileSucceeded", "")
		}
	}
	network, _ := p.refers(o.GetNamespace(), table(o.Object, "spec", "infrastructureRef"))
	plane, _ := p.refers(o.GetNamespace(), table(o.Object, "spec", "controlPlaneRef"))
	if network != nil {
		if err := p.adopt(ctx, openStackClusters, network, o); err != nil {
			return 0, err
		}
		endpoint := table(network.Object, "spec", "controlPlaneEndpoint")
		if text(endpoint, "host") != "" && text(o.Object, "spec", "controlPlaneEndpoint", "host") == "" {
			return time.Millisecond, p.merge(ctx, clusters, o, map[string]any{"spec": map[string]any{"controlPlaneEndpoint": endpoint}})
		}
	}
	if plane != nil {
		if err := p.adopt(ctx, controlPlanes, plane, o); err != nil {
			return 0, err
		}
	}
	if text(o.Object, "spec", "controlPlaneEndpoint", "host") != "" {
		if err := p.kubeconfig(ctx, o); err != nil {
			return 0, err
		}
	}
	p.clusterStatus(o, network, plane)
	if err := p.saveStatus(ctx, clusters, o); err != nil {
		return 0, err
	}
	if waiting || !isTrue(o, "Available") {
		return p.Pace.Retry, nil
	}
	return 0, nil
}

// adopt makes what a user wrote beside a Cluster belong to it.
func (p *clusterAPI) adopt(ctx context.Context, resource schema.GroupResource, o, cluster *object) error {
	if owns(cluster, o) && o.GetLabels()[clusterLabel] == cluster.GetName() {
		return nil
	}
	owned := o.DeepCopy()
	if !owns(cluster, o) {
		owned.SetOwnerReferences(append(owned.GetOwnerReferences(), ownedBy(cluster)...))
	}
	return p.merge(ctx, resource, o, map[string]any{"metadata": map[string]any{
		"labels":          map[string]any{clusterLabel: cluster.GetName()},
		"ownerReferences": owned.GetOwnerReferences(),
	}})
}

// clusterStatus sums up what a cluster consists of.
func (p *clusterAPI) clusterStatus(o, network, plane *object) {
	set(o.Object, o.GetGeneration(), "status", "observedGeneration")
	provisioned, initialized, planeReady := false, false, false
	if network == nil {
		p.setCondition(o, "InfrastructureReady", false, "DoesNotExist", "Waiting for the infrastructure object to be created")
	} else {
		provisioned = table(network.Object, "status")["ready"] == true
		message, reason := "OpenStackCluster status.ready is false", "NotReady"
		if c := condition(network, "Ready"); c != nil {
			message, reason = fmt.Sprint(c["message"]), fmt.Sprint(c["reason"])
		}
		if provisioned {
			message, reason = "", "Ready"
		}
		p.setCondition(o, "InfrastructureReady", provisioned, reason, message)
	}
	if plane != nil {
		initialized = isTrue(plane, "Initialized")
		planeReady = isTrue(plane, "Available")
		set(o.Object, counts(plane), "status", "controlPlane")
	}
	workers := map[string]any{}
	workersReady, rolling, scalingUp, scalingDown := true, plane != nil && isTrue(plane, "RollingOut"), plane != nil && isTrue(plane, "ScalingUp"), plane != nil && isTrue(plane, "ScalingDown")
	for _, md := range p.members(deploymentsOf, o) {
		for name, n := range counts(md) {
			before, _ := workers[name].(int64)
			workers[name] = before + n.(int64)
		}
		workersReady = workersReady && isTrue(md, "Available")
		rolling = rolling || isTrue(md, "RollingOut")
		scalingUp = scalingUp || isTrue(md, "ScalingUp")
		scalingDown = scalingDown || isTrue(md, "ScalingDown")
	}
	if len(workers) > 0 {
		set(o.Object, workers, "status", "workers")
	}
	// Once true, both stay so.
	provisioned = provisioned || table(o.Object, "status", "initialization")["infrastructureProvisioned"] == true
	initialized = initialized || table(o.Object, "status", "initialization")["controlPlaneInitialized"] == true
	set(o.Object, provisioned, "status", "initialization", "infrastructureProvisioned")
	set(o.Object, initialized, "status", "initialization", "controlPlaneInitialized")

	p.setCondition(o, "ControlPlaneInitialized", initialized, pick(initialized, "Initialized", "NotInitialized"), pick(initialized, "", "Control plane not yet initialized"))
	p.setCondition(o, "ControlPlaneAvailable", planeReady, pick(planeReady, "Available", "NotAvailable"), reasonOf(plane, "Available"))
	p.setCondition(o, "WorkersAvailable", workersReady, pick(workersReady, "Available", "NotAvailable"), "")
	p.setCondition(o, "RollingOut", rolling, pick(rolling, "RollingOut", "NotRollingOut"), "")
	p.setCondition(o, "ScalingUp", scalingUp, pick(scalingUp, "ScalingUp", "NotScalingUp"), "")
	p.setCondition(o, "ScalingDown", scalingDown, pick(scalingDown, "ScalingDown", "NotScalingDown"), "")
	p.setCondition(o, "RemoteConnectionProbe", initialized, pick(initialized, "ProbeSucceeded", "ProbeFailed"), "")
	p.setCondition(o, "Deleting", false, "NotDeleting", "")

	message := ""
	topology := condition(o, "TopologyReconciled")
	available := provisioned && isTrue(o, "InfrastructureReady") && planeReady && workersReady && (topology == nil || topology["status"] == "True")
	for _, name := range []string{"TopologyReconciled", "InfrastructureReady", "ControlPlaneAvailable", "WorkersAvailable"} {
		if c := condition(o, name); c != nil && c["status"] != "True" {
			message += fmt.Sprintf("* %s: %v\n", name, c["message"])
		}
	}
	p.setCondition(o, "Available", available, pick(available, "Available", "NotAvailable"), message)
	phase := "Pending"
	switch {
	case provisioned && text(o.Object, "spec", "controlPlaneEndpoint", "host") != "":
		phase = "Provisioned"
	case network != nil:
		phase = "Provisioning"
	}
	set(o.Object, phase, "status", "phase")
}

func pick(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

func reasonOf(o *object, name string) string {
	if o == nil {
		return "Waiting for the control plane object to be created"
	}
	if c := condition(o, name); c != nil {
		return fmt.Sprint(c["message"])
	}
	return ""
}

// counts returns the numbers of machines that a control plane or MachineDeployment reports.
func counts(o *object) map[string]any {
	want := number(o.Object, "spec", "replicas")
	return map[string]any{
		"desiredReplicas": want, "replicas": number(o.Object, "status", "replicas"),
		"readyReplicas":     number(o.Object, "status", "readyReplicas"),
		"availableReplicas": number(o.Object, "status", "availableReplicas"),
		"upToDateReplicas":  number(o.Object, "status", "upToDateReplicas"),
	}
}

// kubeconfig makes the Secrets of a cluster's authority and of its administrator.
func (p *clusterAPI) kubeconfig(ctx context.Context, o *object) error {
	name := o.GetName()
	if found, _ := p.get(secrets, o.GetNamespace(), name+"-kubeconfig"); found != nil {
		return nil
	}
	secret, _ := p.get(secrets, o.GetNamespace(), name+"-ca")
	root := pair{data(secret, "tls.crt"), data(secret, "tls.key")}
	if root.key == nil {
		made, err := sign(p.Clock.Now(), subject{name: "kubernetes", ca: true, lifetime: 10 * 365 * 24 * time.Hour}, nil)
		if err != nil {
			return err
		}
		root = made
		if err := p.putSecret(ctx, o, name+"-ca", map[string][]byte{"tls.crt": root.cert, "tls.key": root.key}); err != nil {
			return err
		}
	}
	client, err := sign(p.Clock.Now(), subject{name: "kubernetes-admin", groups: []string{"system:masters"}, client: true, lifetime: 365 * 24 * time.Hour}, &root)
	if err != nil {
		return err
	}
	encode := base64.StdEncoding.EncodeToString
	config, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": name + "-admin@" + name,
		"clusters": []any{map[string]any{"name": name, "cluster": map[string]any{
			"server":                     fmt.Sprintf("https://%s:%d", text(o.Object, "spec", "controlPlaneEndpoint", "host"), number(o.Object, "spec", "controlPlaneEndpoint", "port")),
			"certificate-authority-data": encode(root.cert)}}},
		"users": []any{map[string]any{"name": name + "-admin", "user": map[string]any{
			"client-certificate-data": encode(client.cert), "client-key-data": encode(client.key)}}},
		"contexts": []any{map[string]any{"name": name + "-admin@" + name, "context": map[string]any{"cluster": name, "user": name + "-admin"}}},
	})
	if err != nil {
		return err
	}
	return p.putSecret(ctx, o, name+"-kubeconfig", map[string][]byte{"value": config})
}

func (p *clusterAPI) putSecret(ctx context.Context, cluster *object, name string, values map[string][]byte) error {
	secret := newSecret(cluster.GetNamespace(), name, "cluster.x-k8s.io/secret", values)
	secret.SetLabels(map[string]string{clusterLabel: cluster.GetName()})
	secret.SetOwnerReferences(ownedBy(cluster))
	return p.create(ctx, secrets, secret)
}

// deleteCluster deletes a cluster's parts in the order in which they need each other, and
// lets the Cluster go when the last is gone.
func (p *clusterAPI) deleteCluster(ctx context.Context, o *object) (time.Duration, error) {
	for _, resource := range []schema.GroupResource{deploymentsOf, machines, controlPlanes, openStackClusters} {
		left := p.members(resource, o)
		if resource == machines {
			// The control plane deletes its own machines: they go after the workers.
			left = nil
			for _, m := range p.members(machines, o) {
				if _, plane := m.GetLabels()[planeLabel]; !plane {
					left = append(left, m)
				}
			}
		}
		for _, m := range left {
			if err := p.remove(ctx, resource, m); err != nil {
				return 0, err
			}
		}
		if len(left) > 0 {
			set(o.Object, "Deleting", "status", "phase")
			message := fmt.Sprintf("* %d %s still exist", len(left), resource.Resource)
			for _, m := range left {
				if why := reasonOf(m, "Ready"); why != "" {
					message += fmt.Sprintf("\n* %s %s: %s", m.GetKind(), m.GetName(), why)
				}
			}
			p.setCondition(o, "Deleting", true, "WaitingForWorkersDeletion", message)
			p.setCondition(o, "Available", false, "NotAvailable", "* Deleting: "+message)
			return p.Pace.Retry, p.saveStatus(ctx, clusters, o)
		}
	}
	return 0, p.release(ctx, clusters, o, clusterFinalizer)
}
