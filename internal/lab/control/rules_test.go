package control

import (
	"encoding/json"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func parseObject(t *testing.T, text string) *object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return &o
}

func TestFaultsAreTaken(t *testing.T) {
	f := NewFaults()
	f.Add(Rule{Kind: "Machine", Name: "spoke-*", Action: Lose, Count: 2})
	f.Add(Rule{Kind: "Pod", Count: -1, Action: Stall, Reason: "ErrImagePull"})
	machine := parseObject(t, `{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"namespace": "default", "name": "spoke-1"}}`)
	pod := parseObject(t, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "a"}}`)
	if f.take(machine, Stall) != nil {
		t.Error("taken by another action")
	}
	for i, want := range []bool{true, true, false} {
		if got := f.take(machine, Lose) != nil; got != want {
			t.Errorf("take %d: %v", i, got)
		}
	}
	if r := f.take(pod, Fail, Stall); r == nil {
		t.Error("a rule without a name doesn't match")
	} else if reason, message := r.because("Default", "text"); reason != "ErrImagePull" || message != "text" {
		t.Errorf("because %s: %s", reason, message)
	}
	f.Clear("")
	if f.take(pod, Stall) != nil {
		t.Error("cleared, but taken")
	}
}

func TestBadRules(t *testing.T) {
	for _, r := range []Rule{{}, {Action: "luck"}, {Action: Stall, Name: "["}} {
		if _, err := NewFaults().Inject(r); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

func TestCovers(t *testing.T) {
	have := map[string]any{"a": "1", "list": []any{map[string]any{"name": "x", "defaulted": true}}, "empty": map[string]any{}}
	for _, c := range []struct {
		want map[string]any
		ok   bool
	}{
		{map[string]any{}, true},
		{map[string]any{"a": "1"}, true},
		{map[string]any{"a": "2"}, false},
		{map[string]any{"b": "1"}, false},
		{map[string]any{"list": []any{map[string]any{"name": "x"}}}, true},
		{map[string]any{"list": []any{map[string]any{"name": "y"}}}, false},
		{map[string]any{"list": []any{}}, false},
		{map[string]any{"empty": map[string]any{"a": "1"}}, false},
	} {
		if got := covers(have, c.want); got != c.ok {
			t.Errorf("covers %v: %v", c.want, got)
		}
	}
}

func TestUpgrade(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"v1.37.1", "v1.37.2", ""},
		{"v1.37.2", "v1.38.0", ""},
		{"v1.37.2", "v1.37.2", ""},
		{"v1.37.2", "v1.37.1", "decreased"},
		{"v1.37.2", "v1.36.9", "decreased"},
		{"v1.37.2", "v1.39.0", "skipping"},
		{"v1.37.2", "v2.0.0", "skipping"},
		{"v1.37.2", "latest", "semantic"},
	} {
		if got := upgrade(c.from, c.to); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s to %s: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}

func TestInstantiate(t *testing.T) {
	const set = `{"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"namespace": "argocd", "name": "s"},
		"spec": {"goTemplate": GO, "goTemplateOptions": ["missingkey=error"], "syncPolicy": {"preserveResourcesOnDeletion": PRESERVE},
		"template": {"metadata": {"name": "NAME"}, "spec": {"source": {"path": "PATH"}}}}}`
	for _, c := range []struct {
		goTemplate, preserve, name, path string
		wantName, wantPath, wantErr      string
	}{
		{"true", "true", "spoke-{{ .path.basename }}", "{{ .path.path }}", "spoke-A_b", "gitops/spokes/A_b", ""},
		{"true", "false", "{{ .path.basenameNormalized }}", "{{ index .path.segments 1 }}", "a-b", "spokes", ""},
		{"false", "true", "x-{{path.basenameNormalized}}", "{{path}}/{{path[0]}}", "x-a-b", "gitops/spokes/A_b/gitops", ""},
		{"true", "true", "{{ .nobody.name }}", "", "", "", "nobody"},
		{"true", "true", "{{ .path", "", "", "", "parse"},
	} {
		filled := strings.NewReplacer("GO", c.goTemplate, "PRESERVE", c.preserve, "NAME", c.name, "PATH", c.path).Replace(set)
		app, err := instantiate(parseObject(t, filled), "gitops/spokes/A_b")
		if c.wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("%s: %v, want %q", c.name, err, c.wantErr)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		path := text(app.Object, "spec", "source", "path")
		if app.GetName() != c.wantName || path != c.wantPath || app.GetNamespace() != "argocd" || (len(app.GetFinalizers()) == 0) != (c.preserve == "true") {
			t.Errorf("%s: name %q, path %q, finalizers %v", c.name, app.GetName(), path, app.GetFinalizers())
		}
	}
}

// FuzzDecode: whatever lies in a repository is read or refused, and what is read has a name.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n---\n{}\n"))
	f.Add([]byte(`{"apiVersion": "v1", "kind": "List"}`))
	f.Add([]byte("a: [1, 2\n"))
	f.Add([]byte("metadata: 1\nkind: 2\napiVersion: [x]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		objects, err := decode(text)
		if err != nil {
			return
		}
		for _, o := range objects {
			if o.GetKind() == "" || o.GetName() == "" || o.GetAPIVersion() == "" {
				t.Errorf("read %v", o.Object)
			}
		}
	})
}
