package main

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/site"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

func (a *app) resumeCmd() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "resume [RUN]",
		Short: "Go on with a run that failed, was stopped or was killed",
		Long: "Go on with a run, the newest one that didn't end well if none is named. Steps that it finished aren't done again if\n" +
			"their code, inputs and what they need are the same: their results come from the run's journal, and so does what\n" +
			"the steps that are done again get from the clock. `gsrun run` looks at everything anew instead.",
		Example: "  gsrun resume --site sites/oslab\n  gsrun resume 20260914-101502-a1b2c3 --site sites/oslab",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			run := ""
			if len(args) > 0 {
				run = args[0]
			}
			return a.resume(cmd, run, &f)
		},
	}
	f.addRun(c)
	return c
}

func (a *app) resume(cmd *cobra.Command, run string, f *runFlags) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	ctx := cmd.Context()
	s, err := a.requireSite(ctx, f.place)
	if err != nil {
		return err
	}
	store, err := journal.Open(s.StateDir())
	if err != nil {
		return err
	}
	if run == "" {
		if run, err = newestUnfinished(store); err != nil {
			return err
		}
	}
	entries, _, err := store.Read(run)
	if err != nil {
		return err
	}
	given, err := inputsOf(run, entries)
	if err != nil {
		return err
	}
	var saved *planFile
	if _, err := os.Stat(store.PlanPath(run)); err == nil {
		if saved, err = readPlan(store.PlanPath(run)); err != nil {
			return err
		}
	}
	x, inputs, err := a.reopen(s, entries[0].Source, given)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	a.warnStale(a.stderr, x.recipe)
	return a.execute(ctx, x, f, process{
		run: run, inputs: inputs, saved: saved, resumed: true,
		journal: func(o journal.Options) (*journal.Journal, error) {
			// It is read again under the lock: another process may have gone on.
			entries, _, err := store.Read(run)
			if err != nil {
				return nil, err
			}
			if _, err := inputsOf(run, entries); err != nil {
				return nil, err
			}
			if err := destroyedSince(store, run); err != nil {
				return nil, err
			}
			past, err := journal.PastOf(ctx, entries, o.Codec)
			if err != nil {
				return nil, err
			}
			j, err := store.Continue(run, holder(), o)
			if err != nil {
				return nil, err
			}
			j.Remember(past)
			return j, nil
		},
	})
}

// reopen opens the recipe that a journal or a saved plan names, with the inputs
// that it was given.
func (a *app) reopen(s *site.Site, recipe string, given map[string]string) (*session, starlark.StringDict, error) {
	src, err := findRecipe(recipe, s)
	if err != nil {
		return nil, nil, err
	}
	x, err := a.open(s, src)
	if err != nil {
		return nil, nil, err
	}
	inputs, err := x.inputs(given)
	if err != nil {
		return nil, nil, errors.Join(err, x.close())
	}
	return x, inputs, nil
}

// gaveNoSecret returns an error if one of the inputs that a run or plan was
// given is masked.
func gaveNoSecret(what string, given map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if strings.Contains(given[name], effect.Mask) {
			return fault.Hinted(fault.Invalid, "run the recipe anew: nothing is made twice", "%s was given a secret as the input %s, which isn't kept", what, name)
		}
	}
	return nil
}

// newestUnfinished returns the newest run, if it can be gone on with.
func newestUnfinished(store *journal.Store) (string, error) {
	runs, err := store.Runs()
	if err != nil {
		return "", err
	}
	if len(runs) == 0 {
		return "", fault.Hinted(fault.Invalid, "run a recipe: gsrun RECIPE", "there is no run to resume")
	}
	if runs[0].Status == "ok" {
		return "", fault.Hinted(fault.Invalid, "name an older one with gsrun resume RUN; gsrun runs list shows them", "the newest run, %s of %s, ended well: there is nothing to resume", runs[0].Run, runs[0].Recipe)
	}
	return runs[0].Run, nil
}

// destroyedSince returns an error if something was destroyed after a run began:
// what its finished steps made may be gone.
func destroyedSince(store *journal.Store, run string) error {
	runs, err := store.Runs()
	if err != nil {
		return err
	}
	for _, r := range runs {
		if r.Run == run {
			return nil
		}
		if r.Verb == journal.VerbDestroy {
			return fault.Hinted(fault.Invalid, "run the recipe anew: nothing is made twice", "after run %s began, recipe %s was destroyed by run %s", run, r.Recipe, r.Run)
		}
	}
	return nil
}

// inputsOf returns the inputs that a run was given, if it can be gone on with.
func inputsOf(run string, entries []journal.Entry) (map[string]string, error) {
	anew := "run the recipe anew: nothing is made twice"
	if len(entries) == 0 {
		return nil, fault.Hinted(fault.Invalid, anew, "the journal of run %s is empty: it was killed before it began", run)
	}
	if last := entries[len(entries)-1]; last.Type == journal.TypeEnd && last.Status == "ok" {
		return nil, fault.Hinted(fault.Invalid, "run the recipe again to see that nothing has changed", "run %s ended well: there is nothing to resume", run)
	}
	if entries[0].Verb == journal.VerbDestroy {
		return nil, fault.Hinted(fault.Invalid, "gsrun destroy lists what is left of it", "run %s is a destroy, which is begun anew instead", run)
	}
	var given map[string]string
	if err := json.Unmarshal(entries[0].Inputs, &given); err != nil || entries[0].Source == "" {
		return nil, fault.Hinted(fault.Invalid, anew, "the journal of run %s doesn't say how it was started", run)
	}
	return given, gaveNoSecret("run "+run, given)
}
