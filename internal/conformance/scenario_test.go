package conformance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	lab "git.vanillacore.net/govstack/gsrun/internal/lab/openstack"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
	"git.vanillacore.net/govstack/gsrun/runtime/startest"
	"git.vanillacore.net/govstack/gsrun/stdlib/openstack"
)

// TestScenarios runs each scenario against each target.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.star")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, target := range targets() {
		t.Run(target.name, func(t *testing.T) {
			target.need(t)
			for _, file := range files {
				t.Run(strings.TrimSuffix(filepath.Base(file), ".star"), func(t *testing.T) {
					t.Parallel()
					s := newScenario(t, target)
					startest.Run(t, file, s.options(effect.Apply))
				})
			}
		})
	}
}

// A scenario is a project of a target, and what its tests see of it.
type scenario struct {
	t      *testing.T
	target target
	cloud  cloud
	clouds string // clouds.yaml
	watch  atomic.Pointer[watcher]
	logins logins
	kept   string // folder of host keys
	files  string // folder of files that are uploaded
	suffix string // of names that all projects share
}

func newScenario(t *testing.T, target target) *scenario {
	s := &scenario{t: t, target: target, kept: t.TempDir(), files: t.TempDir(), suffix: strconv.FormatInt(time.Now().UnixNano(), 36)}
	if target.slots != nil {
		target.slots <- struct{}{}
		t.Cleanup(func() { <-target.slots })
	}
	var login tenant
	s.cloud, login = target.open(t)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.clouds = login.clouds(t, server.URL)
	return s
}

// A watcher is told of each request that means to change something before it
// takes effect, and again before it is answered. It may answer in the cloud's
// place, which it then reports, or panic with http.ErrAbortHandler, which
// breaks the connection.
type watcher func(w http.ResponseWriter, r *http.Request, body []byte, done bool) (answered bool)

// ServeHTTP is the cloud's, with the watcher.
func (s *scenario) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.target.slots != nil && r.Method == http.MethodPost && r.URL.Path == "/identity/v3/auth/tokens" {
		s.logins.serve(s.cloud, w, r)
		return
	}
	watch := s.watch.Load()
	if watch == nil {
		s.cloud.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	q := lab.Request{Method: r.Method, Path: r.URL.Path}
	if bytes.Contains(body, []byte("os-getConsoleOutput")) {
		q.Action = "os-getConsoleOutput"
	}
	if !q.Write() {
		s.cloud.ServeHTTP(w, r)
		return
	}
	if (*watch)(w, r, body, false) {
		return
	}
	answer := httptest.NewRecorder()
	s.cloud.ServeHTTP(answer, r)
	if (*watch)(w, r, body, true) {
		return
	}
	copyAnswer(w, answer)
}

func copyAnswer(w http.ResponseWriter, answer *httptest.ResponseRecorder) {
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes()) // whoever has gone needs no answer
}

// Logins keep the answers to logins: a scenario logs in some hundred times, for
// which a real Keystone, and each service that sees a new token, takes its time.
type logins struct {
	mu    sync.Mutex
	known map[string]*httptest.ResponseRecorder // by the request's body
}

func (l *logins) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	l.mu.Lock()
	answer := l.known[string(body)]
	l.mu.Unlock()
	if answer == nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer = httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		if answer.Code == http.StatusCreated {
			l.mu.Lock()
			if l.known == nil {
				l.known = make(map[string]*httptest.ResponseRecorder)
			}
			l.known[string(body)] = answer
			l.mu.Unlock()
		}
	}
	copyAnswer(w, answer)
}

// forget has the next logins be new ones.
func (l *logins) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.known)
}

// module returns the module as a new run has it.
func (s *scenario) module() *builtin.Module {
	m := openstack.Module(openstack.Config{CloudsFile: s.clouds, HostKeys: journal.NewValues(s.kept), Secrets: journal.NewValues(s.kept), Interval: s.target.interval, Patience: 3 * s.target.interval, CloseLooks: -1})
	s.t.Cleanup(func() {
		if err := m.Recv.(*openstack.Clouds).Close(); err != nil {
			s.t.Error(err)
		}
	})
	return m
}

// options are those of a new run.
func (s *scenario) options(mode effect.Mode) startest.Options {
	door := startest.NewDoor(mode)
	if mode == effect.Apply {
		startest.Agree(s.t, door)
	}
	door.Retry = effect.Retry{Tries: 6, Base: s.target.retry, Max: 20 * s.target.retry}
	return startest.Options{Modules: []*builtin.Module{s.module()}, Globals: s.globals(), Door: door, Timeout: 15 * time.Minute}
}

// ids are what differs from run to run in the paths of calls.
var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b`)

// calls returns the calls after entry since of the log that want says, as
// texts. Logins aren't among them.
func (s *scenario) calls(since int, want func(lab.Request) bool) []string {
	out := []string{}
	for _, r := range s.cloud.Requests(since) {
		if want(r) && !strings.HasPrefix(r.Path, "/identity/v3/auth/tokens") {
			out = append(out, r.Method+" "+ids.ReplaceAllString(r.Path, "ID"))
		}
	}
	return out
}

// run calls fn with the cloud of that entry, as a new run does.
func (s *scenario) run(fn starlark.Callable, entry string, mode effect.Mode) (starlark.Value, *effect.Door, error) {
	return s.call(fn, entry, s.options(mode))
}

// call calls fn with the cloud of that entry.
func (s *scenario) call(fn starlark.Callable, entry string, opts startest.Options) (starlark.Value, *effect.Door, error) {
	connect := starlark.NewBuiltin("with_cloud", func(thread *starlark.Thread, _ *starlark.Builtin, _ starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		module := opts.Modules[0].Value().(starlark.HasAttrs)
		f, err := module.Attr("connect")
		if err != nil {
			return nil, err
		}
		cloud, err := starlark.Call(thread, f, starlark.Tuple{starlark.String(entry)}, nil)
		if err != nil {
			return nil, err
		}
		return starlark.Call(thread, fn, starlark.Tuple{cloud}, nil)
	})
	v, err := startest.Call(s.t, connect, opts)
	return v, opts.Door, err
}

// steady calls fn three times, and returns the first call's result.
func (s *scenario) steady(fn starlark.Callable, entry string, changes bool) (starlark.Value, error) {
	// A plan makes the calls of a run that finds nothing to do. The simulator, which
	// answers at once, is asked for plans; a real one for what counts there.
	plans := s.target.slots == nil
	if plans {
		if _, _, err := s.planned(fn, entry); err != nil {
			return nil, fmt.Errorf("planning: %w", err)
		}
	}
	since := len(s.cloud.Requests(0))
	first, _, err := s.run(fn, entry, effect.Apply)
	if err != nil {
		return nil, err
	}
	if writes := s.calls(since, isWrite); changes && len(writes) == 0 {
		return nil, fmt.Errorf("nothing was written")
	}
	since = len(s.cloud.Requests(0))
	second, _, err := s.run(fn, entry, effect.Apply)
	if err != nil {
		return nil, fmt.Errorf("the second time: %w", err)
	}
	if writes := s.calls(since, isWrite); len(writes) > 0 {
		return nil, fmt.Errorf("the second time it wrote: %v", writes)
	}
	if err := same(first, second); err != nil {
		return nil, fmt.Errorf("the second result differs: %w", err)
	}
	if !plans {
		return first, nil
	}
	kinds, _, err := s.planned(fn, entry)
	if err == nil && len(kinds) > 0 {
		err = fmt.Errorf("a plan of what is there shows changes: %v", kinds)
	}
	return first, err
}

// planned calls fn in a plan, which may write nothing.
func (s *scenario) planned(fn starlark.Callable, entry string) ([]string, starlark.Value, error) {
	since := len(s.cloud.Requests(0))
	v, door, err := s.run(fn, entry, effect.Plan)
	if err != nil {
		return nil, nil, err
	}
	if writes := s.calls(since, isWrite); len(writes) > 0 {
		return nil, nil, fmt.Errorf("a plan wrote: %v", writes)
	}
	kinds := []string{}
	for _, p := range door.Planned() {
		kinds = append(kinds, string(p.Change.Kind)+" "+p.Target.String())
	}
	return kinds, v, nil
}

// same compares results by their attributes.
func same(a, b starlark.Value) error {
	x, err := effect.FromStarlark(a)
	if err != nil {
		return nil // a handle or the like, which isn't data
	}
	y, err := effect.FromStarlark(b)
	if err != nil {
		return err
	}
	if len(effect.Compare(map[string]any{"": x}, map[string]any{"": y})) > 0 {
		return fmt.Errorf("%v is not %v", y, x)
	}
	return nil
}

// globals are the names that package conformance documents.
func (s *scenario) globals() starlark.StringDict {
	return starlark.StringDict{
		"target": starlark.String(s.target.name),
		"steady": s.builtin("steady", func(fn starlark.Callable, entry string) (starlark.Value, error) {
			return s.steady(fn, entry, false)
		}),
		"changed": s.builtin("changed", func(fn starlark.Callable, entry string) (starlark.Value, error) {
			return s.steady(fn, entry, true)
		}),
		"plan": s.builtin("plan", func(fn starlark.Callable, entry string) (starlark.Value, error) {
			kinds, v, err := s.planned(fn, entry)
			if err != nil {
				return nil, err
			}
			return starlark.Tuple{effect.ToStarlark(kinds), v}, nil
		}),
		"writes": s.counting("writes", isWrite),
		"reads":  s.counting("reads", func(r lab.Request) bool { return !r.Write() }),
		"refusal": s.builtin("refusal", func(fn starlark.Callable, entry string) (starlark.Value, error) {
			_, _, err := s.run(fn, entry, effect.Apply)
			if err == nil {
				return nil, fmt.Errorf("it didn't fail")
			}
			return starlarkstruct.FromStringDict(starlarkstruct.Default, starlark.StringDict{
				"kind": starlark.String(fault.KindOf(err)), "text": starlark.String(err.Error()), "hint": starlark.String(fault.HintOf(err)),
			}), nil
		}),
		"fault": starlark.NewBuiltin("fault", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var f lab.Fault
			if err := starlark.UnpackArgs(b.Name(), args, kwargs, "service", &f.Service, "method", &f.Method, "path?", &f.Path, "status?", &f.Status, "count?", &f.Count,
				"reset?", &f.Reset, "body?", &f.Body, "retry_after?", &f.RetryAfter, "effect?", &f.Effect, "hide_ms?", &f.HideMS, "expire?", &f.Expire, "bytes?", &f.Bytes, "skip?", &f.Skip); err != nil {
				return nil, err
			}
			id, err := s.cloud.Inject(f)
			return starlark.String(id), err
		}),
		"file": starlark.NewBuiltin("file", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var content string
			if err := starlark.UnpackArgs(b.Name(), args, kwargs, "content", &content); err != nil {
				return nil, err
			}
			sum := sha256.Sum256([]byte(content))
			path := filepath.Join(s.files, hex.EncodeToString(sum[:]))
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				return nil, err
			}
			return effect.NewObject("artifact.file", map[string]any{"path": path, "sha256": filepath.Base(path), "size": len(content)}), nil
		}),
		"expire_tokens": starlark.NewBuiltin("expire_tokens", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			s.cloud.ExpireTokens()
			s.logins.forget()
			return starlark.None, nil
		}),
		"clear_faults": starlark.NewBuiltin("clear_faults", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			s.cloud.ClearFaults("")
			return starlark.None, nil
		}),
		"secret": starlark.NewBuiltin("secret", func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var text string
			if err := starlark.UnpackArgs(b.Name(), args, kwargs, "text", &text); err != nil {
				return nil, err
			}
			return effect.SecretOf(text, "test:"), nil
		}),
		"unique": starlark.NewBuiltin("unique", func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
			var name string
			if err := starlark.UnpackArgs(b.Name(), args, kwargs, "name", &name); err != nil {
				return nil, err
			}
			return starlark.String(name + "-" + s.suffix), nil
		}),
	}
}

// counting returns the function that calls fn and returns the calls that want
// says.
func (s *scenario) counting(name string, want func(lab.Request) bool) *starlark.Builtin {
	return s.builtin(name, func(fn starlark.Callable, entry string) (starlark.Value, error) {
		since := len(s.cloud.Requests(0))
		if _, _, err := s.run(fn, entry, effect.Apply); err != nil {
			return nil, err
		}
		return effect.ToStarlark(s.calls(since, want)), nil
	})
}

// builtin returns a function that takes fn, and the entry of clouds.yaml.
func (s *scenario) builtin(name string, f func(fn starlark.Callable, entry string) (starlark.Value, error)) *starlark.Builtin {
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var fn starlark.Callable
		entry := "lab"
		if err := starlark.UnpackArgs(name, args, kwargs, "fn", &fn, "cloud?", &entry); err != nil {
			return nil, err
		}
		return f(fn, entry)
	})
}

func isWrite(r lab.Request) bool { return r.Write() }
