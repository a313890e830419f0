package control_test

import (
	"fmt"
	"strings"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/lab/control"
	"git.vanillacore.net/govstack/gsrun/internal/lab/mirror"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

const issuer = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: own, namespace: default}
spec: {selfSigned: {}}
`

// denied applies an object until it is refused with all of the texts: while a Deployment is being
// replaced, its webhook may not answer for a moment.
func (l *lab) denied(text string, want ...string) {
	l.t.Helper()
	o := parse(l.t, text)[0]
	l.await("refusing "+o.GetKind()+" "+o.GetName(), func() error {
		err := l.try(o, "")
		if err == nil {
			l.t.Fatalf("%s %s was let in, want %q", o.GetKind(), o.GetName(), want)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				return fmt.Errorf("got %w, want %q", err, w)
			}
		}
		return nil
	})
}

// waiting returns what the containers of the pods of a namespace wait for.
func (l *lab) waiting(namespace string) string {
	list, err := l.client.Resource(podsAt).Namespace(namespace).List(l.ctx, metav1.ListOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	var reasons []string
	for _, pod := range list.Items {
		statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
		for _, s := range statuses {
			state, _, _ := unstructured.NestedMap(s.(map[string]any), "state", "waiting")
			if state != nil {
				reasons = append(reasons, fmt.Sprintf("%s: %v: %v", pod.GetName(), state["reason"], state["message"]))
			}
		}
	}
	return strings.Join(reasons, "\n")
}

func (l *lab) awaitWaiting(namespace string, want ...string) {
	l.t.Helper()
	l.await("the pods of "+namespace, func() error {
		got := l.waiting(namespace)
		for _, w := range want {
			if !strings.Contains(got, w) {
				return fmt.Errorf("pods wait for %q, want %q", got, w)
			}
		}
		return nil
	})
}

func TestWebhooksAnswerOnlyOnceTheyRun(t *testing.T) {
	l := newLab(t, nil)
	l.faults.Add(control.Rule{Count: -1, Kind: "Pod", Namespace: "cert-manager", Name: "cert-manager-webhook-*", Action: control.Stall, Message: "Back-off pulling image \"webhook\""})
	l.apply(upstream(t, certManagerURL), "")
	l.until("apps/v1 Deployment cert-manager/cert-manager", "Available", "True")
	l.until("apps/v1 Deployment cert-manager/cert-manager-webhook", "Available", "False")
	l.awaitWaiting("cert-manager", "cert-manager-webhook-", "ImagePullBackOff", "Back-off pulling image")
	l.denied(issuer, "failed calling webhook", "connection refused")
	l.faults.Clear("")
	l.until("apps/v1 Deployment cert-manager/cert-manager-webhook", "Available", "True")
	l.apply(issuer, "")
	l.until("cert-manager.io/v1 Issuer default/own", "Ready", "True")

	// A component whose variables nobody replaced can't start; one whose certificate isn't
	// there waits for its Secret.
	raw, err := mirror.Content(capiURL + "core-components.yaml")
	if err != nil {
		t.Fatal(err)
	}
	l.faults.Add(control.Rule{Count: -1, Kind: "Certificate", Name: "capi-serving-cert", Action: control.Stall})
	l.apply(string(raw), "")
	l.awaitWaiting("capi-system", `secret "capi-webhook-service-cert" not found`)
	l.until("cert-manager.io/v1 Certificate capi-system/capi-serving-cert", "Ready", "False DoesNotExist")
	l.faults.Clear("")
	l.until("cert-manager.io/v1 Certificate capi-system/capi-serving-cert", "Ready", "True")
	l.awaitWaiting("capi-system", "CrashLoopBackOff", "${CAPI_DIAGNOSTICS_ADDRESS")
	l.denied(spokeCluster, "failed calling webhook", "connection refused")

	// With the defaults of its variables, it has no topologies.
	plain := strings.ReplaceAll(upstream(t, capiURL+"core-components.yaml"), "ClusterTopology=true", "ClusterTopology=false")
	l.apply(plain, "")
	l.until("apps/v1 Deployment capi-system/capi-controller-manager", "Available", "True")
	l.await("the webhook's certificate", func() error {
		err := l.try(parse(t, spokeCluster)[0], "")
		if err == nil || !strings.Contains(err.Error(), "ClusterTopology feature flag") {
			return fmt.Errorf("got %w, want the feature flag named", err)
		}
		return nil
	})
	l.apply(upstream(t, capiURL+"core-components.yaml"), "")
	l.until("apps/v1 Deployment capi-system/capi-controller-manager", "Available", "True")
	l.apply(strings.ReplaceAll(spokeCluster, "replicas: 3", "replicas: 1"), "")
	l.denied(strings.ReplaceAll(spokeCluster, "replicas: 3", "replicas: 2"), "spec.topology.controlPlane.replicas", "even number")
	l.denied(strings.ReplaceAll(spokeCluster, "v1.37.2", "v1.39.0"), "skipping minor versions")
	l.denied(strings.ReplaceAll(spokeCluster, "v1.37.2", "v1.36.0"), "decreased")

	// What is wrong with the object itself, its schema says.
	l.denied(strings.ReplaceAll(spokeCluster, "replicas: 3", "replicas: -1"), "spec.topology.controlPlane.replicas", "greater than or equal to 0")
	l.denied("apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: c, namespace: default}\nspec: {commonName: c}\n", "spec.secretName", "Required value")
	l.denied("apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: c, namespace: default}\nspec: {secretName: c, issuerRef: {name: own}}\n", "at least one of commonName")
}

func TestNodeIsReadyOnceItsNetworkIs(t *testing.T) {
	l := newLab(t, func(c *control.Config) {
		c.Node = control.Node{Name: "seed-1", Address: "127.0.0.1", Network: true, Control: true}
	})
	o := l.until("v1 Node seed-1", "Ready", "False KubeletNotReady")
	if taints := fmt.Sprint(o.Object["spec"]); !strings.Contains(taints, "node-role.kubernetes.io/control-plane") {
		t.Errorf("a control-plane node without its taint: %s", taints)
	}
	const app = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, namespace: default}
spec:
  selector: {matchLabels: {app: app}}
  template: {metadata: {labels: {app: app}}, spec: {containers: [{name: app, image: app}]}}
`
	l.apply(app, "")
	l.apply(upstream(t, "https://raw.githubusercontent.com/projectcalico/calico/v3.30.3/manifests/calico.yaml"), "")
	l.until("v1 Node seed-1", "Ready", "True")
	l.until("apps/v1 Deployment kube-system/calico-kube-controllers", "Available", "True")
	l.await("the pod that tolerates no taint", func() error {
		list, err := l.client.Resource(podsAt).Namespace("default").List(l.ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return fmt.Errorf("no pods: %w", err)
		}
		if got := status(&list.Items[0], "PodScheduled"); !strings.Contains(got, "untolerated taint {node-role.kubernetes.io/control-plane}") {
			return fmt.Errorf("PodScheduled is %s", got)
		}
		return nil
	})
	nodes, err := l.on(o, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nodes.Patch(l.ctx, "seed-1", types.MergePatchType, []byte(`{"spec": {"taints": null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.until("apps/v1 Deployment default/app", "Available", "True")

	const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: default}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: once, image: once}]}}}
`
	l.apply(job, "")
	l.until("batch/v1 Job default/once", "Complete", "True")
}
