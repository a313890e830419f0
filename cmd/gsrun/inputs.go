package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
)

// recipeArgs takes apart the arguments of a verb that takes a recipe and its
// inputs. The recipe comes first of what isn't a flag; flags that the verb
// doesn't have are inputs.
type recipeArgs struct {
	recipe string
	inputs map[string]string
	help   bool
}

// parseRecipe sets the flags of the verb, and returns the recipe and the texts
// of its inputs. An input is given as --name VALUE or --name=VALUE; --name
// alone is true if switches, which is asked once the recipe is known, has it.
// What an input may be is known once the recipe is loaded, so nothing is
// refused here but what can't be an input at all.
func parseRecipe(cmd *cobra.Command, args []string, switches func(recipe string) map[string]bool) (recipeArgs, error) {
	out := recipeArgs{inputs: make(map[string]string)}
	flags := cmd.Flags()
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "-h" || arg == "--help" {
			out.help = true
			continue
		}
		name, ok := strings.CutPrefix(arg, "--")
		if !ok {
			if short, isShort := strings.CutPrefix(arg, "-"); isShort && short != "" {
				n, err := setShort(flags, short, args[i+1:])
				if err != nil {
					return out, err
				}
				i += n
				continue
			}
			if out.recipe != "" {
				hint := "give inputs as --name VALUE"
				if near := builtin.Nearest(out.recipe, verbs); near != "" {
					hint = "did you mean " + near + "?"
				}
				return out, fault.Hinted(fault.Invalid, hint, "unexpected argument %q: there is a recipe already, %s", arg, out.recipe)
			}
			out.recipe = arg
			continue
		}
		name, value, hasValue := strings.Cut(name, "=")
		own := flags.Lookup(name)
		if own != nil && own.NoOptDefVal != "" && !hasValue {
			value, hasValue = own.NoOptDefVal, true
		}
		key := strings.ReplaceAll(name, "-", "_")
		if !hasValue && own == nil && out.recipe != "" && switches(out.recipe)[key] {
			value, hasValue = "true", true
		}
		if !hasValue {
			if i+1 >= len(args) {
				return out, fault.Hinted(fault.Invalid, "write --"+name+" VALUE", "--%s has no value", name)
			}
			i++
			value = args[i]
		}
		if own != nil {
			if err := flags.Set(name, value); err != nil {
				return out, fault.New(fault.Invalid, "--%s: %v", name, err)
			}
			continue
		}
		if _, twice := out.inputs[key]; twice {
			return out, fault.New(fault.Invalid, "--%s is given twice", name)
		}
		out.inputs[key] = value
	}
	if plan := flags.Lookup("plan"); plan != nil && plan.Changed {
		return out, nil // it names its recipe
	}
	if out.recipe == "" && !out.help {
		return out, fault.Hinted(fault.Invalid, "write gsrun "+cmd.Name()+" RECIPE, such as recipes/gateway.star", "which recipe?")
	}
	return out, nil
}

// inputs makes the inputs of a run from what was given on the command line. A
// secret must be given by a place that there is; the path of a file in it is
// made absolute in given, since those of a site are relative to its folder.
func (x *session) inputs(given map[string]string) (starlark.StringDict, error) {
	for _, in := range x.recipe.Inputs {
		kind, path, ok := strings.Cut(given[in.Name], ":")
		if in.Kind == "secret" && ok && (kind == "file" || kind == "age" || kind == "sops") {
			abs, err := filepath.Abs(path)
			if err != nil {
				return nil, fault.New(fault.Invalid, "--%s: %v", in.Name, err)
			}
			given[in.Name] = kind + ":" + abs
		}
	}
	if err := checkSiteInputs(x.recipe, x.site); err != nil {
		return nil, err
	}
	inputs, err := x.recipe.ResolveInputs(given, x.site.InputsOf(x.recipe.Path))
	if err != nil {
		return nil, err
	}
	var errs []error
	for name, ref := range x.recipe.SecretRefs(inputs) {
		if _, err := x.secrets.Lookup(ref); err != nil {
			errs = append(errs, fault.Wrap("", "--"+strings.ReplaceAll(name, "_", "-"), err))
		}
	}
	return inputs, errors.Join(errs...)
}

// setShort sets a flag given by its letter. It returns how many of the
// arguments that follow it took.
func setShort(flags *pflag.FlagSet, short string, rest []string) (int, error) {
	own := flags.ShorthandLookup(short[:1])
	if own == nil {
		return 0, fault.New(fault.Invalid, "unknown flag -%s", short)
	}
	value, took := own.NoOptDefVal, 0
	switch {
	case len(short) > 1:
		value = strings.TrimPrefix(short[1:], "=")
	case value == "" && len(rest) > 0:
		value, took = rest[0], 1
	}
	if err := flags.Set(own.Name, value); err != nil {
		return 0, fault.New(fault.Invalid, "-%s: %v", short[:1], err)
	}
	return took, nil
}

// recipeHelp writes the help of a verb for one recipe: what it does, and its
// inputs as flags.
func recipeHelp(cmd *cobra.Command, name string, r *runtime.Recipe) {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s\n\nUsage:\n  gsrun %s %s [inputs] [flags]\n", orText(r.Doc, name), cmd.Name(), name)
	if len(r.Inputs) > 0 {
		fmt.Fprint(w, "\nInputs:\n")
		set := pflag.NewFlagSet("inputs", pflag.ContinueOnError)
		set.SortFlags = false
		for _, in := range r.Inputs {
			set.Var(&inputFlag{in: in}, strings.ReplaceAll(in.Name, "_", "-"), inputUsage(in))
			if in.Kind == "bool" {
				set.Lookup(strings.ReplaceAll(in.Name, "_", "-")).NoOptDefVal = "true"
			}
		}
		fmt.Fprint(w, set.FlagUsages())
	}
	fmt.Fprintf(w, "\nSteps:\n")
	for _, s := range r.Order() {
		first, _, _ := strings.Cut(strings.TrimSpace(s.Doc), "\n")
		fmt.Fprintf(w, "  %-20s %s\n", s.Name, first)
	}
	fmt.Fprintf(w, "\nFlags:\n%s", cmd.LocalFlags().FlagUsages())
}

func orText(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func inputUsage(in runtime.NamedInput) string {
	s := in.Doc
	if in.Default == nil {
		s += " Required."
	}
	if len(in.Choices) > 0 {
		s += " One of " + strings.Join(in.Choices, ", ") + "."
	}
	return s
}

// inputFlag shows an input among the flags of a help text.
type inputFlag struct{ in runtime.NamedInput }

func (f *inputFlag) String() string {
	if f.in == (runtime.NamedInput{}) || f.in.Default == nil {
		return ""
	}
	s := f.in.Default.String()
	if s == `""` || s == "[]" || s == "{}" {
		return ""
	}
	return strings.Trim(s, `"`)
}

func (f *inputFlag) Set(string) error { return nil }
func (f *inputFlag) Type() string     { return f.in.Kind }

// IsBoolFlag makes the help show that the flag needs no value.
func (f *inputFlag) IsBoolFlag() bool { return f.in.Kind == "bool" }
