package kube_test

import (
	"reflect"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/client/kube"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func TestParseManifests(t *testing.T) {
	const text = `# comments alone are no document
---
# nor here
--- # a comment
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
data:
  script: |
    ---
    not a document: yet
  yes: "no"
--- {apiVersion: v1, kind: Namespace, metadata: {name: b}}
---
{"apiVersion": "v1", "kind": "ConfigMapList", "items": [
  {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "generation": 9007199254740993}},
  {"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}]}
]}
---
null
---
apiVersion: v1
kind: List
items: []
`
	got, err := kube.ParseManifests(text)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range got {
		names = append(names, m.Object.GetKind()+" "+m.Object.GetName()+" "+m.Origin)
	}
	want := []string{
		"ConfigMap a document 1 (line 5)",
		"Namespace b document 2 (line 14)",
		"ConfigMap c document 3 (line 16), items[0]",
		"ConfigMap d document 3 (line 16), items[1], items[0]",
	}
	if !reflect.DeepEqual(names, want) {
		t.Errorf("got  %q\nwant %q", names, want)
	}
	if n := got[2].Object.GetGeneration(); n != 9007199254740993 {
		t.Errorf("a large number became %d", n)
	}
	// Kubernetes reads YAML 1.1.
	data := got[0].Object.Object["data"].(map[string]any)
	if _, ok := data["true"]; !ok || !strings.Contains(data["script"].(string), "not a document") {
		t.Errorf("data: %v", data)
	}
}

func TestParseManifestsRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"syntax":        {"apiVersion: v1\n---\nkind: a\n  b: c\n", []string{"document 1 (line 1): kind is missing", "document 2: ", "line 4"}},
		"repeated key":  {"apiVersion: v1\n---\n\n\nkind: A\nkind: B\n", []string{"document 2: ", "line 6", `"kind" already set`}},
		"no kind":       {"apiVersion: v1\nmetadata: {name: a}\n", []string{"document 1 (line 1): kind is missing"}},
		"no name":       {"apiVersion: v1\nkind: A\n", []string{"document 1 (line 1): A has no metadata.name"}},
		"no object":     {"---\n- a\n", []string{"document 1 (line 2): it is a []interface {}, not an object"}},
		"every one":     {"a: 1\n---\nb: 1\n", []string{"document 1 (line 1)", "document 2 (line 3)"}},
		"in a list":     {"apiVersion: v1\nkind: List\nitems: [{kind: A}]\n", []string{"document 1 (line 1), items[0]: apiVersion is missing"}},
		"version is no": {"apiVersion: 1\nkind: A\n", []string{"apiVersion is missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kube.ParseManifests(test.text)
			if fault.KindOf(err) != fault.Invalid {
				t.Fatalf("got %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q doesn't say %q", err, want)
				}
			}
		})
	}
}

func FuzzParseManifests(f *testing.F) {
	for _, s := range []string{"", "---", "a: b\n---\nc: d", "apiVersion: v1\nkind: List\nitems: [null, {}]", "--- |\n ---\n---\t#", "apiVersion: v1\nkind: A\nmetadata: {name: b}\n...\n---\n%YAML 1.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := kube.ParseManifests(text)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("kind %s: %v", fault.KindOf(err), err)
			}
			return
		}
		for _, m := range got {
			if m.Object.GetName() == "" || m.Object.GetKind() == "" || m.Origin == "" {
				t.Errorf("%+v", m)
			}
		}
	})
}
