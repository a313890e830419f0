package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	starlarkjson "go.starlark.net/lib/json"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab"
	"git.vanillacore.net/govstack/gsrun/internal/lab/labtest"
	"git.vanillacore.net/govstack/gsrun/runtime/assert"
	"git.vanillacore.net/govstack/gsrun/runtime/dialect"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/thread"
	"git.vanillacore.net/govstack/gsrun/stdlib"
)

// testCmd runs tests in Starlark.
func (a *app) testCmd() *cobra.Command {
	var t tests
	c := &cobra.Command{
		Use:   "test FILE...",
		Short: "Run tests written in Starlark against the lab",
		Long: "Run the functions called test_* of each file, by convention one whose name ends in _test.star, against the\n" +
			"lab, which is started if need be. They see the modules that steps see, `assert`, and `lab`:\n\n" +
			"  lab.run(RECIPE, input = value)   runs a recipe; the result has code, changed, unchanged, failed and error\n" +
			"  lab.fault.PART(field = value)    makes a part of the lab go wrong; returns the fault's id\n" +
			"  lab.fault.list()                 the faults, with part, id, hits and spec\n" +
			"  lab.fault.clear(id)              removes one, or all; so does the end of each test\n\n" +
			"The parts and their fields are those of `gsrun lab fault add`.",
		Example: "  gsrun test recipes/gateway_test.star",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fault.Hinted(fault.Invalid, "name files that end in _test.star", "no test was named")
			}
			return a.test(cmd, args, &t)
		},
	}
	c.Flags().StringVar(&t.site, "site", "", "the site's `folder`, which the lab's stands in for where it lacks something")
	c.Flags().DurationVar(&t.timeout, "timeout", 10*time.Minute, "of one test")
	return c
}

// tests are those of one call.
type tests struct {
	site    string
	timeout time.Duration

	in       lab.Injector
	names    starlark.StringDict
	redactor *effect.Redactor
	owner    effect.Owner
	threads  *thread.Factory
	failed   int
}

func (a *app) test(cmd *cobra.Command, files []string, t *tests) (err error) {
	s, err := a.requireSite(cmd.Context(), place{site: t.site, lab: true})
	if err != nil {
		return err
	}
	if t.in, err = injector(); err != nil {
		return err
	}
	env, _, err := a.environment(s)
	if err != nil {
		return err
	}
	modules := stdlib.Modules(env)
	defer func() { err = errors.Join(err, stdlib.Close(modules)) }()
	t.redactor, t.owner = new(effect.Redactor), effect.Owner{Site: s.Name, Recipe: "test"}
	t.threads = &thread.Factory{Print: func(_ *starlark.Thread, msg string) { fmt.Fprintln(a.stderr, t.redactor.String(msg)) }}
	t.names = starlark.StringDict{"struct": starlark.NewBuiltin("struct", starlarkstruct.Make), "assert": assert.Value(),
		"lab": labtest.Value(t.in, starlark.StringDict{"run": a.labRun(t)})}
	for _, m := range modules {
		if m.Name != "" {
			t.names[m.Name] = m.Value()
			continue
		}
		for name, v := range m.Globals() {
			t.names[name] = v
		}
	}
	for _, file := range files {
		if err := t.file(cmd, file); err != nil {
			return err
		}
	}
	if t.failed > 0 {
		return &exitCode{code: fault.Failed.ExitCode()}
	}
	return nil
}

// file runs the tests of one file.
func (t *tests) file(cmd *cobra.Command, file string) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return &fault.Error{Op: "reading", Target: file, Kind: fault.Invalid, Err: err}
	}
	f, err := dialect.Compile(file, src, t.names.Has)
	if err != nil {
		return &fault.Error{Kind: fault.Invalid, Hint: fault.HintOf(err), Err: err}
	}
	globals, err := f.Init(t.threads.New(file, nil), t.names)
	if err != nil {
		return &fault.Error{Op: "loading", Target: file, Kind: fault.Invalid, Hint: fault.HintOf(err), Err: err}
	}
	globals.Freeze()
	ran := 0
	for _, name := range globals.Keys() {
		fn, ok := globals[name].(*starlark.Function)
		if !ok || !strings.HasPrefix(name, "test_") {
			continue
		}
		ran++
		if err := t.one(cmd, file, name, fn); err != nil {
			return err
		}
	}
	if ran == 0 {
		return fault.Hinted(fault.Invalid, "a test is a function called test_SOMETHING", "%s has no test", file)
	}
	return nil
}

// one runs one test, as a step would run. An error ends all of them.
func (t *tests) one(cmd *cobra.Command, file, name string, fn starlark.Callable) error {
	start := time.Now()
	door := &effect.Door{Mode: effect.Apply, Clock: effect.SystemClock{}, Redactor: t.redactor, Deletes: -1}
	ctx, cancel := context.WithTimeoutCause(effect.With(cmd.Context(), effect.NewScope(door, t.owner, name, nil)), t.timeout,
		fault.New(fault.Timeout, "%s took longer than %s", name, t.timeout))
	defer cancel()
	_, err := t.threads.Call(ctx, name, fn, nil, nil)
	if _, cerr := t.in.ClearFaults(""); cerr != nil {
		return cerr
	}
	if ended := fault.FromContext(cmd.Context()); ended != nil {
		return ended
	}
	took := time.Since(start).Round(time.Millisecond)
	if err == nil {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "ok    %s: %s (%s)\n", file, name, took)
		return err
	}
	t.failed++
	text := err.Error()
	var eval *starlark.EvalError
	if errors.As(err, &eval) {
		text = eval.Backtrace()
	}
	if hint := fault.HintOf(err); hint != "" {
		text += "\nhint: " + hint
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "FAIL  %s: %s (%s)\n      %s\n", file, name, took, strings.ReplaceAll(t.redactor.String(text), "\n", "\n      "))
	return err
}

// labRun runs a recipe as the command line does.
func (a *app) labRun(t *tests) starlark.Value {
	return starlark.NewBuiltin("lab.run", func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var recipe string
		if err := starlark.UnpackPositionalArgs(b.Name(), args, nil, 1, &recipe); err != nil {
			return nil, err
		}
		argv := []string{"run", recipe, "--lab", "--output", "json"}
		if t.site != "" {
			site, err := filepath.Abs(t.site)
			if err != nil {
				return nil, err
			}
			argv = append(argv, "--site", site)
		}
		for _, kv := range kwargs {
			name, _ := starlark.AsString(kv[0])
			text, isText := starlark.AsString(kv[1])
			if !isText {
				encoded, err := starlark.Call(thread, starlarkjson.Module.Members["encode"], starlark.Tuple{kv[1]}, nil)
				if err != nil {
					return nil, fault.New(fault.Invalid, "%s: %s: %v", b.Name(), name, err)
				}
				text, _ = starlark.AsString(encoded)
			}
			argv = append(argv, "--"+strings.ReplaceAll(name, "_", "-")+"="+text)
		}
		var out, errs bytes.Buffer
		code := run(argv, bytes.NewReader(nil), &out, &errs)
		var sum view.SummaryRecord
		for line := range bytes.Lines(out.Bytes()) {
			var r view.SummaryRecord
			if json.Unmarshal(line, &r) == nil && r.Kind == "summary" {
				sum = r
			}
		}
		return starlarkstruct.FromStringDict(starlarkstruct.Default, starlark.StringDict{
			"code": starlark.MakeInt(code), "changed": starlark.MakeInt(sum.Changes.Changed), "unchanged": starlark.MakeInt(sum.Changes.Unchanged),
			"failed": starlark.MakeInt(sum.Changes.Failed), "error": starlark.String(errs.String())}), nil
	})
}
