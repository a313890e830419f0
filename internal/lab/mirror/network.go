package mirror

// flannel stands in for flannel's manifest.
func flannel(version string) []manifest {
	return plugin("kube-flannel", "kube-flannel-ds", "flannel", "ghcr.io/flannel-io/flannel:"+version, true,
		manifest{"cni-conf.json": `{"name": "cbr0", "cniVersion": "0.3.1", "plugins": [{"type": "flannel"}, {"type": "portmap"}]}`,
			"net-conf.json": `{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan"}}`})
}

// calico stands in for calico's manifest.
func calico(version string) []manifest {
	const group = "crd.projectcalico.org"
	objects := []manifest{}
	for _, kind := range []string{"FelixConfiguration", "IPPool"} {
		objects = append(objects, definition{group: group, kind: kind, versions: []string{"v1"}, cluster: true, plain: true}.manifest())
	}
	objects = append(objects, plugin("kube-system", "calico-node", "calico-node", "quay.io/calico/node:"+version, false,
		manifest{"cni_network_config": `{"name": "k8s-pod-network", "cniVersion": "0.3.1", "plugins": [{"type": "calico"}]}`})...)
	selector := map[string]any{"k8s-app": "calico-kube-controllers"}
	return append(objects, serviceAccount("kube-system", "calico-kube-controllers", nil), workload{
		namespace: "kube-system", name: "calico-kube-controllers", account: "calico-kube-controllers", labels: selector, selector: selector,
		container: "calico-kube-controllers", image: "quay.io/calico/kube-controllers:" + version, tolerate: true,
	}.manifest())
}

// plugin returns a CNI plugin: a DaemonSet on the host's network that writes the node's CNI
// configuration.
func plugin(ns, name, account, image string, own bool, config manifest) []manifest {
	var objects []manifest
	if own {
		objects = append(objects, namespace(ns, map[string]any{"pod-security.kubernetes.io/enforce": "privileged"}))
	}
	settings := namespaced("v1", "ConfigMap", ns, name+"-cfg", nil)
	settings["data"] = config
	objects = append(objects, serviceAccount(ns, account, nil), settings)
	objects = append(objects, clusterRole(ns, account, account, nil, "")...)
	selector := map[string]any{"k8s-app": name}
	return append(objects, workload{
		kind: "DaemonSet", namespace: ns, name: name, account: account, labels: selector, selector: selector,
		container: name, image: image, host: true,
		volumes: []any{
			manifest{"name": "cni", "hostPath": manifest{"path": "/etc/cni/net.d"}},
			manifest{"name": "cfg", "configMap": manifest{"name": name + "-cfg"}},
		},
	}.manifest())
}
