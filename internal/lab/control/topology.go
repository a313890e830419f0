package control

import (
	"context"
	"fmt"
	"maps"
)

// classOf returns where a Cluster's ClusterClass is.
func classOf(o *object) (namespace, name string) {
	name = text(o.Object, "spec", "topology", "classRef", "name")
	namespace = text(o.Object, "spec", "topology", "classRef", "namespace")
	if name == "" {
		name = text(o.Object, "spec", "topology", "class") // as v1beta1 has it
	}
	if namespace == "" {
		namespace = o.GetNamespace()
	}
	return namespace, name
}

// topology makes the objects that a Cluster's class describes, and keeps their numbers and
// versions as the topology says. A reason tells what it waits for.
func (p *clusterAPI) topology(ctx context.Context, o *object) (reason, message string, err error) {
	namespace, name := classOf(o)
	class, _ := p.get(clusterClasses, namespace, name)
	if class == nil {
		return "ClusterClassNotReconciled", fmt.Sprintf("ClusterClass %s/%s not found", namespace, name), nil
	}
	given := map[string]any{}
	for _, v := range array(o.Object, "spec", "topology", "variables") {
		given[text(v, "name")] = v["value"]
	}
	for _, v := range array(class.Object, "spec", "variables") {
		if name := text(v, "name"); v["required"] == true && given[name] == nil && table(v, "schema", "openAPIV3Schema")["default"] == nil {
			return "ReconcileFailed", fmt.Sprintf("variable %q is required, but not set in spec.topology.variables", name), nil
		}
	}
	var missing string
	take := func(reference map[string]any) *object {
		template, _ := p.refers(namespace, reference)
		if template == nil && missing == "" {
			missing = fmt.Sprintf("%s %s/%s not found", text(reference, "kind"), namespace, text(reference, "name"))
		}
		return template
	}
	network := take(templateRef(table(class.Object, "spec", "infrastructure")))
	plane := take(templateRef(table(class.Object, "spec", "controlPlane")))
	planeMachine := take(templateRef(table(class.Object, "spec", "controlPlane", "machineInfrastructure")))
	if missing != "" {
		return "ReconcileFailed", "failed to get template: " + missing, nil
	}
	if err := p.topologyNetwork(ctx, o, network); err != nil {
		return "", "", err
	}
	planeObject, err := p.topologyPlane(ctx, o, plane, planeMachine)
	if err != nil {
		return "", "", err
	}
	if planeObject == nil {
		return "ClusterCreating", "the control plane is being created", nil
	}
	// Workers follow once the control plane has the version: an older one can't serve them.
	version := text(o.Object, "spec", "topology", "version")
	settled := text(planeObject.Object, "spec", "version") == version && !isTrue(planeObject, "RollingOut") &&
		number(planeObject.Object, "status", "observedGeneration") == planeObject.GetGeneration()
	if old := text(planeObject.Object, "status", "version"); old != "" && old != version || !settled && old != "" {
		version = old
	}
	missing, err = p.topologyWorkers(ctx, o, class, version)
	if err != nil {
		return "", "", err
	}
	if missing != "" {
		return "ReconcileFailed", missing, nil
	}
	if version != text(o.Object, "spec", "topology", "version") {
		return "ClusterUpgrading", fmt.Sprintf("Cluster is upgrading to %s: workers wait for the control plane", text(o.Object, "spec", "topology", "version")), nil
	}
	return "", "", nil
}

// templateRef returns the reference in a part of a class, in either of its forms.
func templateRef(part map[string]any) map[string]any {
	if r := table(part, "templateRef"); r != nil {
		return r
	}
	return table(part, "ref")
}

// fromTemplate returns a copy of what a template describes.
func fromTemplate(template *object) map[string]any {
	spec := table(template.Object, "spec", "template", "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	return spec
}

func (p *clusterAPI) topologyNetwork(ctx context.Context, o, template *object) error {
	if text(o.Object, "spec", "infrastructureRef", "name") != "" {
		return nil
	}
	network := child(o, o, p.apiVersion(openStackClusters), "OpenStackCluster", o.GetName()+"-"+suffix(o.GetUID(), "network"), fromTemplate(template))
	own(network)
	if err := p.create(ctx, openStackClusters, network); err != nil {
		return err
	}
	set(o.Object, ref(network), "spec", "infrastructureRef")
	return p.merge(ctx, clusters, o, map[string]any{"spec": map[string]any{"infrastructureRef": ref(network)}})
}

func own(o *object) {
	labels := o.GetLabels()
	labels[ownedLabel] = ""
	o.SetLabels(labels)
}

// topologyPlane makes the control plane, or changes it; nil says that it was only just made.
func (p *clusterAPI) topologyPlane(ctx context.Context, o, template, machine *object) (*object, error) {
	replicas := number(o.Object, "spec", "topology", "controlPlane", "replicas")
	if replicas == 0 {
		replicas = 1
	}
	wanted := map[string]any{"replicas": replicas, "version": text(o.Object, "spec", "topology", "version")}
	if after := text(o.Object, "spec", "topology", "controlPlane", "rollout", "after"); after != "" {
		wanted["rollout"] = map[string]any{"after": after}
	}
	if text(o.Object, "spec", "controlPlaneRef", "name") == "" {
		spec := fromTemplate(template)
		maps.Copy(spec, wanted)
		set(spec, ref(machine), "machineTemplate", "spec", "infrastructureRef")
		plane := child(o, o, p.apiVersion(controlPlanes), "KubeadmControlPlane", o.GetName()+"-"+suffix(o.GetUID(), "plane"), spec)
		own(plane)
		if err := p.create(ctx, controlPlanes, plane); err != nil {
			return nil, err
		}
		set(o.Object, ref(plane), "spec", "controlPlaneRef")
		return nil, p.merge(ctx, clusters, o, map[string]any{"spec": map[string]any{"controlPlaneRef": ref(plane)}})
	}
	plane, resource := p.refers(o.GetNamespace(), table(o.Object, "spec", "controlPlaneRef"))
	if plane == nil {
		return nil, nil
	}
	set(wanted, ref(machine), "machineTemplate", "spec", "infrastructureRef")
	if covers(plain(plane.Object["spec"]), plain(wanted)) {
		return plane, nil
	}
	return nil, p.merge(ctx, resource, plane, map[string]any{"spec": wanted})
}

// topologyWorkers makes, changes and deletes the MachineDeployments. It says what is missing.
func (p *clusterAPI) topologyWorkers(ctx context.Context, o, class *object, version string) (string, error) {
	wanted := map[string]bool{}
	for _, md := range array(o.Object, "spec", "topology", "workers", "machineDeployments") {
		name := text(md, "name")
		wanted[name] = true
		var boot, machine *object
		for _, c := range array(class.Object, "spec", "workers", "machineDeployments") {
			if text(c, "class") != text(md, "class") {
				continue
			}
			bootPart, machinePart := table(c, "bootstrap"), table(c, "infrastructure")
			if bootPart == nil {
				bootPart, machinePart = table(c, "template", "bootstrap"), table(c, "template", "infrastructure")
			}
			boot, _ = p.refers(class.GetNamespace(), templateRef(bootPart))
			machine, _ = p.refers(class.GetNamespace(), templateRef(machinePart))
		}
		if boot == nil || machine == nil {
			return fmt.Sprintf("MachineDeployment class %q of topology %q, or one of its templates, not found in ClusterClass %s", text(md, "class"), name, class.GetName()), nil
		}
		if err := p.topologyDeployment(ctx, o, md, boot, machine, version); err != nil {
			return "", err
		}
	}
	for _, md := range p.members(deploymentsOf, o) {
		if name, ok := md.GetLabels()[topologyLabel]; ok && !wanted[name] {
			if err := p.remove(ctx, deploymentsOf, md); err != nil {
				return "", err
			}
		}
	}
	return "", nil
}

func (p *clusterAPI) topologyDeployment(ctx context.Context, o *object, md map[string]any, boot, machine *object, version string) error {
	name := text(md, "name")
	replicas := int64(1)
	if md["replicas"] != nil {
		replicas = number(md, "replicas")
	}
	spec := map[string]any{
		"clusterName": o.GetName(),
		"replicas":    replicas,
		"selector":    map[string]any{"matchLabels": map[string]any{clusterLabel: o.GetName(), topologyLabel: name}},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{clusterLabel: o.GetName(), topologyLabel: name}},
			"spec": map[string]any{
				"clusterName": o.GetName(), "version": version,
				"bootstrap":         map[string]any{"configRef": ref(boot)},
				"infrastructureRef": ref(machine),
			},
		},
	}
	full := o.GetName() + "-" + name + "-" + suffix(o.GetUID(), name)
	stored, _ := p.get(deploymentsOf, o.GetNamespace(), full)
	for _, field := range []string{"deletion", "rollout"} {
		if value := table(md, field); value != nil {
			spec[field] = value
		} else if stored != nil {
			spec[field] = nil // taken away, if it was there
		}
	}
	if stored == nil {
		made := child(o, o, p.apiVersion(deploymentsOf), "MachineDeployment", full, spec)
		own(made)
		labels := made.GetLabels()
		labels[topologyLabel] = name
		made.SetLabels(labels)
		return p.create(ctx, deploymentsOf, made)
	}
	if covers(plain(stored.Object["spec"]), plain(spec)) {
		return nil
	}
	return p.merge(ctx, deploymentsOf, stored, map[string]any{"spec": spec})
}
