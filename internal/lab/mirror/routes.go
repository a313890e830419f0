package mirror

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// A route makes the files whose host and path match its pattern. An element {version} of the
// pattern is the version that the file is made for; * is any text within an element.
type route struct {
	pattern string
	make    func(version, name string) ([]byte, error)
}

type manifest = map[string]any

func routes() []route {
	from := func(objects func(version string) []manifest) func(string, string) ([]byte, error) {
		return func(version, _ string) ([]byte, error) { return render(objects(version)) }
	}
	return []route{
		{"github.com/cert-manager/cert-manager/releases/download/{version}/cert-manager.yaml", from(certManager)},
		{"github.com/k-orc/openstack-resource-controller/releases/download/{version}/install.yaml", from(resourceController)},
		{"github.com/kubernetes-sigs/cluster-api/releases/download/{version}/core-components.yaml", from(coreComponents)},
		{"github.com/kubernetes-sigs/cluster-api/releases/download/{version}/bootstrap-components.yaml", from(bootstrapComponents)},
		{"github.com/kubernetes-sigs/cluster-api/releases/download/{version}/control-plane-components.yaml", from(controlPlaneComponents)},
		{"github.com/kubernetes-sigs/cluster-api-provider-openstack/releases/download/{version}/infrastructure-components.yaml", from(openStackComponents)},
		{"raw.githubusercontent.com/argoproj/argo-cd/{version}/manifests/install.yaml", from(argoCD)},
		{"github.com/argoproj/argo-cd/raw/{version}/manifests/install.yaml", from(argoCD)},
		{"github.com/argoproj/argo-cd/releases/download/{version}/install.yaml", from(argoCD)},
		{"github.com/flannel-io/flannel/releases/download/{version}/kube-flannel.yml", from(flannel)},
		{"raw.githubusercontent.com/projectcalico/calico/{version}/manifests/calico.yaml", from(calico)},
		{"pkgs.k8s.io/core:/stable:/{version}/deb/Release.key", signingKey},
		{"*/*.qcow2", image}, {"*/*.img", image}, {"*/*.raw", image},
	}
}

// Known returns the patterns of the files that there are.
func Known() []string {
	var known []string
	for _, r := range routes() {
		known = append(known, r.pattern)
	}
	return known
}

func (r route) match(name string) (version string, ok bool) {
	if ending, found := strings.CutPrefix(r.pattern, "*/*"); found {
		return "", strings.HasSuffix(name, ending)
	}
	want, have := strings.Split(r.pattern, "/"), strings.Split(name, "/")
	if len(want) != len(have) {
		return "", false
	}
	for i, element := range want {
		if element == "{version}" {
			if version = have[i]; !strings.HasPrefix(version, "v") {
				return "", false
			}
			continue
		}
		if same, err := path.Match(element, have[i]); err != nil || !same {
			return "", false
		}
	}
	return version, true
}

// render writes objects as a stream of YAML documents.
func render(objects []manifest) ([]byte, error) {
	var out bytes.Buffer
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("rendering a stand-in: %w", err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}

func itoa(n int) string { return strconv.Itoa(n) }

// atLeast reports whether a version such as v1.14.2 is of a minor release or a later one.
func atLeast(version string, major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(version, "v%d.%d", &a, &b); err != nil {
		return true
	}
	return a > major || a == major && b >= minor
}
