package control

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
)

const (
	networkFinalizer = "openstackcluster.infrastructure.cluster.x-k8s.io"
	serverFinalizer  = "openstackmachine.infrastructure.cluster.x-k8s.io"
)

// identifier returns an id as OpenStack's are, the same each time for one object.
func identifier(o *object, parts ...any) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append([]byte(o.GetUID()), parts...)).String()
}

// identity says why the provider can't log in, or "". Its names are those of the provider.
func (p *clusterAPI) identity(o *object) string {
	reference := table(o.Object, "spec", "identityRef")
	if reference == nil {
		if cluster := p.clusterOf(o); cluster != nil {
			if network, _ := p.refers(o.GetNamespace(), table(cluster.Object, "spec", "infrastructureRef")); network != nil {
				reference = table(network.Object, "spec", "identityRef")
			}
		}
	}
	name := text(reference, "name")
	secret, _ := p.get(secrets, o.GetNamespace(), name)
	if secret == nil {
		return fmt.Sprintf("Failed to create OpenStack client scope: Secret %q not found", name)
	}
	if data(secret, "clouds.yaml") == nil {
		return fmt.Sprintf("Failed to create OpenStack client scope: secret %q has no key clouds.yaml", name)
	}
	return ""
}

// openStackCluster gives a cluster its network and its API address.
func (p *clusterAPI) openStackCluster(ctx context.Context, o *object) (time.Duration, error) {
	if !p.running(openStackManager) || p.paused(o) {
		return p.Pace.Retry, nil
	}
	cluster := p.clusterOf(o)
	if cluster == nil && o.GetDeletionTimestamp() == nil {
		return p.Pace.Retry, nil // the provider waits for the owner
	}
	if o.GetDeletionTimestamp() == nil {
		if err := p.hold(ctx, openStackClusters, o, networkFinalizer); err != nil {
			return 0, err
		}
	}
	if why := p.identity(o); why != "" {
		p.setCondition(o, "OpenStackAuthenticationSucceeded", false, "OpenStackAuthenticationFailed", why)
		p.setCondition(o, "Ready", false, "OpenStackAuthenticationFailed", why)
		return p.Pace.Retry, p.saveStatus(ctx, openStackClusters, o)
	}
	p.setCondition(o, "OpenStackAuthenticationSucceeded", true, "Succeeded", "")
	if o.GetDeletionTimestamp() != nil {
		if left := p.wait(o, "delete", p.Pace.Delete); left > 0 {
			return left, nil
		}
		return 0, p.release(ctx, openStackClusters, o, networkFinalizer)
	}
	if r := p.Faults.take(o, Stall, Fail); r != nil {
		reason, message := r.because("NetworkCreateFailed", "waiting for the network")
		p.setCondition(o, "NetworkReady", false, reason, message)
		p.setCondition(o, "Ready", false, reason, message)
		return p.Pace.Retry, p.saveStatus(ctx, openStackClusters, o)
	}
	if left := p.wait(o, "network", p.Pace.Network); left > 0 {
		return left, nil
	}
	if text(o.Object, "spec", "controlPlaneEndpoint", "host") == "" {
		host := text(o.Object, "spec", "apiServerFloatingIP")
		if host == "" {
			host = text(o.Object, "spec", "apiServerFixedIP")
		}
		if host == "" {
			host = "10.6.0.5"
		}
		return p.Pace.Retry, p.merge(ctx, openStackClusters, o, map[string]any{"spec": map[string]any{"controlPlaneEndpoint": map[string]any{"host": host, "port": int64(6443)}}})
	}
	set(o.Object, true, "status", "ready")
	set(o.Object, true, "status", "initialization", "provisioned")
	set(o.Object, map[string]any{"id": identifier(o, "network"), "name": "k8s-clusterapi-cluster-" + o.GetNamespace() + "-" + cluster.GetName()}, "status", "network")
	for _, name := range []string{"NetworkReady", "RouterReady", "SecurityGroupsReady", "APIEndpointReady", "Ready"} {
		p.setCondition(o, name, true, "Succeeded", "")
	}
	return 0, p.saveStatus(ctx, openStackClusters, o)
}

// openStackMachine boots and deletes one server.
func (p *clusterAPI) openStackMachine(ctx context.Context, o *object) (time.Duration, error) {
	if !p.running(openStackManager) || p.paused(o) {
		return p.Pace.Retry, nil
	}
	m := Machine{UID: identifier(o), Namespace: o.GetNamespace(), Name: o.GetName(),
		Cluster: o.GetLabels()[clusterLabel], Flavor: text(o.Object, "spec", "flavor")}
	if o.GetDeletionTimestamp() == nil {
		if err := p.hold(ctx, openStackMachines, o, serverFinalizer); err != nil {
			return 0, err
		}
	}
	failed := func(reason, message string) (time.Duration, error) {
		set(o.Object, false, "status", "ready")
		p.setCondition(o, "InstanceReady", false, reason, message)
		p.setCondition(o, "Ready", false, reason, message)
		return p.Pace.Retry, p.saveStatus(ctx, openStackMachines, o)
	}
	if why := p.identity(o); why != "" {
		return failed("OpenStackError", why)
	}
	if o.GetDeletionTimestamp() != nil {
		if left := p.wait(o, "delete", p.Pace.Delete); left > 0 {
			return left, nil
		}
		if err := p.Servers.Delete(ctx, m); err != nil {
			return failed("InstanceDeleteFailed", err.Error())
		}
		return 0, p.release(ctx, openStackMachines, o, serverFinalizer)
	}
	if r := p.Faults.take(o, Lose); r != nil {
		set(o.Object, "DELETED", "status", "instanceState")
	}
	if text(o.Object, "status", "instanceState") == "DELETED" {
		_, err := failed("InstanceDeleted", "The server was unexpectedly deleted")
		return 0, err
	}
	if r := p.Faults.take(o, Stall, Fail); r != nil {
		if r.Action == Fail {
			set(o.Object, "ERROR", "status", "instanceState")
			return failed(r.because("InstanceStateError", "No valid host was found."))
		}
		set(o.Object, "BUILD", "status", "instanceState")
		return failed(r.because("InstanceNotReady", "Instance state is BUILD"))
	}
	id, address, err := p.Servers.Ensure(ctx, m)
	if err != nil {
		return failed("InstanceCreateFailed", err.Error())
	}
	if left := p.wait(o, "boot", p.Pace.Machine); left > 0 {
		set(o.Object, "BUILD", "status", "instanceState")
		_, err := failed("InstanceNotReady", "Instance state is BUILD")
		return left, err
	}
	if text(o.Object, "spec", "providerID") == "" {
		return p.Pace.Retry, p.merge(ctx, openStackMachines, o, map[string]any{"spec": map[string]any{"providerID": "openstack://" + text(o.Object, "spec", "identityRef", "region") + "/" + id}})
	}
	ready := true
	again := time.Duration(0)
	if r := p.Faults.take(o, Flap); r != nil {
		ready, again = !isTrue(o, "Ready"), p.Pace.Machine
	}
	set(o.Object, ready, "status", "ready")
	set(o.Object, true, "status", "initialization", "provisioned")
	set(o.Object, "ACTIVE", "status", "instanceState")
	set(o.Object, []any{map[string]any{"type": "InternalIP", "address": address}}, "status", "addresses")
	p.setCondition(o, "InstanceReady", ready, "Succeeded", "")
	p.setCondition(o, "Ready", ready, "Succeeded", "")
	return again, p.saveStatus(ctx, openStackMachines, o)
}
