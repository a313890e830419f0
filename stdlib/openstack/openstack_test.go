package openstack_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.starlark.net/starlark"

	client "git.vanillacore.net/govstack/gsrun/internal/client/openstack"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/openstack"
)

// A world is a simulated cloud and what a test sees of it.
type world struct {
	t          *testing.T
	cloud      *lab.Cloud
	url        string
	dir        string
	hostKeys   string // folder of the host keys that were kept
	secrets    string // folder of the secrets that were kept
	closeLooks int    // of the module: none unless a test is about them
	module     *builtin.Module
	door       *effect.Door
	silent     atomic.Bool // consoles say nothing
	resetAt    atomic.Pointer[reset]
}

const clouds = `
clouds:
  lab:
    auth:
      auth_url: %[1]s/identity
      username: demo
      password: secret
      project_name: demo
      user_domain_name: Default
      project_domain_name: Default
    region_name: RegionOne
  admin:
    auth:
      auth_url: %[1]s/identity/v3
      username: admin
      password: secret
      project_name: admin
      default_domain: Default
`

func newWorld(t *testing.T, config lab.Config) *world {
	t.Helper()
	if config.BootDelay == 0 {
		config.BootDelay = 30 * time.Millisecond
	}
	w := &world{t: t, dir: t.TempDir(), hostKeys: t.TempDir(), secrets: t.TempDir(), closeLooks: -1}
	if config.ConsoleLog == nil {
		config.ConsoleLog = w.console
	}
	w.cloud = lab.New(config)
	server := httptest.NewServer(w)
	t.Cleanup(func() { server.Close(); w.cloud.Close() })
	w.url = server.URL
	if err := os.WriteFile(filepath.Join(w.dir, "clouds.yaml"), []byte(fmt.Sprintf(clouds, server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.module = w.newModule()
	w.door = startest.NewDoor(effect.Apply)
	startest.Agree(t, w.door)
	return w
}

// newModule returns the module as a new run has it.
func (w *world) newModule() *builtin.Module {
	m := openstack.Module(openstack.Config{CloudsFile: filepath.Join(w.dir, "clouds.yaml"), HostKeys: journal.NewValues(w.hostKeys), Secrets: journal.NewValues(w.secrets), Interval: 5 * time.Millisecond, Patience: 15 * time.Millisecond, CloseLooks: w.closeLooks})
	w.t.Cleanup(func() {
		if err := m.Recv.(*openstack.Clouds).Close(); err != nil {
			w.t.Error(err)
		}
	})
	return m
}

func (w *world) options() startest.Options {
	return startest.Options{Modules: []*builtin.Module{w.module}, Globals: w.globals(), Door: w.door}
}

// writes returns the calls that were meant to change something, since entry
// number since of the log.
func (w *world) writes(since int) []string {
	var out []string
	for _, r := range w.cloud.Requests(since) {
		if r.Write() {
			out = append(out, r.Method+" "+r.Path)
		}
	}
	return out
}

// globals are what the tests in Starlark can do to the cloud:
//
//	changes(fn)          calls fn and returns its writes: "POST /network/v2.0/networks"
//	calls(fn)            calls fn as another run and returns all its calls but logins
//	plan(fn)             calls fn in a plan, asserts that it writes nothing, returns [kind and target]
//	fault(...)           makes calls go wrong, see lab.Fault
//	lag(kind, ms)        makes lists late
//	attempt(fn)          returns the hint of the error that fn fails with
func (w *world) globals() starlark.StringDict {
	return starlark.StringDict{
		"changes": w.builtin("changes", func(fn starlark.Callable, thread *starlark.Thread) (starlark.Value, error) {
			since := len(w.cloud.Requests(0))
			if _, err := starlark.Call(thread, fn, nil, nil); err != nil {
				return nil, err
			}
			return effect.ToStarlark(w.writes(since)), nil
		}),
		"calls": w.builtin("calls", func(fn starlark.Callable, _ *starlark.Thread) (starlark.Value, error) {
			since := len(w.cloud.Requests(0))
			opts := w.options()
			opts.Door = startest.NewDoor(effect.Apply) // as a run of its own
			if _, err := startest.Call(w.t, fn, opts); err != nil {
				return nil, err
			}
			out := []string{}
			for _, r := range w.cloud.Requests(since) {
				if r.Service != "identity" {
					out = append(out, r.Method+" "+r.Path)
				}
			}
			return effect.ToStarlark(out), nil
		}),
		"plan": w.builtin("plan", func(fn starlark.Callable, thread *starlark.Thread) (starlark.Value, error) {
			since := len(w.cloud.Requests(0))
			opts := w.options()
			opts.Door = startest.NewDoor(effect.Plan)
			v, err := startest.Call(w.t, fn, opts)
			if err != nil {
				return nil, err
			}
			if writes := w.writes(since); len(writes) > 0 {
				return nil, fmt.Errorf("a plan wrote: %v", writes)
			}
			planned := []string{}
			for _, p := range opts.Door.Planned() {
				planned = append(planned, string(p.Change.Kind)+" "+p.Target.String())
			}
			return starlark.Tuple{effect.ToStarlark(planned), v}, nil
		}),
		"notes": w.builtin("notes", func(fn starlark.Callable, thread *starlark.Thread) (starlark.Value, error) {
			opts := w.options()
			opts.Door = startest.NewDoor(effect.Plan)
			_, err := startest.Call(w.t, fn, opts)
			out := []string{}
			for _, p := range opts.Door.Planned() {
				out = append(out, p.Change.Note)
			}
			return effect.ToStarlark(out), err
		}),
		"hint": w.builtin("hint", func(fn starlark.Callable, thread *starlark.Thread) (starlark.Value, error) {
			_, err := starlark.Call(thread, fn, nil, nil)
			if err == nil {
				return nil, fmt.Errorf("no error")
			}
			return starlark.String(startest.Explain(err)), nil
		}),
		"fault": starlark.NewBuiltin("fault", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var f lab.Fault
			if err := starlark.UnpackArgs(b.Name(), args, kwargs, "service", &f.Service, "method", &f.Method, "path?", &f.Path, "status?", &f.Status, "count?", &f.Count,
				"reset?", &f.Reset, "body?", &f.Body, "retry_after?", &f.RetryAfter, "effect?", &f.Effect, "outcome?", &f.Outcome, "hide_ms?", &f.HideMS, "expire?", &f.Expire, "bytes?", &f.Bytes, "skip?", &f.Skip); err != nil {
				return nil, err
			}
			id, err := w.cloud.Inject(f)
			return starlark.String(id), err
		}),
		"clear_faults": starlark.NewBuiltin("clear_faults", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			w.cloud.ClearFaults("")
			return starlark.None, nil
		}),
		"silence_consoles": starlark.NewBuiltin("silence_consoles", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			w.silent.Store(true)
			return starlark.None, nil
		}),
		"logins": w.builtin("logins", func(fn starlark.Callable, thread *starlark.Thread) (starlark.Value, error) {
			since := len(w.cloud.Requests(0))
			if _, err := starlark.Call(thread, fn, nil, nil); err != nil {
				return nil, err
			}
			n := 0
			for _, r := range w.cloud.Requests(since) {
				if r.Service == "identity" && r.Method == "POST" {
					n++
				}
			}
			return starlark.MakeInt(n), nil
		}),
		"unknown":        effect.Unknown{Of: "something"},
		"hidden":         effect.SecretOf("correct horse battery", "test:hidden"),
		"a_network":      effect.NewObject("openstack.network", map[string]any{"id": "n", "name": "n"}),
		"a_subnet":       effect.NewObject("openstack.subnet", map[string]any{"id": "s", "name": "s"}),
		"ac_secret":      effect.SecretOf("app-secret-1234", "test:ac"),
		"demo_password":  effect.SecretOf("secret", "test:demo"),
		"file1":          w.file("one", "content of file one, 34 bytes....\n"),
		"file2":          w.file("two", "other content"),
		"raw_network":    w.raw("raw_network", func(c *client.Client, a []string) error { return w.rawNetwork(c, a[0], a[1]) }),
		"foreign_image":  w.raw("foreign_image", func(c *client.Client, a []string) error { return w.foreignImage(c, a[0], a[1]) }),
		"hanging_image":  w.raw("hanging_image", func(c *client.Client, a []string) error { return w.hangingImage(c, a[0], a[1], a[2]) }),
		"foreign_server": w.raw("foreign_server", func(c *client.Client, a []string) error { return w.foreignServer(c, a[0], a[1]) }),
		"stop_server":    w.raw("stop_server", func(c *client.Client, a []string) error { return w.stopServer(c, a[0]) }),
		"rename_server":  w.raw("rename_server", func(c *client.Client, a []string) error { return w.renameServer(c, a[0], a[1]) }),
		"kept_host_keys": starlark.NewBuiltin("kept_host_keys", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			ids := []string{}
			kept, err := os.ReadDir(filepath.Join(w.hostKeys, "hostkeys"))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			for _, key := range kept {
				ids = append(ids, key.Name())
			}
			return effect.ToStarlark(ids), nil
		}),
		"expire_tokens": starlark.NewBuiltin("expire_tokens", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			w.cloud.ExpireTokens()
			return starlark.None, nil
		}),
	}
}

func (w *world) builtin(name string, f func(fn starlark.Callable, thread *starlark.Thread) (starlark.Value, error)) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var fn starlark.Callable
		if err := starlark.UnpackPositionalArgs(name, args, kwargs, 1, &fn); err != nil {
			return nil, err
		}
		return f(fn, thread)
	})
}

// TestRecipes runs the tests in Starlark, each file in a cloud of its own.
func TestRecipes(t *testing.T) {
	files, err := filepath.Glob("testdata/*.star")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, file := range files {
		w := newWorld(t, lab.Config{})
		startest.Run(t, file, w.options())
	}
}

// Secret data for cloud-init shows in the plan of a new server as that it is
// given, and leaves nothing behind in the server's metadata.
func TestSecretUserData(t *testing.T) {
	w := newWorld(t, lab.Config{})
	src := filepath.Join(t.TempDir(), "server.star")
	if err := os.WriteFile(src, []byte(`def test_it():
    cloud = openstack.connect("lab")
    net = cloud.network.ensure("sn")
    cloud.subnet.ensure("sn", network = net, cidr = "10.26.0.0/24")
    cloud.server.ensure("vm", image = "lab-tiny", flavor = "m1.small", networks = [net], user_data = hidden)
    if not planning:
        assert.eq(cloud.server.get("vm").metadata, {})
`), 0o600); err != nil {
		t.Fatal(err)
	}
	hidden := effect.SecretOf("#cloud-config\npassword: correct horse\n", "test:hidden")
	opts := w.options()
	opts.Globals["hidden"], opts.Globals["planning"] = hidden, starlark.False
	startest.Run(t, src, opts)
	opts = newWorld(t, lab.Config{}).options()
	opts.Globals["hidden"], opts.Globals["planning"], opts.Door = hidden, starlark.True, startest.NewDoor(effect.Plan)
	startest.Run(t, src, opts)
	planned := opts.Door.Planned()
	if len(planned) == 0 {
		t.Fatal("nothing is planned")
	}
	var got any
	for _, f := range planned[len(planned)-1].Change.Fields {
		if f.Path == "user_data" {
			got = f.New
		}
	}
	if got != any(hidden) {
		t.Errorf("the plan shows %v as the user_data", got)
	}
}
