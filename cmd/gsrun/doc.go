package main

import (
	"fmt"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
	"git.vanillacore.net/govstack/gsrun/stdlib"
)

func (a *app) docCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "doc [NAME]",
		Short:   "Show the reference of a module or function",
		Example: "  gsrun doc openstack\n  gsrun doc ssh.host.file.ensure",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return docNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			w := cmd.OutOrStdout()
			if len(args) == 0 {
				for _, m := range allModules() {
					first, _, _ := strings.Cut(m.Doc, ". ")
					fmt.Fprintf(w, "%-10s %s\n", orText(m.Name, "(language)"), strings.TrimSuffix(first, "."))
				}
				return nil
			}
			text, ok := docText(args[0])
			if !ok {
				hint := "gsrun doc lists the modules"
				if near := builtin.Nearest(args[0], docNames()); near != "" {
					hint = "did you mean " + near + "?"
				}
				return fault.Hinted(fault.Invalid, hint, "there is nothing called %s", args[0])
			}
			_, err := fmt.Fprint(w, text)
			return err
		},
	}
}

func allModules() []*builtin.Module {
	return append(runtime.Language(), stdlib.Modules(stdlib.Env{})...)
}

// docText returns the text of a module, a noun or a function.
func docText(name string) (string, bool) {
	var b strings.Builder
	found := false
	for _, m := range allModules() {
		if m.Name == name && name != "" {
			fmt.Fprintf(&b, "%s\n\n%s\n\n", m.Name, m.Doc)
			found = true
		}
		for _, t := range m.Types {
			if t.Name == name {
				found = docAttrs(&b, name, t.Doc, t.Attrs)
			}
			for _, n := range t.Nouns {
				if t.Name+"."+n.Name == name {
					found = docAttrs(&b, name, n.Doc+" Found again by: "+string(n.Identity)+".", n.Attrs)
				}
			}
		}
		m.Functions(func(full string, f builtin.Func) {
			switch {
			case full == name:
				b.WriteString(f.Text(full))
				found = true
			case strings.HasPrefix(full, name+"."):
				first, _, _ := strings.Cut(f.Doc, ". ")
				fmt.Fprintf(&b, "%s\n    %s.\n", f.Signature(full), strings.TrimSuffix(first, "."))
				found = true
			}
		})
	}
	return b.String(), found
}

// docAttrs writes what a type or noun is, and the attributes of its values.
func docAttrs(b *strings.Builder, name, doc string, attrs []builtin.Attr) bool {
	fmt.Fprintf(b, "%s\n\n%s\n\n", name, doc)
	for _, a := range attrs {
		fmt.Fprintf(b, "  .%-18s %s (%s)\n", a.Name, a.Doc, a.Type)
	}
	if len(attrs) > 0 {
		b.WriteByte('\n')
	}
	return true
}

func docNames() []string {
	var names []string
	for _, m := range allModules() {
		if m.Name != "" {
			names = append(names, m.Name)
		}
		m.Functions(func(full string, _ builtin.Func) { names = append(names, full) })
	}
	sort.Strings(names)
	return names
}
