package kube_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"go.starlark.net/starlark"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/kube"
)

// A guard is a webhook that objects of one namespace have to pass. It refuses
// those labelled so, and answers only once it is up.
type guard struct {
	calls atomic.Int32
	from  atomic.Int32 // the call from which on it answers
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.calls.Add(1) < g.from.Load() {
		http.Error(w, "not yet", http.StatusServiceUnavailable)
		return
	}
	var review struct {
		APIVersion, Kind string
		Request          struct {
			UID    string
			Object unstructured.Unstructured
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := map[string]any{"uid": review.Request.UID, "allowed": true}
	if review.Request.Object.GetLabels()["bad"] != "" {
		answer["allowed"], answer["status"] = false, map[string]any{"message": "it is labelled bad"}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind, "response": answer})
}

// guarded makes a namespace whose ConfigMaps the returned guard is asked about.
func guarded(t *testing.T, namespace string) *guard {
	t.Helper()
	g := new(guard)
	g.from.Store(math.MaxInt32)
	server := httptest.NewUnstartedServer(g)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	client := admin(t)
	for _, o := range []struct {
		resource schema.GroupVersionResource
		object   map[string]any
	}{
		{schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}},
		{schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"}, map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": namespace},
			"webhooks": []any{map[string]any{
				"name": namespace + ".guard.test", "admissionReviewVersions": []any{"v1"}, "sideEffects": "None", "timeoutSeconds": int64(5),
				"clientConfig":      map[string]any{"url": server.URL + "/guard", "caBundle": ca},
				"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": namespace}},
				"rules":             []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{"configmaps"}}},
			}}}},
	} {
		if _, err := client.Resource(o.resource).Create(t.Context(), &unstructured.Unstructured{Object: o.object}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := client.Resource(o.resource).Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
		})
	}
	// From when on the API server asks the webhook isn't said anywhere.
	probe := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "probe"}}}
	await(t, "the webhook", func() bool {
		_, _ = client.Resource(configMaps).Namespace(namespace).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return g.calls.Load() > 0
	})
	return g
}

func TestWebhook(t *testing.T) {
	g := guarded(t, "guarded")
	var c counter
	names := globals(t, &c)
	names["up_soon"] = starlark.NewBuiltin("up_soon", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		g.from.Store(g.calls.Load() + 3)
		return starlark.None, nil
	})
	opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{Wrap: c.wrap})}, Globals: names}
	const prelude = `
def configmap(name, **labels):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "guarded", "labels": labels}}

def test():
    c = kube.cluster("lab", kubeconfig = kubeconfig)
`
	do := func(opts startest.Options, body string) {
		t.Helper()
		if _, err := run(t, opts, prelude+body); err != nil {
			t.Fatal(startest.Explain(err))
		}
	}
	// A plan is one although a webhook doesn't answer, and says what that means.
	door := startest.NewDoor(effect.Plan)
	do(startest.Options{Modules: opts.Modules, Globals: names, Door: door}, `
    c.apply([configmap("one")])
    assert.unknown(c.admits(configmap("two")))
`)
	if p := door.Planned(); len(p) != 1 || p[0].Change.Kind != effect.Create || !strings.Contains(p[0].Change.Note, "failed calling webhook") {
		t.Errorf("planned %+v", p)
	}
	do(opts, `
    assert.fails(lambda: c.apply([configmap("one")]), 'failed calling webhook "guarded.guard.test"', "unavailable")
    assert.fails(lambda: c.admits(configmap("one"), timeout = "600ms"), 'failed calling webhook "guarded.guard.test"', "timeout")
    up_soon()
    assert.eq(c.admits(configmap("one"), timeout = "20s"), True)
    assert.eq(c.get("ConfigMap", "one", namespace = "guarded"), None)
    c.apply([configmap("one")])
    assert.eq(c.admits(configmap("one")), True)
    assert.fails(lambda: c.admits(configmap("two", bad = "yes")), "it is labelled bad", "invalid")
    assert.fails(lambda: c.apply([configmap("two", bad = "yes")]), 'admission webhook "guarded.guard.test" denied the request: it is labelled bad', "invalid")
    assert.fails(lambda: c.admits({"apiVersion": "no.test/v1", "kind": "No", "metadata": {"name": "x"}}, timeout = "300ms"), "doesn't serve no.test/v1 No", "timeout")
    assert.fails(lambda: c.admits([configmap("a"), configmap("b")]), "got 2 objects, want one", "invalid")
`)
}
