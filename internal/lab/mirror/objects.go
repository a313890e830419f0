package mirror

import "strings"

// What the install manifests have in common. All of them are made of these.

func namespaced(apiVersion, kind, namespace, name string, labels map[string]any) manifest {
	meta := manifest{"name": name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	if labels != nil {
		meta["labels"] = labels
	}
	return manifest{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
}

func namespace(name string, labels map[string]any) manifest {
	return namespaced("v1", "Namespace", "", name, labels)
}

func serviceAccount(ns, name string, labels map[string]any) manifest {
	return namespaced("v1", "ServiceAccount", ns, name, labels)
}

// clusterRole returns a role that may do all with the resources of some groups, and its binding
// to a service account.
func clusterRole(ns, account, name string, labels map[string]any, groups ...string) []manifest {
	role := namespaced("rbac.authorization.k8s.io/v1", "ClusterRole", "", name, labels)
	list := make([]any, len(groups))
	for i, g := range groups {
		list[i] = g
	}
	role["rules"] = []any{
		manifest{"apiGroups": list, "resources": []any{"*"}, "verbs": []any{"create", "delete", "get", "list", "patch", "update", "watch"}},
		manifest{"apiGroups": []any{""}, "resources": []any{"events", "secrets", "configmaps"}, "verbs": []any{"create", "get", "list", "patch", "update", "watch"}},
	}
	binding := namespaced("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", name, labels)
	binding["roleRef"] = manifest{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
	binding["subjects"] = []any{manifest{"kind": "ServiceAccount", "name": account, "namespace": ns}}
	return []manifest{role, binding}
}

// A workload is a Deployment, or what is like one.
type workload struct {
	kind      string // empty is Deployment
	namespace string
	name      string
	account   string
	labels    map[string]any // of the object
	selector  map[string]any // of its pods
	container string
	image     string
	args      []any
	port      int64
	secret    string // mounted for serving certificates
	volumes   []any
	tolerate  bool // runs on control-plane nodes
	host      bool // uses the host's network
}

func (w workload) manifest() manifest {
	kind := w.kind
	if kind == "" {
		kind = "Deployment"
	}
	container := manifest{
		"name": w.container, "image": w.image, "imagePullPolicy": "IfNotPresent",
		"securityContext": manifest{"allowPrivilegeEscalation": false, "capabilities": manifest{"drop": []any{"ALL"}}},
	}
	if w.args != nil {
		container["args"] = w.args
	}
	if w.port != 0 {
		container["ports"] = []any{manifest{"containerPort": w.port, "protocol": "TCP"}}
	}
	volumes := w.volumes
	if w.secret != "" {
		volumes = append(volumes, manifest{"name": "cert", "secret": manifest{"secretName": w.secret, "defaultMode": int64(420)}})
		container["volumeMounts"] = []any{manifest{"name": "cert", "mountPath": "/tmp/k8s-webhook-server/serving-certs", "readOnly": true}}
	}
	pod := manifest{"containers": []any{container}, "serviceAccountName": w.account}
	if volumes != nil {
		pod["volumes"] = volumes
	}
	if w.tolerate {
		pod["tolerations"] = []any{
			manifest{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
		}
	}
	if w.host {
		pod["hostNetwork"] = true
		pod["tolerations"] = []any{manifest{"operator": "Exists"}}
	}
	o := namespaced("apps/v1", kind, w.namespace, w.name, w.labels)
	spec := manifest{
		"selector": manifest{"matchLabels": w.selector},
		"template": manifest{"metadata": manifest{"labels": w.selector}, "spec": pod},
	}
	switch kind {
	case "Deployment":
		spec["replicas"] = int64(1)
	case "StatefulSet":
		spec["replicas"] = int64(1)
		spec["serviceName"] = w.name
	}
	o["spec"] = spec
	return o
}

func service(ns, name string, labels, selector map[string]any, port, target int64) manifest {
	o := namespaced("v1", "Service", ns, name, labels)
	o["spec"] = manifest{"selector": selector, "ports": []any{manifest{"name": "port-" + itoa(int(port)), "port": port, "protocol": "TCP", "targetPort": target}}}
	return o
}

// A hook is one webhook: a name, the kinds of one group that it is called for, and its path.
type hook struct {
	name      string
	path      string
	group     string
	versions  []any
	resources []any
}

// webhookConfiguration returns a configuration that cert-manager's CA is injected into.
func webhookConfiguration(kind, name, ns, service string, annotations, labels map[string]any, hooks ...hook) manifest {
	o := namespaced("admissionregistration.k8s.io/v1", kind, "", name, labels)
	o["metadata"].(manifest)["annotations"] = annotations
	var list []any
	for _, h := range hooks {
		list = append(list, manifest{
			"name":                    h.name,
			"admissionReviewVersions": []any{"v1"},
			"clientConfig":            manifest{"service": manifest{"name": service, "namespace": ns, "path": h.path}},
			"failurePolicy":           "Fail", "matchPolicy": "Equivalent", "sideEffects": "None", "timeoutSeconds": int64(10),
			"rules": []any{manifest{"apiGroups": []any{h.group}, "apiVersions": h.versions, "resources": h.resources, "operations": []any{"CREATE", "UPDATE"}}},
		})
	}
	o["webhooks"] = list
	return o
}

// selfSigned returns an Issuer and a Certificate for a webhook's Service.
func selfSigned(ns, issuer, certificate, secret, service string, labels map[string]any) []manifest {
	i := namespaced("cert-manager.io/v1", "Issuer", ns, issuer, labels)
	i["spec"] = manifest{"selfSigned": manifest{}}
	c := namespaced("cert-manager.io/v1", "Certificate", ns, certificate, labels)
	c["spec"] = manifest{
		"dnsNames":   []any{service + "." + ns + ".svc", service + "." + ns + ".svc.cluster.local"},
		"issuerRef":  manifest{"kind": "Issuer", "name": issuer},
		"secretName": secret,
		"subject":    manifest{"organizations": []any{"k8s-sig-cluster-lifecycle"}},
	}
	return []manifest{c, i}
}

// A definition is a custom resource.
type definition struct {
	group, kind string
	plural      string // empty is the kind in lower case with an s
	versions    []string
	cluster     bool // not in a namespace
	plain       bool // without a status subresource
	spec        manifest
	required    []any // fields of spec
	labels      map[string]any
	annotations map[string]any
	conversion  manifest
}

// manifest returns the definition, whose last version is the stored one. Fields that it doesn't
// name are kept unchecked.
func (d definition) manifest() manifest {
	plural := d.plural
	if plural == "" {
		plural = strings.ToLower(d.kind) + "s"
	}
	scope := "Namespaced"
	if d.cluster {
		scope = "Cluster"
	}
	spec := open(d.spec, d.required...)
	var versions []any
	for i, v := range d.versions {
		version := manifest{
			"name": v, "served": true, "storage": i == len(d.versions)-1,
			"schema": manifest{"openAPIV3Schema": manifest{"type": "object", "properties": manifest{"spec": spec, "status": open(nil)},
				"x-kubernetes-preserve-unknown-fields": true}},
		}
		if !d.plain {
			version["subresources"] = manifest{"status": manifest{}}
		}
		versions = append(versions, version)
	}
	o := namespaced("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", plural+"."+d.group, d.labels)
	if d.annotations != nil {
		o["metadata"].(manifest)["annotations"] = d.annotations
	}
	body := manifest{
		"group": d.group, "scope": scope, "versions": versions,
		"names": manifest{"kind": d.kind, "listKind": d.kind + "List", "plural": plural, "singular": strings.ToLower(d.kind)},
	}
	if d.conversion != nil {
		body["conversion"] = d.conversion
	}
	o["spec"] = body
	return o
}

// open returns the schema of an object with some known fields.
func open(properties manifest, required ...any) manifest {
	schema := manifest{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	if properties != nil {
		schema["properties"] = properties
	}
	if required != nil {
		schema["required"] = required
	}
	return schema
}

func listOf(item manifest) manifest { return manifest{"type": "array", "items": item} }

func text() manifest { return manifest{"type": "string"} }

func filled() manifest { return manifest{"type": "string", "minLength": int64(1)} }

func count() manifest { return manifest{"type": "integer", "format": "int32", "minimum": int64(0)} }
