package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

func (a *app) runsCmd() *cobra.Command {
	var p place
	c := &cobra.Command{
		Use:     "runs",
		Short:   "List the runs of a site, or show one",
		Example: "  gsrun runs list --site sites/oslab\n  gsrun runs show 20260914-101502-a1b2c3\n  gsrun runs logs 20260914-101502-a1b2c3 --follow",
	}
	p.flags(c.PersistentFlags())
	var output string
	list := &cobra.Command{
		Use: "list", Short: "List the runs, the newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			store, err := a.runStore(cmd, p)
			if err != nil {
				return err
			}
			runs, err := store.Runs()
			if err != nil {
				return err
			}
			if output == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(runs)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "RUN\tVERB\tRECIPE\tSTARTED\tTOOK\tSTATUS\tCHANGED")
			for _, r := range runs {
				started, took := "-", "-"
				if !r.Start.IsZero() { // that of a journal that can't be read isn't known
					started = r.Start.Local().Format("2006-01-02 15:04:05")
				}
				if !r.End.IsZero() {
					took = shortDuration(r.End.Sub(r.Start).Round(100 * time.Millisecond))
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", r.Run, verbOf(r.Verb), r.Recipe, started, took, r.Status, r.Changed)
			}
			if err := t.Flush(); err != nil {
				return err
			}
			for _, r := range runs {
				for _, text := range r.Waits {
					fmt.Fprintf(cmd.OutOrStdout(), "%s waits for approval: %s\n", r.Run, text)
				}
			}
			return nil
		},
	}
	show := &cobra.Command{
		Use: "show RUN", Short: "Show the steps and changes of a run", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := a.runStore(cmd, p)
			if err != nil {
				return err
			}
			// Of a damaged journal, what can be read is shown.
			entries, torn, err := store.Read(args[0])
			if len(entries) == 0 && err != nil {
				return err
			}
			if output == "json" {
				return errors.Join(json.NewEncoder(cmd.OutOrStdout()).Encode(entries), err)
			}
			return errors.Join(showRun(cmd, entries, torn), err)
		},
	}
	for _, sub := range []*cobra.Command{list, show} {
		sub.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	}
	c.AddCommand(list, show, a.runLogsCmd(&p))
	return c
}

// runStore opens the journals of the site.
func (a *app) runStore(cmd *cobra.Command, p place) (*journal.Store, error) {
	s, err := a.requireSite(cmd.Context(), p)
	if err != nil {
		return nil, err
	}
	return journal.Open(s.StateDir())
}

func showRun(cmd *cobra.Command, entries []journal.Entry, torn bool) error {
	w := cmd.OutOrStdout()
	open := make(map[string]journal.Entry) // changes without a result, by target
	for _, e := range entries {
		switch e.Type {
		case journal.TypeIntent:
			open[e.Target] = e
		case journal.TypeResult:
			delete(open, e.Target)
		}
		at := e.Time.Local().Format("15:04:05.000")
		switch e.Type {
		case journal.TypeRun:
			fmt.Fprintf(w, "%s  "+verbOf(e.Verb)+" %s of %s for site %s by %s, inputs %s\n", at, e.Run, e.Recipe, e.Site, e.Holder, e.Inputs)
		case journal.TypeIntent:
			fmt.Fprintf(w, "%s  %-24s will %s %s\n", at, e.Step, e.Change, e.Target)
		case journal.TypeResult:
			if e.Change == "none" {
				continue
			}
			fmt.Fprintf(w, "%s  %-24s did  %s %s%s\n", at, e.Step, e.Change, e.Target, failure(e))
		case journal.TypeStep:
			fmt.Fprintf(w, "%s  %-24s %s after %s%s\n", at, e.Step, e.Status, e.Elapsed, failure(e))
		case journal.TypeAsk:
			fmt.Fprintf(w, "%s  %-24s asks, until %s: %s\n", at, e.Step, e.Until.Local().Format("15:04:05"), e.Text)
		case journal.TypeAnswer:
			fmt.Fprintf(w, "%s  %-24s %s by %s: %s\n", at, e.Step, e.Status, e.Holder, e.Text)
		case journal.TypeResume:
			fmt.Fprintf(w, "%s  resumed by %s\n", at, e.Holder)
		case journal.TypeEnd:
			fmt.Fprintf(w, "%s  %s, %d changed%s\n", at, e.Status, e.Changed, failure(e))
		}
	}
	for _, target := range slices.Sorted(maps.Keys(open)) {
		e := open[target]
		fmt.Fprintf(w, "%s of %s in step %s was begun, and how it ended isn't recorded: the next run looks\n", e.Change, target, e.Step)
	}
	if torn {
		fmt.Fprintln(w, "the last entry was cut short: the run was killed while it wrote")
	}
	return nil
}

// verbOf names what a run does.
func verbOf(verb string) string {
	if verb == "" {
		return "run"
	}
	return verb
}

func failure(e journal.Entry) string {
	if e.Error == "" {
		return ""
	}
	return fmt.Sprintf(": %s (%s)", e.Error, e.Kind)
}

// shortDuration writes 5m instead of 5m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	for _, end := range []string{"m0s", "h0m"} {
		if len(s) > len(end) && s[len(s)-len(end):] == end {
			s = s[:len(s)-2]
		}
	}
	return s
}
