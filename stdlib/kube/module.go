// Package kube is the standard library's module for Kubernetes: it applies,
// reads, waits for and deletes objects of any kind in clusters that a recipe
// names.
package kube

import (
	"context"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A Config says what the module's clients are made with. The zero Config is
// good for use.
type Config struct {
	UserAgent string
	// Wrap sees every request on its way out. nil changes nothing.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Kube is the module as one run uses it: its clients are shared by all the
// run's steps.
type Kube struct {
	config Config

	mu      sync.Mutex
	clients map[string]*kubeclient.Client // by all that tells one way to a cluster from another
	coming  map[string]map[schema.GroupKind]bool
	warned  map[string]bool
}

// Module returns the module `kube`. Its receiver is a *Kube, to be closed at
// the end of the run.
func Module(c Config) *builtin.Module {
	k := &Kube{config: c, clients: make(map[string]*kubeclient.Client), coming: make(map[string]map[schema.GroupKind]bool), warned: make(map[string]bool)}
	return builtin.NewModule(builtin.Module{
		Name: "kube",
		Doc:  "Objects of any kind in Kubernetes clusters: apply, get, list, delete, wait.",
		Recv: k,
		Funcs: []builtin.Func{
			clusterFunc(),
			inClusterFunc(),
		},
		Types: []*builtin.Type{{
			Name:  "kube.cluster",
			Doc:   "A Kubernetes cluster. The first call that needs it connects.",
			Of:    builtin.TypeOf[*Cluster](),
			Attrs: []builtin.Attr{{Name: "name", Type: "str", Doc: "The name that the recipe gave it."}},
			Methods: []builtin.Func{
				applyFunc(),
				getFunc(),
				listFunc(),
				deleteFunc(),
				waitFunc(),
				admitsFunc(),
				secretFunc(),
			},
		}},
	})
}

// Close closes the run's connections to clusters.
func (k *Kube) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.clients {
		c.Close()
	}
	clear(k.clients)
	return nil
}

// client returns the client that key stands for, made by c if there is none
// yet.
func (k *Kube) client(key string, c kubeclient.Config) (*kubeclient.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if have, ok := k.clients[key]; ok {
		return have, nil
	}
	c.UserAgent, c.Wrap = k.config.UserAgent, k.config.Wrap
	c.Warn = k.warn
	made, err := kubeclient.New(c)
	if err != nil {
		return nil, err
	}
	k.clients[key] = made
	return made, nil
}

// warn logs a warning of an API server, once: a dry run and the write after it
// get the same one.
func (k *Kube) warn(ctx context.Context, text string) {
	k.mu.Lock()
	again := k.warned[text]
	k.warned[text] = true
	k.mu.Unlock()
	if !again {
		effect.Logf(ctx, "the API server warns: %s", text)
	}
}

// expect remembers that a plan makes the kind in the named cluster, and whether
// its objects are in namespaces.
func (k *Kube) expect(cluster string, kind schema.GroupKind, namespaced bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.coming[cluster] == nil {
		k.coming[cluster] = make(map[schema.GroupKind]bool)
	}
	k.coming[cluster][kind] = namespaced
}

// expected reports whether objects of a kind that the cluster doesn't serve, as
// far as is known, are in namespaces.
func (k *Kube) expected(cluster string, kind schema.GroupKind) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if namespaced, ok := k.coming[cluster][kind]; ok {
		return namespaced
	}
	return !clusterScoped(kind)
}
