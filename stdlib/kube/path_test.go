package kube

import (
	"reflect"
	"testing"
)

func TestPathSteps(t *testing.T) {
	for path, want := range map[string][]string{
		"status.phase":                       {"status", "phase"},
		"{.status.nodes[0].name}":            {"status", "nodes", "0", "name"},
		`metadata.labels.app\.kubernetes.io`: {"metadata", "labels", "app.kubernetes", "io"},
		`metadata.annotations['a.b/c']`:      {"metadata", "annotations", "a.b/c"},
		"":                                   nil,
	} {
		got, err := pathSteps(path)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q, %v; want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"a[]", "a[", "a[*].b", ".", "{}", "[*]"} {
		if got, err := pathSteps(path); err == nil {
			t.Errorf("%q: got %q, want an error", path, got)
		}
	}
}

func FuzzPathSteps(f *testing.F) {
	for _, s := range []string{"a.b[0]", `{.a\.b}`, "[", "a]b", `\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		steps, err := pathSteps(path)
		if path != "" && err == nil && len(steps) == 0 {
			t.Errorf("%q leads nowhere", path)
		}
		field(map[string]any{"a": []any{map[string]any{"b": "c"}}}, steps)
	})
}
