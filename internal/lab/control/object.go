package control

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// manager is the field manager of what the parts write.
const manager = "gsrun-lab"

// Fields of an object are read by a path; what isn't there, or is of another type, is the zero
// value, as the parts have to live with whatever a user wrote.

func text(o map[string]any, path ...string) string {
	s, _, _ := unstructured.NestedString(o, path...)
	return s
}

func number(o map[string]any, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(o, path...)
	return n
}

func table(o map[string]any, path ...string) map[string]any {
	m, _, _ := unstructured.NestedMap(o, path...)
	return m
}

func array(o map[string]any, path ...string) []map[string]any {
	items, _, _ := unstructured.NestedSlice(o, path...)
	var tables []map[string]any
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			tables = append(tables, m)
		}
	}
	return tables
}

func all(*object) bool { return true }

// condition returns the condition of a type, or nil.
func condition(o *object, name string) map[string]any {
	for _, c := range array(o.Object, "status", "conditions") {
		if c["type"] == name {
			return c
		}
	}
	return nil
}

func isTrue(o *object, name string) bool {
	c := condition(o, name)
	return c != nil && c["status"] == "True"
}

// setCondition sets a condition of o. The time of its last transition changes with its status
// alone.
func (e *engine) setCondition(o *object, name string, status bool, reason, message string) {
	value := "False"
	if status {
		value = "True"
	}
	now := e.Clock.Now().UTC().Format(time.RFC3339)
	fresh := map[string]any{"type": name, "status": value, "reason": reason, "message": message, "lastTransitionTime": now}
	if o.GetAPIVersion() != "apps/v1" && o.GetKind() != "Pod" && o.GetKind() != "Node" {
		fresh["observedGeneration"] = o.GetGeneration()
	}
	conditions := array(o.Object, "status", "conditions")
	found := false
	var list []any
	for _, c := range conditions {
		if c["type"] == name {
			found = true
			if c["status"] == value {
				fresh["lastTransitionTime"] = c["lastTransitionTime"]
			}
			c = fresh
		}
		list = append(list, c)
	}
	if !found {
		list = append(list, fresh)
	}
	set(o.Object, list, "status", "conditions")
}

// set sets the field at path, making the tables on the way.
func set(o map[string]any, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		next, ok := o[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			o[name] = next
		}
		o = next
	}
	o[path[len(path)-1]] = value
}

// saveStatus writes o's status if it isn't what is stored.
func (e *engine) saveStatus(ctx context.Context, resource schema.GroupResource, o *object) error {
	if stored, _ := e.get(resource, o.GetNamespace(), o.GetName()); stored != nil && reflect.DeepEqual(plain(stored.Object["status"]), plain(o.Object["status"])) {
		return nil
	}
	subresources := []string{"status"}
	if resource == applications { // whose definition has none
		subresources = nil
	}
	updated, err := e.on(resource, o.GetNamespace()).Update(ctx, o, metav1.UpdateOptions{FieldManager: manager}, subresources...)
	if err != nil {
		return fmt.Errorf("writing the status of %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	o.SetResourceVersion(updated.GetResourceVersion())
	return nil
}

// plain returns v as it would be read back.
func plain(v any) any {
	data, err := json.Marshal(v)
	if err != nil {
		return v
	}
	var out any
	if json.Unmarshal(data, &out) != nil {
		return v
	}
	return out
}

// apply makes o as it is given, by server-side apply, if a field that it names differs from what
// is stored. It returns what is stored then.
func (e *engine) apply(ctx context.Context, resource schema.GroupResource, o *object) (*object, error) {
	if stored, _ := e.get(resource, o.GetNamespace(), o.GetName()); stored != nil && covers(plain(stored.Object), plain(o.Object)) {
		return stored, nil
	}
	data, err := json.Marshal(o.Object)
	if err != nil {
		return nil, err
	}
	force := true
	stored, err := e.on(resource, o.GetNamespace()).Patch(ctx, o.GetName(), types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: manager, Force: &force})
	if err != nil {
		return nil, fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return stored, nil
}

// merge changes the fields of o that patch names.
func (e *engine) merge(ctx context.Context, resource schema.GroupResource, o *object, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = e.on(resource, o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		return fmt.Errorf("changing %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// covers reports whether have has all that want has, at the same places.
func covers(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return false
		}
		for name, value := range want {
			if !covers(have[name], value) {
				return false
			}
		}
		return true
	case []any:
		have, ok := have.([]any)
		if !ok || len(have) != len(want) {
			return false
		}
		for i := range want {
			if !covers(have[i], want[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(have, want)
}

// hold adds a finalizer to o, or reports that it is there.
func (e *engine) hold(ctx context.Context, resource schema.GroupResource, o *object, finalizer string) error {
	for _, f := range o.GetFinalizers() {
		if f == finalizer {
			return nil
		}
	}
	o.SetFinalizers(append(o.GetFinalizers(), finalizer))
	updated, err := e.on(resource, o.GetNamespace()).Update(ctx, o, metav1.UpdateOptions{FieldManager: manager})
	if err != nil {
		return fmt.Errorf("adding a finalizer to %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	*o = *updated
	return nil
}

// release removes a finalizer, so that o may go.
func (e *engine) release(ctx context.Context, resource schema.GroupResource, o *object, finalizer string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored, err := e.on(resource, o.GetNamespace()).Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			return ignoreNotFound(err)
		}
		var left []string
		for _, f := range stored.GetFinalizers() {
			if f != finalizer {
				left = append(left, f)
			}
		}
		if len(left) == len(stored.GetFinalizers()) {
			return nil
		}
		stored.SetFinalizers(left)
		_, err = e.on(resource, o.GetNamespace()).Update(ctx, stored, metav1.UpdateOptions{FieldManager: manager})
		return ignoreNotFound(err)
	})
}

// remove deletes an object that isn't being deleted yet.
func (e *engine) remove(ctx context.Context, resource schema.GroupResource, o *object) error {
	if o.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := o.GetUID()
	background := metav1.DeletePropagationBackground
	return ignoreNotFound(e.on(resource, o.GetNamespace()).Delete(ctx, o.GetName(),
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background}))
}

// ownedBy returns the owner reference of a controller.
func ownedBy(o *object) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes}}
}

func owns(owner, o *object) bool {
	for _, r := range o.GetOwnerReferences() {
		if r.UID == owner.GetUID() {
			return true
		}
	}
	return false
}
