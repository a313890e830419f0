package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab"
	"git.vanillacore.net/govstack/gsrun/internal/lab/real"
)

// labOpenStackCmd starts the real control plane that tests hold the simulator
// against, for people to look at.
func (a *app) labOpenStackCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "openstack",
		Short: "Start, look at or stop a real OpenStack on this machine",
		Long: "Runs Debian's Keystone, Glance, Placement, Nova, Neutron, Cinder and Octavia on loopback, with fake hypervisors,\n" +
			"networks and volumes below them. It takes root on Debian 12, installs the packages that it needs, and keeps its\n" +
			"files beside the lab's. It has nothing to do with the lab that `gsrun lab up` starts.",
		Example: "  gsrun lab openstack up\n  eval $(gsrun lab openstack env)\n  openstack server list\n  gsrun lab openstack down",
	}
	c.AddCommand(
		&cobra.Command{Use: "up", Short: "Install and start it, if it isn't up", Args: cobra.NoArgs, RunE: a.openStackUp},
		&cobra.Command{Use: "status", Short: "Show its processes", Args: cobra.NoArgs, RunE: withOpenStack(printOpenStack)},
		&cobra.Command{Use: "env", Short: "Print the variables by which clients find it", Args: cobra.NoArgs, RunE: withOpenStack(printOpenStackEnv)},
		&cobra.Command{Use: "down", Short: "Stop it and remove its data", Args: cobra.NoArgs, RunE: withOpenStack(func(_ *cobra.Command, l *real.Lab, _ []string) error {
			return l.Close()
		})},
		serviceCmd("stop", "Stop a service: connections to it are refused", func(_ context.Context, l *real.Lab, s string) error { return l.StopService(s) }),
		serviceCmd("start", "Start a service that was stopped", func(ctx context.Context, l *real.Lab, s string) error { return l.StartService(ctx, s) }),
		serviceCmd("pause", "Freeze a service: it doesn't answer", func(_ context.Context, l *real.Lab, s string) error { return l.PauseService(s) }),
		serviceCmd("resume", "Let a frozen service go on", func(_ context.Context, l *real.Lab, s string) error { return l.ResumeService(s) }),
	)
	return c
}

func openStackConfig() (real.Config, error) {
	dir, err := lab.Dir()
	return real.Config{Dir: filepath.Clean(dir) + "-openstack"}, err
}

// withOpenStack runs do on the OpenStack that is up, which stays up.
func withOpenStack(do func(*cobra.Command, *real.Lab, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cfg, err := openStackConfig()
		if err != nil {
			return err
		}
		l, err := real.Open(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		if err := do(cmd, l, args); err != nil {
			return err
		}
		return l.Detach()
	}
}

func serviceCmd(name, short string, do func(context.Context, *real.Lab, string) error) *cobra.Command {
	return &cobra.Command{Use: name + " SERVICE", Short: short, Args: cobra.ExactArgs(1), Example: "  gsrun lab openstack " + name + " nova-conductor",
		RunE: withOpenStack(func(cmd *cobra.Command, l *real.Lab, args []string) error { return do(cmd.Context(), l, args[0]) })}
}

func (a *app) openStackUp(cmd *cobra.Command, _ []string) error {
	if missing := real.Missing(); missing != "" {
		return fault.New(fault.Invalid, "this machine can't run OpenStack: %s", missing)
	}
	cfg, err := openStackConfig()
	if err != nil {
		return err
	}
	cfg.Progress = a.labProgress
	l, err := real.Open(cmd.Context(), cfg)
	if fault.KindOf(err) == fault.NotFound {
		if err := real.Install(cmd.Context(), cfg); err != nil {
			return err
		}
		a.labProgress("starting OpenStack")
		l, err = real.Start(cmd.Context(), cfg)
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(cloudsFile(l), []byte(l.Admin().Clouds("lab-admin", "")), 0o600); err != nil {
		return fmt.Errorf("writing clouds.yaml: %w", err)
	}
	if err := printOpenStack(cmd, l, nil); err != nil {
		return err
	}
	return l.Detach()
}

func cloudsFile(l *real.Lab) string { return filepath.Join(l.Dir(), "clouds.yaml") }

func printOpenStack(cmd *cobra.Command, l *real.Lab, _ []string) error {
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, s := range l.Status() {
		state := "down"
		if s.Up {
			state = fmt.Sprintf("up\tprocess %d\t%d MiB", s.PID, s.Memory>>20)
		}
		fmt.Fprintf(w, "%s\t%s\n", s.Name, state)
	}
	fmt.Fprintf(w, "\nclouds.yaml\t%s\nlogs\t%s/log\n", cloudsFile(l), l.Dir())
	return w.Flush()
}

func printOpenStackEnv(cmd *cobra.Command, l *real.Lab, _ []string) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "export OS_CLIENT_CONFIG_FILE=%q OS_CLOUD=lab-admin\n", cloudsFile(l))
	return err
}
