package main

import (
	"context"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
	secretclient "git.vanillacore.net/govstack/gsrun/internal/client/secret"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/stdlib/secret"
)

// kubernetesSecrets reads values of Secrets of clusters, for a site in the
// folder dir. The cluster is the one that the source's kubeconfig names, and no
// other.
func kubernetesSecrets(dir string, c secret.Config) secretclient.Reader {
	return secretclient.ReaderFunc(func(ctx context.Context, arg string) ([]byte, error) {
		a, err := secretclient.ParseKubernetesArg(arg)
		if err != nil {
			return nil, err
		}
		config, err := kubeconfigOf(ctx, dir, c, a)
		if err != nil {
			return nil, fault.Wrap("reading the kubeconfig of Secret", a.Namespace+"/"+a.Name, err)
		}
		data, err := readKubernetes(ctx, config, a)
		return data, fault.Wrap("reading Secret", a.Namespace+"/"+a.Name, err)
	})
}

// kubeconfigOf returns the text of the kubeconfig that a source names. From now
// on the run's outputs don't show it.
func kubeconfigOf(ctx context.Context, dir string, c secret.Config, a secretclient.KubernetesArg) (string, error) {
	src := secretclient.Source{Kind: "file", Arg: a.KubeconfigFile}
	if a.Kubeconfig != "" {
		var ok bool
		if src, ok = c.Sources[a.Kubeconfig]; !ok {
			return "", fault.Hinted(fault.Invalid, "declare it in site.yaml under `secrets:`", "the site declares no secret %q", a.Kubeconfig)
		}
		if src.Kind == "kubernetes" {
			return "", fault.New(fault.Invalid, "the kubeconfig %s is kept in a cluster itself", a.Kubeconfig)
		}
	} else if !filepath.IsAbs(src.Arg) {
		src.Arg = filepath.Join(dir, src.Arg)
	}
	s, err := c.ReadSource(ctx, src)
	if err != nil {
		return "", err
	}
	return s.Reveal(), nil
}

func readKubernetes(ctx context.Context, kubeconfig string, a secretclient.KubernetesArg) ([]byte, error) {
	client, err := kubeclient.New(kubeclient.Config{Kubeconfig: []byte(kubeconfig), Context: a.Context})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	k, err := client.Kind(ctx, schema.GroupVersionKind{Version: "v1", Kind: "Secret"})
	if err != nil {
		return nil, err
	}
	o, err := client.Get(ctx, k, a.Namespace, a.Name)
	if err != nil {
		return nil, err
	}
	return kubeclient.SecretValue(o, a.Key)
}
