package control

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// reviewLimit bounds the size of an object sent to a webhook.
const reviewLimit = 8 << 20

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// review answers an AdmissionReview or a ConversionReview.
func (w *webhooks) review(rw http.ResponseWriter, r *http.Request) {
	var review map[string]any
	if err := json.NewDecoder(io.LimitReader(r.Body, reviewLimit)).Decode(&review); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	request := table(review, "request")
	var response map[string]any
	switch review["kind"] {
	case "AdmissionReview":
		response = map[string]any{"allowed": true}
		// What sets defaults has none to set here, and leaves the checks to the schema and to
		// what validates.
		if strings.HasPrefix(r.URL.Path, "/validat") {
			response = w.admit(request)
		}
	case "ConversionReview":
		response = convert(request)
	default:
		http.Error(rw, fmt.Sprintf("unknown kind %v", review["kind"]), http.StatusBadRequest)
		return
	}
	response["uid"] = request["uid"]
	rw.Header().Set("Content-Type", "application/json")
	// A client that has gone away needs no answer.
	_ = json.NewEncoder(rw).Encode(map[string]any{"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})
}

// admit allows a request, or denies it for the same reason as the real webhook.
func (w *webhooks) admit(request map[string]any) map[string]any {
	o := &object{Object: table(request, "object")}
	old := &object{Object: table(request, "oldObject")}
	why, warning := "", ""
	if request["operation"] != "DELETE" && o.Object != nil {
		why, warning = w.objection(text(request, "kind", "group"), text(request, "kind", "kind"), o, old)
	}
	response := map[string]any{"allowed": why == ""}
	if warning != "" {
		response["warnings"] = []any{warning}
	}
	if why != "" {
		message := fmt.Sprintf("%s.%s %q is invalid: %s", text(request, "kind", "kind"), text(request, "kind", "group"), o.GetName(), why)
		response["status"] = map[string]any{"code": http.StatusUnprocessableEntity, "reason": "Invalid", "message": message}
	}
	return response
}

// objection says what is wrong with an object, or what the user should know about it.
func (w *webhooks) objection(group, kind string, o, old *object) (why, warning string) {
	switch kind + "." + group {
	case "KubeadmControlPlane.controlplane.cluster.x-k8s.io":
		return replicas(o, "spec.replicas", "spec", "replicas"), ""
	case "Cluster.cluster.x-k8s.io":
		if table(o.Object, "spec", "topology") == nil {
			return "", ""
		}
		if !w.feature("ClusterTopology=true") {
			return "spec.topology: Forbidden: can be set only if the ClusterTopology feature flag is enabled", ""
		}
		return w.topology(o, old)
	case "OpenStackMachineTemplate.infrastructure.cluster.x-k8s.io":
		before, after := table(old.Object, "spec", "template", "spec"), table(o.Object, "spec", "template", "spec")
		if before != nil && !reflect.DeepEqual(before, after) {
			return "spec.template.spec: Forbidden: OpenStackMachineTemplate spec.template.spec field is immutable. Please create a new resource instead.", ""
		}
	case "OpenStackCluster.infrastructure.cluster.x-k8s.io":
		if text(o.Object, "spec", "identityRef", "name") == "" {
			return "spec.identityRef.name: Required value", ""
		}
	case "Certificate.cert-manager.io":
		if text(o.Object, "spec", "commonName") == "" &&
			list(o, "dnsNames") == 0 && list(o, "ipAddresses") == 0 && list(o, "uris") == 0 && list(o, "emailAddresses") == 0 {
			return "spec: Invalid value: \"\": at least one of commonName (from the commonName field or from a literalSubject), dnsNames, uriSANs, ipAddresses, emailSANs or otherNames must be set", ""
		}
	}
	return "", ""
}

// feature reports whether Cluster API's manager runs with a feature gate.
func (w *webhooks) feature(gate string) bool {
	for _, d := range w.list(deployments, "", func(o *object) bool { return o.GetName() == coreManager }) {
		for _, c := range array(d.Object, "spec", "template", "spec", "containers") {
			args, _, _ := unstructured.NestedStringSlice(c, "args")
			for _, arg := range args {
				if strings.Contains(arg, gate) {
					return true
				}
			}
		}
	}
	return false
}

func list(o *object, field string) int {
	items, _ := table(o.Object, "spec")[field].([]any)
	return len(items)
}

// topology checks a Cluster that is made from a class.
func (w *webhooks) topology(o, old *object) (why, warning string) {
	version := text(o.Object, "spec", "topology", "version")
	if !strings.HasPrefix(version, "v") || strings.Count(version, ".") != 2 {
		return fmt.Sprintf("spec.topology.version: Invalid value: %q: version must be a valid semantic version", version), ""
	}
	if why := replicas(o, "spec.topology.controlPlane.replicas", "spec", "topology", "controlPlane", "replicas"); why != "" {
		return why, ""
	}
	if before := text(old.Object, "spec", "topology", "version"); before != "" {
		if why := upgrade(before, version); why != "" {
			return "spec.topology.version: Forbidden: " + why, ""
		}
	}
	seen := map[any]bool{}
	for i, md := range array(o.Object, "spec", "topology", "workers", "machineDeployments") {
		if seen[md["name"]] {
			return fmt.Sprintf("spec.topology.workers.machineDeployments[%d].name: Invalid value: %q: name must be unique", i, md["name"]), ""
		}
		seen[md["name"]] = true
	}
	namespace, name := classOf(o)
	if class, _ := w.get(clusterClasses, namespace, name); class == nil {
		return "", fmt.Sprintf("Cluster refers to ClusterClass %s/%s, but this ClusterClass does not exist. Cluster topology has not been fully validated.", namespace, name)
	}
	return "", ""
}

// upgrade says why a cluster can't go from one version to another, or "".
func upgrade(from, to string) string {
	var a, b struct{ major, minor, patch int }
	if _, err := fmt.Sscanf(from, "v%d.%d.%d", &a.major, &a.minor, &a.patch); err != nil {
		return ""
	}
	if _, err := fmt.Sscanf(to, "v%d.%d.%d", &b.major, &b.minor, &b.patch); err != nil {
		return "version must be a valid semantic version"
	}
	switch {
	case b.major < a.major || b.major == a.major && (b.minor < a.minor || b.minor == a.minor && b.patch < a.patch):
		return fmt.Sprintf("version cannot be decreased from %q to %q", from, to)
	case b.major > a.major || b.minor > a.minor+1:
		return fmt.Sprintf("version cannot be increased from %q to %q: skipping minor versions is not supported", from, to)
	}
	return ""
}

// replicas checks the number of control-plane machines, whose etcd is stacked.
func replicas(o *object, field string, path ...string) string {
	n := number(o.Object, path...)
	spec := table(o.Object, path[:len(path)-1]...)
	if spec == nil || spec[path[len(path)-1]] == nil {
		return ""
	}
	// JSON numbers of a review are floats.
	if f, ok := spec[path[len(path)-1]].(float64); ok {
		n = int64(f)
	}
	if n <= 0 {
		return field + ": Forbidden: cannot be less than or equal to 0"
	}
	if n%2 == 0 {
		return field + ": Forbidden: cannot be an even number when etcd is stacked"
	}
	return ""
}

// convert gives each object the wanted version. The lab's stand-ins have the same fields in each.
func convert(request map[string]any) map[string]any {
	converted := []any{}
	for _, o := range array(request, "objects") {
		o["apiVersion"] = request["desiredAPIVersion"]
		converted = append(converted, o)
	}
	return map[string]any{"convertedObjects": converted, "result": map[string]any{"status": "Success"}}
}
