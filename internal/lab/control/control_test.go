package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
	"git.vanillacore.net/govstack/gsrun/internal/lab/control"
	"git.vanillacore.net/govstack/gsrun/internal/lab/mirror"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// A lab is a real API server with the parts playing against it.
type lab struct {
	t       *testing.T
	ctx     context.Context
	cluster *apiserver.Cluster
	client  dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	faults  *control.Faults
	repos   map[string]string
}

func newLab(t *testing.T, change func(*control.Config)) *lab {
	t.Helper()
	skip.Slow(t, "it starts an API server")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	t.Cleanup(cancel)
	dir := t.TempDir()
	program, err := apiserver.Build(ctx, "", "", func(s string) { t.Log(s) })
	skip.Unless(t, err == nil, "the lab's controllers", fmt.Sprintf("its Kubernetes can't be built: %v", err))
	t.Log("the lab's Kubernetes is", program)
	socket := filepath.Join(dir, "egress.sock")
	cluster, err := apiserver.Start(ctx, apiserver.Config{Dir: filepath.Join(dir, "k8s"), Egress: socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	l := &lab{t: t, ctx: ctx, cluster: cluster, faults: control.NewFaults(), repos: map[string]string{}}
	rest, err := cluster.Control()
	if err != nil {
		t.Fatal(err)
	}
	config := control.Config{REST: rest, Socket: socket, Faults: l.faults, Log: func(s string) { t.Log(s) },
		Repository: func(url string) (string, bool) { f, ok := l.repos[url]; return f, ok }}
	if change != nil {
		change(&config)
	}
	playing, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- control.Run(playing, config) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error("playing:", err)
		}
	})
	admin, err := cluster.REST("kubernetes-admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	l.client = dynamic.NewForConfigOrDie(admin)
	l.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(admin)))
	return l
}

// on returns the client for an object's kind and namespace.
func (l *lab) on(o *unstructured.Unstructured, namespace string) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	mapping, err := l.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		l.mapper.Reset()
		mapping, err = l.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return l.client.Resource(mapping.Resource), nil
	}
	if o.GetNamespace() != "" {
		namespace = o.GetNamespace()
	}
	if namespace == "" {
		namespace = "default"
	}
	return l.client.Resource(mapping.Resource).Namespace(namespace), nil
}

func parse(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	reader := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		var o unstructured.Unstructured
		if err := reader.Decode(&o.Object); err != nil {
			return objects
		}
		if len(o.Object) > 0 {
			objects = append(objects, &o)
		}
	}
}

// try applies one object by server-side apply.
func (l *lab) try(o *unstructured.Unstructured, namespace string) error {
	client, err := l.on(o, namespace)
	if err != nil {
		return err
	}
	body, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	force := true
	_, err = client.Patch(l.ctx, o.GetName(), types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: "test", Force: &force})
	return err
}

// apply applies objects, again and again while webhooks and definitions come up, as gsrun does.
func (l *lab) apply(text, namespace string) {
	l.t.Helper()
	for _, o := range parse(l.t, text) {
		l.await(fmt.Sprintf("applying %s %s", o.GetKind(), o.GetName()), func() error { return l.try(o, namespace) })
	}
}

// await asks until it gets no error.
func (l *lab) await(what string, ask func() error) {
	l.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for {
		err := ask()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// get reads an object named as "apiVersion Kind namespace/name" or "apiVersion Kind name".
func (l *lab) get(id string) (*unstructured.Unstructured, error) {
	fields := strings.Fields(id)
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(fields[0])
	o.SetKind(fields[1])
	namespace, name, found := strings.Cut(fields[2], "/")
	if !found {
		namespace, name = "", fields[2]
	}
	client, err := l.on(o, namespace)
	if err != nil {
		return nil, err
	}
	return client.Get(l.ctx, name, metav1.GetOptions{})
}

func status(o *unstructured.Unstructured, name string) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c := c.(map[string]any); c["type"] == name {
			return fmt.Sprintf("%v %v: %v", c["status"], c["reason"], c["message"])
		}
	}
	return "absent"
}

// until waits for a condition whose text begins so.
func (l *lab) until(id, name, want string) *unstructured.Unstructured {
	l.t.Helper()
	var found *unstructured.Unstructured
	l.await(id, func() error {
		o, err := l.get(id)
		if err != nil {
			return err
		}
		found = o
		if got := status(o, name); !strings.HasPrefix(got, want) {
			return fmt.Errorf("condition %s is %q, want %q", name, got, want)
		}
		return nil
	})
	return found
}

// variables replaces clusterctl's variables by their defaults, and one of them by true.
func variables(text string) string {
	text = strings.ReplaceAll(text, "${CLUSTER_TOPOLOGY:=false}", "true")
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			return text
		}
		j := i + strings.Index(text[i:], "}")
		_, value, _ := strings.Cut(text[i+2:j], ":=")
		text = text[:i] + value + text[j+1:]
	}
}

func upstream(t *testing.T, url string) string {
	t.Helper()
	text, err := mirror.Content(url)
	if err != nil {
		t.Fatal(err)
	}
	return variables(string(text))
}

const (
	certManagerURL = "https://github.com/cert-manager/cert-manager/releases/download/v1.20.3/cert-manager.yaml"
	orcURL         = "https://github.com/k-orc/openstack-resource-controller/releases/download/v2.6.0/install.yaml"
	capiURL        = "https://github.com/kubernetes-sigs/cluster-api/releases/download/v1.14.2/"
	capoURL        = "https://github.com/kubernetes-sigs/cluster-api-provider-openstack/releases/download/v0.14.7/infrastructure-components.yaml"
	argoURL        = "https://raw.githubusercontent.com/argoproj/argo-cd/v3.2.11/manifests/install.yaml"
)

// install applies all of Cluster API.
func (l *lab) install() {
	l.t.Helper()
	start := time.Now()
	defer func() { l.t.Logf("Cluster API installed in %v", time.Since(start).Round(time.Millisecond)) }()
	l.t.Helper()
	for _, url := range []string{certManagerURL, orcURL, capiURL + "core-components.yaml", capiURL + "bootstrap-components.yaml", capiURL + "control-plane-components.yaml", capoURL} {
		l.apply(upstream(l.t, url), "")
	}
	for _, id := range []string{
		"cert-manager/cert-manager", "cert-manager/cert-manager-webhook", "cert-manager/cert-manager-cainjector", "orc-system/orc-controller-manager",
		"capi-system/capi-controller-manager", "capi-kubeadm-bootstrap-system/capi-kubeadm-bootstrap-controller-manager",
		"capi-kubeadm-control-plane-system/capi-kubeadm-control-plane-controller-manager", "capo-system/capo-controller-manager",
	} {
		l.until("apps/v1 Deployment "+id, "Available", "True")
	}
}

var errWant = errors.New("not yet")
