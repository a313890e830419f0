package agree

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing/fstest"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/stdlib"
)

// An outcome is what one run, or one plan, said and did.
type outcome struct {
	err      error
	outputs  starlark.Value
	results  map[string]runtime.StepResult // by the path of the step
	deferred map[string]error              // by the path of the step, or of its item: where its plan stopped
	planned  []effect.Planned              // of a plan
	made     []made                        // of a run: what was changed, or failed to be
	logs     map[string][]string           // by step
	doubtful map[string]bool               // steps in which something wasn't known

	mu   sync.Mutex
	open map[string]*effect.Change // the change that is being made, by step and target
}

// A made is one change of a run.
type made struct {
	step, target string
	kind         effect.ChangeKind
	fields       []effect.Field
	attrs        map[string]any
	err          error
}

func (m made) String() string { return fmt.Sprintf("%s: %s %s", m.step, m.kind, m.target) }

// Intent is part of effect.Recorder.
func (o *outcome) Intent(effect.Record) error { return nil }

// Result is part of effect.Recorder: it notes what was changed.
func (o *outcome) Result(r effect.Record) error {
	if r.Kind == effect.None {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	m := made{step: r.Step, target: r.Target, kind: r.Kind, attrs: r.Attrs, err: r.Err}
	if c := o.open[r.Step+" "+r.Target]; c != nil {
		m.fields = c.Fields
	}
	o.made = append(o.made, m)
	return nil
}

func (o *outcome) event(e effect.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch e.Kind {
	case effect.OpStart:
		o.open[e.Step+" "+e.Target] = e.Change
	case effect.OpPlan:
		o.doubtful[e.Step] = true
	case effect.Deferred:
		o.deferred[e.Step] = e.Err
	case effect.Log:
		o.logs[e.Step] = append(o.logs[e.Step], e.Message)
	}
}

// limit bounds one run. None needs nearly as long.
const limit = 2 * time.Minute

// run plans or applies the recipe main.star of files in the world.
func (w *world) run(mode effect.Mode, files map[string]string, path string) *outcome {
	o := &outcome{results: make(map[string]runtime.StepResult), deferred: make(map[string]error), logs: make(map[string][]string), open: make(map[string]*effect.Change), doubtful: make(map[string]bool)}
	fsys := fstest.MapFS{"lab.star": {Data: []byte(w.constants())}}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	modules := w.modules()
	defer stdlib.Close(slices.DeleteFunc(slices.Clone(modules), func(m *builtin.Module) bool { return m == w.ssh }))
	e := runtime.New(runtime.Config{Layers: []runtime.Layer{{Name: "case", Prefix: "case", Recipes: fsys, Files: fsys}}, Modules: modules})
	r, err := e.Load(path)
	if err != nil {
		o.err = &loadError{e.Explain(err).String()}
		return o
	}
	inputs, err := r.ResolveInputs(nil, nil)
	if err != nil {
		o.err = &loadError{e.Explain(err).String()}
		return o
	}
	redactor := new(effect.Redactor)
	d := &effect.Door{Mode: mode, Clock: effect.SystemClock{}, Redactor: redactor, Deletes: -1, Emit: o.event, Recorder: o,
		Retry: effect.Retry{Tries: 2, Base: time.Millisecond, Max: 2 * time.Millisecond}}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	res, err := e.Run(ctx, r, runtime.Options{ID: "run", Site: runtime.Site{Name: "lab"}, Inputs: inputs, Door: d, Vault: vault{}})
	o.err, o.outputs, o.planned = err, res.Outputs, d.Planned()
	for _, s := range res.Steps {
		o.results[s.Path] = s
	}
	return o
}

// A loadError says that a recipe can't be loaded: the generator's fault.
type loadError struct{ text string }

func (e *loadError) Error() string { return e.text }

// value returns what a step returned.
func value(form []byte) (starlark.Value, error) {
	return effect.Codec{Vault: vault{}}.Decode(context.Background(), form)
}

// stopped reports whether the plan of a step, of the step that it is an item
// of, or of a recipe that it is part of, stopped.
func (o *outcome) stopped(step string) bool {
	for {
		if _, ok := o.deferred[step]; ok {
			return true
		}
		i := strings.LastIndexAny(step, "/[")
		if i < 0 {
			return false
		}
		step = step[:i]
	}
}

// stoppedWithin reports whether the plan of a step or of one within it stopped.
func (o *outcome) stoppedWithin(step string) bool {
	if o.stopped(step) {
		return true
	}
	for other := range o.deferred {
		if strings.HasPrefix(other, step+"[") || strings.HasPrefix(other, step+"/") {
			return true
		}
	}
	return false
}

// status returns how a step ended; NotRun if nothing is known of it.
func (o *outcome) status(step string) runtime.Status {
	if r, ok := o.results[step]; ok {
		return r.Status
	}
	return runtime.NotRun
}
