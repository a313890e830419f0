package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

func (a *app) planCmd() *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:   "plan RECIPE [inputs]",
		Short: "Show what a run would change, without changing anything",
		Long: "Run the recipe for real, reads included, but show each change instead of making it. What a change would\n" +
			"produce is `(known after apply)`; a step that would have to decide on such a value stops there and says so.",
		Example:            "  gsrun plan recipes/gateway.star --site sites/oslab --detailed-exitcode\n  gsrun plan gateway --site sites/oslab --out gateway.plan && gsrun run --plan gateway.plan --site sites/oslab",
		DisableFlagParsing: true,
		ValidArgsFunction:  a.completeRecipe,
	}
	f.add(c)
	c.Flags().BoolVar(&f.detailed, "detailed-exitcode", false, "exit with 2 if there are changes, 0 if there are none")
	c.Flags().StringVar(&f.out, "out", "", "save the plan to this `file`, for gsrun run --plan")
	c.Flags().BoolVar(&f.full, "full", false, "show long texts whole")
	c.RunE = func(cmd *cobra.Command, args []string) error { return a.planRecipe(cmd, args, &f) }
	return c
}

// planFlags are the flags of plan.
type planFlags struct {
	runFlags
	detailed, full bool
	out            string
}

func (a *app) planRecipe(cmd *cobra.Command, args []string, f *planFlags) (err error) {
	x, inputs, given, err := a.begin(cmd, args, &f.runFlags)
	if err != nil || x == nil {
		return err
	}
	if f.out != "" {
		if err := writable("--out", f.out); err != nil {
			return errors.Join(err, x.close())
		}
	}
	defer func() { err = errors.Join(err, x.close()) }()
	redactor := new(effect.Redactor)
	if err := x.hide(cmd.Context(), redactor); err != nil {
		return err
	}
	p := newPlanning(nil)
	door, v := a.door(effect.Plan, view.Planning, &f.runFlags, redactor, p.Event)
	b := newBelongings(cmd.Context(), x, redactor)
	door.Met = b.Met
	if err := p.plan(cmd.Context(), x, inputs, door); err != nil {
		return errors.Join(err, v.Close())
	}
	closeErr := v.Close()
	p.data.Budget = x.budget(&f.runFlags)
	if u := &p.data.Undeclared; p.err == nil {
		*u = b.undeclaredBy(len(p.data.Stops) > 0)
		u.Command = destroyCommand(append(slices.Clone(args), "--undeclared"), x.site.Name, len(u.Things))
	}
	t := a.terminal(a.stdout)
	opts := view.PlanOptions{Color: t.Color, ASCII: t.ASCII, Full: f.full, Redactor: redactor}
	write := view.Plan
	if view.Kind(f.output) == view.JSON {
		write = view.PlanJSON
	}
	planErr := write(a.stdout, p.data, opts)
	if p.err != nil {
		a.report(x.engine, door, p.err)
		return &exitCode{code: fault.KindOf(p.err).ExitCode()}
	}
	if err := errors.Join(closeErr, planErr); err != nil {
		return err
	}
	if f.out != "" {
		if err := a.savePlan(x, p, given, inputs, redactor, f); err != nil {
			return err
		}
	}
	if f.detailed && (len(p.data.Changes) > 0 || len(p.data.Stops) > 0) {
		return &exitCode{code: 2}
	}
	return nil
}

// savePlan writes a plan to a file.
func (a *app) savePlan(x *session, p *planning, given map[string]string, inputs starlark.StringDict, r *effect.Redactor, f *planFlags) error {
	store, err := journal.Open(x.site.StateDir())
	if err != nil {
		return err
	}
	key, err := store.Key(rand.Read)
	if err != nil {
		return err
	}
	saved, err := p.file(x, given, inputs, effect.NewSaver(key, r), r)
	if err != nil {
		return err
	}
	if err := saved.write(f.out); err != nil {
		return err
	}
	does := "does it"
	if len(saved.Stops) > 0 {
		does = "does what is planned, up to where it stops"
	}
	command := "gsrun run --plan " + f.out + " " + f.place.args(x.site.Dir)
	if n := saved.deletions(); n > x.budget(&f.runFlags) && x.budget(&f.runFlags) >= 0 {
		command += fmt.Sprintf(" --max-deletes %d", n)
	}
	_, err = fmt.Fprintf(a.stderr, "Saved to %s. This %s:\n  %s\n", f.out, does, command)
	return err
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
