package kube

import (
	"fmt"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Health is how far an object is on the way to what its spec wants.
type Health struct {
	Current bool   // it is there
	Failed  bool   // it won't get there by itself
	Message string // why it isn't there
}

// HealthOf judges an object as kstatus does: by its observed generation, its
// conditions and the rules of its kind.
func HealthOf(o *Object) Health {
	r, err := status.Compute(o)
	if err != nil {
		return Health{Message: "its status can't be read: " + err.Error()}
	}
	switch r.Status {
	case status.CurrentStatus:
		return Health{Current: true}
	case status.TerminatingStatus:
		return Health{Message: Deletion(o)}
	}
	message := r.Message
	if message == "" {
		message = strings.ToLower(string(r.Status))
	}
	return Health{Failed: r.Status == status.FailedStatus, Message: message}
}

// Deletion says what an object that is being deleted waits for, or "" if it
// isn't.
func Deletion(o *Object) string {
	if o.GetDeletionTimestamp() == nil {
		return ""
	}
	if f := o.GetFinalizers(); len(f) > 0 {
		return "being deleted, held by finalizers " + strings.Join(f, ", ")
	}
	return "being deleted"
}

// A Condition is one of status.conditions.
type Condition struct {
	Type, Status, Reason, Message string
	Generation                    int64 // that it was made for; 0 if it doesn't say
}

func (c Condition) String() string {
	s := c.Type + " is " + c.Status
	if c.Reason != "" {
		s += ": " + c.Reason
	}
	if c.Message != "" {
		s += " (" + strings.Join(strings.Fields(c.Message), " ") + ")"
	}
	return s
}

// Conditions returns the conditions of an object.
func Conditions(o *Object) []Condition {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	var out []Condition
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			continue
		}
		text := func(k string) string { s, _ := m[k].(string); return s }
		generation, _ := m["observedGeneration"].(int64)
		out = append(out, Condition{Type: text("type"), Status: text("status"), Reason: text("reason"), Message: text("message"), Generation: generation})
	}
	return out
}

// Lagging says how the status of an object, or the condition c where it isn't
// nil, is older than the spec, or "" if it isn't.
func Lagging(o *Object, c *Condition) string {
	want := o.GetGeneration()
	have, found, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	if c != nil && c.Generation > 0 {
		have, found = c.Generation, true
	}
	if found && have < want {
		return fmt.Sprintf("generation %d is observed, %d is wanted", have, want)
	}
	return ""
}

// Blocking says what an object's status tells of why it isn't ready: its phase,
// the conditions that aren't as they should be, what is lagging.
func Blocking(o *Object) string {
	var parts []string
	add := func(s string) {
		if s != "" {
			parts = append(parts, s)
		}
	}
	add(Deletion(o))
	if phase, _, _ := unstructured.NestedString(o.Object, "status", "phase"); phase != "" {
		add("phase " + phase)
	}
	add(Lagging(o, nil))
	for _, c := range Conditions(o) {
		if c.Status != goodStatus(c.Type) {
			add(c.String())
		}
	}
	if len(parts) == 0 {
		if _, ok := o.Object["status"]; !ok {
			return "it has no status yet"
		}
	}
	return strings.Join(parts, "; ")
}

// goodStatus returns the status that a condition of the type has when all is
// well. Most are good when True; these tell of trouble or of work under way.
func goodStatus(kind string) string {
	for _, bad := range []string{"Stalled", "Reconciling", "ReplicaFailure", "Failed", "Deleting", "Paused", "RollingOut",
		"ScalingUp", "ScalingDown", "Remediating", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable",
		"NamesNotAccepted", "NonStructuralSchema", "Terminating", "Degraded", "ErrorOccurred"} {
		if kind == bad {
			return "False"
		}
	}
	return "True"
}
