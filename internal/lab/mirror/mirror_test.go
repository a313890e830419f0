package mirror_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/mirror"
	"sigs.k8s.io/yaml"
)

const (
	certManager = "https://github.com/cert-manager/cert-manager/releases/download/v1.18.2/cert-manager.yaml"
	capi        = "https://github.com/kubernetes-sigs/cluster-api/releases/download/v1.13.3/"
	capo        = "https://github.com/kubernetes-sigs/cluster-api-provider-openstack/releases/download/v0.14.6/infrastructure-components.yaml"
	argoRaw     = "https://raw.githubusercontent.com/argoproj/argo-cd/v3.2.11/manifests/install.yaml"
	cloudImage  = "https://cloud.debian.org/images/cloud/trixie/latest/debian-13-genericcloud-amd64.qcow2"
)

// objects returns "Kind namespace/name" of all objects of a stand-in, and the objects by it.
func objects(t *testing.T, url string) map[string]map[string]any {
	t.Helper()
	text, err := mirror.Content(url)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]any{}
	for _, document := range strings.Split(string(text), "---\n")[1:] {
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Fatalf("%s: %v\n%s", url, err, document)
		}
		meta := o["metadata"].(map[string]any)
		namespace, _ := meta["namespace"].(string)
		id := o["kind"].(string) + " " + namespace + "/" + meta["name"].(string)
		if found[id] != nil {
			t.Errorf("%s has %s twice", url, id)
		}
		found[id] = o
	}
	return found
}

func TestContent(t *testing.T) {
	for url, want := range map[string][]string{
		certManager: {
			"Namespace /cert-manager", "CustomResourceDefinition /certificates.cert-manager.io", "CustomResourceDefinition /orders.acme.cert-manager.io",
			"Deployment cert-manager/cert-manager", "Deployment cert-manager/cert-manager-webhook", "Deployment cert-manager/cert-manager-cainjector",
			"Service cert-manager/cert-manager-webhook", "ValidatingWebhookConfiguration /cert-manager-webhook", "MutatingWebhookConfiguration /cert-manager-webhook",
		},
		"https://github.com/k-orc/openstack-resource-controller/releases/download/v2.4.0/install.yaml": {
			"Namespace /orc-system", "Deployment orc-system/orc-controller-manager", "CustomResourceDefinition /images.openstack.k-orc.cloud",
		},
		capi + "core-components.yaml": {
			"Namespace /capi-system", "Deployment capi-system/capi-controller-manager", "Service capi-system/capi-webhook-service",
			"Certificate capi-system/capi-serving-cert", "Issuer capi-system/capi-selfsigned-issuer", "CustomResourceDefinition /clusters.cluster.x-k8s.io",
			"CustomResourceDefinition /clusterclasses.cluster.x-k8s.io", "CustomResourceDefinition /ipaddresses.ipam.cluster.x-k8s.io",
			"ValidatingWebhookConfiguration /capi-validating-webhook-configuration", "MutatingWebhookConfiguration /capi-mutating-webhook-configuration",
		},
		capi + "bootstrap-components.yaml":     {"Deployment capi-kubeadm-bootstrap-system/capi-kubeadm-bootstrap-controller-manager", "CustomResourceDefinition /kubeadmconfigs.bootstrap.cluster.x-k8s.io"},
		capi + "control-plane-components.yaml": {"Deployment capi-kubeadm-control-plane-system/capi-kubeadm-control-plane-controller-manager", "CustomResourceDefinition /kubeadmcontrolplanes.controlplane.cluster.x-k8s.io"},
		capo:                                   {"Deployment capo-system/capo-controller-manager", "CustomResourceDefinition /openstackclusters.infrastructure.cluster.x-k8s.io", "Certificate capo-system/capo-serving-cert"},
		argoRaw: {
			"Deployment /argocd-server", "Deployment /argocd-repo-server", "Deployment /argocd-applicationset-controller", "Deployment /argocd-redis",
			"StatefulSet /argocd-application-controller", "ConfigMap /argocd-ssh-known-hosts-cm", "CustomResourceDefinition /applicationsets.argoproj.io",
		},
		"https://github.com/flannel-io/flannel/releases/download/v0.27.4/kube-flannel.yml":     {"DaemonSet kube-flannel/kube-flannel-ds", "Namespace /kube-flannel"},
		"https://raw.githubusercontent.com/projectcalico/calico/v3.30.3/manifests/calico.yaml": {"DaemonSet kube-system/calico-node"},
	} {
		have := objects(t, url)
		for _, id := range want {
			if have[id] == nil {
				t.Errorf("%s has no %s", url, id)
			}
		}
	}
}

func TestVersionDecides(t *testing.T) {
	definition := func(release string) (served []string, image string) {
		all := objects(t, strings.Replace(capi, "v1.13.3", release, 1)+"core-components.yaml")
		for _, v := range all["CustomResourceDefinition /clusters.cluster.x-k8s.io"]["spec"].(map[string]any)["versions"].([]any) {
			served = append(served, v.(map[string]any)["name"].(string))
		}
		deployment, err := yaml.Marshal(all["Deployment capi-system/capi-controller-manager"])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(deployment), "cluster-api-controller:"+release+"\n") {
			t.Errorf("the image of %s has another version:\n%s", release, deployment)
		}
		if !strings.Contains(string(deployment), "ClusterTopology=${CLUSTER_TOPOLOGY:=false}") {
			t.Errorf("%s has no variable for the topology:\n%s", release, deployment)
		}
		return served, string(deployment)
	}
	if served, _ := definition("v1.10.4"); !slices.Equal(served, []string{"v1beta1"}) {
		t.Errorf("v1.10 serves %v", served)
	}
	if served, _ := definition("v1.13.3"); !slices.Equal(served, []string{"v1beta1", "v1beta2"}) {
		t.Errorf("v1.13 serves %v", served)
	}
}

func TestDigests(t *testing.T) {
	digests, err := mirror.Digests(certManager, cloudImage)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(mirror.New())
	defer server.Close()
	for url, want := range digests {
		content, status, err := get(server, url, "")
		sum := sha256.Sum256(content)
		if err != nil || status != http.StatusOK || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: status %d, %v, sum %x, want %s", url, status, err, sum, want)
		}
	}
	other, err := mirror.Digests(strings.Replace(certManager, "v1.18.2", "v1.18.3", 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, sum := range other {
		if sum == digests[certManager] {
			t.Error("two versions have one digest")
		}
	}
	image, err := mirror.Content(cloudImage)
	if err != nil {
		t.Fatal(err)
	}
	key, err := mirror.Content("https://pkgs.k8s.io/core:/stable:/v1.37/deb/Release.key")
	if err != nil || !bytes.HasPrefix(key, []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")) {
		t.Errorf("a repository's key: %q, %v", key, err)
	}
	if !bytes.HasPrefix(image, []byte("QFI\xfb\x00\x00\x00\x03")) {
		t.Errorf("an image that isn't qcow2: %x", image[:8])
	}
}

func TestUnknown(t *testing.T) {
	for url, want := range map[string]fault.Kind{
		"https://github.com/cert-manager/cert-manager/releases/download/1.18.2/cert-manager.yaml": fault.NotFound,
		"https://example.com/cert-manager.yaml":                                                   fault.NotFound,
		"cert-manager.yaml":                                                                       fault.Invalid,
	} {
		if _, err := mirror.Content(url); fault.KindOf(err) != want {
			t.Errorf("%s: %v, want kind %s", url, err, want)
		}
		if _, err := mirror.Digests(url); fault.KindOf(err) != want {
			t.Errorf("digest of %s: %v, want kind %s", url, err, want)
		}
	}
}

// get fetches the stand-in of an upstream URL from a mirror.
func get(server *httptest.Server, url, bytes string) ([]byte, int, error) {
	request, err := http.NewRequest(http.MethodGet, server.URL+"/"+strings.TrimPrefix(url, "https://"), nil)
	if err != nil {
		return nil, 0, err
	}
	if bytes != "" {
		request.Header.Set("Range", bytes)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return content, response.StatusCode, err
}

func TestFaults(t *testing.T) {
	m := mirror.New()
	server := httptest.NewServer(m)
	defer server.Close()
	whole, err := mirror.Content(cloudImage)
	if err != nil {
		t.Fatal(err)
	}
	path := "/" + strings.TrimPrefix(cloudImage, "https://")

	inject := func(f mirror.Fault) {
		if _, err := m.Inject(f); err != nil {
			t.Fatal(err)
		}
	}
	inject(mirror.Fault{Path: path, Action: mirror.Corrupt})
	inject(mirror.Fault{Path: "*.qcow2", Action: mirror.Missing})
	inject(mirror.Fault{Path: "*.qcow2", Action: mirror.Refuse})
	inject(mirror.Fault{Path: "*.qcow2", Action: mirror.Reset})
	if content, status, err := get(server, cloudImage, ""); err != nil || status != http.StatusOK || len(content) != len(whole) || bytes.Equal(content, whole) {
		t.Errorf("corrupt: status %d, %d bytes, %v", status, len(content), err)
	}
	if _, status, err := get(server, cloudImage, ""); err != nil || status != http.StatusNotFound {
		t.Errorf("missing: status %d, %v", status, err)
	}
	if _, status, err := get(server, cloudImage, ""); err != nil || status != http.StatusServiceUnavailable {
		t.Errorf("refused: status %d, %v", status, err)
	}
	half, _, err := get(server, cloudImage, "")
	if !errors.Is(err, io.ErrUnexpectedEOF) || len(half) == 0 || len(half) >= len(whole) {
		t.Errorf("reset: %d bytes of %d, %v", len(half), len(whole), err)
	}
	// What was broken off is resumed.
	rest, status, err := get(server, cloudImage, "bytes="+strconv.Itoa(len(half))+"-")
	if err != nil || status != http.StatusPartialContent || !bytes.Equal(append(half, rest...), whole) {
		t.Errorf("resumed: status %d, %d and %d bytes, %v", status, len(half), len(rest), err)
	}

	const delay = 150 * time.Millisecond
	inject(mirror.Fault{Path: "*.qcow2", Action: mirror.Slow, DelayMS: int(delay.Milliseconds()), Count: -1})
	start := time.Now()
	if content, _, err := get(server, cloudImage, ""); err != nil || !bytes.Equal(content, whole) || time.Since(start) < delay {
		t.Errorf("slow: %d bytes after %v, %v", len(content), time.Since(start), err)
	}
	if n := m.ClearFaults(""); n != 5 {
		t.Errorf("%d faults were cleared", n)
	}
	if _, status, err := get(server, cloudImage, ""); err != nil || status != http.StatusOK {
		t.Errorf("cleared: status %d, %v", status, err)
	}

	// The log has an entry a moment after the answer's last byte.
	var statuses []int
	for deadline := time.Now().Add(5 * time.Second); len(statuses) < 7 && time.Now().Before(deadline); {
		statuses = nil
		for _, r := range m.Requests() {
			if r.Path != path || r.Method != http.MethodGet {
				t.Fatalf("logged %+v", r)
			}
			statuses = append(statuses, r.Status)
		}
	}
	if want := []int{200, 404, 503, 200, 206, 200, 200}; !slices.Equal(statuses, want) {
		t.Errorf("logged %v, want %v", statuses, want)
	}
	if response, err := server.Client().Post(server.URL+path, "text/plain", nil); err != nil || response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a POST: %v, %v", response, err)
	} else {
		_ = response.Body.Close()
	}
}

func TestStatusFault(t *testing.T) {
	m := mirror.New()
	server := httptest.NewServer(m)
	defer server.Close()
	if _, err := m.Inject(mirror.Fault{Status: http.StatusTooManyRequests, RetryAfter: "+2s"}); err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Get(server.URL + "/" + strings.TrimPrefix(cloudImage, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if _, err := http.ParseTime(response.Header.Get("Retry-After")); response.StatusCode != http.StatusTooManyRequests || err != nil {
		t.Errorf("status %d, %v", response.StatusCode, err)
	}
	for _, f := range []mirror.Fault{{}, {Action: "luck"}, {Status: 42}, {Action: mirror.Slow}, {Path: "[", Action: mirror.Refuse}} {
		if _, err := m.Inject(f); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
