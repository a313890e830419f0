package kube_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/kube"
)

// A tunnel reaches the API server under an address that only it knows, as a host
// on the way to it does.
type tunnel struct {
	to     string
	known  bool
	asked  []string
	dialed atomic.Int32
	open   atomic.Int32
	mu     sync.Mutex
}

func (t *tunnel) Via() string { return "tunnel" }
func (t *tunnel) Known() bool { return t.known }

func (t *tunnel) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	t.mu.Lock()
	t.asked = append(t.asked, addr)
	t.mu.Unlock()
	t.dialed.Add(1)
	c, err := new(net.Dialer).DialContext(ctx, network, t.to)
	if err != nil {
		return nil, err
	}
	t.open.Add(1)
	return &counted{Conn: c, open: &t.open}, nil
}

type counted struct {
	net.Conn
	open *atomic.Int32
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// tunnels returns a module that gives a recipe the tunnel as a handle.
func tunnels(tun *tunnel) *builtin.Module {
	type none struct{}
	return builtin.NewModule(builtin.Module{
		Name: "tunnels", Doc: "Ways to test with.", Recv: tun,
		Funcs: []builtin.Func{builtin.Of(builtin.Spec[*tunnel, none]{Name: "host", Doc: "The way.", Returns: "tunnels.host", Example: "tunnels.host()", Effect: builtin.Connect,
			Run: func(_ context.Context, t *tunnel, _ none) (any, error) { return t, nil }})},
		Types: []*builtin.Type{{Name: "tunnels.host", Doc: "A way.", Of: builtin.TypeOf[*tunnel]()}},
	})
}

func TestTunnel(t *testing.T) {
	cluster := start(t)
	text, err := cluster.Kubeconfig("https://10.20.0.10:6443", "tunnelled", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	tun := &tunnel{to: cluster.Address, known: true}
	m := kube.Module(kube.Config{})
	names := starlark.StringDict{"kubeconfig": effect.SecretOf(string(text), "")}
	opts := startest.Options{Modules: []*builtin.Module{m, tunnels(tun)}, Globals: names}
	src := `
def test():
    for i in range(3):
        c = kube.cluster("seed", kubeconfig = kubeconfig, via = tunnels.host())
        c.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tunnelled-%d" % n}} for n in range(20)])
    return len(c.list("ConfigMap", namespace = "default", fields = "metadata.name=tunnelled-7"))
`
	got, err := run(t, opts, src)
	if err != nil || got != starlark.Value(starlark.MakeInt(1)) {
		t.Fatalf("got %v, %v", got, err)
	}
	if n := tun.dialed.Load(); n != 1 || tun.asked[0] != "10.20.0.10:6443" {
		t.Errorf("dialled %d times: %v; want once, to the address in the kubeconfig", n, tun.asked)
	}
	if err := m.Recv.(*kube.Kube).Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the connection being closed", func() bool { return tun.open.Load() == 0 })

	// A way that isn't there yet isn't used.
	tun.known = false
	before := tun.dialed.Load()
	opts.Door = startest.NewDoor(effect.Plan)
	opts.Modules[0] = module(t, kube.Config{})
	if _, err := run(t, opts, src[:strings.LastIndex(src, "    return")]); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if tun.dialed.Load() != before {
		t.Error("a plan dialled by a way that isn't there yet")
	}
}

// await waits for a condition that another goroutine brings about.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("no sign of %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

const readOne = `
def test():
    return kube.cluster("lab", kubeconfig = kubeconfig).get("ConfigMap", "x")
`

func get(t *testing.T, conf string) error {
	t.Helper()
	opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{})}, Globals: starlark.StringDict{"kubeconfig": starlark.String(conf)}, Timeout: 20 * time.Second}
	_, err := run(t, opts, readOne)
	return err
}

func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close() // nothing listens there now
	err = get(t, strings.ReplaceAll(kubeconfig(t, "admin", "system:masters"), start(t).Address, addr))
	if fault.KindOf(err) != fault.Unreachable || !strings.Contains(err.Error(), addr) {
		t.Errorf("got %v (%s), want unreachable, with the address", err, fault.KindOf(err))
	}
}

func TestUntrusted(t *testing.T) {
	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	err := get(t, strings.ReplaceAll(kubeconfig(t, "admin", "system:masters"), start(t).Address, other.Listener.Addr().String()))
	if fault.KindOf(err) != fault.Untrusted {
		t.Errorf("got %v (%s), want untrusted", err, fault.KindOf(err))
	}
	// A certificate for another address isn't good either.
	err = get(t, strings.ReplaceAll(kubeconfig(t, "admin", "system:masters"), start(t).Address, "127.0.0.2:"+port(start(t).Address)))
	if fault.KindOf(err) != fault.Unreachable && fault.KindOf(err) != fault.Untrusted {
		t.Errorf("got %v (%s)", err, fault.KindOf(err))
	}
}

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// A server that never answers holds a step only until its deadline.
func TestDeadline(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan net.Conn, 16)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		defer close(conns)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			conns <- c
		}
	})
	defer func() {
		_ = listener.Close()
		accepting.Wait()
		for c := range conns {
			_ = c.Close()
		}
	}()
	conf := strings.ReplaceAll(kubeconfig(t, "admin", "system:masters"), start(t).Address, listener.Addr().String())
	began := time.Now()
	opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{})}, Globals: starlark.StringDict{"kubeconfig": starlark.String(conf)}, Timeout: 300 * time.Millisecond}
	_, err = run(t, opts, readOne)
	if fault.KindOf(err) != fault.Timeout {
		t.Errorf("got %v (%s), want timeout", err, fault.KindOf(err))
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
}

// Nothing around the process is used: no kubeconfig of the user, no proxy.
func TestNothingAmbient(t *testing.T) {
	var seen atomic.Int32
	decoy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		seen.Add(1)
		http.Error(w, "decoy", http.StatusTeapot)
	}))
	defer decoy.Close()
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k}}]\nclusters: [{name: k, cluster: {server: %q}}]\n", decoy.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"KUBECONFIG": file, "KUBERNETES_MASTER": decoy.URL, "HTTPS_PROXY": decoy.URL, "HTTP_PROXY": decoy.URL, "NO_PROXY": "",
		"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port(decoy.Listener.Addr().String())} {
		t.Setenv(name, value)
	}
	err := get(t, "")
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "the kubeconfig is empty") {
		t.Errorf("got %v, want a refusal", err)
	}
	// Proxies aren't asked about loopback: a name that only the dialler knows tells.
	conf, cerr := start(t).Kubeconfig("https://10.20.0.10:6443", "admin", "system:masters")
	if cerr != nil {
		t.Fatal(cerr)
	}
	opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{}), tunnels(&tunnel{to: start(t).Address, known: true})},
		Globals: starlark.StringDict{"kubeconfig": starlark.String(conf)}}
	if _, err := run(t, opts, strings.Replace(readOne, "kubeconfig = kubeconfig", "kubeconfig = kubeconfig, via = tunnels.host()", 1)); err != nil {
		t.Error(err)
	}
	if n := seen.Load(); n > 0 {
		t.Errorf("the decoy got %d requests", n)
	}
}

// An answer that is lost after the write is found by the next look, not made
// twice.
func TestLostAnswer(t *testing.T) {
	var lost atomic.Bool
	lose := func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if r.Method == http.MethodPatch && !r.URL.Query().Has("dryRun") && err == nil && lost.CompareAndSwap(false, true) {
				_ = resp.Body.Close()
				return nil, errors.New("connection reset by peer")
			}
			return resp, err
		})
	}
	var c counter
	door := startest.NewDoor(effect.Apply)
	wrap := func(rt http.RoundTripper) http.RoundTripper { return c.wrap(lose(rt)) }
	opts := startest.Options{Modules: []*builtin.Module{module(t, kube.Config{Wrap: wrap})}, Globals: globals(t, &c), Door: door}
	if _, err := run(t, opts, `
def test():
    kube.cluster("lab", kubeconfig = kubeconfig).apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "lost-answer"}}])
`); err != nil {
		t.Fatal(startest.Explain(err))
	}
	if _, writes := c.take(); len(writes) != 1 || !lost.Load() {
		t.Errorf("writes: %v", writes)
	}
}
