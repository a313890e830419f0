package control

import (
	"context"
	"time"
)

// machine plays what brings one Machine from Pending to Running, and away again.
func (p *clusterAPI) machine(ctx context.Context, o *object) (time.Duration, error) {
	if !p.running(coreManager) || p.paused(o) {
		return p.Pace.Retry, nil
	}
	cluster := p.clusterOf(o)
	template, _ := p.refers(o.GetNamespace(), table(o.Object, "spec", "infrastructureRef"))
	server, _ := p.get(openStackMachines, o.GetNamespace(), o.GetName())
	if o.GetDeletionTimestamp() != nil {
		set(o.Object, "Deleting", "status", "phase")
		p.setCondition(o, "Ready", false, "Deleting", "Machine deletion in progress")
		if server == nil {
			return 0, p.release(ctx, machines, o, machineFinalizer)
		}
		if err := p.remove(ctx, openStackMachines, server); err != nil {
			return 0, err
		}
		return p.Pace.Retry, p.saveStatus(ctx, machines, o)
	}
	if err := p.hold(ctx, machines, o, machineFinalizer); err != nil {
		return 0, err
	}
	phase, reason, message := p.step(ctx, o, cluster, template, server)
	set(o.Object, phase, "status", "phase")
	set(o.Object, o.GetGeneration(), "status", "observedGeneration")
	ready := phase == "Running" && reason == ""
	p.setCondition(o, "Ready", ready, pick(ready, "Ready", reason), message)
	p.setCondition(o, "Available", ready, pick(ready, "Available", reason), message)
	infrastructure := server != nil && isTrue(server, "Ready")
	p.setCondition(o, "InfrastructureReady", infrastructure, pick(infrastructure, "Ready", "NotReady"), reasonOfServer(server))
	if err := p.saveStatus(ctx, machines, o); err != nil {
		return 0, err
	}
	if id := text(o.Object, "spec", "providerID"); server != nil && id == "" && text(server.Object, "spec", "providerID") != "" {
		return p.Pace.Retry, p.merge(ctx, machines, o, map[string]any{"spec": map[string]any{"providerID": text(server.Object, "spec", "providerID")}})
	}
	if !ready {
		return p.Pace.Retry, nil
	}
	return 0, nil
}

func reasonOfServer(server *object) string {
	if server == nil {
		return "OpenStackMachine does not exist"
	}
	return reasonOf(server, "Ready")
}

// step does the next thing that a Machine needs. It returns the phase, and what is waited for.
func (p *clusterAPI) step(ctx context.Context, o, cluster, template, server *object) (phase, reason, message string) {
	_, plane := o.GetLabels()[planeLabel]
	if text(o.Object, "status", "nodeRef", "name") == "" {
		switch {
		case cluster == nil || table(cluster.Object, "status", "initialization")["infrastructureProvisioned"] != true:
			return "Pending", "WaitingForClusterInfrastructure", "* InfrastructureReady: Waiting for Cluster status.initialization.infrastructureProvisioned to be true"
		case !plane && table(cluster.Object, "status", "initialization")["controlPlaneInitialized"] != true:
			return "Pending", "WaitingForControlPlaneInitialized", "* BootstrapConfigReady: Waiting for Cluster control plane to be initialized"
		case !p.running(bootstrapManager):
			return "Pending", "WaitingForBootstrapData", "* BootstrapConfigReady: Waiting for the bootstrap provider"
		case template == nil && server == nil:
			return "Pending", "TemplateMissing", "* InfrastructureReady: OpenStackMachineTemplate " + text(o.Object, "spec", "infrastructureRef", "name") + " not found"
		}
	}
	if server == nil {
		if text(o.Object, "status", "nodeRef", "name") != "" {
			return "Failed", "InfrastructureDeleted", "OpenStackMachine has been deleted"
		}
		made := child(o, cluster, p.apiVersion(openStackMachines), "OpenStackMachine", o.GetName(), fromTemplate(template))
		if err := p.create(ctx, openStackMachines, made); err != nil {
			return "Pending", "CloneFailed", err.Error()
		}
		return "Provisioning", "NotReady", "* InfrastructureReady: OpenStackMachine is being created"
	}
	if !isTrue(server, "Ready") {
		why := reasonOf(server, "Ready")
		if text(server.Object, "status", "instanceState") == "DELETED" {
			return "Failed", "InstanceDeleted", "* InfrastructureReady: " + why
		}
		if text(o.Object, "status", "nodeRef", "name") != "" {
			return "Running", "NotReady", "* InfrastructureReady: " + why
		}
		return "Provisioning", "NotReady", "* InfrastructureReady: " + why
	}
	if p.wait(o, "join", p.Pace.Join) > 0 {
		return "Provisioned", "NodeNotFound", "* NodeHealthy: Waiting for a Node with spec.providerID " + text(server.Object, "spec", "providerID") + " to exist"
	}
	set(o.Object, true, "status", "initialization", "infrastructureProvisioned")
	set(o.Object, true, "status", "initialization", "bootstrapDataSecretCreated")
	set(o.Object, o.GetName(), "status", "nodeRef", "name")
	if addresses, ok := table(server.Object, "status")["addresses"]; ok {
		set(o.Object, addresses, "status", "addresses")
	}
	return "Running", "", ""
}
