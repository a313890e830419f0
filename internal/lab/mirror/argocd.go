package mirror

// argoCD stands in for Argo CD's install manifest. Like the real one it names no namespace, but
// for the subjects of its bindings: it is applied to one.
func argoCD(version string) []manifest {
	const group = "argoproj.io"
	labels := func(name, component string) map[string]any {
		return map[string]any{"app.kubernetes.io/name": name, "app.kubernetes.io/component": component, "app.kubernetes.io/part-of": "argocd"}
	}
	source := open(manifest{"repoURL": filled(), "path": text(), "targetRevision": text()}, "repoURL")
	destination := open(manifest{"server": text(), "namespace": text(), "name": text()})
	crds := map[string]any{"app.kubernetes.io/part-of": "argocd"}
	objects := []manifest{
		definition{group: group, kind: "Application", versions: []string{"v1alpha1"}, plain: true, labels: crds,
			spec: manifest{"source": source, "destination": destination, "project": text()}, required: []any{"destination", "project"}}.manifest(),
		definition{group: group, kind: "ApplicationSet", versions: []string{"v1alpha1"}, labels: crds,
			spec: manifest{"generators": listOf(open(nil)), "template": open(nil, "metadata", "spec"), "goTemplate": manifest{"type": "boolean"},
				"syncPolicy": open(manifest{"preserveResourcesOnDeletion": manifest{"type": "boolean"},
					"applicationsSync": manifest{"type": "string", "enum": []any{"create-only", "create-update", "create-delete", "sync"}}})},
			required: []any{"generators", "template"}}.manifest(),
		definition{group: group, kind: "AppProject", versions: []string{"v1alpha1"}, plain: true, labels: crds, spec: manifest{"sourceRepos": listOf(text())}}.manifest(),
	}
	for _, name := range []string{"argocd-cm", "argocd-cmd-params-cm", "argocd-gpg-keys-cm", "argocd-notifications-cm", "argocd-rbac-cm", "argocd-ssh-known-hosts-cm", "argocd-tls-certs-cm"} {
		objects = append(objects, namespaced("v1", "ConfigMap", "", name, labels(name, "config")))
	}
	for _, name := range []string{"argocd-notifications-secret", "argocd-secret"} {
		secret := namespaced("v1", "Secret", "", name, labels(name, "config"))
		secret["type"] = "Opaque"
		objects = append(objects, secret)
	}
	image := "quay.io/argoproj/argocd:" + version
	parts := []struct {
		name, component, kind, image, configMap string
		port                                    int64
		cluster                                 bool
	}{
		{name: "argocd-application-controller", component: "application-controller", kind: "StatefulSet", image: image, port: 8082, cluster: true},
		{name: "argocd-applicationset-controller", component: "applicationset-controller", image: image, port: 7000, configMap: "argocd-ssh-known-hosts-cm", cluster: true},
		{name: "argocd-dex-server", component: "dex-server", image: "ghcr.io/dexidp/dex:v2.43.0", port: 5556},
		{name: "argocd-notifications-controller", component: "notifications-controller", image: image, port: 9001, configMap: "argocd-tls-certs-cm"},
		{name: "argocd-redis", component: "redis", image: "public.ecr.aws/docker/library/redis:7.2.11-alpine", port: 6379},
		{name: "argocd-repo-server", component: "repo-server", image: image, port: 8081, configMap: "argocd-ssh-known-hosts-cm"},
		{name: "argocd-server", component: "server", image: image, port: 8080, configMap: "argocd-ssh-known-hosts-cm", cluster: true},
	}
	for _, p := range parts {
		l, s := labels(p.name, p.component), map[string]any{"app.kubernetes.io/name": p.name}
		objects = append(objects, serviceAccount("", p.name, l))
		if p.cluster {
			objects = append(objects, clusterRole("argocd", p.name, p.name, l, "*")...)
		}
		port := p.port
		if p.component == "server" {
			port = 80
		}
		var volumes []any
		if p.configMap != "" {
			volumes = []any{manifest{"name": "config", "configMap": manifest{"name": p.configMap}}}
		}
		objects = append(objects, service("", p.name, l, s, port, p.port), workload{
			kind: p.kind, name: p.name, account: p.name, labels: l, selector: s, container: p.name, image: p.image, port: p.port, volumes: volumes,
		}.manifest())
	}
	return objects
}
