package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

// destroyFlags are the flags of destroy.
type destroyFlags struct {
	runFlags
	confirm    string
	detailed   bool
	undeclared bool
	abandon    bool
}

func (a *app) destroyCmd() *cobra.Command {
	var f destroyFlags
	c := &cobra.Command{
		Use:   "destroy RECIPE [inputs]",
		Short: "Delete what a recipe made and still bears its owner mark",
		Long: "List what the recipe, and the recipes that it uses, made at the site and still bears their owner marks, in the order in\n" +
			"which it would be deleted; with --confirm and the site's name, delete it: what uses others first, credentials last.\n" +
			"What lies on a machine goes with it. Files that were committed to a repository stay. A destroy that was broken off\n" +
			"is simply begun again.",
		Example: "  gsrun destroy recipes/gateway.star --site sites/oslab\n" +
			"  gsrun destroy recipes/gateway.star --site sites/oslab --confirm oslab --max-deletes 14",
		DisableFlagParsing: true,
		ValidArgsFunction:  a.completeRecipe,
	}
	f.add(c)
	c.Flags().StringVar(&f.confirm, "confirm", "", "the site's `name`: delete, don't only list")
	c.Flags().BoolVar(&f.undeclared, "undeclared", false, "only what the recipe no longer declares")
	c.Flags().BoolVar(&f.abandon, "abandon-clusters", false, "delete a management cluster though it manages clusters, whose machines nobody deletes then")
	c.Flags().BoolVar(&f.detailed, "detailed-exitcode", false, "without --confirm, exit with 2 if there is something to delete, 0 if not")
	c.RunE = func(cmd *cobra.Command, args []string) error { return a.destroyRecipe(cmd, args, &f) }
	return c
}

func (a *app) destroyRecipe(cmd *cobra.Command, args []string, f *destroyFlags) (err error) {
	x, inputs, given, err := a.begin(cmd, args, &f.runFlags)
	if err != nil || x == nil {
		return err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	if f.confirm != "" && f.confirm != x.site.Name {
		return fault.Hinted(fault.Invalid, "--confirm takes the name of the site whose things are to be deleted", "the site is %s, not %s", x.site.Name, f.confirm)
	}
	ctx := cmd.Context()
	id, err := newRunID(time.Now())
	if err != nil {
		return err
	}
	d := &destruction{app: a, x: x, f: f, id: id, redactor: new(effect.Redactor)}
	if f.confirm != "" {
		if x.store, err = journal.Open(x.site.StateDir()); err != nil {
			return err
		}
		if d.lock, err = x.lockRun(ctx, id); err != nil {
			return err
		}
		defer d.lock.Release()
		var cancel context.CancelFunc
		ctx, cancel = d.lock.Context(ctx)
		defer cancel()
		if err := d.settle(ctx); err != nil {
			return err
		}
	}
	if err := x.hide(ctx, d.redactor); err != nil {
		return err
	}
	if err := d.find(ctx, inputs); err != nil {
		return explain(x.engine, err)
	}
	if err := d.show(args); err != nil {
		return err
	}
	if f.confirm == "" {
		if f.detailed && len(d.b.owned) > 0 {
			return &exitCode{code: 2}
		}
		return nil
	}
	if len(d.b.owned) == 0 && len(d.uses) == 0 {
		return nil
	}
	if err := d.allowed(); err != nil {
		return err
	}
	return d.run(ctx, given)
}

// A destruction is one call of destroy.
type destruction struct {
	app      *app
	x        *session
	f        *destroyFlags
	id       string
	redactor *effect.Redactor
	lock     *journal.Locks // nil while nothing is to be deleted

	b      *belongings
	others []effect.Other
	uses   []string       // what others made and the site's store keeps: the recipe gives it up
	left   []effect.Owned // what bore a mark when all was done
}

// settleTime is how long after its beginning a creation counts as under way that
// was begun by a run that died.
const settleTime = 10 * time.Second

// settle waits for what a run that died had asked for a moment ago: what comes
// into being after destroy has looked would be left.
func (d *destruction) settle(ctx context.Context) error {
	var last time.Time
	for _, begun := range d.x.store.Unsettled(time.Now().Add(-settleTime)) {
		if begun.After(last) {
			last = begun
		}
	}
	return effect.SystemClock{}.Sleep(ctx, time.Until(last.Add(settleTime)))
}

// find looks what there is to delete, and what is in the way.
func (d *destruction) find(ctx context.Context, inputs starlark.StringDict) error {
	d.b = newBelongings(ctx, d.x, d.redactor)
	if err := d.b.read(); err != nil {
		return err
	}
	door, v := d.app.door(effect.Plan, view.Planning, d.quiet(), d.redactor, nil)
	emit := door.Emit
	door.Emit = func(e effect.Event) {
		if e.Kind == effect.Deferred { // what can't be seen is told in the list
			e.Kind, e.Err = effect.StepEnd, nil
		}
		emit(e)
	}
	err := d.b.survey(ctx, door, d.id, inputs)
	if err = errors.Join(err, v.Close()); err != nil {
		return err
	}
	if err := d.b.gather(); err != nil {
		return err
	}
	if d.f.undeclared {
		if err := d.b.complete(); err != nil {
			return err
		}
		d.b.owned = d.b.undeclared(d.b.owned)
		d.b.with, d.b.left = nil, d.b.inUse
	} else {
		d.uses = d.b.ledger.uses(d.b.prefixes, d.x.recipe.Path)
	}
	d.others, err = d.b.others()
	return err
}

// quiet returns the flags for the view of the survey: a live tree, or nothing.
func (d *destruction) quiet() *runFlags {
	f := d.f.runFlags
	if kind := view.Kind(f.output); kind != view.Tree && (kind != view.Auto || d.app.terminal(d.app.stderr).Kind != view.Tree) {
		f.output = string(view.None)
	}
	return &f
}

// show lists what goes and what is left.
func (d *destruction) show(args []string) error {
	data := view.DestroyData{Recipe: d.x.recipe.Path, Site: d.x.site.Name, Undeclared: d.f.undeclared, Going: d.b.owned, With: d.b.with, Left: d.b.left,
		Uses: d.uses, Others: d.others, Notes: d.b.notes, Budget: d.x.budget(&d.f.runFlags)}
	if d.f.confirm == "" {
		data.Command = destroyCommand(args, d.x.site.Name, len(d.b.owned))
	}
	t := d.app.terminal(d.app.stdout)
	write := view.Destroy
	if view.Kind(d.f.output) == view.JSON {
		write = view.DestroyJSON
	}
	return write(d.app.stdout, data, view.PlanOptions{Color: t.Color, ASCII: t.ASCII, Redactor: d.redactor})
}

// destroyCommand returns what to type to delete so many things.
func destroyCommand(args []string, site string, n int) string {
	words := []string{"gsrun", "destroy"}
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(args[i], "=")
		switch name {
		case "--max-deletes", "--confirm", "--out", "-o", "--output":
			if !joined {
				i++
			}
		case "--detailed-exitcode", "--abandon-clusters", "--full":
		default:
			words = append(words, shellWord(args[i]))
		}
	}
	words = append(words, "--confirm", shellWord(site))
	if n > 0 {
		words = append(words, "--max-deletes", strconv.Itoa(n))
	}
	return strings.Join(words, " ")
}

// shellWord returns s as a shell takes it for one word.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,@+%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// allowed returns an error if something forbids the deletion. Nothing was
// touched then.
func (d *destruction) allowed() error {
	var stands, orphans []string
	hint := ""
	for _, x := range d.others {
		if x.Orphan {
			orphans = append(orphans, x.Text+": "+view.Orphaned(x))
			hint = cmp.Or(hint, x.Hint)
		} else {
			stands = append(stands, x.Text+" on "+x.Of.String())
		}
	}
	switch n := len(d.b.owned); {
	case len(stands) > 0:
		return fault.Hinted(fault.Conflict, "delete it first; nothing was touched", "what isn't owned by %s is in the way: %s", d.x.recipe.Path, strings.Join(stands, "; "))
	case len(orphans) > 0 && !d.f.abandon:
		return fault.Hinted(fault.Conflict, hint+"; or delete their machines yourself later, with --abandon-clusters now; nothing was touched",
			"in the way: %s", strings.Join(orphans, "; "))
	case d.x.budget(&d.f.runFlags) >= 0 && n > d.x.budget(&d.f.runFlags):
		return fault.Hinted(fault.Invalid, fmt.Sprintf("add --max-deletes %d if this is meant; nothing was touched", n),
			"%d deletions would exceed the budget of %d", n, d.x.budget(&d.f.runFlags))
	}
	return nil
}

// run deletes what was found.
func (d *destruction) run(ctx context.Context, given map[string]string) error {
	a, x := d.app, d.x
	start := time.Now()
	texts, err := json.Marshal(given)
	if err != nil {
		return &fault.Error{Op: "journalling the inputs", Kind: fault.Internal, Err: err}
	}
	j, err := x.store.Start(journal.Entry{Run: d.id, Recipe: x.recipe.Path, Site: x.site.Name, Inputs: []byte(d.redactor.String(string(texts))), Holder: holder(),
		Verb: journal.VerbDestroy, Marks: d.marks()}, journal.Options{Codec: effect.Codec{Vault: x.vault, Redactor: d.redactor}, Guard: d.lock.Guard})
	if err != nil {
		return err
	}
	log := openLog(x.store, d.id, d.redactor)
	defer log.Close()
	door, v := a.door(effect.Apply, view.Running, &d.f.runFlags, d.redactor, log.Event)
	told := len(d.b.left)
	door.Recorder, door.Guard, door.Deletes = j, d.lock.Guard, d.x.budget(&d.f.runFlags)
	steps, runErr := d.delete(ctx, door, j)
	if runErr == nil {
		runErr = d.check(ctx)
	}
	closeErr := v.Close()
	endErr := j.End(endStatus(runErr), door.Counts().Changed(), door.Redacted(runErr))
	left := told + len(d.left)
	sumErr := a.summary(&d.f.runFlags, door, view.SummaryData{Run: d.id, Recipe: x.recipe.Path, Verb: journal.VerbDestroy, Steps: steps, Counts: door.Counts(), Left: &left,
		Time: time.Now(), Elapsed: time.Since(start), Err: door.Redacted(runErr)})
	if runErr != nil {
		a.report(x.engine, door, runErr)
		if endErr != nil && !errors.Is(runErr, endErr) { // it is said already
			a.complain(endErr)
		}
		code := fault.KindOf(runErr).ExitCode()
		if code == fault.Invalid.ExitCode() && door.Counts().Changed() > 0 {
			code = fault.Failed.ExitCode()
		}
		return &exitCode{code: code}
	}
	return errors.Join(closeErr, endErr, sumErr)
}

// marks returns what the marks of all begin with that is over once the destroy
// is: nothing if it is about a part of the recipe.
func (d *destruction) marks() []string {
	if d.f.undeclared {
		return nil
	}
	return d.b.prefixes
}

// delete deletes stage by stage: things of one kind of one system at the same
// time. A stage that fails is the last one.
func (d *destruction) delete(ctx context.Context, door *effect.Door, j *journal.Journal) ([]runtime.StepResult, error) {
	var results []runtime.StepResult
	for _, stage := range stages(d.b.owned) {
		if stage.kept() {
			// What opens the things that are deleted goes when they are gone.
			if err := d.check(ctx); err != nil {
				return results, err
			}
		}
		start := time.Now()
		door.Send(effect.Event{Kind: effect.StepStart, Step: stage.name})
		err := stage.delete(ctx, door, d.b)
		res := runtime.StepResult{Path: stage.name, Status: runtime.OK, Elapsed: time.Since(start)}
		if err != nil {
			res.Status, res.Err = runtime.Failed, err
			if fault.KindOf(err) == fault.Cancelled {
				res.Status = runtime.Stopped
			}
		}
		door.Send(effect.Event{Kind: effect.StepEnd, Step: stage.name, Err: err, Elapsed: res.Elapsed})
		results = append(results, res)
		if jerr := j.Step(journal.Entry{Step: res.Path, Status: string(res.Status)}, res.Elapsed, door.Redacted(err)); err == nil {
			err = jerr
		}
		if err != nil {
			return results, err
		}
	}
	return results, nil
}

// check lists again what bears a mark, and returns an error if something does
// that was to be deleted.
func (d *destruction) check(ctx context.Context) error {
	d.left, d.b.gone = nil, make(map[string]bool)
	for _, o := range d.b.owned {
		d.b.gone[o.ID] = o.ID != "" && o.Credential
	}
	now, err := d.b.list()
	if err != nil {
		return err
	}
	was := make(map[string]bool)
	for _, o := range d.b.owned {
		was[o.Key()] = true
	}
	var names []string
	for _, o := range now {
		if was[o.Key()] || !d.f.undeclared {
			d.left = append(d.left, o)
			names = append(names, o.Target.String())
		}
	}
	if len(names) > 0 {
		return fault.Hinted(fault.Failed, "destroy again", "left: %s", strings.Join(names, ", "))
	}
	return nil
}

// atOnce is how many things are deleted at the same time.
const atOnce = 8
