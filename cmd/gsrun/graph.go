package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
)

func (a *app) graphCmd() *cobra.Command {
	var p place
	var format string
	c := &cobra.Command{
		Use:               "graph RECIPE",
		Short:             "Show a recipe's graph of steps",
		Example:           "  gsrun graph recipes/gateway.star --format mermaid",
		ValidArgsFunction: a.completeRecipe,
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			draw, ok := map[string]func(io.Writer, *runtime.Recipe){"text": graphText, "dot": graphDOT, "mermaid": graphMermaid}[format]
			if !ok {
				return fault.New(fault.Invalid, "--format: %q is none of text, dot, mermaid", format)
			}
			_, r, _, _, err := a.loadOnly(cmd.Context(), args[0], p)
			if err != nil {
				return err
			}
			draw(cmd.OutOrStdout(), r)
			return nil
		},
	}
	p.flags(c.Flags())
	c.Flags().StringVar(&format, "format", "text", "text, dot or mermaid")
	return c
}

func graphText(w io.Writer, r *runtime.Recipe) { graphTextAt(w, r, "") }

func graphTextAt(w io.Writer, r *runtime.Recipe, indent string) {
	for _, s := range r.Order() {
		arrow := ""
		if needs := s.Needs(); len(needs) > 0 {
			arrow = " <- " + strings.Join(needs, ", ")
		}
		if follows := r.Follows(s); len(follows) > 0 {
			arrow += " after " + strings.Join(follows, ", ")
		}
		fmt.Fprintf(w, "%s%s%s\n", indent, s.Name, arrow)
		if s.Use != nil {
			graphTextAt(w, s.Use, indent+"  ")
		}
	}
}

func graphDOT(w io.Writer, r *runtime.Recipe) {
	fmt.Fprintf(w, "digraph %q {\n  rankdir=LR;\n  node [shape=box];\n", r.Path)
	edge := func(from, to string, order bool) {
		style := ""
		if order {
			style = " [style=dashed]"
		}
		fmt.Fprintf(w, "  %q -> %q%s;\n", from, to, style)
	}
	eachEdge(r, "", edge, func(path string) { fmt.Fprintf(w, "  %q;\n", path) })
	fmt.Fprintln(w, "}")
}

func graphMermaid(w io.Writer, r *runtime.Recipe) {
	id := func(path string) string { return strings.ReplaceAll(path, "/", "__") }
	fmt.Fprintln(w, "graph LR")
	edge := func(from, to string, order bool) {
		arrow := "-->"
		if order {
			arrow = "-.->"
		}
		fmt.Fprintf(w, "  %s %s %s\n", id(from), arrow, id(to))
	}
	eachEdge(r, "", edge, func(path string) { fmt.Fprintf(w, "  %s[\"%s\"]\n", id(path), path) })
}

// eachEdge calls node for every step, and edge for every need and for every
// order without a need. A recipe that is
// used as a step is a node, from which its steps hang.
func eachEdge(r *runtime.Recipe, prefix string, edge func(from, to string, order bool), node func(path string)) {
	for _, s := range r.Order() {
		path := prefix + s.Name
		node(path)
		for _, n := range s.Needs() {
			edge(prefix+n, path, false)
		}
		for _, n := range r.Follows(s) {
			edge(prefix+n, path, true)
		}
		if s.Use != nil {
			for _, inner := range s.Use.Order() {
				if len(inner.Needs())+len(s.Use.Follows(inner)) == 0 {
					edge(path, path+"/"+inner.Name, false)
				}
			}
			eachEdge(s.Use, path+"/", edge, node)
		}
	}
}
