package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func configMap(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name},
	}}
}

func TestStart(t *testing.T) {
	skip.Slow(t, "it starts an API server")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	config := apiserver.Config{Dir: t.TempDir(), Names: []string{"10.20.0.10", "seed.lab"}, Progress: func(s string) { t.Log(s) }}
	program, err := apiserver.Build(ctx, "", "", config.Progress)
	if err != nil {
		t.Fatal(err)
	}
	config.Progress = func(s string) { t.Errorf("%s was built already, yet: %s", program, s) }
	start := time.Now()
	cluster, err := apiserver.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	t.Logf("started in %v, %s resident", time.Since(start).Round(10*time.Millisecond), resident(t, cluster.Pids[0]))

	text, err := os.ReadFile(filepath.Join(config.Dir, "admin.conf"))
	if err != nil {
		t.Fatal(err)
	}
	rest, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	client := dynamic.NewForConfigOrDie(rest).Resource(configMaps).Namespace("default")
	if _, err := client.Create(ctx, configMap("dry"), metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Create(ctx, configMap("kept"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	// Who isn't an administrator may do nothing, and a dialled name that isn't the server's is refused.
	rest, err = cluster.REST("nobody")
	if err != nil {
		t.Fatal(err)
	}
	_, err = dynamic.NewForConfigOrDie(rest).Resource(configMaps).Namespace("default").Get(ctx, "kept", metav1.GetOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights: got %v, want Forbidden", err)
	}
	for server, want := range map[string]string{"https://10.20.0.10:6443": "", "https://10.20.0.11:6443": "10.20.0.11"} {
		err := dial(ctx, t, cluster, server)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("dialled as %s: %v", server, err)
		}
	}

	writes := awaitRequests(ctx, t, cluster)
	if len(writes) != 1 || writes[0].Name != "kept" || writes[0].User != "kubernetes-admin" || writes[0].Code != 201 {
		t.Errorf("writes in the audit log: %+v", writes)
	}

	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-cluster.Done():
	default:
		t.Error("stopped, but not done")
	}
	if _, err := net.DialTimeout("tcp", cluster.Address, time.Second); err == nil {
		t.Error("stopped, but something listens")
	}

	// A second start goes on with what the first left.
	again, err := apiserver.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Stop() })
	rest, err = again.REST("kubernetes-admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dynamic.NewForConfigOrDie(rest).Resource(configMaps).Namespace("default").Get(ctx, "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

// dial asks for the version by way of the cluster's real address, as a tunnel does.
func dial(ctx context.Context, t *testing.T, cluster *apiserver.Cluster, server string) error {
	t.Helper()
	text, err := cluster.Kubeconfig(server, "kubernetes-admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	rest, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	rest.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, cluster.Address)
	}
	_, err = dynamic.NewForConfigOrDie(rest).Resource(configMaps).Namespace("default").List(ctx, metav1.ListOptions{})
	return err
}

// awaitRequests waits until the audit log tells of the request that was refused, which was made
// after the writes, and returns the writes.
func awaitRequests(ctx context.Context, t *testing.T, cluster *apiserver.Cluster) []apiserver.Request {
	t.Helper()
	for {
		requests, err := cluster.Requests()
		if err != nil {
			t.Fatal(err)
		}
		var writes []apiserver.Request
		seen := false
		for _, r := range requests {
			seen = seen || r.User == "nobody"
			if r.Writes() {
				writes = append(writes, r)
			}
		}
		if seen {
			return writes
		}
		select {
		case <-ctx.Done():
			t.Fatal("the audit log lacks a request")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func resident(t *testing.T, pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		return "unknown"
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return "unknown"
}

// TestAssets runs the components as programs of their own, as KUBEBUILDER_ASSETS names them.
func TestAssets(t *testing.T) {
	skip.Slow(t, "it starts an API server")
	program, err := apiserver.Build(t.Context(), "", "", func(s string) { t.Log(s) })
	if err != nil {
		t.Fatal(err)
	}
	assets := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
		if err := os.Symlink(program, filepath.Join(assets, name)); err != nil {
			t.Fatal(err)
		}
	}
	cluster, err := apiserver.Start(t.Context(), apiserver.Config{Dir: t.TempDir(), Assets: assets, Progress: func(s string) { t.Error(s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	if len(cluster.Pids) != 3 {
		t.Errorf("%d processes", len(cluster.Pids))
	}
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := net.DialTimeout("tcp", cluster.Address, time.Second); err == nil {
		t.Error("stopped, but something listens")
	}
}
