package control

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// workers is how many objects are looked at at the same time.
const workers = 4

type object = unstructured.Unstructured

// A kind is one resource that the engine watches and a part plays.
type kind struct {
	group, resource string
	version         string // of a built-in resource; a custom one's is read from its definition
	// play brings the world one step nearer to what o asks for. It returns how long to wait
	// before looking again although nothing has changed, or 0 to wait for a change.
	play func(ctx context.Context, o *object) (time.Duration, error)

	store  cache.Indexer
	stop   context.CancelFunc
	active schema.GroupVersionResource
}

type key struct {
	resource        schema.GroupResource
	namespace, name string
}

// An engine watches the registered kinds and calls their parts.
type engine struct {
	Config
	client dynamic.Interface
	ctx    context.Context // of run: watches that start later live as long
	queue  workqueue.TypedRateLimitingInterface[key]

	mu     sync.Mutex
	kinds  map[schema.GroupResource]*kind
	stages map[types.UID]map[string]time.Time // when an object reached a stage
	wg     sync.WaitGroup                     // the watches
}

var definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

func newEngine(c Config) (*engine, error) {
	config := rest.CopyConfig(c.REST)
	config.WarningHandler = rest.NoWarnings{}
	config.QPS = -1 // one program plays many: together they would wait for each other
	c.REST = config
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[key](10*time.Millisecond, 2*time.Second)
	e := &engine{
		Config: c, client: client,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[key]{Clock: c.Clock}),
		kinds:  map[schema.GroupResource]*kind{},
		stages: map[types.UID]map[string]time.Time{},
	}
	return e, nil
}

// watch registers a resource. A version of "" means a custom resource, which is watched while
// its definition is established.
func (e *engine) watch(group, version, resource string, play func(context.Context, *object) (time.Duration, error)) {
	e.kinds[schema.GroupResource{Group: group, Resource: resource}] = &kind{group: group, version: version, resource: resource, play: play}
}

// run watches and plays until ctx ends, beside the other functions.
func (e *engine) run(ctx context.Context, beside ...func(context.Context) error) error {
	group, ctx := errgroup.WithContext(ctx)
	e.ctx = ctx
	e.mu.Lock()
	for _, k := range e.kinds {
		if k.version != "" {
			e.start(ctx, k, k.version)
		}
	}
	e.mu.Unlock()
	for range workers {
		group.Go(func() error {
			for e.next(ctx) {
			}
			return nil
		})
	}
	for _, f := range beside {
		group.Go(func() error { return f(ctx) })
	}
	group.Go(func() error {
		<-ctx.Done()
		e.queue.ShutDown()
		return nil
	})
	err := group.Wait()
	e.wg.Wait()
	return err
}

// start begins to watch k at version. The caller holds the mutex.
func (e *engine) start(ctx context.Context, k *kind, version string) {
	ctx, k.stop = context.WithCancel(ctx)
	k.active = schema.GroupVersionResource{Group: k.group, Version: version, Resource: k.resource}
	informer := dynamicinformer.NewFilteredDynamicInformer(e.client, k.active, "", 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil).Informer()
	k.store = informer.GetIndexer()
	// It fails only for an informer that has ended.
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { e.changed(k, o.(*object), false) },
		UpdateFunc: func(_, o any) { e.changed(k, o.(*object), false) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if o, ok := o.(*object); ok {
				e.changed(k, o, true)
			}
		},
	})
	e.wg.Add(1)
	go func() {
		defer e.wg.Done()
		if !e.awaitServed(ctx, k.active) {
			return
		}
		// A watch that ends is started again: what it says on the way is no news.
		informer.RunWithContext(klog.NewContext(ctx, logr.Discard()))
	}()
}

// awaitServed waits until a resource answers: a moment after its definition is established. A
// watch that is begun earlier pauses for a second or more. It returns false if ctx ends.
func (e *engine) awaitServed(ctx context.Context, resource schema.GroupVersionResource) bool {
	for {
		_, err := e.client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		if !apierrors.IsNotFound(err) {
			return ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-e.Clock.After(e.Pace.Retry / 4):
		}
	}
}

// changed queues o, and what is looked at again when o changes: its owners and its cluster.
func (e *engine) changed(k *kind, o *object, deleted bool) {
	group := schema.GroupResource{Group: k.group, Resource: k.resource}
	if deleted {
		e.mu.Lock()
		delete(e.stages, o.GetUID())
		e.mu.Unlock()
	} else {
		e.queue.Add(key{group, o.GetNamespace(), o.GetName()})
	}
	for _, owner := range o.GetOwnerReferences() {
		if resource, ok := e.resourceOf(owner.APIVersion, owner.Kind); ok {
			e.queue.Add(key{resource, o.GetNamespace(), owner.Name})
		}
	}
	if name := o.GetLabels()[clusterLabel]; name != "" {
		e.queue.Add(key{clusters, o.GetNamespace(), name})
	}
	if group == definitions {
		e.defined(o, deleted)
	}
}

// defined starts or stops watching the custom resource that definition o defines.
func (e *engine) defined(o *object, deleted bool) {
	group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
	version := ""
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["storage"] == true {
			version, _ = v["name"].(string)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.kinds[schema.GroupResource{Group: group, Resource: plural}]
	switch {
	case k == nil:
	case deleted && k.stop != nil:
		k.stop()
		k.stop, k.store = nil, nil
	case !deleted && isTrue(o, "Established") && (k.stop == nil || k.active.Version != version):
		if k.stop != nil {
			k.stop() // an upgrade has made another version the stored one
		}
		e.start(e.ctx, k, version)
	}
}

// next plays one queued object, and returns false once the queue is shut down.
func (e *engine) next(ctx context.Context) bool {
	item, down := e.queue.Get()
	if down {
		return false
	}
	defer e.queue.Done(item)
	o, k := e.get(item.resource, item.namespace, item.name)
	if o == nil || k.play == nil {
		e.queue.Forget(item)
		return true
	}
	again, err := k.play(ctx, o.DeepCopy())
	switch {
	case err == nil:
		e.queue.Forget(item)
		if again > 0 {
			e.queue.AddAfter(item, again)
		}
	case ctx.Err() != nil:
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
		// It was looked at out of a cache that is a moment old.
		e.queue.AddRateLimited(item)
	default:
		e.Log(fmt.Sprintf("%s %s/%s: %v", item.resource, item.namespace, item.name, err))
		e.queue.AddRateLimited(item)
	}
	return true
}

// get returns the watched object and its kind, or nil if there is none. It isn't a copy.
func (e *engine) get(resource schema.GroupResource, namespace, name string) (*object, *kind) {
	k, store := e.storeOf(resource)
	if store == nil {
		return nil, nil
	}
	id := name
	if namespace != "" {
		id = namespace + "/" + name
	}
	item, found, err := store.GetByKey(id)
	if err != nil || !found {
		return nil, nil
	}
	return item.(*object), k
}

// list returns the watched objects of a namespace ("" is all) that satisfy which. They aren't
// copies.
func (e *engine) list(resource schema.GroupResource, namespace string, which func(*object) bool) []*object {
	_, store := e.storeOf(resource)
	if store == nil {
		return nil
	}
	items := store.List()
	if namespace != "" {
		// The index is there: it was given when the watch was made.
		items, _ = store.ByIndex(cache.NamespaceIndex, namespace)
	}
	var found []*object
	for _, item := range items {
		if o := item.(*object); which(o) {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b *object) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return found
}

func (e *engine) storeOf(resource schema.GroupResource) (*kind, cache.Indexer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.kinds[resource]
	if k == nil || k.store == nil {
		return nil, nil
	}
	return k, k.store
}

// on returns the client of a resource, at the version that is watched. It is nil if the
// resource's definition isn't there.
func (e *engine) on(resource schema.GroupResource, namespace string) dynamic.ResourceInterface {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.kinds[resource]
	if k == nil || k.store == nil {
		return nil
	}
	if namespace == "" {
		return e.client.Resource(k.active)
	}
	return e.client.Resource(k.active).Namespace(namespace)
}

// apiVersion returns the version that a resource is watched at, as objects name it.
func (e *engine) apiVersion(resource schema.GroupResource) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if k := e.kinds[resource]; k != nil {
		return k.active.GroupVersion().String()
	}
	return ""
}

// resourceOf finds the watched resource of a kind that an owner reference names.
func (e *engine) resourceOf(apiVersion, name string) (schema.GroupResource, bool) {
	group, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return schema.GroupResource{}, false
	}
	plural, _ := meta.UnsafeGuessKindToResource(group.WithKind(name))
	_, ok := e.kinds[plural.GroupResource()]
	return plural.GroupResource(), ok
}

// wait returns how much is left of delay since o reached stage (0: it is over). The first
// question begins it.
func (e *engine) wait(o *object, stage string, delay time.Duration) time.Duration {
	now := e.Clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	stages := e.stages[o.GetUID()]
	if stages == nil {
		stages = map[string]time.Time{}
		e.stages[o.GetUID()] = stages
	}
	began, ok := stages[stage]
	if !ok {
		stages[stage] = now
		return delay
	}
	return max(0, delay-now.Sub(began))
}

// again makes the next question about a stage begin it anew.
func (e *engine) again(o *object, stage string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.stages[o.GetUID()], stage)
}

// running reports whether a Deployment or StatefulSet of that name is available, in whichever
// namespace the site has put it.
func (e *engine) running(name string) bool {
	for _, resource := range []schema.GroupResource{deployments, statefulSets} {
		for _, o := range e.list(resource, "", func(o *object) bool { return o.GetName() == name }) {
			if available(o) {
				return true
			}
		}
	}
	return false
}

// available reports whether a Deployment or StatefulSet runs as many pods as it wants, at its
// newest generation.
func available(o *object) bool {
	want, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if !found {
		want = 1
	}
	observed, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	have, _, _ := unstructured.NestedInt64(o.Object, "status", "availableReplicas")
	return want > 0 && observed >= o.GetGeneration() && have >= want
}
