package kube

import (
	"context"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// An Object is an object of any kind, as JSON data.
type Object = unstructured.Unstructured

// pageSize is how many objects are asked for at once.
const pageSize = 500

func (c *Client) resource(k Kind, namespace string) dynamic.ResourceInterface {
	r := c.dynamic.Resource(schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource})
	if k.Namespaced && namespace != "" {
		return r.Namespace(namespace)
	}
	return r
}

// Get returns an object. One that isn't there is an error of kind NotFound.
func (c *Client) Get(ctx context.Context, k Kind, namespace, name string) (*Object, error) {
	if k.Namespaced && namespace == "" {
		return nil, fault.New(fault.Invalid, "a %s is in a namespace, and none is given", k)
	}
	o, err := c.resource(k, namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, failure(ctx, "reading", err)
	}
	return o, nil
}

// A Selection says which objects to list. Empty fields select all.
type Selection struct {
	Namespace string
	Labels    string // "app=web,tier!=cache"
	Fields    string // "status.phase=Running"
}

// List calls f for each object of the kind that s selects, a page at a time. It
// stops at the first error of f and returns it.
func (c *Client) List(ctx context.Context, k Kind, s Selection, f func(*Object) error) error {
	opts := metav1.ListOptions{LabelSelector: s.Labels, FieldSelector: s.Fields, Limit: pageSize}
	for {
		page, err := c.resource(k, s.Namespace).List(ctx, opts)
		if err != nil {
			return failure(ctx, "listing", err)
		}
		for i := range page.Items {
			if err := f(&page.Items[i]); err != nil {
				return err
			}
		}
		if opts.Continue = page.GetContinue(); opts.Continue == "" {
			return nil
		}
	}
}

// Options says how to apply an object.
type Options struct {
	Manager string // who manages the fields that the object sets
	Force   bool   // take over fields that others manage
	DryRun  bool   // change nothing, only tell what would be
}

// Apply makes the object as o says, by server-side apply, and returns what it
// is then. Fields that the manager set before and that o lacks are removed.
func (c *Client) Apply(ctx context.Context, k Kind, o *Object, opts Options) (*Object, error) {
	body, err := json.Marshal(o.Object)
	if err != nil {
		return nil, &fault.Error{Op: "writing object", Kind: fault.Invalid, Err: err}
	}
	patch := metav1.PatchOptions{FieldManager: opts.Manager, Force: &opts.Force, FieldValidation: metav1.FieldValidationStrict}
	op := "applying"
	if opts.DryRun {
		patch.DryRun, op = []string{metav1.DryRunAll}, "trying"
	}
	out, err := c.resource(k, o.GetNamespace()).Patch(ctx, o.GetName(), types.ApplyPatchType, body, patch)
	if err != nil {
		return nil, failure(ctx, op, err)
	}
	return out, nil
}

// Admit asks the API server whether it would create the object, and creates
// nothing. An object that is there already counts as admitted.
func (c *Client) Admit(ctx context.Context, k Kind, o *Object, manager string) error {
	_, err := c.resource(k, o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: manager, FieldValidation: metav1.FieldValidationStrict})
	if err = failure(ctx, "admitting", err); fault.KindOf(err) == fault.Exists {
		return nil // admission comes before the look into the store
	}
	return err
}

// Delete asks for the deletion of the object with this UID; what depends on it
// is deleted in the background. It returns before the object is gone. One that
// isn't there is an error of kind NotFound, one of the same name with another
// UID an error of kind Conflict.
func (c *Client) Delete(ctx context.Context, k Kind, namespace, name string, uid types.UID) error {
	policy := metav1.DeletePropagationBackground
	opts := metav1.DeleteOptions{PropagationPolicy: &policy}
	if uid != "" {
		opts.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	return failure(ctx, "deleting", c.resource(k, namespace).Delete(ctx, name, opts))
}

// NamespaceMissing reports whether err says that the namespace of an object
// isn't there.
func NamespaceMissing(err error) bool {
	return fault.KindOf(err) == fault.NotFound && strings.Contains(err.Error(), "namespaces \"")
}
