package main

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	secretclient "git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/stdlib/secret"
)

// TestKubernetesSecrets reads Secrets from a server that answers as an API
// server does.
func TestKubernetesSecrets(t *testing.T) {
	const token = "bearer-token-of-the-test"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := func(code int, x any) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_ = json.NewEncoder(w).Encode(x)
		}
		switch {
		case r.Header.Get("Authorization") != "Bearer "+token:
			answer(401, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401})
		case r.URL.Path == "/api":
			answer(200, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
		case r.URL.Path == "/apis":
			answer(200, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{}})
		case r.URL.Path == "/api/v1":
			answer(200, map[string]any{"kind": "APIResourceList", "groupVersion": "v1", "resources": []any{
				map[string]any{"name": "secrets", "singularName": "secret", "namespaced": true, "kind": "Secret", "verbs": []string{"get", "list"}}}})
		case r.URL.Path == "/api/v1/namespaces/argocd/secrets/repo":
			answer(200, map[string]any{"kind": "Secret", "apiVersion": "v1", "metadata": map[string]any{"name": "repo", "namespace": "argocd"},
				"data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte("hunter2hunter2"))}})
		default:
			answer(404, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404, "details": map[string]any{"name": "other", "kind": "secrets"}})
		}
	}))
	defer server.Close()

	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	dir := t.TempDir()
	for name, tok := range map[string]string{"good": token, "wrong": "another-token-of-a-test"} {
		text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "main", "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
			"clusters": [{"name": "c", "cluster": {"server": %q, "certificate-authority-data": %q}}], "users": [{"name": "u", "user": {"token": %q}}]}`, server.URL, base64.StdEncoding.EncodeToString(authority), tok)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := secret.Config{Readers: secretclient.SiteReaders(dir, os.LookupEnv, nil), Sources: map[string]secretclient.Source{
		"admin": {Kind: "file", Arg: "good"}, "loop": {Kind: "kubernetes", Arg: "a/b/c?kubeconfig=loop"}}}
	c.Readers["kubernetes"] = kubernetesSecrets(dir, c)
	door := &effect.Door{Clock: effect.SystemClock{}, Redactor: new(effect.Redactor)}
	ctx := effect.With(t.Context(), effect.NewScope(door, effect.Owner{Site: "test"}, "s", nil))
	for _, way := range []string{"kubeconfig=admin", "kubeconfig=admin&context=main", "kubeconfig_file=good"} {
		s, err := c.Read(ctx, "kubernetes:argocd/repo/password?"+way)
		if err != nil || s.Reveal() != "hunter2hunter2" {
			t.Errorf("%s: %v", way, err)
		}
	}
	if got := door.Redactor.String("a hunter2hunter2 b " + token); strings.Contains(got, "hunter2") || strings.Contains(got, token) {
		t.Errorf("the run shows %q", got)
	}
	for ref, want := range map[string]struct {
		kind fault.Kind
		text string
	}{
		"argocd/repo/nope?kubeconfig=admin":                 {fault.NotFound, `it has no key "nope"`},
		"argocd/other/x?kubeconfig=admin":                   {fault.NotFound, "argocd/other"},
		"argocd/repo/password?kubeconfig=none":              {fault.Invalid, `declares no secret "none"`},
		"argocd/repo/password?kubeconfig=loop":              {fault.Invalid, "kept in a cluster itself"},
		"argocd/repo/password?kubeconfig_file=wrong":        {fault.Denied, "argocd/repo"},
		"argocd/repo/password?kubeconfig_file=nope":         {fault.NotFound, "there is no file"},
		"argocd/repo/password?kubeconfig=admin&context=xxx": {fault.Invalid, "xxx"},
		"argocd/repo/password":                              {fault.Invalid, "say either kubeconfig"},
		"repo/password?kubeconfig=admin":                    {fault.Invalid, "names no value of a Secret"},
	} {
		_, err := c.Read(ctx, "kubernetes:"+ref)
		if fault.KindOf(err) != want.kind || !strings.Contains(fmt.Sprint(err), want.text) || strings.Contains(fmt.Sprint(err), token) {
			t.Errorf("%s: %v (%s), want %s %q", ref, err, fault.KindOf(err), want.kind, want.text)
		}
	}
}
