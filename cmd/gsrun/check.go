package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
)

func (a *app) checkCmd() *cobra.Command {
	var p place
	c := &cobra.Command{
		Use:   "check RECIPE...",
		Short: "Load recipes and resolve everything, without any I/O but reading them",
		Long: "Load recipes with what they load, and check syntax, names, the graph of steps, inputs' defaults and\n" +
			"overrides. Nothing is connected to. An override whose shipped step has changed is an error.",
		Example:           "  gsrun check recipes/*.star --site sites/oslab",
		ValidArgsFunction: a.completeRecipe,
		Args:              cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			failed := 0
			for _, name := range args {
				if err := a.check(cmd, name, p); err != nil {
					failed++
					a.complain(err)
				}
			}
			if failed > 0 {
				return &exitCode{code: fault.Invalid.ExitCode()}
			}
			return nil
		},
	}
	p.flags(c.Flags())
	return c
}

func (a *app) check(cmd *cobra.Command, name string, p place) error {
	s, err := a.findSite(p)
	if err != nil {
		return err
	}
	src, err := findRecipe(name, s)
	if err != nil {
		return err
	}
	e := textEngine(src)
	globals, err := e.Globals(src.path)
	if err != nil {
		return explain(e, err)
	}
	if globals["main"] == nil {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: no recipe, %s\n", name, plural(len(globals), "definition"))
		return nil
	}
	r, err := e.Load(src.path)
	if err != nil {
		return explain(e, err)
	}
	if err := checkSiteInputs(r, s); err != nil {
		return err
	}
	if err := a.reserved(r); err != nil {
		return err
	}
	var stale []error
	for _, st := range r.Stale() {
		o := staleOf(st, name, p)
		stale = append(stale, fault.Hinted(fault.Drift, o.Hint, "%s", o.Message))
		fmt.Fprint(cmd.OutOrStdout(), o.Diff)
	}
	if len(stale) > 0 {
		for _, err := range stale[:len(stale)-1] {
			a.complain(err)
		}
		return stale[len(stale)-1]
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %s\n", name, plural(len(r.Inputs), "input"), plural(countSteps(r), "step"))
	return nil
}

// countSteps counts the steps of a recipe and of those that it uses.
func countSteps(r *runtime.Recipe) int {
	n := 0
	for _, s := range r.Steps {
		if s.Use != nil {
			n += countSteps(s.Use)
			continue
		}
		n++
	}
	return n
}

// plural returns "1 step", "2 steps".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
