package mirror

import "strings"

// A provider is a component of Cluster API: a manager with webhooks, in its own namespace.
type provider struct {
	label    string // of clusterctl: cluster.x-k8s.io/provider
	prefix   string // of all names
	image    string
	groups   []string // that its manager works on
	args     []any
	kinds    []definition
	hooked   []string // plural names of the kinds that webhooks look at
	defaults []string // of those that they change
	versions []string // of its kinds
}

// objects returns what a provider's components file holds.
func (p provider) objects() []manifest {
	ns := p.prefix + "-system"
	labels := map[string]any{"cluster.x-k8s.io/provider": p.label}
	manager, hooks, secret := p.prefix+"-manager", p.prefix+"-webhook-service", p.prefix+"-webhook-service-cert"
	serving := p.prefix + "-serving-cert"
	selector := map[string]any{"cluster.x-k8s.io/provider": p.label, "control-plane": "controller-manager"}
	objects := []manifest{namespace(ns, map[string]any{"cluster.x-k8s.io/provider": p.label, "control-plane": "controller-manager"})}
	inject := map[string]any{"cert-manager.io/inject-ca-from": ns + "/" + serving}
	for _, d := range p.kinds {
		if d.versions == nil {
			d.versions = p.versions
		}
		d.labels = map[string]any{"cluster.x-k8s.io/provider": p.label}
		for _, v := range p.versions {
			d.labels["cluster.x-k8s.io/"+v] = v // the contract's version, and the kind's that keeps it
		}
		if len(d.versions) > 1 {
			d.annotations = inject
			d.conversion = manifest{"strategy": "Webhook", "webhook": manifest{
				"conversionReviewVersions": []any{"v1", "v1beta1"},
				"clientConfig":             manifest{"service": manifest{"name": hooks, "namespace": ns, "path": "/convert"}}}}
		}
		objects = append(objects, d.manifest())
	}
	objects = append(objects, serviceAccount(ns, manager, labels))
	objects = append(objects, clusterRole(ns, manager, p.prefix+"-manager-role", labels, p.groups...)...)
	objects = append(objects, service(ns, hooks, labels, selector, 443, 9443), workload{
		namespace: ns, name: p.prefix + "-controller-manager", account: manager, labels: selector, selector: selector,
		container: "manager", image: p.image, args: p.args, port: 9443, secret: secret, tolerate: true,
	}.manifest())
	objects = append(objects, selfSigned(ns, p.prefix+"-selfsigned-issuer", serving, secret, hooks, labels)...)
	current := []any{p.versions[len(p.versions)-1]}
	hookFor := func(verb, plural string) hook {
		group := p.groupOf(plural)
		return hook{name: verb + "." + strings.TrimSuffix(plural, "s") + "." + group, group: group, versions: current, resources: []any{plural},
			path: "/" + strings.TrimSuffix(verb, "ion") + "-" + strings.ReplaceAll(group, ".", "-") + "-" + current[0].(string) + "-" + strings.TrimSuffix(plural, "s")}
	}
	var validations, mutations []hook
	for _, plural := range p.hooked {
		validations = append(validations, hookFor("validation", plural))
	}
	for _, plural := range p.defaults {
		mutations = append(mutations, hookFor("default", plural))
	}
	if mutations != nil {
		objects = append(objects, webhookConfiguration("MutatingWebhookConfiguration", p.prefix+"-mutating-webhook-configuration", ns, hooks, inject, labels, mutations...))
	}
	return append(objects, webhookConfiguration("ValidatingWebhookConfiguration", p.prefix+"-validating-webhook-configuration", ns, hooks, inject, labels, validations...))
}

func (p provider) groupOf(plural string) string {
	for _, d := range p.kinds {
		if d.plural == plural || d.plural == "" && strings.ToLower(d.kind)+"s" == plural {
			return d.group
		}
	}
	return ""
}

// contracts returns the API versions that a release of Cluster API serves: v1beta2 since v1.11.
func contracts(version string) []string {
	if atLeast(version, 1, 11) {
		return []string{"v1beta1", "v1beta2"}
	}
	return []string{"v1beta1"}
}

// clusterSpec is what of a Cluster's spec is checked.
func clusterSpec() manifest {
	pool := open(manifest{"class": filled(), "name": filled(), "replicas": count()}, "class", "name")
	topology := open(manifest{
		"version":      filled(),
		"classRef":     open(manifest{"name": filled(), "namespace": text()}, "name"),
		"controlPlane": open(manifest{"replicas": count()}),
		"workers":      open(manifest{"machineDeployments": listOf(pool)}),
		"variables":    listOf(open(manifest{"name": filled()}, "name")),
	}, "version")
	return manifest{
		"topology": topology, "paused": manifest{"type": "boolean"},
		"controlPlaneEndpoint": open(manifest{"host": text(), "port": count()}),
	}
}

func coreComponents(version string) []manifest {
	const core = "cluster.x-k8s.io"
	return provider{
		label: "cluster-api", prefix: "capi", image: "registry.k8s.io/cluster-api/cluster-api-controller:" + version,
		groups:   []string{core, "addons." + core, "bootstrap." + core, "controlplane." + core, "infrastructure." + core, "ipam." + core, "runtime." + core},
		versions: contracts(version),
		args: []any{
			"--leader-elect", "--diagnostics-address=${CAPI_DIAGNOSTICS_ADDRESS:=:8443}", "--insecure-diagnostics=${CAPI_INSECURE_DIAGNOSTICS:=false}",
			"--feature-gates=MachinePool=${EXP_MACHINE_POOL:=true},ClusterTopology=${CLUSTER_TOPOLOGY:=false},RuntimeSDK=${EXP_RUNTIME_SDK:=false}",
		},
		kinds: []definition{
			{group: core, kind: "Cluster", spec: clusterSpec()},
			{group: core, kind: "ClusterClass", plural: "clusterclasses", spec: manifest{"infrastructure": open(nil), "controlPlane": open(nil), "workers": open(nil)}, required: []any{"controlPlane", "infrastructure"}},
			{group: core, kind: "Machine", spec: manifest{"clusterName": filled()}, required: []any{"bootstrap", "clusterName", "infrastructureRef"}},
			{group: core, kind: "MachineSet", spec: manifest{"clusterName": filled(), "replicas": count()}, required: []any{"clusterName"}},
			{group: core, kind: "MachineDeployment", spec: manifest{"clusterName": filled(), "replicas": count()}, required: []any{"clusterName", "template"}},
			{group: core, kind: "MachinePool", spec: manifest{"clusterName": filled(), "replicas": count()}, required: []any{"clusterName", "template"}},
			{group: core, kind: "MachineHealthCheck", spec: manifest{"clusterName": filled()}, required: []any{"clusterName", "selector"}},
			{group: core, kind: "MachineDrainRule"},
			{group: "addons." + core, kind: "ClusterResourceSet"},
			{group: "addons." + core, kind: "ClusterResourceSetBinding"},
			{group: "ipam." + core, kind: "IPAddress", plural: "ipaddresses"},
			{group: "ipam." + core, kind: "IPAddressClaim"},
			{group: "runtime." + core, kind: "ExtensionConfig", cluster: true},
		},
		hooked:   []string{"clusters", "clusterclasses", "machines", "machinedeployments"},
		defaults: []string{"clusters", "clusterclasses"},
	}.objects()
}

func bootstrapComponents(version string) []manifest {
	const group = "bootstrap.cluster.x-k8s.io"
	return provider{
		label: "bootstrap-kubeadm", prefix: "capi-kubeadm-bootstrap", image: "registry.k8s.io/cluster-api/kubeadm-bootstrap-controller:" + version,
		groups:   []string{group, "cluster.x-k8s.io"},
		versions: contracts(version),
		args: []any{
			"--leader-elect", "--diagnostics-address=${CAPI_DIAGNOSTICS_ADDRESS:=:8443}", "--insecure-diagnostics=${CAPI_INSECURE_DIAGNOSTICS:=false}",
			"--feature-gates=MachinePool=${EXP_MACHINE_POOL:=true}", "--bootstrap-token-ttl=${KUBEADM_BOOTSTRAP_TOKEN_TTL:=15m}",
		},
		kinds: []definition{
			{group: group, kind: "KubeadmConfig"},
			{group: group, kind: "KubeadmConfigTemplate", spec: manifest{"template": open(nil)}, required: []any{"template"}},
		},
		hooked: []string{"kubeadmconfigs", "kubeadmconfigtemplates"},
	}.objects()
}

func controlPlaneComponents(version string) []manifest {
	const group = "controlplane.cluster.x-k8s.io"
	return provider{
		label: "control-plane-kubeadm", prefix: "capi-kubeadm-control-plane", image: "registry.k8s.io/cluster-api/kubeadm-control-plane-controller:" + version,
		groups:   []string{group, "bootstrap.cluster.x-k8s.io", "cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"},
		versions: contracts(version),
		args: []any{
			"--leader-elect", "--diagnostics-address=${CAPI_DIAGNOSTICS_ADDRESS:=:8443}", "--insecure-diagnostics=${CAPI_INSECURE_DIAGNOSTICS:=false}",
			"--feature-gates=ClusterTopology=${CLUSTER_TOPOLOGY:=false},KubeadmBootstrapFormatIgnition=${EXP_KUBEADM_BOOTSTRAP_FORMAT_IGNITION:=false}",
		},
		kinds: []definition{
			{group: group, kind: "KubeadmControlPlane", spec: manifest{"replicas": count(), "version": filled()}, required: []any{"machineTemplate", "version"}},
			{group: group, kind: "KubeadmControlPlaneTemplate", spec: manifest{"template": open(nil)}, required: []any{"template"}},
		},
		hooked: []string{"kubeadmcontrolplanes", "kubeadmcontrolplanetemplates"},
	}.objects()
}

// openStackComponents stands in for the OpenStack provider, which serves v1beta1 (and v1beta2
// since v0.15).
func openStackComponents(version string) []manifest {
	const group = "infrastructure.cluster.x-k8s.io"
	versions := []string{"v1beta1"}
	if atLeast(version, 0, 15) {
		versions = append(versions, "v1beta2")
	}
	identity := open(manifest{"name": filled(), "cloudName": text(), "region": text(), "type": text()}, "name")
	machine := manifest{"flavor": text(), "sshKeyName": text(), "identityRef": identity, "image": open(nil), "ports": listOf(open(nil)), "tags": listOf(text())}
	subnets := manifest{"type": "array", "maxItems": int64(1), "items": open(manifest{"cidr": filled(), "dnsNameservers": listOf(text())}, "cidr")}
	template := func(spec manifest, required ...any) manifest {
		return manifest{"template": open(manifest{"spec": open(spec, required...)}, "spec")}
	}
	cluster := manifest{"identityRef": identity, "managedSubnets": subnets, "tags": listOf(text())}
	return provider{
		label: "infrastructure-openstack", prefix: "capo", image: "registry.k8s.io/capi-openstack/capi-openstack-controller:" + version,
		groups:   []string{group, "cluster.x-k8s.io", "openstack.k-orc.cloud", "ipam.cluster.x-k8s.io"},
		versions: versions,
		args:     []any{"--leader-elect", "--v=2", "--diagnostics-address=${CAPO_DIAGNOSTICS_ADDRESS:=:8443}", "--insecure-diagnostics=${CAPO_INSECURE_DIAGNOSTICS:=false}"},
		kinds: []definition{
			{group: group, kind: "OpenStackCluster", spec: cluster, required: []any{"identityRef"}},
			{group: group, kind: "OpenStackClusterTemplate", spec: template(cluster, "identityRef"), required: []any{"template"}},
			{group: group, kind: "OpenStackMachine", spec: machine, required: []any{"image"}},
			{group: group, kind: "OpenStackMachineTemplate", spec: template(machine, "image"), required: []any{"template"}},
			{group: group, kind: "OpenStackFloatingIPPool", versions: []string{"v1alpha1"}},
			{group: group, kind: "OpenStackServer", versions: []string{"v1alpha1"}},
		},
		hooked: []string{"openstackclusters", "openstackclustertemplates", "openstackmachines", "openstackmachinetemplates"},
	}.objects()
}

// resourceController stands in for the OpenStack resource controller (ORC).
func resourceController(version string) []manifest {
	const ns, group = "orc-system", "openstack.k-orc.cloud"
	labels := map[string]any{"app.kubernetes.io/name": "orc", "app.kubernetes.io/managed-by": "kustomize"}
	selector := map[string]any{"app.kubernetes.io/name": "orc", "control-plane": "controller-manager"}
	credentials := open(manifest{"secretName": filled(), "cloudName": filled()}, "secretName", "cloudName")
	objects := []manifest{namespace(ns, selector)}
	for _, kind := range []string{"Flavor", "FloatingIP", "Image", "Network", "Port", "Project", "Router", "RouterInterface", "SecurityGroup", "Server", "ServerGroup", "Subnet", "Volume"} {
		objects = append(objects, definition{group: group, kind: kind, versions: []string{"v1alpha1"},
			spec: manifest{"cloudCredentialsRef": credentials, "managementPolicy": text()}, required: []any{"cloudCredentialsRef"}}.manifest())
	}
	objects = append(objects, serviceAccount(ns, "orc-controller-manager", labels))
	objects = append(objects, clusterRole(ns, "orc-controller-manager", "orc-manager-role", labels, group)...)
	return append(objects,
		service(ns, "orc-controller-manager-metrics-service", labels, selector, 8443, 8443),
		workload{namespace: ns, name: "orc-controller-manager", account: "orc-controller-manager", labels: selector, selector: selector,
			container: "manager", image: "quay.io/orc/openstack-resource-controller:" + version, port: 8081,
			args: []any{"--metrics-bind-address=:8443", "--leader-elect", "--health-probe-bind-address=:8081"}}.manifest())
}
