package kube_test

import (
	"context"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
	"git.vanillacore.net/govstack/gsrun/internal/lab/control"
	"git.vanillacore.net/govstack/gsrun/internal/lab/mirror"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/kube"
)

// components are what a management cluster is made of, in order.
var components = []string{
	"https://raw.githubusercontent.com/projectcalico/calico/v3.32.2/manifests/calico.yaml",
	"https://github.com/cert-manager/cert-manager/releases/download/v1.20.3/cert-manager.yaml",
	"https://github.com/k-orc/openstack-resource-controller/releases/download/v2.6.0/install.yaml",
	"https://github.com/kubernetes-sigs/cluster-api/releases/download/v1.14.2/core-components.yaml",
	"https://github.com/kubernetes-sigs/cluster-api/releases/download/v1.14.2/bootstrap-components.yaml",
	"https://github.com/kubernetes-sigs/cluster-api/releases/download/v1.14.2/control-plane-components.yaml",
	"https://github.com/kubernetes-sigs/cluster-api-provider-openstack/releases/download/v0.14.7/infrastructure-components.yaml",
	"https://raw.githubusercontent.com/argoproj/argo-cd/v3.2.11/manifests/install.yaml",
}

// variable is what clusterctl would fill in; here it gets its default.
var variable = regexp.MustCompile(`\$\{\w+:=([^}]*)\}`)

const componentsSource = `
def test():
    c = kube.cluster("seed", kubeconfig = kubeconfig)
    c.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}}])
    for text in texts:
        c.apply(manifests = text, namespace = "argocd", timeout = "60s")
        if "cert-manager-webhook" in text:
            c.admits({"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": {"name": "probe"}, "spec": {"selfSigned": {}}}, timeout = "60s")
    c.admits({
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "probe"},
        "spec": {"infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": "probe"}},
    }, timeout = "60s")
    c.wait("Deployment", "argocd-server", namespace = "argocd", condition = "Available", timeout = "60s")
`

// A management cluster comes up out of the manifests of its components, with
// their webhooks and what injects their authorities at work; a second run finds
// it as wanted, and a plan says so.
func TestComponents(t *testing.T) {
	start(t) // skips if there is no API server
	dir := t.TempDir()
	socket := filepath.Join(dir, "egress")
	cluster, err := apiserver.Start(t.Context(), apiserver.Config{Dir: filepath.Join(dir, "kubernetes"), Egress: socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	conf, err := cluster.Control()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- control.Run(ctx, control.Config{REST: conf, Socket: socket, Node: control.Node{Network: true}})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	var manifests []string
	for _, url := range components {
		content, err := mirror.Content(url)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, variable.ReplaceAllString(string(content), "$1"))
	}
	text, err := cluster.Kubeconfig("https://"+cluster.Address, "gsrun", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	var c counter
	for i, pass := range []struct {
		mode effect.Mode
		made bool // everything is new
	}{{effect.Plan, true}, {effect.Apply, true}, {effect.Apply, false}, {effect.Plan, false}} {
		began := time.Now()
		door := startest.NewDoor(pass.mode)
		opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{Wrap: c.wrap})}, Door: door, Timeout: 5 * time.Minute,
			Globals: starlark.StringDict{"kubeconfig": effect.SecretOf(string(text), ""), "texts": texts(manifests)}}
		if _, err := run(t, opts, componentsSource); err != nil {
			t.Fatal(startest.Explain(err))
		}
		requests, writes := c.take()
		n := door.Counts()
		t.Logf("pass %d: %v, %+v, %d requests, %d writes", i, time.Since(began).Round(time.Millisecond), n, len(requests), len(writes))
		want := effect.Counts{}
		if pass.made {
			want.Created = n.Created
		} else {
			want.Unchanged = n.Unchanged
		}
		if n != want || n.Created+n.Unchanged < 100 {
			t.Errorf("pass %d: %+v, planned %+v", i, n, door.Planned())
		}
		sent := 0
		if pass.made && pass.mode == effect.Apply {
			sent = n.Created
		}
		if len(writes) != sent {
			t.Errorf("pass %d: %d writes, want %d: %v", i, len(writes), sent, writes)
		}
	}
}
