package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab/real/hosts"
)

// maxHosts is what the public network has addresses for.
const maxHosts = 200

const bootLimit = 3 * time.Minute

// labHostsCmd gives a command real hosts for as long as it runs.
func (a *app) labHostsCmd() *cobra.Command {
	var count int
	var systemd bool
	c := &cobra.Command{
		Use:   "hosts [flags] [-- COMMAND ...]",
		Short: "Run a command, or a shell, among real hosts on this machine",
		Long: "Boots hosts with real sshd, nftables and WireGuard, each in namespaces of its own over one Debian root, and runs the\n" +
			"command in a network that has only them: h1, h2 and so on at 203.0.113.101 and up, a gateway gw at 203.0.113.2, and\n" +
			"behind it a host inner at 10.77.0.5. $GSRUN_HOSTS is a folder with the key id, known_hosts, ssh_config and an inventory\n" +
			"for Ansible. When the command ends all is gone. It takes root on Debian; the root is made once, in a minute or two.",
		Example: "  gsrun lab hosts\n  gsrun lab hosts --count 10 -- sh -c 'ssh -F $GSRUN_HOSTS/ssh_config h1 hostname'",
		RunE: func(cmd *cobra.Command, command []string) error {
			if count < 1 || count > maxHosts {
				return fault.New(fault.Invalid, "--count %d: between 1 and %d hosts are possible", count, maxHosts)
			}
			if why := hosts.Missing(); why != "" {
				return fault.New(fault.Invalid, "this machine can't run hosts: %s", why)
			}
			if len(command) == 0 {
				command = []string{"sh", "-i"}
			}
			if !hosts.Inside() {
				return a.isolate(cmd.Context())
			}
			return a.amongHosts(cmd.Context(), count, systemd, command)
		},
	}
	c.Flags().IntVar(&count, "count", 3, "how many hosts there are beside the gateway and what is behind it")
	c.Flags().BoolVar(&systemd, "systemd", false, "the hosts run systemd, and not only sshd")
	return c
}

// isolate runs this very command in namespaces of its own.
func (a *app) isolate(ctx context.Context) error {
	root, err := hosts.Install(ctx, hosts.Config{Progress: a.labProgress})
	if err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return &fault.Error{Op: "finding gsrun's own program", Kind: fault.Internal, Err: err}
	}
	code, err := hosts.Isolate(root, program, os.Args[1:])
	if err == nil && code != 0 {
		err = &exitCode{code: code}
	}
	return err
}

func (a *app) amongHosts(ctx context.Context, count int, systemd bool, command []string) (err error) {
	if err := hosts.Settle(); err != nil {
		return fmt.Errorf("setting up the hosts' namespaces: %w", err)
	}
	dir, err := os.MkdirTemp("", "gsrun-hosts-")
	if err != nil {
		return fmt.Errorf("making a folder for the hosts: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l, err := hosts.New(filepath.Join(dir, "hosts"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := errors.Join(l.Network("public", "203.0.113.10/24"), l.Network("private", "")); err != nil {
		return err
	}
	specs := []hosts.Spec{
		{Name: "gw", Systemd: systemd, Legs: []hosts.Leg{{Network: "public", Address: "203.0.113.2/24"}, {Network: "private", Address: "10.77.0.1/16"}}},
		{Name: "inner", Systemd: systemd, Legs: []hosts.Leg{{Network: "private", Address: "10.77.0.5/16"}}, Gateway: "10.77.0.1"},
	}
	for n := range count {
		specs = append(specs, hosts.Spec{Name: fmt.Sprintf("h%d", n+1), Systemd: systemd, Legs: []hosts.Leg{{Network: "public", Address: fmt.Sprintf("203.0.113.%d/24", 101+n)}}})
	}
	booting, cancel := context.WithTimeout(ctx, bootLimit)
	defer cancel()
	all, err := l.Boot(booting, specs...)
	if err != nil {
		return err
	}
	if err := describeHosts(dir, l, all); err != nil {
		return err
	}
	a.labProgress(fmt.Sprintf("%d hosts are up; %s says how to reach them", len(all), filepath.Join(dir, "ssh_config")))
	run := exec.CommandContext(ctx, command[0], command[1:]...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, a.stdout, a.stderr
	run.Env = append(os.Environ(), "GSRUN_HOSTS="+dir)
	err = run.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &exitCode{code: max(1, exit.ExitCode())}
	}
	if err != nil {
		return &fault.Error{Op: "running", Target: command[0], Kind: fault.NotFound, Err: err}
	}
	return nil
}

// describeHosts writes what clients need to reach the hosts.
func describeHosts(dir string, l *hosts.Lab, all []*hosts.Host) error {
	var config, known, inventory strings.Builder
	for _, h := range all {
		fmt.Fprintf(&config, "Host %s\n  HostName %s\n", h.Name, h.Address())
		if h.Legs[0].Network == "private" {
			config.WriteString("  ProxyJump gw\n")
		} else {
			fmt.Fprintf(&inventory, "%s ansible_host=%s\n", h.Name, h.Address())
		}
		fmt.Fprintf(&known, "%s %s\n", h.Address(), h.HostKey)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	fmt.Fprintf(&config, "Host *\n  User root\n  IdentityFile %s\n  IdentitiesOnly yes\n  UserKnownHostsFile %s\n  StrictHostKeyChecking yes\n  BatchMode yes\n", at("id"), at("known_hosts"))
	fmt.Fprintf(&inventory, "[all:vars]\nansible_user=root\nansible_ssh_common_args=-F %s\nansible_ssh_private_key_file=%s\n", at("ssh_config"), at("id"))
	for name, text := range map[string]string{"id": l.User.Private, "id.pub": l.User.Public + "\n", "known_hosts": known.String(), "ssh_config": config.String(), "inventory": inventory.String()} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			return fmt.Errorf("describing the hosts: %w", err)
		}
	}
	return nil
}
