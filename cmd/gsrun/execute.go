package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

// A process is one process of a run: its first, or one that goes on.
type process struct {
	run     string // the run's id
	inputs  starlark.StringDict
	resumed bool
	saved   *planFile                                       // what it may do; nil for what the recipe says
	journal func(journal.Options) (*journal.Journal, error) // opens the run's journal; called under the lock
}

// underWay is how long a request may go on whose process has died: no service of
// OpenStack works at one for longer.
const underWay = 2 * time.Minute

// unlisted is how long what was made may be missing in lists, as far as anybody
// waits for it.
const unlisted = 10 * time.Second

// execute runs the recipe of x under its lock, and reports how that ended.
func (a *app) execute(ctx context.Context, x *session, f *runFlags, p process) error {
	start := time.Now()
	var err error
	if x.store, err = journal.Open(x.site.StateDir()); err != nil {
		return err
	}
	lock, err := x.lockRun(ctx, p.run)
	if err != nil {
		return err
	}
	defer lock.Release()
	ctx, cancel := lock.Context(ctx)
	defer cancel()
	redactor := new(effect.Redactor)
	if err := x.hide(ctx, redactor); err != nil {
		return err
	}
	key, err := x.store.Key(rand.Read)
	if err != nil {
		return err
	}
	contract, err := p.contract(ctx, x, x.budget(f), effect.NewSaver(key, redactor), redactor)
	if err != nil {
		return err
	}
	j, err := p.journal(journal.Options{Codec: effect.Codec{Vault: x.vault, Redactor: redactor}, Guard: lock.Guard})
	if err != nil {
		return err
	}
	// Read before the run has intents of its own.
	unsettled, created := x.store.Unsettled(time.Now().Add(-underWay)), x.store.Created(time.Now().Add(-unlisted))
	log := openLog(x.store, p.run, redactor)
	defer log.Close()
	door, v := a.door(effect.Apply, view.Running, f, redactor, log.Event)
	door.Recorder, door.Guard, door.Memory, door.Contract = j, lock.Guard, j, contract
	door.Asker = a.asker(x, j, p.run, f)
	door.Deletes, door.Unsettled, door.Created = x.budget(f), unsettled, created
	res, runErr := x.engine.Run(ctx, x.recipe, runtime.Options{
		ID: p.run, Site: runtimeSite(x.site), Inputs: p.inputs, Door: door, Vault: x.vault, Secret: x.secrets.Read, KeySecret: key, Version: versionText(),
		Done: func(s runtime.StepResult) error {
			return j.Step(journal.Entry{Step: s.Path, Status: string(s.Status), Value: s.Value, Key: s.Key, Files: s.Files}, s.Elapsed, door.Redacted(s.Err))
		},
		Finished: finishedOf(j),
	})
	closeErr := v.Close()
	endErr := j.End(endStatus(runErr), door.Counts().Changed(), door.Redacted(runErr))
	summary := view.SummaryData{Run: p.run, Recipe: x.recipe.Path, Steps: res.Steps, Counts: door.Counts(), Time: time.Now(),
		Elapsed: time.Since(start), Outputs: res.Outputs, Err: door.Redacted(runErr)}
	sumErr := a.summary(f, door, summary)
	if runErr != nil {
		a.report(x.engine, door, runErr)
		if endErr != nil && !errors.Is(runErr, endErr) { // it is said already
			a.complain(endErr)
		}
		code := fault.KindOf(runErr).ExitCode()
		if code == fault.Invalid.ExitCode() && door.Counts().Changed() > 0 {
			code = fault.Failed.ExitCode() // something was touched
		}
		return &exitCode{code: code}
	}
	if f.outputs != "" {
		sumErr = errors.Join(sumErr, writeOutputs(f.outputs, res.Outputs, redactor))
	}
	return errors.Join(closeErr, endErr, sumErr)
}

// contract returns what the saved plan lets the run do; nil if there is none. A
// run that begins is refused if the world isn't as the plan says.
func (p process) contract(ctx context.Context, x *session, budget int, saver effect.Saver, r *effect.Redactor) (*effect.Contract, error) {
	if p.saved == nil {
		return nil, nil
	}
	if err := p.saved.samePremises(x, p.inputs, saver); err != nil {
		return nil, err
	}
	if n := p.saved.deletions(); budget >= 0 && n > budget {
		return nil, fault.Hinted(fault.Invalid, fmt.Sprintf("allow them with --max-deletes %d if they are meant", n), "the plan makes %s, and the run's budget is %d", plural(n, "deletion"), budget)
	}
	begun, err := p.saved.begunBefore(x.store)
	if err != nil {
		return nil, err
	}
	c := effect.NewContract(saver, p.saved.Changes, p.saved.stopped(), begun)
	if p.resumed {
		return c, nil
	}
	return c, p.saved.drift(ctx, x, p.inputs, r, c)
}

// finishedOf returns what the engine asks for steps that earlier processes of
// the run did.
func finishedOf(j *journal.Journal) func(path string) *runtime.Finished {
	past := j.Past()
	if past == nil {
		return nil
	}
	return func(path string) *runtime.Finished {
		e, ok := past.Steps[path]
		if !ok {
			return nil
		}
		return &runtime.Finished{Key: e.Key, Files: e.Files, Value: e.Value}
	}
}
