package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func (a *app) explainCmd() *cobra.Command {
	var p place
	c := &cobra.Command{
		Use:               "explain RECIPE",
		Short:             "Show which layer, file and line each step and input of a recipe comes from",
		Example:           "  gsrun explain recipes/gateway.star --site sites/oslab",
		ValidArgsFunction: a.completeRecipe,
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, r, s, src, err := a.loadOnly(cmd.Context(), args[0], p)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			fmt.Fprintf(w, "%s (%s)\n\nLayers:\n", r.Path, r.Pos())
			for i, l := range src.layers {
				fmt.Fprintf(w, "  %d. %-9s %s\n", i+1, l.Name, l.Prefix)
			}
			explainInputs(w, r, s.InputsOf(r.Path))
			fmt.Fprint(w, "\nSteps:\n")
			t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			explainSteps(t, r, "  ")
			if err := t.Flush(); err != nil {
				return err
			}
			if removed := r.Removed(); len(removed) > 0 {
				fmt.Fprintf(w, "\nRemoved: %s\n", strings.Join(removed, ", "))
			}
			for _, st := range r.Stale() {
				fmt.Fprintf(w, "\nStale: %s pins %s of step %s, which is now %s\n", st.Pos, st.Pinned, st.Step, st.Now)
			}
			return nil
		},
	}
	p.flags(c.Flags())
	return c
}

func explainInputs(w io.Writer, r *runtime.Recipe, site map[string]any) {
	if len(r.Inputs) == 0 {
		return
	}
	fmt.Fprint(w, "\nInputs:\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, in := range r.Inputs {
		value, from := "(required)", ""
		if in.Default != nil {
			value, from = in.Default.String(), "default"
		}
		if v, ok := site[in.Name]; ok {
			value, from = effect.ToStarlark(v).String(), "site.yaml"
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\n", in.Name, value, from)
	}
	_ = t.Flush() // to memory or a terminal, whose failure shows at the next write
}

func explainSteps(w io.Writer, r *runtime.Recipe, indent string) {
	for _, s := range r.Order() {
		fmt.Fprintf(w, "%s%s\t%s\t%s\t%s\n", indent, s.Name, s.Layer(), s.Pos(), options(s))
		if s.Use != nil {
			explainSteps(w, s.Use, indent+"  ")
		}
	}
}

// options writes the options that a step has.
func options(s *runtime.Step) string {
	var o []string
	if s.Timeout > 0 {
		o = append(o, "timeout "+shortDuration(s.Timeout))
	}
	if s.Retries > 0 {
		o = append(o, fmt.Sprintf("retries %d", s.Retries))
	}
	if s.Each != nil {
		o = append(o, "each")
	}
	if s.When != nil {
		o = append(o, "when")
	}
	if s.Wraps() {
		o = append(o, "wraps the step below")
	}
	return strings.Join(o, ", ")
}
