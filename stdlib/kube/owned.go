package kube

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	kubeclient "git.vanillacore.net/govstack/gsrun/internal/client/kube"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

var _ effect.Keeper = (*Kube)(nil)

// managedClusters are what Cluster API keeps of the clusters that it manages.
const managedClusters = "clusters.cluster.x-k8s.io"

// addressesOf returns the address of the API server that a client speaks to.
func addressesOf(client *kubeclient.Client) []string {
	u, err := url.Parse(client.Server())
	if err != nil || u.Hostname() == "" {
		return nil
	}
	return []string{u.Hostname()}
}

// Scopes returns the clusters that recipes connected to.
func (k *Kube) Scopes() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for key := range k.clients {
		if s := scopePrefix + nameIn(key); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

// clientsOf returns the clients of the cluster that scope names.
func (k *Kube) clientsOf(scope string) []*kubeclient.Client {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []*kubeclient.Client
	for key, c := range k.clients {
		if scopePrefix+nameIn(key) == scope {
			out = append(out, c)
		}
	}
	return out
}

// ListOwned lists nothing: an API server can't look for annotations, and what
// recipes apply is found by the recipes themselves (see applyOp.Undo).
func (k *Kube) ListOwned(context.Context, string, []string) ([]effect.Owned, error) { return nil, nil }

// Others lists the clusters that a cluster manages by Cluster API, if its
// machine is among what goes: nobody could delete their machines then.
func (k *Kube) Others(ctx context.Context, scope string, going []effect.Owned) ([]effect.Other, error) {
	self := effect.Target{Scope: scope}
	unasked := func(why string) effect.Other {
		return effect.Other{Target: self, Of: self, Orphan: true, Unasked: true, Text: "the clusters that " + scope + " may manage (" + why + ")",
			Hint: "make it answer, to see whether there are any"}
	}
	clients := k.clientsOf(scope)
	if len(clients) == 0 {
		return []effect.Other{unasked("the way to it isn't known")}, nil
	}
	var out []effect.Other
	for _, client := range clients {
		machine := machineOf(client, going)
		if machine == nil {
			continue
		}
		found, err := effect.Read(ctx, effect.Query{Target: effect.Target{Scope: scope, Kind: managedClusters}, Absent: true}, func(ctx context.Context) ([]string, error) {
			return namesOf(ctx, client, managedClusters)
		})
		switch fault.KindOf(err) {
		case "":
		case fault.Cancelled:
			return nil, err
		default:
			out = append(out, unasked(err.Error()))
			continue
		}
		names, _ := found.([]string) // none if the cluster doesn't serve the kind
		for _, name := range names {
			other := effect.Other{Target: effect.Target{Scope: scope, Kind: managedClusters, Name: name}, Of: *machine, Orphan: true,
				Text: fmt.Sprintf("cluster %s, managed by %s", name, scope), Hint: howToDelete(name, scope)}
			if !slices.Contains(out, other) {
				out = append(out, other)
			}
		}
	}
	return out, nil
}

// howToDelete says how a cluster that another manages is deleted.
func howToDelete(name, scope string) string {
	namespace, name, _ := strings.Cut(name, "/")
	return fmt.Sprintf("take it out of Git, then delete the Cluster %s in the namespace %s of %s (kubectl delete %s %s -n %s) and wait until it is gone; "+
		"the commit alone deletes nothing where objects outlive their files, as with preserveResourcesOnDeletion or without prune", name, namespace, scope, managedClusters, name, namespace)
}

// machineOf returns which of what goes the client's API server runs on.
func machineOf(client *kubeclient.Client, going []effect.Owned) *effect.Target {
	for _, o := range going {
		for _, a := range addressesOf(client) {
			if slices.Contains(o.Addresses, a) {
				return &o.Target
			}
		}
	}
	return nil
}

// namesOf lists the objects of a kind, as namespace/name.
func namesOf(ctx context.Context, client *kubeclient.Client, kind string) ([]string, error) {
	k, err := client.Lookup(ctx, kind, "")
	if err != nil {
		return nil, err
	}
	var out []string
	err = client.List(ctx, k, kubeclient.Selection{}, func(o *kubeclient.Object) error {
		out = append(out, strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
		return nil
	})
	return out, err
}
