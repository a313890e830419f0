package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

func (a *app) approveCmd() *cobra.Command {
	var p place
	var step string
	var deny bool
	c := &cobra.Command{
		Use:   "approve RUN",
		Short: "Answer the question that a run waits with",
		Long: "Approve that a run goes on that waits in approve(...), or deny it. Who answered is kept in the run's journal.\n" +
			"gsrun runs list shows which runs wait.",
		Example: "  gsrun approve 20260914-101502-a1b2c3 --site sites/oslab\n  gsrun approve 20260914-101502-a1b2c3 --deny --step gateway/nat",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := a.runStore(cmd, p)
			if err != nil {
				return err
			}
			q, err := questionOf(store, args[0], step)
			if err != nil {
				return err
			}
			want := effect.Answer{Approved: !deny, By: person(), At: time.Now()}
			ans, first, err := store.GiveAnswer(args[0], q.ID, want)
			if err != nil {
				return err
			}
			if !first {
				return fault.New(fault.Exists, "%s %s it already: %s", ans.By, answerWord(ans), q.Text)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s, for step %s: %s\n", answerWord(ans), q.Step, q.Text)
			return nil
		},
	}
	p.flags(c.Flags())
	c.Flags().StringVar(&step, "step", "", "the `step` that asks, where several do")
	c.Flags().BoolVar(&deny, "deny", false, "deny it: the step fails")
	return c
}

func answerWord(a effect.Answer) string {
	if a.Approved {
		return "approved"
	}
	return "denied"
}

// questionOf returns the question that a run waits with: that of the step, if
// one is named.
func questionOf(store *journal.Store, run, step string) (effect.Question, error) {
	var none effect.Question
	entries, _, err := store.Read(run)
	if err != nil {
		return none, err
	}
	open := journal.Waiting(entries)
	if len(open) == 0 {
		return none, fault.Hinted(fault.NotFound, "gsrun runs list shows which runs wait", "run %s waits for nobody's approval", run)
	}
	var fit []effect.Question
	var all []string
	for _, q := range open {
		all = append(all, fmt.Sprintf("%s: %s", q.Step, q.Text))
		if step == "" || q.Step == step {
			fit = append(fit, q)
		}
	}
	switch {
	case len(fit) == 0:
		return none, fault.Hinted(fault.NotFound, "these do: "+strings.Join(all, "; "), "no step %s of run %s waits for approval", step, run)
	case len(fit) > 1 && step == "":
		return none, fault.Hinted(fault.Invalid, "name one with --step: "+strings.Join(all, "; "), "%d steps of run %s wait for approval", len(fit), run)
	}
	q := fit[0]
	if time.Now().After(q.Until) {
		return none, fault.Hinted(fault.NotFound, "run the recipe again to be asked again", "nobody waits for it any more since %s: %s", q.Until.Local().Format(time.DateTime), q.Text)
	}
	return q, nil
}
