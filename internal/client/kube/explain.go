package kube

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Explain looks beyond an object's own status for what it waits for: the first
// pod of a workload that isn't ready, else the last warning event about the
// object. It returns "" if it finds nothing, or can't look.
func (c *Client) Explain(ctx context.Context, o *Object) string {
	if labels, ok, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels"); ok && len(labels) > 0 && o.GetNamespace() != "" {
		pods, err := c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(o.GetNamespace()).
			List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels}), Limit: 50})
		if err == nil {
			for i := range pods.Items {
				if why := podTrouble(&pods.Items[i]); why != "" {
					return fmt.Sprintf("pod %s: %s", pods.Items[i].GetName(), why)
				}
			}
		}
	}
	if o.GetKind() == "Pod" {
		return podTrouble(o)
	}
	return c.lastWarning(ctx, o)
}

// podTrouble says why a pod isn't ready, or "" if it is.
func podTrouble(pod *Object) string {
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		list, _, _ := unstructured.NestedSlice(pod.Object, "status", field)
		for _, e := range list {
			m, _ := e.(map[string]any)
			if why := containerTrouble(m); why != "" {
				return why
			}
		}
	}
	for _, c := range Conditions(pod) {
		if (c.Type == "PodScheduled" || c.Type == "Ready") && c.Status != "True" && c.Reason != "PodCompleted" {
			return c.String()
		}
	}
	return ""
}

func containerTrouble(m map[string]any) string {
	name, _ := m["name"].(string)
	for _, state := range []string{"waiting", "terminated"} {
		s, ok, _ := unstructured.NestedMap(m, "state", state)
		if !ok {
			continue
		}
		reason, _ := s["reason"].(string)
		if reason == "Completed" || reason == "PodInitializing" {
			continue
		}
		message, _ := s["message"].(string)
		return strings.TrimSuffix(fmt.Sprintf("container %s is %s: %s: %s", name, state, reason, message), ": ")
	}
	return ""
}

func (c *Client) lastWarning(ctx context.Context, o *Object) string {
	if o.GetUID() == "" {
		return ""
	}
	events, err := c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).Namespace(o.GetNamespace()).
		List(ctx, metav1.ListOptions{FieldSelector: "type=Warning,involvedObject.uid=" + string(o.GetUID()), Limit: pageSize})
	if err != nil {
		return ""
	}
	last, text := "", ""
	for i := range events.Items {
		e := events.Items[i].Object
		when, _ := e["lastTimestamp"].(string)
		if when == "" {
			when, _ = e["eventTime"].(string)
		}
		if when >= last {
			reason, _ := e["reason"].(string)
			message, _ := e["message"].(string)
			last, text = when, "event "+reason+": "+message
		}
	}
	return text
}
