// Package apiserver starts a real Kubernetes API server for the lab: etcd, kube-apiserver and
// kube-controller-manager, on loopback, with their state in one folder.
//
// The program is the nested module internal/lab/kubernetes, built once into the user's cache; or
// the binaries in KUBEBUILDER_ASSETS, where they include kube-controller-manager.
package apiserver

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// ServiceRange is the range of the cluster's Service addresses, as kubeadm has it by default.
const ServiceRange = "10.96.0.0/12"

// Names of the users that the lab's own parts act as. The audit log leaves out what they read.
const (
	ControlUser = "gsrun-lab"
	managerUser = "system:kube-controller-manager"
)

// A Config says how to start a cluster. Only Dir is required.
type Config struct {
	Dir      string   // the state's folder, made if it isn't there; a second start goes on with it
	Port     int      // the loopback port; 0 lets the system choose one
	Names    []string // further DNS names and IP addresses that the serving certificate is valid for
	Egress   string   // a unix socket that answers HTTP CONNECT for all that the API server dials in the cluster; empty refuses it
	Assets   string   // a folder of etcd, kube-apiserver and kube-controller-manager; empty builds Source
	Source   string   // the folder of the nested module; empty looks for it (see FindSource)
	Cache    string   // where built programs are kept; empty is gsrun/lab in the user's cache folder
	Progress func(line string)

	// Launched is called once the certificates are written and the processes run, before they
	// serve. If it fails, so does Start.
	Launched func(*Cluster) error
}

// controllers are those that make sense without machines: no volumes, no cloud, no node health.
var controllers = []string{
	"serviceaccount-token-controller", "serviceaccount-controller", "root-ca-certificate-publisher-controller",
	"namespace-controller", "garbage-collector-controller", "clusterrole-aggregation-controller",
	"deployment-controller", "replicaset-controller", "statefulset-controller", "daemonset-controller",
	"job-controller", "cronjob-controller", "ttl-after-finished-controller", "endpointslice-controller",
}

func etcdArgs() []string {
	return []string{
		"--data-dir=etcd", "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls=unix://etcd-client", "--advertise-client-urls=unix://etcd-client",
		"--listen-peer-urls=unix://etcd-peer", "--initial-advertise-peer-urls=unix://etcd-peer",
		"--initial-cluster=default=unix://etcd-peer",
	}
}

func apiServerArgs(port int) []string {
	return []string{
		"--etcd-servers=unix://etcd-client",
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--endpoint-reconciler-type=none",
		"--cert-dir=pki", "--tls-cert-file=pki/apiserver.crt", "--tls-private-key-file=pki/apiserver.key",
		"--client-ca-file=pki/ca.crt", "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=pki/sa.key", "--service-account-signing-key-file=pki/sa.key",
		"--service-cluster-ip-range=" + ServiceRange, "--allow-privileged=true",
		"--audit-policy-file=audit-policy.yaml", "--audit-log-path=audit.log", "--audit-log-format=json",
		"--egress-selector-config-file=egress.yaml",
		// Its finalizers are removed by controllers that don't run here.
		"--disable-admission-plugins=StorageObjectInUseProtection",
		"--enable-priority-and-fairness=false", "--profiling=false",
		"--default-watch-cache-size=20", "--event-ttl=15m",
	}
}

func managerArgs() []string {
	return []string{
		"--kubeconfig=manager.conf", "--leader-elect=false", "--secure-port=0", "--cert-dir=pki", "--profiling=false",
		"--service-account-private-key-file=pki/sa.key", "--root-ca-file=pki/ca.crt",
		"--controllers=" + strings.Join(controllers, ","),
		"--kube-api-qps=300", "--kube-api-burst=600", "--min-resync-period=12h",
	}
}

// auditPolicy records who did what to which object, never a body. What the lab's own parts read
// is left out; what they write isn't.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["` + ControlUser + `", "` + managerUser + `", "system:apiserver"]
  verbs: [get, list, watch]
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/version"]
- level: Metadata
`

func egressConfig(socket string) ([]byte, error) {
	if socket == "" {
		// Nobody listens there: a webhook is refused, as it is with nothing behind its Service.
		socket = "no-egress"
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "apiserver.k8s.io/v1beta1",
		"kind":       "EgressSelectorConfiguration",
		"egressSelections": []any{map[string]any{
			"name": "cluster",
			"connection": map[string]any{
				"proxyProtocol": "HTTPConnect",
				"transport":     map[string]any{"uds": map[string]any{"udsName": socket}},
			},
		}},
	})
}

// writeConfig writes the files that the components read, but for the certificates.
func writeConfig(c Config, port int) error {
	egress, err := egressConfig(c.Egress)
	if err != nil {
		return err
	}
	flags, err := json.MarshalIndent(map[string][]string{
		"etcd":                    etcdArgs(),
		"kube-apiserver":          apiServerArgs(port),
		"kube-controller-manager": managerArgs(),
	}, "", "  ")
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"egress.yaml":       egress,
		"audit-policy.yaml": []byte(auditPolicy),
		"components.json":   flags,
	} {
		if err := writeFile(filepath.Join(c.Dir, name), text); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file that only the user may read, whole or not at all.
func writeFile(path string, text []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
