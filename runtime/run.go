package runtime

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A Site is what a run knows of the site that it works for.
type Site struct {
	Name   string
	Values starlark.Value            // ctx.site
	Inputs map[string]map[string]any // by the path of the recipe: what the site says for its inputs
}

// Options say how a run goes.
type Options struct {
	ID     string // the run's id
	Site   Site
	Inputs starlark.StringDict // as ResolveInputs returns them
	Door   *effect.Door
	Vault  effect.Vault // keeps secrets that leave a step; nil means a step can't return any
	// Secret returns the secret that an input names the place of.
	Secret func(ctx context.Context, ref string) (*effect.Secret, error)
	// Done is called with the journal's form of the result of each step, and of
	// each item of one that ended well. It is called by several goroutines at
	// once; nil keeps nothing.
	Done func(StepResult) error
	// Finished returns what an earlier process of this run had at the path of a
	// step or item, or nil. It isn't asked without Done; nil knows nothing.
	Finished  func(path string) *Finished
	KeySecret []byte // keys of steps are made with it, so that they tell nothing of secrets
	Version   string // of gsrun: another one may do the same step otherwise
}

// A Status says how a step ended.
type Status string

// The statuses.
const (
	OK       Status = "ok"
	Skipped  Status = "skipped"
	Failed   Status = "failed"
	Stopped  Status = "stopped"  // the run was cancelled while it ran
	Deferred Status = "deferred" // its plan stopped at a value that isn't known yet
	NotRun   Status = "not run"  // another failed first
	Kept     Status = "kept"     // an earlier process of the run did it
)

// A StepResult says how one step ended.
type StepResult struct {
	Path    string // "gateway/nat"
	Status  Status
	Elapsed time.Duration
	Value   []byte // the journal's form of the result; nil unless OK or Kept
	Err     error

	// What the result depends on; empty if it can't be taken for that of
	// another process.
	Key   string
	Files map[string]string // the files that were read, with their digests
}

// A Result is how a run ended.
type Result struct {
	Outputs starlark.Value // a struct, or nil if the run failed
	Steps   []StepResult   // in the order in which they ended; those of used recipes included
}

// run is one execution.
type run struct {
	engine *Engine
	opts   Options
	codec  effect.Codec
	files  sync.Map // *readFiles by path

	mu    sync.Mutex
	steps []StepResult
}

// Run runs a recipe, or plans it if the door says so. The error is that of the
// first step that failed; the result lists the steps in any case.
func (e *Engine) Run(ctx context.Context, r *Recipe, o Options) (*Result, error) {
	if o.Site.Values == nil {
		o.Site.Values = effect.NewStruct(nil)
	}
	x := &run{engine: e, opts: o, codec: effect.Codec{Vault: o.Vault, Redactor: o.Door.Redactor}}
	owner := effect.Owner{Site: o.Site.Name, Recipe: r.Path}
	root := &inst{run: x, recipe: r, owner: owner}
	out, err := root.execute(ctx, o.Inputs)
	switch fault.KindOf(err) {
	case fault.Unreachable, fault.Unavailable, fault.Timeout, fault.Internal, fault.Cancelled:
		// A call that was broken off may say so in its own words.
		if cause := fault.FromContext(ctx); cause != nil && fault.KindOf(cause) != fault.KindOf(err) {
			err = &fault.Error{Kind: fault.KindOf(cause), Hint: fault.HintOf(cause), Err: fmt.Errorf("%w: %w", cause, err)}
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return &Result{Outputs: out, Steps: x.steps}, err
}

func (x *run) planning() bool { return x.opts.Door.Mode == effect.Plan }

// stops reports whether err only ends the plan of one step: what depends on it
// isn't known then.
func (x *run) stops(err error) bool {
	if err == nil || !x.planning() {
		return false
	}
	kind := fault.KindOf(err)
	return kind == fault.Deferred || x.opts.Door.Survey && kind != fault.Cancelled
}

// ended records how a step ended, and tells the world.
func (x *run) ended(res StepResult) {
	x.mu.Lock()
	x.steps = append(x.steps, res)
	x.mu.Unlock()
	kind := effect.StepEnd
	switch res.Status {
	case Skipped:
		kind = effect.StepSkip
	case Deferred:
		kind = effect.Deferred
	}
	e := effect.Event{Kind: kind, Step: res.Path, Err: res.Err, Elapsed: res.Elapsed}
	if res.Status == Kept {
		e.Kind, e.Message = effect.StepSkip, "done before"
	}
	x.opts.Door.Send(e)
}

// inst is one use of a recipe within a run: the recipe that the run is of, or
// one that is a step of another.
type inst struct {
	run    *run
	recipe *Recipe
	owner  effect.Owner
	prefix string          // of the paths of its steps: "gateway/"
	needs  []*effect.Scope // what its first steps depend on

	inputs starlark.Value
	nodes  map[string]*node

	wg     sync.WaitGroup
	mu     sync.Mutex
	failed error
}

// node is a step in an inst.
type node struct {
	step  *Step
	scope *effect.Scope
	value starlark.Value // the result, through the journal's form; frozen
	ended bool
	left  int // needs that haven't ended
	next  []*node
}

// execute runs the steps in the order that their needs allow, and returns the
// outputs.
func (in *inst) execute(ctx context.Context, inputs starlark.StringDict) (starlark.Value, error) {
	inputs, err := in.openSecrets(ctx, inputs)
	if err != nil {
		return nil, err
	}
	inputs.Freeze()
	fields := make(map[string]any, len(inputs))
	for name, v := range inputs {
		fields[name] = v
	}
	in.inputs = effect.NewObject("ctx.inputs", fields)
	in.nodes = make(map[string]*node, len(in.recipe.Steps))
	all := make([]*node, 0, len(in.recipe.Steps))
	for _, s := range in.recipe.Steps {
		n := &node{step: s}
		in.nodes[s.Name] = n
		all = append(all, n)
	}
	for _, n := range all {
		needs := in.recipe.first(n.step)
		n.left = len(needs)
		for _, need := range needs {
			in.nodes[need].next = append(in.nodes[need].next, n)
		}
	}
	var first []*node
	for _, n := range all {
		if n.left == 0 {
			first = append(first, n)
		}
	}
	in.start(ctx, first)
	in.wg.Wait()
	for _, n := range all {
		if !n.ended {
			in.run.mu.Lock()
			in.run.steps = append(in.run.steps, StepResult{Path: in.prefix + n.step.Name, Status: NotRun})
			in.run.mu.Unlock()
		}
	}
	if in.failed != nil {
		return nil, in.failed
	}
	if err := fault.FromContext(ctx); err != nil {
		return nil, err
	}
	return in.outputs(ctx)
}

// start runs the nodes, each in a goroutine of its own; the last one goes on
// in the calling goroutine's place.
func (in *inst) start(ctx context.Context, nodes []*node) {
	for _, n := range nodes {
		in.wg.Add(1)
		go func() {
			defer in.wg.Done()
			for n != nil {
				n = in.runNode(ctx, n)
			}
		}()
	}
}

// runNode runs a step and starts those that became ready. One of them is
// returned for the caller to run: a chain of steps needs one goroutine.
func (in *inst) runNode(ctx context.Context, n *node) *node {
	if in.stopped() || ctx.Err() != nil {
		return nil
	}
	in.prepare(n)
	err := in.step(ctx, n)
	in.mu.Lock()
	n.ended = true
	if err != nil && in.failed == nil {
		in.failed = err
	}
	var ready []*node
	if in.failed == nil {
		for _, d := range n.next {
			if d.left--; d.left == 0 {
				ready = append(ready, d)
			}
		}
	}
	in.mu.Unlock()
	if len(ready) == 0 {
		return nil
	}
	in.start(ctx, ready[1:])
	return ready[0]
}

func (in *inst) stopped() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.failed != nil
}

func (in *inst) prepare(n *node) {
	var needs []*effect.Scope
	for _, name := range in.recipe.first(n.step) {
		needs = append(needs, in.nodes[name].scope)
	}
	if len(needs) == 0 {
		needs = in.needs
	}
	n.scope = in.newScope(in.prefix+n.step.Name, needs)
}

func (in *inst) newScope(path string, needs []*effect.Scope) *effect.Scope {
	s := effect.NewScope(in.run.opts.Door, in.owner, path, needs)
	layers, read := in.run.engine.layers, in.run.filesOf(path)
	s.Files = func(name string) ([]byte, error) {
		content, err := readFile(layers, name)
		if err == nil {
			read.add(name, content)
		}
		return content, err
	}
	return s
}

// outputs calls the recipe's outputs function.
func (in *inst) outputs(ctx context.Context) (starlark.Value, error) {
	fn := in.recipe.Outputs
	if fn == nil {
		return effect.NewStruct(nil), nil
	}
	var needs []*effect.Scope
	for _, n := range in.nodes {
		if n.scope != nil {
			needs = append(needs, n.scope)
		}
	}
	scope := in.newScope(in.prefix+"outputs", needs)
	v, err := in.run.engine.threads.Call(effect.With(ctx, scope), scope.Step, fn, nil, in.arguments(fn, in.newCtx(scope, nil, 0), nil))
	if err != nil {
		if in.run.stops(err) {
			return effect.Unknown{Of: "the outputs of " + in.recipe.Path}, nil
		}
		return nil, err
	}
	if d, ok := v.(*starlark.Dict); ok {
		fields := make(starlark.StringDict, d.Len())
		for _, item := range d.Items() {
			name, ok := starlark.AsString(item[0])
			if !ok || !isIdentifier(name) {
				return nil, at(fn.Position(), fault.New(fault.Invalid, "outputs: %s is no name for an output", item[0]))
			}
			fields[name] = item[1]
		}
		v = effect.NewStruct(fields)
	}
	switch v.(type) {
	case effect.Unknown, starlark.HasAttrs:
	default:
		return nil, at(fn.Position(), fault.New(fault.Invalid, "outputs: got %s, want a dict or struct", v.Type()))
	}
	return in.run.keep(ctx, v)
}

// keep returns v through the journal's form.
func (x *run) keep(ctx context.Context, v starlark.Value) (starlark.Value, error) {
	form, err := x.codec.Encode(v)
	if err != nil {
		return nil, err
	}
	return x.codec.Decode(ctx, form)
}

// arguments returns what fn's parameters name: steps' results and ctx.
func (in *inst) arguments(fn *starlark.Function, c *stepCtx, original starlark.Value) []starlark.Tuple {
	var kwargs []starlark.Tuple
	for i := range fn.NumParams() {
		name, _ := fn.Param(i)
		var v starlark.Value
		switch {
		case name == paramCtx && in.nodes[paramCtx] == nil:
			v = c
		case name == paramOriginal && original != nil:
			v = original
		case in.nodes[name] != nil && fn.ParamDefault(i) == nil:
			v = in.nodes[name].value
		default:
			continue
		}
		kwargs = append(kwargs, starlark.Tuple{starlark.String(name), v})
	}
	return kwargs
}
