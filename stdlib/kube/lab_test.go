package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.starlark.net/starlark"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
	"git.vanillacore.net/govstack/gsrun/internal/lab/control"
	"git.vanillacore.net/govstack/gsrun/internal/skip"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/kube"
)

// lab is the API server that the tests of this package share.
var lab struct {
	once    sync.Once
	cluster *apiserver.Cluster
	faults  *control.Faults
	err     error
	dir     string
	stop    func() error // ends what plays the kubelet
}

func TestMain(m *testing.M) {
	lab.faults = control.NewFaults()
	code := m.Run()
	if lab.stop != nil {
		if err := lab.stop(); err != nil {
			println("playing the kubelet:", err.Error())
			code = max(code, 1)
		}
	}
	if lab.cluster != nil {
		if err := lab.cluster.Stop(); err != nil {
			println("stopping the API server:", err.Error())
			code = max(code, 1)
		}
	}
	if lab.dir != "" {
		if err := os.RemoveAll(lab.dir); err != nil {
			println(err.Error())
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// start returns the API server, a real one. On a machine that can't build it the
// test is skipped, and says so; never in CI.
func start(t testing.TB) *apiserver.Cluster {
	t.Helper()
	skip.Slow(t, "it starts an API server")
	lab.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
		defer cancel()
		if _, lab.err = apiserver.Build(ctx, "", "", func(s string) { t.Log(s) }); lab.err != nil {
			return
		}
		if lab.dir, lab.err = os.MkdirTemp("", "gsrun-kube-"); lab.err != nil {
			return
		}
		if lab.cluster, lab.err = apiserver.Start(ctx, apiserver.Config{Dir: lab.dir, Names: []string{"10.20.0.10"}, Progress: func(s string) { t.Log(s) }}); lab.err != nil {
			t.Fatal(lab.err)
		}
		play(t)
	})
	if lab.cluster == nil {
		skip.Unless(t, false, "the module on a real API server", "it can't be built: "+lab.err.Error())
	}
	return lab.cluster
}

// play starts what plays the kubelet and the controllers.
func play(t testing.TB) {
	conf, err := lab.cluster.Control()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- control.Run(ctx, control.Config{REST: conf, Faults: lab.faults, Pace: control.Pace{Pod: 50 * time.Millisecond, Finish: 50 * time.Millisecond}})
	}()
	lab.stop = func() error {
		cancel()
		return <-ended
	}
}

// admin returns a client of our own, to prepare and to look past the module.
func admin(t *testing.T) dynamic.Interface {
	t.Helper()
	conf, err := start(t).REST("test-admin", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	return dynamic.NewForConfigOrDie(conf)
}

// kubeconfig returns the text of a kubeconfig for a user of its own.
func kubeconfig(t testing.TB, user string, groups ...string) string {
	t.Helper()
	c := start(t)
	text, err := c.Kubeconfig("https://"+c.Address, user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// A counter counts the requests that a module sends.
type counter struct {
	mu     sync.Mutex
	all    []string // method and path
	writes []string // those that aren't dry runs
	hooks  []*hook
}

// A hook does something once a path has been read often enough.
type hook struct {
	path string
	left int
	do   func()
}

// after calls do once the path has been read n times from now on.
func (c *counter) after(path string, n int, do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks = append(c.hooks, &hook{path: path, left: n, do: do})
}

// due returns the hooks that a request completes.
func (c *counter) due(r *http.Request) (due []func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.hooks {
		if r.Method == http.MethodGet && r.URL.Path == h.path {
			if h.left--; h.left == 0 {
				due = append(due, h.do)
			}
		}
	}
	return due
}

func (c *counter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		c.mu.Lock()
		line := r.Method + " " + r.URL.Path
		c.all = append(c.all, line)
		if r.Method != http.MethodGet && !r.URL.Query().Has("dryRun") {
			c.writes = append(c.writes, line)
		}
		c.mu.Unlock()
		resp, err := next.RoundTrip(r)
		for _, do := range c.due(r) {
			do()
		}
		return resp, err
	})
}

// take returns what was counted, and begins anew.
func (c *counter) take() (all, writes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all, writes = c.all, c.writes
	c.all, c.writes = nil, nil
	return all, writes
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// module returns the module, closed at the test's end.
func module(t *testing.T, c kube.Config) *builtin.Module {
	t.Helper()
	m := kube.Module(c)
	t.Cleanup(func() {
		if err := m.Recv.(*kube.Kube).Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// run runs the function `test` of a Starlark source as a step would.
func run(t *testing.T, opts startest.Options, src string) (starlark.Value, error) {
	t.Helper()
	globals := startest.Load(t, "test.star", src, opts)
	return startest.Call(t, globals["test"].(starlark.Callable), opts)
}

// texts returns the strings as a Starlark list.
func texts(list []string) starlark.Value {
	out := make([]starlark.Value, len(list))
	for i, s := range list {
		out[i] = starlark.String(s)
	}
	return starlark.NewList(out)
}

// globals returns what the Starlark tests see beside the module.
func globals(t *testing.T, c *counter) starlark.StringDict {
	return starlark.StringDict{
		"kubeconfig": effect.SecretOf(kubeconfig(t, "gsrun-test", "system:masters"), ""),
		"nobody":     starlark.String(kubeconfig(t, "nobody")),
		"unknown":    effect.Unknown{Of: "a value to come"},
		"hush":       effect.SecretOf("correct-horse-battery", ""),
		"other_manager": starlark.NewBuiltin("other_manager", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var name string
			var data *starlark.Dict
			if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &name, &data); err != nil {
				return nil, err
			}
			held, err := effect.FromStarlark(data)
			if err != nil {
				return nil, err
			}
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": held}}
			_, err = admin(t).Resource(configMaps).Namespace("default").Create(t.Context(), o, metav1.CreateOptions{FieldManager: "somebody"})
			return starlark.None, err
		}),
		// after(path, n, patch): once path was read n times, patch it, or its
		// status if the patch has one.
		"after": starlark.NewBuiltin("after", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var path, patch string
			var n int
			if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 3, &path, &n, &patch); err != nil {
				return nil, err
			}
			c.after(path, n, func() {
				if err := mergePatch(t, path, patch); err != nil {
					t.Error(err)
				}
			})
			return starlark.None, nil
		}),
		"many": starlark.NewBuiltin("many", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var n int
			if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &n); err != nil {
				return nil, err
			}
			return starlark.None, makeMany(t, n)
		}),
		// failure(fn): the text that fn fails with.
		"failure": starlark.NewBuiltin("failure", func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var fn starlark.Callable
			if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 1, &fn); err != nil {
				return nil, err
			}
			_, err := starlark.Call(thread, fn, nil, nil)
			if err == nil {
				return nil, errors.New("no error")
			}
			return starlark.String(err.Error()), nil
		}),
		"annotate": starlark.NewBuiltin("annotate", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var name, owner string
			if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &name, &owner); err != nil {
				return nil, err
			}
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"gsrun.dev/owner":%q}}}`, owner)
			_, err := admin(t).Resource(configMaps).Namespace("default").Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "gsrun"})
			return starlark.None, err
		}),
		"quota": starlark.NewBuiltin("quota", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var name, resource string
			var n int
			if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 3, &name, &resource, &n); err != nil {
				return nil, err
			}
			return starlark.None, limit(t, name, resource, n)
		}),
		"requests": starlark.NewBuiltin("requests", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			all, _ := c.take()
			return texts(all), nil
		}),
		"writes": starlark.NewBuiltin("writes", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			_, writes := c.take()
			return texts(writes), nil
		}),
	}
}

// mergePatch patches what is at a path of the API, or its status if the patch has
// one.
func mergePatch(t *testing.T, path, patch string) error {
	conf, err := start(t).REST("test-admin", "system:masters")
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(conf)
	if err != nil {
		return err
	}
	if strings.HasPrefix(patch, `{"status"`) {
		path += "/status"
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, conf.Host+path, strings.NewReader(patch))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/merge-patch+json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("patching %s: %s %s %w", path, resp.Status, body, err)
	}
	return nil
}

// makeMany makes a namespace with n ConfigMaps.
func makeMany(t *testing.T, n int) error {
	client := admin(t)
	space := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "many"}}}
	if _, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), space, metav1.CreateOptions{}); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
				"metadata": map[string]any{"name": fmt.Sprintf("many-%d", i), "labels": map[string]any{"many": "yes"}}}}
			_, err := client.Resource(configMaps).Namespace("many").Create(t.Context(), o, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// limit gives a namespace a quota. No controller counts what is used here.
func limit(t *testing.T, namespace, resource string, n int) error {
	quotas := admin(t).Resource(schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}).Namespace(namespace)
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": map[string]any{"name": namespace},
		"spec": map[string]any{"hard": map[string]any{resource: strconv.Itoa(n)}}}}
	o, err := quotas.Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	o.Object["status"] = map[string]any{"hard": map[string]any{resource: strconv.Itoa(n)}, "used": map[string]any{resource: "0"}}
	if _, err = quotas.UpdateStatus(t.Context(), o, metav1.UpdateOptions{}); err != nil {
		return err
	}
	// Admission sees the quota a moment later.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	probe := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "probe"}}}
	for {
		_, err := admin(t).Resource(configMaps).Namespace(namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) || ctx.Err() != nil {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestScripts(t *testing.T) {
	var c counter
	lab.faults.Add(control.Rule{Kind: "Pod", Name: "fails-*", Count: -1, Action: control.Fail, Reason: "Error", Message: "it was told to"})
	startest.Run(t, "testdata/*.star", startest.Options{Modules: []*builtin.Module{module(t, kube.Config{Wrap: c.wrap})}, Globals: globals(t, &c)})
}

func TestPlanScripts(t *testing.T) {
	var c counter
	startest.Run(t, "testdata/plan/*.star", startest.Options{Modules: []*builtin.Module{module(t, kube.Config{Wrap: c.wrap})},
		Globals: globals(t, &c), Door: startest.NewDoor(effect.Plan)})
}
