package kube_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"git.vanillacore.net/govstack/gsrun/internal/client/kube"
)

func object(t *testing.T, text string) *kube.Object {
	t.Helper()
	o := &kube.Object{}
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func shown(list []kube.Difference) string {
	var out []string
	for _, d := range list {
		out = append(out, fmt.Sprintf("%s: %v -> %v", d.Path, d.Old, d.New))
	}
	return strings.Join(out, "\n")
}

func TestCompare(t *testing.T) {
	old := object(t, `
metadata: {name: a, uid: "1", resourceVersion: "5", generation: 1, managedFields: [{manager: x}], labels: {app.kubernetes.io/name: x}}
spec:
  replicas: 1
  ports: [80, 443]
  gone: {a: 1, b: [1]}
  empty: {}
  containers:
  - {name: web, image: a}
  - {name: old, image: b}
`)
	new := object(t, `
metadata: {name: a, uid: "2", resourceVersion: "6", generation: 2, labels: {app.kubernetes.io/name: z}}
spec:
  replicas: 1.0
  ports: [80, 8443, 9]
  empty: {}
  added: {a: {b: true}, c: []}
  containers:
  - {name: new, image: c}
  - {name: web, image: d}
`)
	want := `metadata.labels[app.kubernetes.io/name]: x -> z
spec.added.a.b: <nil> -> true
spec.added.c: <nil> -> []
spec.containers[new].image: <nil> -> c
spec.containers[new].name: <nil> -> new
spec.containers[web].image: a -> d
spec.containers[old].image: b -> <nil>
spec.containers[old].name: old -> <nil>
spec.gone.a: 1 -> <nil>
spec.gone.b[0]: 1 -> <nil>
spec.ports[1]: 443 -> 8443
spec.ports[2]: <nil> -> 9`
	if got := shown(kube.Compare(old, new)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := kube.Compare(old, old); got != nil {
		t.Errorf("an object differs from itself: %s", shown(got))
	}
	if old.GetUID() != "1" || len(old.GetManagedFields()) != 1 {
		t.Error("comparing changed the object")
	}
	want = `metadata.labels[app.kubernetes.io/name]: x -> z
spec.added.a.b: <nil> -> true
spec.added.c: <nil> -> []
spec.containers[new].image: <nil> -> c
spec.containers[new].name: <nil> -> new
spec.containers[web].image: a -> d
spec.ports[1]: 443 -> 8443
spec.ports[2]: <nil> -> 9`
	if got := shown(kube.Lacks(old, new)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	leaves := object(t, "{apiVersion: v1, kind: A, metadata: {name: a, namespace: b, labels: {x: z}}, data: {k: v}}")
	if got := shown(kube.Leaves(leaves)); got != "data.k: <nil> -> v\nmetadata.labels.x: <nil> -> z" {
		t.Errorf("got %s", got)
	}
}

func TestBlocking(t *testing.T) {
	for text, want := range map[string]string{
		"{metadata: {generation: 1}}": "it has no status yet",
		"{metadata: {generation: 2}, status: {phase: Pending, observedGeneration: 1}}":                            "phase Pending; generation 1 is observed, 2 is wanted",
		"{status: {conditions: [{type: Ready, status: 'True'}, {type: Paused, status: 'False'}]}}":                "",
		"{status: {conditions: [{type: Ready, status: 'False', reason: R, message: \"m\\n n\"}]}}":                "Ready is False: R (m n)",
		"{status: {conditions: [{type: Paused, status: 'True'}, {type: Ready, status: Unknown}]}}":                "Paused is True; Ready is Unknown",
		"{metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [a/b, c/d]}, status: {phase: Going}}": "being deleted, held by finalizers a/b, c/d; phase Going",
	} {
		if got := kube.Blocking(object(t, text)); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
