package main

import (
	"slices"

	"github.com/spf13/cobra"
)

const longHelp = `gsrun runs recipes written in Starlark against OpenStack, hosts over SSH,
Kubernetes and Git. A recipe is a graph of steps; each step says what should be
there, and gsrun changes what isn't as it should be. A second run changes nothing.

  gsrun plan recipes/gateway.star --site sites/oslab     show what would change
  gsrun recipes/gateway.star --site sites/oslab          make it so
  gsrun recipes/bootstrap.star --lab                     try it without a cloud
  gsrun destroy recipes/gateway.star --site sites/oslab  show what would be deleted

Exit codes:
  0    done; for plan: no change, or --detailed-exitcode wasn't given
  1    a step failed
  2    plan and destroy --detailed-exitcode: there are changes
  3    bad input, recipe or site: nothing was touched
  4    missing rights, an untrusted peer or file, an exhausted quota, a denied approval
  5    a peer couldn't be reached, or didn't answer in time
  6    another run holds the lock, or took it over
  7    the world isn't as the plan says
  130  interrupted`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:               "gsrun [command] [RECIPE]",
		Short:             "Run recipes against OpenStack, hosts, Kubernetes and Git",
		Long:              longHelp,
		ValidArgsFunction: a.completeRecipe,
		Args:              cobra.ArbitraryArgs,
		SilenceErrors:     true,
		SilenceUsage:      true,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.CompletionOptions.HiddenDefaultCmd = false
	root.AddCommand(a.runCmd(), a.planCmd(), a.showCmd(), a.destroyCmd(), a.resumeCmd(), a.checkCmd(), a.graphCmd(), a.explainCmd(), a.overrideCmd(),
		a.approveCmd(), a.runsCmd(), a.docCmd(), a.labCmd(), a.testCmd(), a.vendorCmd(), a.versionCmd())
	sayArguments(root)
	return root
}

// shorthand makes `gsrun FILE ...` of `gsrun run FILE ...`.
func (a *app) shorthand(root *cobra.Command, args []string) []string {
	if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
		return args
	}
	for _, c := range root.Commands() {
		if c.Name() == args[0] || slices.Contains(c.Aliases, args[0]) {
			return args
		}
	}
	switch args[0] {
	case "help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		return args
	}
	return append([]string{"run"}, args...)
}
