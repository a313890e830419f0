package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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

// runFlags are the flags of the verbs that run a recipe.
type runFlags struct {
	place
	output     string
	verbose    bool
	maxDeletes int
	outputs    string
	plan       string // a saved plan to do
	yes        bool
}

func (f *runFlags) add(c *cobra.Command) {
	f.place.flags(c.Flags())
	c.Flags().StringVarP(&f.output, "output", "o", "auto", "auto, tree, plain or json")
	c.Flags().IntVar(&f.maxDeletes, "max-deletes", -1, "deletions that a run may make; -1 means limits.deletes of the site, which is 0 if it says nothing")
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "show what didn't need to change, too")
}

// addRun adds the flags of the verbs that change the world by it.
func (f *runFlags) addRun(c *cobra.Command) {
	f.add(c)
	c.Flags().StringVar(&f.outputs, "outputs", "", "write the outputs to this `file` as JSON, without those that are secret")
	c.Flags().BoolVar(&f.yes, "yes", false, "approve all that the recipe asks a person for; the journal says that it was this flag")
}

// check returns an error if a flag has a value that it can't have.
func (f *runFlags) check() error {
	if f.maxDeletes < -1 {
		return fault.New(fault.Invalid, "--max-deletes: %d is no number of deletions", f.maxDeletes)
	}
	if f.outputs != "" {
		if err := writable("--outputs", f.outputs); err != nil {
			return err
		}
	}
	switch view.Kind(f.output) {
	case view.Auto, view.Tree, view.Plain, view.JSON:
		return nil
	}
	return fault.New(fault.Invalid, "--output: %q is none of auto, tree, plain, json", f.output)
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:                "run RECIPE [inputs]",
		Short:              "Run a recipe: make the world as it says",
		Example:            "  gsrun recipes/gateway.star --site sites/oslab --cidr 10.30.0.0/24\n  gsrun gateway --help\n  gsrun run --plan gateway.plan --site sites/oslab",
		DisableFlagParsing: true,
		ValidArgsFunction:  a.completeRecipe,
	}
	f.addRun(c)
	c.Flags().StringVar(&f.plan, "plan", "", "do exactly what this saved plan `file` says, or stop with what has changed since; takes no recipe and no inputs")
	c.RunE = func(cmd *cobra.Command, args []string) error { return a.runRecipe(cmd, args, &f) }
	return c
}

// begin parses the arguments of a verb that runs a recipe. It returns nil if
// that was a call for help, which was given.
func (a *app) begin(cmd *cobra.Command, args []string, f *runFlags) (*session, starlark.StringDict, map[string]string, error) {
	given, err := parseRecipe(cmd, args, func(recipe string) map[string]bool { return a.switches(cmd, recipe, f) })
	if err != nil {
		return nil, nil, nil, err
	}
	if given.help {
		return nil, nil, nil, a.help(cmd, given.recipe, f)
	}
	if f.plan != "" {
		return nil, nil, nil, a.runPlan(cmd, given, f)
	}
	if err := f.check(); err != nil {
		return nil, nil, nil, err
	}
	// What is wrong with the recipe or the inputs is told before the lab is
	// started or a site is asked for.
	s, err := a.findSite(f.place)
	if err != nil {
		return nil, nil, nil, err
	}
	src, err := findRecipe(given.recipe, s)
	if err != nil {
		return nil, nil, nil, err
	}
	probe := textEngine(src)
	loaded, err := probe.Load(src.path)
	if err != nil {
		return nil, nil, nil, explain(probe, err)
	}
	a.warnStale(a.stderr, loaded)
	s, err = a.requireSite(cmd.Context(), f.place)
	if err != nil {
		return nil, nil, nil, err
	}
	if src, err = findRecipe(given.recipe, s); err != nil {
		return nil, nil, nil, err
	}
	x, err := a.open(s, src)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := a.reserved(x.recipe); err != nil {
		return nil, nil, nil, errors.Join(err, x.close())
	}
	inputs, err := x.inputs(given.inputs)
	if err != nil {
		return nil, nil, nil, errors.Join(err, x.close())
	}
	return x, inputs, given.inputs, nil
}

// reserved returns an error if an input has the name of a flag of a verb: it
// would mean different things to run and to plan.
func (a *app) reserved(r *runtime.Recipe) error {
	for _, in := range r.Inputs {
		for _, c := range []*cobra.Command{a.runCmd(), a.planCmd(), a.destroyCmd()} {
			if name := strings.ReplaceAll(in.Name, "_", "-"); name == "help" || c.Flags().Lookup(name) != nil {
				return fault.Hinted(fault.Invalid, "call it something else", "%s has an input called %s, which is a flag of gsrun %s", r.Path, in.Name, c.Name())
			}
		}
	}
	return nil
}

// switches returns the inputs of a recipe that are true or false. What is
// wrong with the recipe is told later.
func (a *app) switches(cmd *cobra.Command, recipe string, f *runFlags) map[string]bool {
	_, r, _, _, err := a.loadOnly(cmd.Context(), recipe, f.place)
	if err != nil {
		return nil
	}
	out := make(map[string]bool)
	for _, in := range r.Inputs {
		out[in.Name] = in.Kind == "bool"
	}
	return out
}

func (a *app) help(cmd *cobra.Command, recipe string, f *runFlags) error {
	if recipe == "" {
		return cmd.Help()
	}
	_, r, _, _, err := a.loadOnly(cmd.Context(), recipe, f.place)
	if err != nil {
		return err
	}
	recipeHelp(cmd, recipe, r)
	return nil
}

// door returns the door of a run, and the view that it reports to.
func (a *app) door(mode effect.Mode, verb view.Verb, f *runFlags, redactor *effect.Redactor, more func(effect.Event)) (*effect.Door, view.View) {
	terminal := a.terminal(a.stderr)
	v := view.New(view.Config{Kind: view.Kind(f.output), Out: a.stdout, Err: a.stderr, Color: terminal.Color, ASCII: terminal.ASCII,
		Verb: verb, Verbose: f.verbose, Redactor: redactor})
	emit := v.Event
	if more != nil {
		emit = func(e effect.Event) { more(e); v.Event(e) }
	}
	d := &effect.Door{Mode: mode, Clock: effect.SystemClock{}, Emit: emit, Redactor: redactor}
	if a.watch != nil {
		a.watch(d)
	}
	return d, v
}

// terminal says what an output of gsrun's can show.
func (a *app) terminal(w io.Writer) view.Terminal {
	f, _ := w.(*os.File)
	return view.Detect(f, a.getenv)
}

func (a *app) runRecipe(cmd *cobra.Command, args []string, f *runFlags) (err error) {
	x, inputs, given, err := a.begin(cmd, args, f)
	if err != nil || x == nil {
		return err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	return a.first(cmd.Context(), x, f, inputs, given, nil)
}

// first executes the first process of a run.
func (a *app) first(ctx context.Context, x *session, f *runFlags, inputs starlark.StringDict, given map[string]string, saved *planFile) error {
	id, err := newRunID(time.Now())
	if err != nil {
		return err
	}
	return a.execute(ctx, x, f, process{
		run: id, inputs: inputs, saved: saved,
		journal: func(o journal.Options) (*journal.Journal, error) {
			if saved != nil {
				if err := saved.write(x.store.PlanPath(id)); err != nil {
					return nil, err
				}
			}
			// A secret that was typed in is masked: a text may be in the journal only sealed.
			masked := make(map[string]string, len(given))
			for name, text := range given {
				masked[name] = o.Codec.Redactor.String(text)
			}
			texts, err := json.Marshal(masked)
			if err != nil {
				return nil, &fault.Error{Op: "journalling the inputs", Kind: fault.Internal, Err: err}
			}
			j, err := x.store.Start(journal.Entry{Run: id, Recipe: x.recipe.Path, Site: x.site.Name, Source: x.source, Inputs: texts, Holder: holder()}, o)
			if err != nil || saved == nil {
				return j, err
			}
			for key, value := range saved.Values {
				if err := j.Keep(key, value); err != nil {
					return nil, err
				}
			}
			j.Remember(&journal.Past{Values: saved.Values})
			return j, nil
		},
	})
}

// runPlan does what a saved plan says.
func (a *app) runPlan(cmd *cobra.Command, given recipeArgs, f *runFlags) (err error) {
	if given.recipe != "" || len(given.inputs) > 0 {
		return fault.Hinted(fault.Invalid, "leave them out, or plan again with them", "--plan takes no recipe and no inputs: the plan has its own")
	}
	if err := f.check(); err != nil {
		return err
	}
	saved, err := readPlan(f.plan)
	if err != nil {
		return err
	}
	if err := gaveNoSecret("the plan "+f.plan, saved.Given); err != nil {
		return err
	}
	s, err := a.requireSite(cmd.Context(), f.place)
	if err != nil {
		return err
	}
	x, inputs, err := a.reopen(s, saved.Source, saved.Given)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	return a.first(cmd.Context(), x, f, inputs, saved.Given, saved)
}

func endStatus(err error) string {
	switch {
	case err == nil:
		return "ok"
	case fault.KindOf(err) == fault.Cancelled:
		return "stopped"
	}
	return "failed"
}

func (a *app) summary(f *runFlags, door *effect.Door, s view.SummaryData) error {
	if view.Kind(f.output) == view.JSON {
		return view.SummaryJSON(a.stdout, s, view.SummaryOptions{Redactor: door.Redactor})
	}
	t := a.terminal(a.stdout)
	return view.Summary(a.stdout, s, view.SummaryOptions{Color: t.Color, ASCII: t.ASCII, Redactor: door.Redactor})
}

// report says what went wrong in a run, and where.
func (a *app) report(e *runtime.Engine, door *effect.Door, err error) {
	if fault.KindOf(err) == fault.Cancelled {
		fmt.Fprintln(a.stderr, "gsrun: stopped; run it again to go on")
		return
	}
	fmt.Fprint(a.stderr, door.Redactor.String(e.Explain(err).String()))
}
