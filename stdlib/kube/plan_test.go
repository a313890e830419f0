package kube_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/kube"
)

// plan runs src in a plan and returns the changes that it found, a line each:
// kind, target, note, fields.
func plan(t *testing.T, c *counter, src string) []string {
	t.Helper()
	door := startest.NewDoor(effect.Plan)
	opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{Wrap: c.wrap})}, Globals: globals(t, c), Door: door}
	if _, err := run(t, opts, src); err != nil {
		t.Fatal(startest.Explain(err))
	}
	var out []string
	for _, p := range door.Planned() {
		line := fmt.Sprintf("%s %s", p.Change.Kind, p.Target)
		if p.Change.Note != "" {
			line += " [" + p.Change.Note + "]"
		}
		for _, f := range p.Change.Fields {
			line += fmt.Sprintf(" %s: %v -> %v;", f.Path, f.Old, f.New)
		}
		out = append(out, line)
	}
	return out
}

// apply runs src and fails the test if it fails.
func apply(t *testing.T, src string) {
	t.Helper()
	var c counter
	opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{})}, Globals: globals(t, &c)}
	if _, err := run(t, opts, src); err != nil {
		t.Fatal(startest.Explain(err))
	}
}

func same(t *testing.T, got, want []string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A plan of what isn't there yet, of kinds and namespaces that come with it,
// lists every object in a stable order and writes nothing.
func TestPlanOfNothing(t *testing.T) {
	src := `
MANIFESTS = """
apiVersion: well.test/v1
kind: Bucket
metadata: {name: b, namespace: well}
spec: {litres: 3}
---
apiVersion: well.test/v1
kind: Rope
metadata: {name: r}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: well}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: well}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: buckets.well.test}
spec: {group: well.test, scope: Namespaced, names: {kind: Bucket, plural: buckets}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ropes.well.test}
spec: {group: well.test, scope: Cluster, names: {kind: Rope, plural: ropes}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}
"""

def test():
    c = kube.cluster("lab", kubeconfig = kubeconfig)
    c.apply(manifests = MANIFESTS)
    return c.apply([{"apiVersion": "well.test/v1", "kind": "Rope", "metadata": {"name": "later"}}])
`
	var c counter
	got := plan(t, &c, src)
	for i, line := range got { // the CRDs' own fields don't matter here
		if head, _, ok := strings.Cut(line, " metadata.annotations"); ok {
			got[i] = head
		}
	}
	same(t, got, []string{
		"create kube/lab/CustomResourceDefinition.apiextensions.k8s.io/buckets.well.test",
		"create kube/lab/CustomResourceDefinition.apiextensions.k8s.io/ropes.well.test",
		"create kube/lab/Namespace/well",
		"create kube/lab/Service/well/s [its namespace isn't there yet]",
		"create kube/lab/Bucket.well.test/well/b [the cluster doesn't serve Bucket.well.test yet]",
		"create kube/lab/Rope.well.test/r [the cluster doesn't serve Rope.well.test yet]",
		"create kube/lab/Rope.well.test/later [the cluster doesn't serve Rope.well.test yet]",
	})
	if _, writes := c.take(); len(writes) > 0 {
		t.Errorf("a plan wrote: %v", writes)
	}
}

func TestPlanOfChanges(t *testing.T) {
	const objects = `
def objects(replicas, image, password, url = "http://x"):
    meta = lambda name: {"name": name, "namespace": "default"}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": meta("plan-secret"), "stringData": {"password": password, "site": "oslab"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("plan-config"), "data": {"dsn": "user:" + password, "url": url}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("plan-web"), "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "plan"}},
            "template": {"metadata": {"labels": {"app": "plan"}}, "spec": {"containers": [{"name": "side", "image": "side.test/side:1"}, {"name": "web", "image": image}]}}}},
    ]
`
	apply(t, objects+`
def test():
    kube.cluster("lab", kubeconfig = kubeconfig).apply(objects(1, "web.test/web:1", hush), wait = False)
`)
	var c counter
	same(t, plan(t, &c, objects+`
def test():
    return kube.cluster("lab", kubeconfig = kubeconfig).apply(objects(1, "web.test/web:1", hush), wait = False)
`), nil)
	// A value that isn't known counts as a change of that field alone.
	same(t, plan(t, &c, objects+`
def test():
    kube.cluster("lab", kubeconfig = kubeconfig).apply(objects(3, "web.test/web:2", hush + "-new", url = unknown))
`), []string{
		"update kube/lab/ConfigMap/default/plan-config data.dsn: *** -> ***; data.url: http://x -> (known after apply);",
		"update kube/lab/Secret/default/plan-secret data.password: *** -> ***;",
		"update kube/lab/Deployment.apps/default/plan-web spec.replicas: 1 -> 3; spec.template.spec.containers[web].image: web.test/web:1 -> web.test/web:2;",
	})
	if _, writes := c.take(); len(writes) > 0 {
		t.Errorf("a plan wrote: %v", writes)
	}
	// What doesn't exist is a create whose values aren't all known; one whose name isn't is later.
	same(t, plan(t, &c, `
def test():
    c = kube.cluster("lab", kubeconfig = kubeconfig)
    meta = {"name": "plan-new", "namespace": "default"}
    c.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"ip": unknown}}])
    c.apply([{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": unknown}}]}])
    c.apply(manifests = unknown)
    c.delete("ConfigMap", "plan-config")
    c.delete("ConfigMap", "plan-new")
`), []string{
		"create kube/lab/ConfigMap/default/plan-new data.ip: <nil> -> (known after apply); metadata.annotations[gsrun.dev/owner]: <nil> -> gsrun:test/test/plan-new;",
		"later kube/lab/objects[0], items[0] (known after apply)",
		"later kube/lab/manifests (known after apply)",
		// Manifests that aren't known may be of any object.
		"later kube/lab/ConfigMap/default/plan-config [what the plan installs or runs there before may change it]",
		"later kube/lab/ConfigMap/default/plan-new [what the plan installs or runs there before may change it]",
	})
	same(t, plan(t, &c, `
def test():
    c = kube.cluster("lab", kubeconfig = kubeconfig)
    c.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plan-new", "namespace": "default"}, "data": {"ip": "x"}}])
    c.delete("ConfigMap", "plan-config")
    c.delete("ConfigMap", "plan-new")
`), []string{
		"create kube/lab/ConfigMap/default/plan-new data.ip: <nil> -> x; metadata.annotations[gsrun.dev/owner]: <nil> -> gsrun:test/test/plan-new;",
		"delete kube/lab/ConfigMap/default/plan-config",
		// It isn't there, but will be by then.
		"later kube/lab/ConfigMap/default/plan-new [an earlier change of this plan comes first]",
	})
	same(t, plan(t, &c, `
def test():
    c = kube.cluster("future", kubeconfig = unknown)
    c.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}}])
    c.delete("Pod", "x", namespace = "b")
`), []string{
		"later kube/future/Namespace/b (known after apply)",
		"later kube/future/ConfigMap/default/a (known after apply)",
		"later kube/future/Pod/b/x (known after apply)",
	})
}

// Manifests that are secret as a whole show no value.
func TestPlanOfSecretManifests(t *testing.T) {
	var c counter
	same(t, plan(t, &c, `
def test():
    kube.cluster("lab", kubeconfig = kubeconfig).apply(manifests = "{apiVersion: v1, kind: ConfigMap, metadata: {name: hidden, namespace: default}, data: {a: " + hush + "}}")
`), []string{"create kube/lab/ConfigMap/default/hidden data.a: <nil> -> ***; metadata.annotations[gsrun.dev/owner]: <nil> -> ***;"})
}

// A plan by somebody who may only read is still one.
func TestPlanWithoutRights(t *testing.T) {
	apply(t, `
def test():
    kube.cluster("lab", kubeconfig = kubeconfig).apply(manifests = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: plan-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: plan-read, namespace: default}
data: {a: "1"}
""")
`)
	var c counter
	door := startest.NewDoor(effect.Plan)
	names := globals(t, &c)
	names["kubeconfig"] = starlark.String(kubeconfig(t, "reader"))
	// The binding takes a moment to reach the authorizer.
	_, err := run(t, startest.Options{Modules: []*builtin.Module{module(t, kube.Config{})}, Globals: names}, `
def test():
    kube.cluster("lab", kubeconfig = kubeconfig).get("ConfigMap", "plan-read")
`)
	for tries := 0; err != nil && strings.Contains(err.Error(), "cannot get") && tries < 200; tries++ {
		_, err = run(t, startest.Options{Modules: []*builtin.Module{module(t, kube.Config{})}, Globals: names}, `
def test():
    kube.cluster("lab", kubeconfig = kubeconfig).get("ConfigMap", "plan-read")
`)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, startest.Options{Modules: []*builtin.Module{module(t, kube.Config{Wrap: c.wrap})}, Globals: names, Door: door}, `
def test():
    c = kube.cluster("lab", kubeconfig = kubeconfig)
    meta = lambda name: {"name": name, "namespace": "default"}
    c.apply([
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("plan-read"), "data": {"a": "2"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("plan-read-new")},
    ])
`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	planned := door.Planned()
	if len(planned) != 2 || planned[0].Change.Kind != effect.Update || planned[1].Change.Kind != effect.Create {
		t.Fatalf("planned: %+v", planned)
	}
	if f := planned[0].Change.Fields; len(f) != 1 || f[0] != (effect.Field{Path: "data.a", Old: "1", New: "2"}) {
		t.Errorf("fields: %+v", f)
	}
	for _, p := range planned {
		if !strings.Contains(p.Change.Note, `User "reader" cannot patch`) {
			t.Errorf("%s: note %q doesn't say what couldn't be asked", p.Target, p.Change.Note)
		}
	}
}
