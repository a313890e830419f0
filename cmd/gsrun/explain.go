package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/internal/site"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

func (a *app) explainCmd() *cobra.Command {
	var p place
	var output string
	c := &cobra.Command{
		Use:   "explain RECIPE",
		Short: "Show which layer, file and line each step, input and file of a recipe comes from",
		Long: "Show of each step, input and file which layer has it, at which line, and what of a lower layer an\n" +
			"override replaces, wraps or removes. An override whose shipped step has changed is shown with the difference.",
		Example:           "  gsrun explain recipes/gateway.star --site sites/oslab",
		ValidArgsFunction: a.completeRecipe,
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return fault.New(fault.Invalid, "--output: %q is none of text, json", output)
			}
			e, r, s, src, err := a.loadOnly(cmd.Context(), args[0], p)
			if err != nil {
				return err
			}
			x := explained(e, r, s, src)
			for _, st := range r.Stale() {
				x.Stale = append(x.Stale, staleOf(st, args[0], p))
			}
			if output == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(x)
			}
			return x.text(cmd.OutOrStdout())
		},
	}
	p.flags(c.Flags())
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}

// explanation says where a recipe comes from, as explain --output json writes
// it.
type explanation struct {
	Recipe  string          `json:"recipe"`
	Pos     string          `json:"pos"`
	Layers  []layerOrigin   `json:"layers"` // the first that has a file wins
	Inputs  []inputOrigin   `json:"inputs"`
	Steps   []stepOrigin    `json:"steps"`
	Outputs string          `json:"outputs,omitempty"` // file and line
	Files   []fileOrigin    `json:"files"`
	Removed []removedOrigin `json:"removed"`
	Stale   []staleOverride `json:"stale"`
}

type layerOrigin struct {
	Name    string `json:"name"`
	Recipes string `json:"recipes"`
	Files   string `json:"files,omitempty"`
}

// origin is a place in a recipe, and how it changes what is below it.
type origin struct {
	Layer  string `json:"layer"`
	Pos    string `json:"pos"` // file and line
	Change string `json:"change,omitempty"`
}

type inputOrigin struct {
	Name  string   `json:"name"`
	Type  string   `json:"type"`
	Value any      `json:"value"` // null if the run must give it
	From  string   `json:"from"`  // "default", "site.yaml" or "required"
	Pos   string   `json:"pos"`   // of the declaration, or of an override's default
	Below []string `json:"below,omitempty"`

	shown string
}

type stepOrigin struct {
	Path string `json:"path"` // "gateway/nat"
	origin
	Below   []origin `json:"below,omitempty"` // what it took the place of, the nearest first
	Options string   `json:"options,omitempty"`
	Needs   []string `json:"needs,omitempty"`
	After   []string `json:"after,omitempty"` // comes after these without needing them
}

type fileOrigin struct {
	Name  string   `json:"name"`
	Layer string   `json:"layer"` // "" if none has it
	Path  string   `json:"path"`
	Hides []string `json:"hides,omitempty"` // paths in lower layers
	Named []string `json:"named"`           // by the code at these places
}

type removedOrigin struct {
	Path string `json:"path"`
	origin
	By string `json:"by"` // file and line of the override
}

// explained collects where all of a recipe comes from.
func explained(e *runtime.Engine, r *runtime.Recipe, s *site.Site, src source) *explanation {
	x := &explanation{Recipe: r.Path, Pos: r.Pos(), Inputs: []inputOrigin{}, Steps: []stepOrigin{}, Files: []fileOrigin{}, Removed: []removedOrigin{}, Stale: []staleOverride{}}
	for _, l := range src.layers {
		x.Layers = append(x.Layers, layerOrigin{Name: l.Name, Recipes: l.Prefix, Files: l.FilesAt})
	}
	x.inputs(r, s.InputsOf(r.Path))
	x.steps(e, r, "")
	if r.Outputs != nil {
		pos := r.Outputs.Position()
		x.Outputs = fmt.Sprintf("%s:%d", pos.Filename(), pos.Line)
	}
	return x
}

func (x *explanation) inputs(r *runtime.Recipe, site map[string]any) {
	for _, in := range r.Inputs {
		o := inputOrigin{Name: in.Name, Type: in.Kind, From: "required", Pos: in.Pos(), shown: "(required)"}
		if in.Default != nil {
			o.From, o.shown = "default", in.Default.String()
			if v, err := effect.FromStarlark(in.Default); err == nil {
				o.Value = v
			}
		}
		if v, ok := site[in.Name]; ok {
			o.From, o.Value, o.shown = "site.yaml", v, effect.ToStarlark(v).String()
		}
		for below := in.Below(); below != nil; below = below.Below() {
			o.Below = append(o.Below, below.Pos())
		}
		x.Inputs = append(x.Inputs, o)
	}
}

func (x *explanation) steps(e *runtime.Engine, r *runtime.Recipe, prefix string) {
	for _, s := range r.Order() {
		o := stepOrigin{Path: prefix + s.Name, origin: originOf(s), Options: options(s), Needs: s.Needs(), After: r.Follows(s)}
		for below := s.Below(); below != nil; below = below.Below() {
			o.Below = append(o.Below, originOf(below))
		}
		x.Steps = append(x.Steps, o)
		for _, f := range e.Files(s) {
			x.file(e, f)
		}
		if s.Use != nil {
			x.steps(e, s.Use, prefix+s.Name+"/")
		}
	}
	for _, gone := range r.Removed() {
		x.Removed = append(x.Removed, removedOrigin{Path: prefix + gone.Step.Name, origin: originOf(gone.Step), By: gone.Pos})
	}
}

func originOf(s *runtime.Step) origin {
	return origin{Layer: s.Layer(), Pos: s.Pos(), Change: string(s.Change())}
}

// file adds a file that code names, or a place that names it.
func (x *explanation) file(e *runtime.Engine, f runtime.NamedFile) {
	pos := fmt.Sprintf("%s:%d", f.Pos.Filename(), f.Pos.Line)
	for i := range x.Files {
		have := &x.Files[i]
		if have.Name != f.Name {
			continue
		}
		for _, p := range have.Named {
			if p == pos {
				return
			}
		}
		have.Named = append(have.Named, pos)
		return
	}
	o := fileOrigin{Name: f.Name, Named: []string{pos}}
	for i, l := range e.Holders(f.Name) {
		if i == 0 {
			o.Layer, o.Path = l.Name, l.FilePath(f.Name)
			continue
		}
		o.Hides = append(o.Hides, l.FilePath(f.Name))
	}
	x.Files = append(x.Files, o)
}

// text writes the explanation for people.
func (x *explanation) text(w io.Writer) error {
	fmt.Fprintf(w, "%s (%s)\n", x.Recipe, x.Pos)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	section := func(title string, n int, row func(i int) string) {
		if n == 0 {
			return
		}
		fmt.Fprintf(t, "\n%s:\n", title)
		for i := range n {
			fmt.Fprintf(t, "  %s\n", row(i))
		}
	}
	section("Layers", len(x.Layers), func(i int) string {
		l := x.Layers[i]
		return fmt.Sprintf("%d. %s\t%s\t%s", i+1, l.Name, l.Recipes, l.Files)
	})
	section("Inputs", len(x.Inputs), func(i int) string {
		in := x.Inputs[i]
		return fmt.Sprintf("%s\t%s\t%s\t%s", in.Name, in.shown, in.From, in.Pos) + tail("", replaces(in.Below))
	})
	section("Steps", len(x.Steps), func(i int) string {
		s := x.Steps[i]
		indent := strings.Repeat("  ", strings.Count(s.Path, "/"))
		return fmt.Sprintf("%s%s\t%s\t%s", indent, s.Path[strings.LastIndexByte(s.Path, '/')+1:], s.Layer, s.Pos) + tail(s.Options, s.changes(), after(s.After))
	})
	section("Files", len(x.Files), func(i int) string {
		f := x.Files[i]
		layer, where := f.Layer, f.Path
		if layer == "" {
			layer, where = "(none)", "in no layer"
		}
		hides := ""
		if len(f.Hides) > 0 {
			hides = "hides " + strings.Join(f.Hides, ", ")
		}
		return fmt.Sprintf("%s\t%s\t%s", f.Name, layer, where) + tail(hides, "named at "+strings.Join(f.Named, ", "))
	})
	section("Removed", len(x.Removed), func(i int) string {
		r := x.Removed[i]
		return fmt.Sprintf("%s\t%s\t%s\tby %s", r.Path, r.Layer, r.Pos, r.By)
	})
	if err := t.Flush(); err != nil {
		return err
	}
	if x.Outputs != "" {
		fmt.Fprintf(w, "\nOutputs: %s\n", x.Outputs)
	}
	for _, st := range x.Stale {
		fmt.Fprintf(w, "\nStale: %s\n%s", st.Message, st.Diff)
		if st.Hint != "" {
			fmt.Fprintf(w, "(%s)\n", st.Hint)
		}
	}
	return nil
}

// changes says how a step came here: "replaces tree recipes/gateway.star:80".
func (s stepOrigin) changes() string {
	if s.Change == string(runtime.Added) {
		return "added"
	}
	var parts []string
	change := s.Change
	for _, b := range s.Below {
		parts = append(parts, fmt.Sprintf("%s %s %s", change, b.Layer, b.Pos))
		change = b.Change
	}
	return strings.Join(parts, ", which ")
}

func replaces(below []string) string {
	if len(below) == 0 {
		return ""
	}
	return "replaces that of " + strings.Join(below, ", ")
}

func after(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "after " + strings.Join(names, ", ")
}

// tail returns the last column of a line: what there is to say, if anything.
func tail(parts ...string) string {
	var said []string
	for _, p := range parts {
		if p != "" {
			said = append(said, p)
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "\t" + strings.Join(said, "; ")
}

// options writes the options that a step has.
func options(s *runtime.Step) string {
	var o []string
	if s.Timeout > 0 {
		o = append(o, "timeout "+shortDuration(s.Timeout))
	}
	if s.Retries > 0 {
		o = append(o, fmt.Sprintf("retries %d", s.Retries))
	}
	if s.Each != nil {
		o = append(o, "each")
	}
	if s.When != nil {
		o = append(o, "when")
	}
	return strings.Join(o, ", ")
}
