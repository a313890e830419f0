package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
)

// runControllerManager runs kube-controller-manager with args until ctx ends.
func runControllerManager(ctx context.Context, args []string) error {
	o, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("making kube-controller-manager's options: %w", err)
	}
	known, disabled, aliases := manager.KnownControllers(), manager.ControllersDisabledByDefault(), manager.ControllerAliases()
	named := o.Flags(known, disabled, aliases)
	flags := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	for _, set := range named.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("reading kube-controller-manager's flags: %w", err)
	}
	o.ParsedFlags = &named
	config, err := o.Config(ctx, known, disabled, aliases)
	if err != nil {
		return fmt.Errorf("checking kube-controller-manager's options: %w", err)
	}
	if err := manager.Run(ctx, config.Complete()); err != nil {
		return fmt.Errorf("running kube-controller-manager: %w", err)
	}
	return nil
}
