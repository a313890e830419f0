package secret

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A KubernetesArg names one value of a Secret of a cluster, and how the cluster
// is reached: by a kubeconfig, which is another secret of the site or a file.
type KubernetesArg struct {
	Kubeconfig     string // name of a secret of the site
	KubeconfigFile string // path
	Context        string // of the kubeconfig; empty is its current one
	Namespace      string
	Name           string
	Key            string
}

// String returns a as NAMESPACE/NAME/KEY?kubeconfig=NAME. ParseKubernetesArg
// reads it.
func (a KubernetesArg) String() string {
	q := make(url.Values)
	for name, v := range map[string]string{"kubeconfig": a.Kubeconfig, "kubeconfig_file": a.KubeconfigFile, "context": a.Context} {
		if v != "" {
			q.Set(name, v)
		}
	}
	return a.Namespace + "/" + a.Name + "/" + a.Key + "?" + q.Encode()
}

// ParseKubernetesArg reads what String returns.
func ParseKubernetesArg(s string) (KubernetesArg, error) {
	place, query, _ := strings.Cut(s, "?")
	parts := strings.Split(place, "/")
	q, err := url.ParseQuery(query)
	if err != nil || len(parts) != 3 {
		return KubernetesArg{}, fault.Hinted(fault.Invalid, "write kubernetes:NAMESPACE/NAME/KEY?kubeconfig=SECRET", "%q names no value of a Secret", s)
	}
	a := KubernetesArg{Kubeconfig: q.Get("kubeconfig"), KubeconfigFile: q.Get("kubeconfig_file"), Context: q.Get("context"),
		Namespace: parts[0], Name: parts[1], Key: parts[2]}
	return a, a.check()
}

func (a KubernetesArg) check() error {
	for what, v := range map[string]string{"namespace": a.Namespace, "name": a.Name, "key": a.Key} {
		if v == "" || strings.ContainsAny(v, "/?") {
			return fault.New(fault.Invalid, "kubernetes: %s %q", what, v)
		}
	}
	if (a.Kubeconfig == "") == (a.KubeconfigFile == "") {
		return fault.New(fault.Invalid, "kubernetes: say either kubeconfig, which is the name of a secret of the site, or kubeconfig_file")
	}
	return nil
}

// parseKubernetes reads what a site writes after `kubernetes:`.
func parseKubernetes(spec any) (KubernetesArg, error) {
	var a KubernetesArg
	fields := map[string]*string{"kubeconfig": &a.Kubeconfig, "kubeconfig_file": &a.KubeconfigFile, "context": &a.Context,
		"namespace": &a.Namespace, "name": &a.Name, "key": &a.Key}
	m, ok := spec.(map[string]any)
	if !ok {
		return a, fmt.Errorf("what follows kubernetes has no %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
	}
	for name, v := range m {
		text, ok := v.(string)
		if fields[name] == nil || !ok {
			return a, fmt.Errorf("kubernetes: %s: want %s, each a text", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		*fields[name] = text
	}
	return a, a.check()
}
