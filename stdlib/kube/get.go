package kube

import (
	"context"
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type getArgs struct {
	Kind       string `star:"kind,required" doc:"Kind, plural or short name, with its group where that is needed: Deployment, deploy, clusters.cluster.x-k8s.io."`
	Name       string `star:"name,required" doc:"Name of the object."`
	Namespace  string `star:"namespace" doc:"Its namespace, if the kind has one; default if empty."`
	APIVersion string `star:"api_version" doc:"Version to read it in; the one that the cluster prefers if empty."`
}

func getFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Cluster, getArgs]{
		Name:    "get",
		Doc:     "Read an object. What a Secret holds is secret, but for values shorter than 8 bytes.",
		Returns: "dict, or None if there is no such object",
		Example: `system = cluster.get("Namespace", "kube-system")
phase = system["status"]["phase"]`,
		Effect: builtin.Reads,
		Errors: []fault.Kind{fault.Invalid, fault.Denied, fault.Unavailable, fault.Unreachable},
		Run: func(ctx context.Context, c *Cluster, a getArgs) (any, error) {
			q := c.query(a.Kind, a.Namespace, a.Name)
			q.Absent = true
			return effect.Read(ctx, q, func(ctx context.Context) (any, error) {
				client, k, err := c.lookup(ctx, a.Kind, a.APIVersion)
				if err != nil {
					return nil, err
				}
				o, err := client.Get(ctx, k, within(k, a.Namespace), a.Name)
				if err != nil {
					return nil, err
				}
				return data(ctx, o), nil
			})
		},
	})
}

// lookup returns the client and the kind that people call name. That there is
// no such kind is a mistake of the recipe here, not something that may be absent.
func (c *Cluster) lookup(ctx context.Context, name, apiVersion string) (*kubeclient.Client, kubeclient.Kind, error) {
	client, err := c.client()
	if err != nil {
		return nil, kubeclient.Kind{}, err
	}
	k, err := client.Lookup(ctx, name, apiVersion)
	if fault.KindOf(err) == fault.NotFound {
		err = &fault.Error{Kind: fault.Invalid, Hint: fault.HintOf(err), Err: err}
	}
	return client, k, err
}

// within returns the namespace of an object of the kind for which one is given,
// or none.
func within(k kubeclient.Kind, given string) string {
	switch {
	case !k.Namespaced:
		return ""
	case given == "":
		return defaultNamespace
	}
	return given
}

// data returns an object as a recipe sees it: without the bookkeeping of field
// managers, and with what a Secret holds as secrets.
func data(ctx context.Context, o *kubeclient.Object) map[string]any {
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	if o.GroupVersionKind().GroupKind() != secretKind {
		return o.Object
	}
	// Client-side apply keeps a copy of everything here.
	unstructured.RemoveNestedField(o.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	if held, ok := o.Object["data"].(map[string]any); ok {
		for k, v := range held {
			text, _ := v.(string)
			plain, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				continue
			}
			if len(plain) > 0 {
				effect.Derived(ctx, string(plain))
				held[k] = effect.SecretOf(text, "")
			}
		}
	}
	return o.Object
}

type listArgs struct {
	Kind       string `star:"kind,required" doc:"Kind, plural or short name, as for get."`
	Namespace  string `star:"namespace" doc:"Namespace to look in; all of them if empty."`
	Labels     string `star:"labels" doc:"Label selector, such as app=web,tier!=cache."`
	Fields     string `star:"fields" doc:"Field selector, such as status.phase=Running."`
	APIVersion string `star:"api_version" doc:"Version to read them in; the one that the cluster prefers if empty."`
}

func listFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Cluster, listArgs]{
		Name:    "list",
		Doc:     "Read all objects of a kind that match, page by page.",
		Returns: "list of dicts",
		Example: `pods = cluster.list("Pod", namespace = "kube-system", labels = "tier=control-plane")`,
		Effect:  builtin.Reads,
		Errors:  []fault.Kind{fault.Invalid, fault.Denied, fault.Unavailable, fault.Unreachable},
		Run: func(ctx context.Context, c *Cluster, a listArgs) (any, error) {
			return effect.Read(ctx, c.query(a.Kind, a.Namespace, a.Labels), func(ctx context.Context) (any, error) {
				client, k, err := c.lookup(ctx, a.Kind, a.APIVersion)
				if err != nil {
					return nil, err
				}
				out := []any{}
				err = client.List(ctx, k, kubeclient.Selection{Namespace: a.Namespace, Labels: a.Labels, Fields: a.Fields}, func(o *kubeclient.Object) error {
					out = append(out, data(ctx, o))
					return nil
				})
				return out, err
			})
		},
	})
}
