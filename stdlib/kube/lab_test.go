package kube_test

import (
	"context"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"go.starlark.net/starlark"
	"k8s.io/client-go/dynamic"

	"git.vanillacore.net/govstack/gsrun/internal/lab/apiserver"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/kube"
)

// lab is the API server that the tests of this package share.
var lab struct {
	once    sync.Once
	cluster *apiserver.Cluster
	err     error
	dir     string
}

func TestMain(m *testing.M) {
	code := m.Run()
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

// start returns the API server, a real one. A machine that can't build it skips
// the test, and says so.
func start(t *testing.T) *apiserver.Cluster {
	t.Helper()
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
	})
	if lab.cluster == nil {
		t.Skipf("SKIPPED, NOTHING TESTED: there is no API server: %v", lab.err)
	}
	return lab.cluster
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
func kubeconfig(t *testing.T, user string, groups ...string) string {
	t.Helper()
	c := start(t)
	text, err := c.Kubeconfig("https://"+c.Address, user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A counter counts the requests that a module sends.
type counter struct {
	mu     sync.Mutex
	all    []string // method and path
	writes []string // those that aren't dry runs
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
		return next.RoundTrip(r)
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
	globals, err := starlark.ExecFile(&starlark.Thread{Name: t.Name()}, "test.star", src, startest.Predeclared(opts))
	if err != nil {
		t.Fatal(startest.Explain(err))
	}
	globals.Freeze()
	return startest.Call(t, globals["test"].(starlark.Callable), opts)
}

func TestScripts(t *testing.T) {
	startest.Run(t, "testdata/*.star", startest.Options{
		Modules: []*builtin.Module{module(t, kube.Config{})},
		Globals: starlark.StringDict{
			"kubeconfig": effect.SecretOf(kubeconfig(t, "gsrun-test", "system:masters"), ""),
			"nobody":     starlark.String(kubeconfig(t, "nobody")),
		},
	})
}
