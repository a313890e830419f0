package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

func (a *app) approveCmd() *cobra.Command {
	var p place
	var step, question string
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
			q, err := questionOf(store, args[0], step, question)
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
	c.Flags().StringVar(&question, "question", "", "the `question`, where several wait: its text, or the id that the run shows")
	c.Flags().BoolVar(&deny, "deny", false, "deny it: the step fails")
	return c
}

func answerWord(a effect.Answer) string {
	if a.Approved {
		return "approved"
	}
	return "denied"
}

// shortID returns the beginning of a question's id, by which people name it.
func shortID(q effect.Question) string { return q.ID[:min(6, len(q.ID))] }

// questionOf returns the question that a run waits with: that of the step, or
// that with the text or id, if one is named.
func questionOf(store *journal.Store, run, step, question string) (effect.Question, error) {
	var none effect.Question
	entries, _, err := store.Read(run)
	if err != nil {
		return none, err
	}
	open := journal.Waiting(entries)
	if len(open) == 0 {
		return none, fault.Hinted(fault.Invalid, "gsrun runs list shows which runs wait", "run %s waits for nobody's approval", run)
	}
	var fit []effect.Question
	var all []string
	for _, q := range open {
		all = append(all, fmt.Sprintf("%s asks %s: %s", q.Step, shortID(q), q.Text))
		if (step == "" || q.Step == step) && (question == "" || q.Text == question || strings.HasPrefix(q.ID, question)) {
			fit = append(fit, q)
		}
	}
	if len(fit) > 1 {
		// Some may be answered, though the run hasn't looked yet.
		left := slices.DeleteFunc(slices.Clone(fit), func(q effect.Question) bool {
			_, given, err := store.GivenAnswer(run, q.ID)
			return given && err == nil
		})
		if len(left) > 0 {
			fit = left
		}
	}
	switch {
	case len(fit) == 0:
		return none, fault.Hinted(fault.Invalid, "these do: "+strings.Join(all, "; "), "run %s waits with no such question", run)
	case len(fit) > 1:
		return none, fault.Hinted(fault.Invalid, "name one with --question, by its id or text: "+strings.Join(all, "; "), "%d questions of run %s wait for approval", len(fit), run)
	}
	q := fit[0]
	if time.Now().After(q.Until) {
		return none, fault.Hinted(fault.Invalid, "be asked again: gsrun resume "+run, "nobody waits for it any more since %s: %s", q.Until.Local().Format(time.DateTime), q.Text)
	}
	return q, nil
}
