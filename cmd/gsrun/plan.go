package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func (a *app) planCmd() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan RECIPE [inputs]",
		Short: "Show what a run would change, without changing anything",
		Long: "Run the recipe for real, reads included, but show each change instead of making it. What a change would\n" +
			"produce is `(known after apply)`; a step that would have to decide on such a value stops there and says so.",
		Example:            "  gsrun plan recipes/gateway.star --site sites/oslab --detailed-exitcode",
		DisableFlagParsing: true,
		ValidArgsFunction:  a.completeRecipe,
	}
	f.add(c)
	c.Flags().BoolVar(&f.detailed, "detailed-exitcode", false, "exit with 2 if there are changes, 0 if there are none")
	c.Flags().BoolVar(&f.full, "full", false, "show long texts whole")
	c.RunE = func(cmd *cobra.Command, args []string) error { return a.planRecipe(cmd, args, &f) }
	return c
}

// planFlags are the flags of plan.
type planFlags struct {
	runFlags
	detailed, full bool
}

func (a *app) planRecipe(cmd *cobra.Command, args []string, f *planFlags) (err error) {
	x, inputs, _, err := a.begin(cmd, args, &f.runFlags)
	if err != nil || x == nil {
		return err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	id, err := newRunID(time.Now())
	if err != nil {
		return err
	}
	redactor := new(effect.Redactor)
	if err := x.hide(cmd.Context(), redactor); err != nil {
		return err
	}
	var stops view.Stops
	door, v := a.door(effect.Plan, view.Planning, &f.runFlags, redactor, stops.Event)
	res, runErr := x.engine.Run(cmd.Context(), x.recipe, runtime.Options{
		ID: id, Site: runtimeSite(x.site), Inputs: inputs, Door: door, Vault: x.vault, Secret: x.secrets.Read})
	closeErr := v.Close()
	data := view.PlanData{Recipe: x.recipe.Path, Changes: door.Planned(), Steps: res.Steps, Stops: stops.All(), Order: stepOrder(x.recipe, ""), Unchanged: door.Counts().Unchanged}
	data.Err, data.Budget = door.Redacted(runErr), x.site.Limits.Deletes
	if f.maxDeletes >= 0 {
		data.Budget = f.maxDeletes
	}
	t := a.terminal(a.stdout)
	opts := view.PlanOptions{Color: t.Color, ASCII: t.ASCII, Full: f.full, Redactor: door.Redactor}
	write := view.Plan
	if view.Kind(f.output) == view.JSON {
		write = view.PlanJSON
	}
	planErr := write(a.stdout, data, opts)
	if runErr != nil {
		a.report(x.engine, door, runErr)
		return &exitCode{code: fault.KindOf(runErr).ExitCode()}
	}
	if err := errors.Join(closeErr, planErr); err != nil {
		return err
	}
	if f.detailed && (len(data.Changes) > 0 || len(data.Stops) > 0) {
		return &exitCode{code: 2}
	}
	return nil
}

// stepOrder lists the paths of the steps of a recipe, and of those that it
// uses, in the order of their needs.
func stepOrder(r *runtime.Recipe, prefix string) []string {
	var out []string
	for _, s := range r.Order() {
		out = append(out, prefix+s.Name)
		if s.Use != nil {
			out = append(out, stepOrder(s.Use, prefix+s.Name+"/")...)
		}
	}
	return out
}
