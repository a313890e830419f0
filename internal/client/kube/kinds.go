package kube

import (
	"context"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// A Kind is a kind of object that a cluster serves.
type Kind struct {
	schema.GroupVersionKind
	Resource   string // as in a URL: "deployments"
	Namespaced bool

	names     []string // what else it is called: plural, singular, short names; lower case
	preferred bool     // it is the group's preferred version
}

// String returns the kind with its group, unless that is the core one:
// "ConfigMap", "Deployment.apps".
func (k Kind) String() string { return KindName(k.GroupKind()) }

// KindName writes a kind with its group, unless that is the core one.
func KindName(k schema.GroupKind) string {
	if k.Group == "" {
		return k.Kind
	}
	return k.Kind + "." + k.Group
}

// kinds is what the cluster serves, as it was when it was last asked.
type kinds struct {
	client *discovery.DiscoveryClient
	turn   chan struct{} // held by who asks the cluster

	mu     sync.Mutex
	asked  int // how often the cluster has been asked
	list   []Kind
	exact  map[schema.GroupVersionKind]int
	silent map[string]error // groups that an aggregated API server should have told of
}

// Kind returns the kind of objects with this apiVersion and kind. If it isn't
// known the cluster is asked again, since a CRD may have come. A kind that isn't
// served is an error of kind NotFound.
func (c *Client) Kind(ctx context.Context, gvk schema.GroupVersionKind) (Kind, error) {
	k, err := c.kinds.find(ctx, gvk.Group, func() []Kind {
		if i, ok := c.kinds.exact[gvk]; ok {
			return []Kind{c.kinds.list[i]}
		}
		return nil
	})
	if err != nil {
		return Kind{}, err
	}
	if len(k) == 0 {
		return Kind{}, c.unserved(gvk)
	}
	return k[0], nil
}

// Serves reports whether the cluster serves the kind, asking it again if it
// didn't.
func (c *Client) Serves(ctx context.Context, gvk schema.GroupVersionKind) (bool, error) {
	_, err := c.Kind(ctx, gvk)
	if fault.KindOf(err) == fault.NotFound {
		return false, nil
	}
	return err == nil, err
}

func (c *Client) unserved(gvk schema.GroupVersionKind) error {
	var versions, near []string
	c.kinds.mu.Lock()
	for _, k := range c.kinds.list {
		if k.GroupKind() == gvk.GroupKind() {
			versions = append(versions, k.GroupVersion().String())
		} else if strings.EqualFold(k.Kind, gvk.Kind) {
			near = append(near, k.GroupVersion().String()+" "+k.Kind)
		}
	}
	c.kinds.mu.Unlock()
	hint := "apply the CustomResourceDefinition that makes it first, or check apiVersion and kind"
	if len(versions) > 0 {
		hint = "it is served as " + strings.Join(versions, ", ")
	} else if len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fault.Hinted(fault.NotFound, hint, "the cluster doesn't serve %s %s", gvk.GroupVersion(), gvk.Kind)
}

// Lookup returns the kind that people call name: "Deployment", "deployments",
// "deploy", "clusters.cluster.x-k8s.io". apiVersion narrows it down where it
// isn't empty. A name that nothing or several groups have is an error of kind
// NotFound or Invalid.
func (c *Client) Lookup(ctx context.Context, name, apiVersion string) (Kind, error) {
	var gv schema.GroupVersion
	if apiVersion != "" {
		var err error
		if gv, err = schema.ParseGroupVersion(apiVersion); err != nil {
			return Kind{}, fault.New(fault.Invalid, "%q is no apiVersion", apiVersion)
		}
	}
	short, group, qualified := strings.Cut(name, ".")
	found, err := c.kinds.find(ctx, group, func() []Kind {
		var out []Kind
		for _, k := range c.kinds.list {
			switch {
			case apiVersion != "" && k.GroupVersion() != gv, apiVersion == "" && !k.preferred:
			case qualified && k.Group != group:
			case k.Kind == short || slices.Contains(k.names, strings.ToLower(short)):
				out = append(out, k)
			}
		}
		return out
	})
	if err != nil {
		return Kind{}, err
	}
	if len(found) == 0 {
		of := ""
		if apiVersion != "" {
			of = " in " + apiVersion
		}
		return Kind{}, fault.Hinted(fault.NotFound, "check the spelling, or apply its CustomResourceDefinition first", "the cluster serves no kind %q%s", name, of)
	}
	for _, k := range found {
		// An aggregated API may serve what the core has too, such as metrics of pods.
		if k.Group == "" {
			return k, nil
		}
	}
	if len(found) > 1 {
		var names []string
		for _, k := range found {
			names = append(names, k.String())
		}
		return Kind{}, fault.Hinted(fault.Invalid, "name one of "+strings.Join(names, ", "), "%q may be any of %d kinds", name, len(found))
	}
	return found[0], nil
}

// find returns what look finds; if that is nothing, the cluster is asked and
// look tried again. look runs with k.mu held. group is the one that is looked
// for, if that is known.
func (k *kinds) find(ctx context.Context, group string, look func() []Kind) ([]Kind, error) {
	k.mu.Lock()
	found, seen := look(), k.asked
	k.mu.Unlock()
	if len(found) > 0 {
		return found, nil
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, fault.FromContext(ctx)
	}
	k.mu.Lock()
	stale := k.asked == seen
	k.mu.Unlock()
	if stale {
		if err := k.ask(ctx); err != nil {
			return nil, err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	found = look()
	if err := k.silent[group]; len(found) == 0 && err != nil {
		return nil, &fault.Error{Op: "finding kinds of " + group, Kind: fault.Unavailable, Err: err,
			Hint: "its API server doesn't answer: look at the APIService objects of the group"}
	}
	return found, nil
}

func (k *kinds) ask(ctx context.Context) error {
	groups, lists, err := k.client.ServerGroupsAndResourcesWithContext(ctx)
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return failure(ctx, "finding what the cluster serves", err)
	}
	preferred := make(map[string]string)
	for _, g := range groups {
		preferred[g.Name] = g.PreferredVersion.GroupVersion
	}
	var list []Kind
	exact := make(map[schema.GroupVersionKind]int)
	best := make(map[schema.GroupKind]int) // the first version that has the kind
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range l.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "get") {
				continue // a subresource, or something that is only asked, such as a TokenReview
			}
			kind := Kind{GroupVersionKind: gv.WithKind(r.Kind), Resource: r.Name, Namespaced: r.Namespaced, names: append([]string{r.Name, strings.ToLower(r.Kind)}, r.ShortNames...)}
			if r.SingularName != "" {
				kind.names = append(kind.names, r.SingularName)
			}
			at, had := best[kind.GroupKind()]
			if !had || l.GroupVersion == preferred[gv.Group] {
				if had {
					list[at].preferred = false
				}
				kind.preferred = true
				best[kind.GroupKind()] = len(list)
			}
			exact[kind.GroupVersionKind] = len(list)
			list = append(list, kind)
		}
	}
	silent := make(map[string]error)
	for gv, err := range failed {
		silent[gv.Group] = err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	k.list, k.exact, k.silent = list, exact, silent
	return nil
}
