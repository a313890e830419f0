package mirror

// certManager stands in for cert-manager's release manifest.
func certManager(version string) []manifest {
	const ns = "cert-manager"
	labels := func(component, app string) map[string]any {
		return map[string]any{"app": app, "app.kubernetes.io/name": app, "app.kubernetes.io/instance": "cert-manager",
			"app.kubernetes.io/component": component, "app.kubernetes.io/version": version}
	}
	selector := func(component, app string) map[string]any {
		return map[string]any{"app.kubernetes.io/name": app, "app.kubernetes.io/instance": "cert-manager", "app.kubernetes.io/component": component}
	}
	issuerRef := open(manifest{"name": filled(), "kind": text(), "group": text()}, "name")
	certificate := manifest{
		"secretName": filled(), "issuerRef": issuerRef, "commonName": text(), "isCA": manifest{"type": "boolean"},
		"dnsNames": listOf(text()), "duration": text(), "renewBefore": text(),
	}
	crds := labels("crds", "cert-manager")
	objects := []manifest{
		namespace(ns, nil),
		definition{group: "cert-manager.io", kind: "CertificateRequest", versions: []string{"v1"}, labels: crds}.manifest(),
		definition{group: "cert-manager.io", kind: "Certificate", versions: []string{"v1"}, labels: crds, spec: certificate, required: []any{"issuerRef", "secretName"}}.manifest(),
		definition{group: "acme.cert-manager.io", kind: "Challenge", versions: []string{"v1"}, labels: crds}.manifest(),
		definition{group: "cert-manager.io", kind: "ClusterIssuer", versions: []string{"v1"}, labels: crds, cluster: true}.manifest(),
		definition{group: "cert-manager.io", kind: "Issuer", versions: []string{"v1"}, labels: crds}.manifest(),
		definition{group: "acme.cert-manager.io", kind: "Order", versions: []string{"v1"}, labels: crds}.manifest(),
	}
	parts := []struct {
		name, component, image string
		port                   int64
		args                   []any
	}{
		{"cert-manager-cainjector", "cainjector", "cert-manager-cainjector", 9402, []any{"--v=2", "--leader-election-namespace=kube-system"}},
		{"cert-manager", "controller", "cert-manager-controller", 9402, []any{"--v=2", "--cluster-resource-namespace=$(POD_NAMESPACE)", "--leader-election-namespace=kube-system"}},
		{"cert-manager-webhook", "webhook", "cert-manager-webhook", 10250, []any{"--v=2", "--secure-port=10250", "--dynamic-serving-ca-secret-name=cert-manager-webhook-ca"}},
	}
	for _, p := range parts {
		l, s := labels(p.component, p.name), selector(p.component, p.name)
		objects = append(objects, serviceAccount(ns, p.name, l))
		objects = append(objects, clusterRole(ns, p.name, p.name, l, "cert-manager.io", "acme.cert-manager.io", "admissionregistration.k8s.io", "apiextensions.k8s.io")...)
		port := p.port
		if p.component == "webhook" {
			port = 443
		}
		objects = append(objects, service(ns, p.name, l, s, port, p.port), workload{
			namespace: ns, name: p.name, account: p.name, labels: l, selector: s,
			container: "cert-manager-" + p.component, image: "quay.io/jetstack/" + p.image + ":" + version, args: p.args, port: p.port,
		}.manifest())
	}
	inject := map[string]any{"cert-manager.io/inject-ca-from-secret": "cert-manager/cert-manager-webhook-ca"}
	l := labels("webhook", "cert-manager-webhook")
	return append(objects,
		webhookConfiguration("MutatingWebhookConfiguration", "cert-manager-webhook", ns, "cert-manager-webhook", inject, l,
			hook{name: "webhook.cert-manager.io", path: "/mutate", group: "cert-manager.io", versions: []any{"v1"}, resources: []any{"certificaterequests"}}),
		webhookConfiguration("ValidatingWebhookConfiguration", "cert-manager-webhook", ns, "cert-manager-webhook", inject, l,
			hook{name: "webhook.cert-manager.io", path: "/validate", group: "cert-manager.io", versions: []any{"v1"}, resources: []any{"*/*"}}))
}
