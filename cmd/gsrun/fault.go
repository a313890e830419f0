package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/lab"
)

// labFaultCmd tells the lab that runs what shall go wrong.
func (a *app) labFaultCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "fault",
		Short: "Make parts of the lab go wrong, to see what a recipe does then",
		Long: "A fault says which requests, commands, pushes or downloads go wrong, and how. Each acts once if it says nothing\n" +
			"else: skip lets some pass first, count says how often it acts (-1 is always), chance at how many of 100. What\n" +
			"matches gets the first fault that isn't used up. The states of a host, such as mute, no_sudo or full_disk, last\n" +
			"until they are cleared. `gsrun lab fault add PART --help` lists the fields of a part.",
		Example: `  gsrun lab fault add openstack '{"method": "POST", "path": "/networks", "reset": "after"}'
  gsrun lab fault add host '{"host": "*-seed", "command": "^kubeadm init", "drop": "output"}'
  gsrun lab fault add kubernetes '{"method": "PATCH", "status": 409, "count": 3}'
  gsrun lab fault add git '{"race": "late"}'
  gsrun lab fault list
  gsrun lab fault clear`,
	}
	add := &cobra.Command{Use: "add PART JSON", Short: "Add a fault, and print its id", Example: c.Example}
	for _, p := range lab.Parts() {
		add.AddCommand(a.labFaultAdd(p))
	}
	add.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		_, err := lab.FindPart(args[0])
		return err
	}
	c.AddCommand(add, labFaultList(), labFaultClear())
	return c
}

// injector returns what makes the running lab go wrong.
func injector() (lab.Injector, error) {
	dir, err := lab.Dir()
	if err != nil {
		return nil, err
	}
	i, err := lab.Status(dir)
	if err != nil {
		return nil, err
	}
	return i.Remote(), nil
}

func (a *app) labFaultAdd(p lab.Part) *cobra.Command {
	var text strings.Builder
	fmt.Fprintf(&text, "%s The fields of the fault:\n\n", p.Doc)
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, f := range p.Fields() {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", f.Name, f.Type, f.Doc)
	}
	w.Flush()
	return &cobra.Command{Use: p.Name + " JSON", Short: p.Doc, Long: strings.TrimRight(text.String(), "\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fault.Hinted(fault.Invalid, "see gsrun lab fault add "+p.Name+" --help", "give the fault as one JSON object")
			}
			in, err := injector()
			if err != nil {
				return err
			}
			id, err := in.Inject(p.Name, []byte(args[0]))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), id)
			return err
		}}
}

func labFaultList() *cobra.Command {
	var output string
	c := &cobra.Command{Use: "list", Short: "List the faults, and how often each acted", Long: "List the faults, and how often each acted; - is for what lasts until it is cleared and isn't counted.", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		if output != "plain" && output != "json" {
			return fault.New(fault.Invalid, "--output: %q is none of plain, json", output)
		}
		in, err := injector()
		if err != nil {
			return err
		}
		all, err := in.Faults()
		if err != nil {
			return err
		}
		if output == "json" {
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(all)
		}
		w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
		if len(all) > 0 {
			fmt.Fprintln(w, "ID\tPART\tHITS\tFAULT")
		}
		for _, f := range all {
			spec, err := json.Marshal(f.Spec)
			if err != nil {
				return fault.Wrap("showing", f.ID, err)
			}
			hits := strconv.Itoa(f.Hits)
			if f.Uncounted {
				hits = "-"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.ID, f.Part, hits, spec)
		}
		return w.Flush()
	}}
	c.Flags().StringVarP(&output, "output", "o", "plain", "plain or json")
	return c
}

func labFaultClear() *cobra.Command {
	return &cobra.Command{Use: "clear [ID]...", Short: "Remove faults; all if none is named", RunE: func(cmd *cobra.Command, args []string) error {
		in, err := injector()
		if err != nil {
			return err
		}
		if len(args) == 0 {
			args = []string{""}
		}
		for _, id := range args {
			if _, err := in.ClearFaults(id); err != nil {
				return err
			}
		}
		return nil
	}}
}
