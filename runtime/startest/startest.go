// Package startest runs the tests that are written in Starlark: files whose
// functions named test_* each are a test. They run in a step's scope with the
// modules given, and with `assert`.
package startest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/assert"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/thread"
)

// Options says what a test file can see.
type Options struct {
	Modules []*builtin.Module
	Globals starlark.StringDict               // further names, such as the address of a test server
	Door    *effect.Door                      // nil means one that applies, with short pauses
	Owner   effect.Owner                      // empty means site "test", recipe "test"
	Files   func(name string) ([]byte, error) // the recipe's files
	Timeout time.Duration                     // of one test; 0 means 1 minute
}

// Run runs every test_* function of the files that match pattern.
func Run(t *testing.T, pattern string, opts Options) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no test file matches %s (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".star"), func(t *testing.T) { runFile(t, file, opts) })
	}
}

func runFile(t *testing.T, file string, opts Options) {
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	globals := Load(t, file, string(src), opts)
	ran := 0
	for _, name := range globals.Keys() {
		fn, ok := globals[name].(*starlark.Function)
		if !ok || !strings.HasPrefix(name, "test_") {
			continue
		}
		ran++
		t.Run(strings.TrimPrefix(name, "test_"), func(t *testing.T) {
			if _, err := Call(t, fn, opts); err != nil {
				t.Fatal(Explain(err))
			}
		})
	}
	if ran == 0 {
		t.Fatalf("%s has no test_* function", file)
	}
}

// Load runs the source of a file as one that is loaded, and returns what it
// defines.
func Load(t testing.TB, file, src string, opts Options) starlark.StringDict {
	t.Helper()
	predeclared := Predeclared(opts)
	f, err := dialect.Compile(file, []byte(src), predeclared.Has)
	if err != nil {
		t.Fatal(Explain(err))
	}
	globals, err := f.Init(factory(t).New(file, nil), predeclared)
	if err != nil {
		t.Fatal(Explain(err))
	}
	globals.Freeze()
	return globals
}

// factory makes threads as the runtime does, whose print goes to the test's log.
func factory(t testing.TB) *thread.Factory {
	return &thread.Factory{Print: func(_ *starlark.Thread, msg string) { t.Log(msg) }}
}

// Call calls fn as a step would, in a scope of its own.
func Call(t testing.TB, fn starlark.Callable, opts Options) (starlark.Value, error) {
	door := opts.Door
	if door == nil {
		door = NewDoor(effect.Apply)
	}
	owner := opts.Owner
	if owner == (effect.Owner{}) {
		owner = effect.Owner{Site: "test", Recipe: "test"}
	}
	scope := effect.NewScope(door, owner, t.Name(), nil)
	scope.Files = opts.Files
	timeout := opts.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(effect.With(context.Background(), scope), timeout)
	defer cancel()
	return factory(t).Call(ctx, t.Name(), fn, nil, nil)
}

// NewDoor returns a door with a redactor, the system's clock and pauses short
// enough for tests.
func NewDoor(mode effect.Mode) *effect.Door {
	return &effect.Door{Mode: mode, Clock: effect.SystemClock{}, Redactor: new(effect.Redactor), Deletes: -1,
		Retry: effect.Retry{Tries: 4, Base: 5 * time.Millisecond, Max: 50 * time.Millisecond}}
}

// Predeclared returns the names that a test file sees.
func Predeclared(opts Options) starlark.StringDict {
	d := starlark.StringDict{
		"struct": starlark.NewBuiltin("struct", starlarkstruct.Make),
		"assert": assert.Value(),
	}
	for _, m := range opts.Modules {
		if m.Name == "" {
			for k, v := range m.Globals() {
				d[k] = v
			}
			continue
		}
		d[m.Name] = m.Value()
	}
	for k, v := range opts.Globals {
		d[k] = v
	}
	return d
}

// Explain returns err with its Starlark backtrace and hint.
func Explain(err error) string {
	s := err.Error()
	var e *starlark.EvalError
	if errors.As(err, &e) {
		s = e.Backtrace()
	}
	if h := fault.HintOf(err); h != "" {
		s += "\nhint: " + h
	}
	return s
}
