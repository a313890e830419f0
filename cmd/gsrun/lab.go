package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab"
	"git.vanillacore.net/govstack/gsrun/internal/site"
)

func (a *app) labCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "lab",
		Short: "Start, look at or stop the lab: a cloud, hosts, Git and Kubernetes on this machine",
		Long: "The lab simulates an OpenStack cloud and the hosts that its servers are, serves Git and a mirror of\n" +
			"upstream files, and runs a real Kubernetes API server, all on loopback. Everything that it keeps lies in\n" +
			"one folder, which `gsrun lab down` removes.",
		Example: "  gsrun lab up\n  gsrun recipes/bootstrap.star --lab\n  gsrun lab down",
	}
	c.AddCommand(
		&cobra.Command{Use: "up", Short: "Start the lab, if it isn't up", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := lab.Dir()
			if err != nil {
				return err
			}
			i, err := a.labUp(cmd.Context(), dir)
			if err != nil {
				return err
			}
			return printLab(cmd, i)
		}},
		&cobra.Command{Use: "status", Short: "Show where the lab's parts are", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := lab.Dir()
			if err != nil {
				return err
			}
			i, err := lab.Status(dir)
			if err != nil {
				return err
			}
			return printLab(cmd, i)
		}},
		&cobra.Command{Use: "down", Short: "Stop the lab and remove what it keeps", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := lab.Dir()
			if err != nil {
				return err
			}
			return lab.Down(cmd.Context(), dir)
		}},
		&cobra.Command{Use: "build", Short: "Build the lab's Kubernetes ahead, if it isn't built yet", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			return lab.Prepare(cmd.Context(), a.labProgress)
		}},
		a.labFaultCmd(),
		a.labOpenStackCmd(),
		a.labHostsCmd(),
		a.labServeCmd(),
	)
	return c
}

// labServeCmd is the process that a lab is.
func (a *app) labServeCmd() *cobra.Command {
	var dir string
	c := &cobra.Command{Use: "serve", Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return lab.Serve(cmd.Context(), dir, a.stderr)
	}}
	c.Flags().StringVar(&dir, "dir", "", "the lab's folder")
	_ = c.MarkFlagRequired("dir") // the flag was just added
	return c
}

func printLab(cmd *cobra.Command, i *lab.Info) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "The lab is up (process %d).\n  site       %s\n  OpenStack  %s\n  mirror     %s\n  Git        %s\n  logs       %s/log\n",
		i.PID, i.Site, i.OpenStack, i.Mirror, i.Git, i.Dir)
	return err
}

// labProgress tells what takes long about a lab.
func (a *app) labProgress(line string) { fmt.Fprintf(a.stderr, "lab: %s\n", line) }

// labUp starts the lab in dir if it isn't up, and pins the upstream files that
// its mirror stands in for.
func (a *app) labUp(ctx context.Context, dir string) (*lab.Info, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, &fault.Error{Op: "finding gsrun's own program", Kind: fault.Internal, Err: err}
	}
	i, err := lab.Up(ctx, program, dir, a.labProgress)
	if err != nil {
		return nil, err
	}
	s, err := site.Load(i.Site)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.LockFile()); err == nil {
		return i, nil
	}
	return i, a.vendor(ctx, s, nil)
}
