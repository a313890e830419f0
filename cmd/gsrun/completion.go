package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"git.vanillacore.net/govstack/gsrun/recipes"
)

// completeRecipe completes the recipe of a verb, and then the flags of its
// inputs.
func (a *app) completeRecipe(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if strings.HasPrefix(typed, "-") {
		return a.completeFlags(cmd, args, typed), cobra.ShellCompDirectiveNoFileComp
	}
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			return nil, cobra.ShellCompDirectiveDefault
		}
	}
	var out []string
	for _, name := range recipeNames() {
		if strings.HasPrefix(name, typed) {
			out = append(out, name)
		}
	}
	return out, cobra.ShellCompDirectiveDefault
}

// recipeNames lists what goes by name: the recipes of the tree here and of the
// binary.
func recipeNames() []string {
	seen := make(map[string]bool)
	var names []string
	for _, dir := range []fs.FS{os.DirFS("recipes"), recipes.FS} {
		files, err := fs.Glob(dir, "*.star")
		if err != nil {
			continue
		}
		for _, f := range files {
			if n := strings.TrimSuffix(filepath.Base(f), ".star"); !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
		}
	}
	return names
}

// completeFlags completes the verb's own flags and the recipe's inputs.
func (a *app) completeFlags(cmd *cobra.Command, args []string, typed string) []string {
	var out []string
	add := func(name, usage string) {
		if flag := "--" + name; strings.HasPrefix(flag, typed) {
			out = append(out, flag+"\t"+usage)
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { add(f.Name, f.Usage) })
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			continue
		}
		_, r, _, _, err := a.loadOnly(cmd.Context(), arg, place{})
		if err != nil {
			break
		}
		for _, in := range r.Inputs {
			add(strings.ReplaceAll(in.Name, "_", "-"), in.Doc)
		}
		break
	}
	return out
}
