package thread_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/thread"
)

// define returns the function f of source, in which `host()` calls builtin.
func define(t *testing.T, source string, builtin func() (starlark.Value, error)) starlark.Callable {
	t.Helper()
	host := starlark.NewBuiltin("host", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		return builtin()
	})
	globals, err := starlark.ExecFileOptions(&syntax.FileOptions{While: true}, new(thread.Factory).New("load", nil), "t.star", source, starlark.StringDict{"host": host})
	if err != nil {
		t.Fatal(err)
	}
	return globals["f"].(starlark.Callable)
}

func TestCall(t *testing.T) {
	var printed []string
	factory := &thread.Factory{MaxSteps: 10_000, Print: func(th *starlark.Thread, msg string) { printed = append(printed, th.Name+": "+msg) }}
	none := func() (starlark.Value, error) { return starlark.None, nil }
	for name, tt := range map[string]struct {
		source  string
		builtin func() (starlark.Value, error)
		kind    fault.Kind // empty: it returns 7
		text    string
	}{
		"value":     {"def f():\n    print('hello')\n    return 7", none, "", ""},
		"endless":   {"def f():\n    while True:\n        pass", none, fault.Limit, "more than 10000 steps"},
		"recursive": {"def f():\n    f()", none, fault.Limit, "called recursively"},
		"fail":      {"def f():\n    fail('no luck')", none, fault.Invalid, "no luck"},
		"fault": {"def f():\n    host()", func() (starlark.Value, error) { return nil, fault.New(fault.Conflict, "taken") },
			fault.Conflict, "taken"},
		"panic": {"def f():\n    host()", func() (starlark.Value, error) { panic("a defect") }, fault.Internal, "panic in panic: a defect"},
	} {
		v, err := factory.Call(t.Context(), name, define(t, tt.source, tt.builtin), nil, nil)
		if tt.kind == "" {
			if err != nil || v.String() != "7" {
				t.Errorf("%s: %v, %v", name, v, err)
			}
			continue
		}
		if fault.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: got kind %s: %v", name, fault.KindOf(err), err)
		}
	}
	if !slices.Equal(printed, []string{"value: hello"}) {
		t.Errorf("printed %q", printed)
	}
}

// A thread ends with its context, also in the middle of a loop, and its error
// says both why and where.
func TestCallEndsWithContext(t *testing.T) {
	source := "def f():\n    host()\n    while True:\n        pass"
	cancelled, cancel := context.WithCancel(t.Context())
	defer cancel()
	late, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	for want, tt := range map[fault.Kind]struct {
		ctx     context.Context
		builtin func() (starlark.Value, error)
	}{
		fault.Cancelled: {cancelled, func() (starlark.Value, error) { cancel(); return starlark.None, nil }},
		fault.Timeout:   {late, func() (starlark.Value, error) { return starlark.None, nil }},
	} {
		_, err := (&thread.Factory{MaxSteps: 1 << 40}).Call(tt.ctx, "step", define(t, source, tt.builtin), nil, nil)
		var at *starlark.EvalError
		if fault.KindOf(err) != want || !errors.As(err, &at) || !strings.Contains(at.Backtrace(), "in f") {
			t.Errorf("want %s, got %s: %v", want, fault.KindOf(err), err)
		}
	}
}
