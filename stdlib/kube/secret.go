package kube

import (
	"context"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

type secretArgs struct {
	Name      string `star:"name,required" doc:"Name of the Secret."`
	Namespace string `star:"namespace,required" doc:"Its namespace."`
	Key       string `star:"key,required" doc:"Key of the value within the Secret."`
}

func secretFunc() builtin.Func {
	return builtin.Of(builtin.Spec[*Cluster, secretArgs]{
		Name:    "secret",
		Doc:     "Read one value of a Secret.",
		Returns: "secret",
		Example: `cluster.apply([{
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "registry", "namespace": "default"},
    "stringData": {"password": secret.generate("registry", length = 24)},
}])
password = cluster.secret("registry", "default", "password")`,
		Effect: builtin.Reads,
		Errors: []fault.Kind{fault.NotFound, fault.Invalid, fault.Denied, fault.Unavailable, fault.Unreachable},
		Run: func(ctx context.Context, c *Cluster, a secretArgs) (any, error) {
			return effect.Read(ctx, c.query("Secret", a.Namespace, a.Name), func(ctx context.Context) (any, error) {
				client, k, err := c.lookup(ctx, "Secret", "v1")
				if err != nil {
					return nil, err
				}
				o, err := client.Get(ctx, k, a.Namespace, a.Name)
				if err != nil {
					return nil, err
				}
				plain, err := kubeclient.SecretValue(o, a.Key)
				if err != nil {
					return nil, err
				}
				return effect.NewSecret(ctx, string(plain), "")
			})
		},
	})
}
