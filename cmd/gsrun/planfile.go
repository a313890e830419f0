package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/cmd/gsrun/view"
	"git.vanillacore.net/govstack/gsrun/internal/durable"
	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
	"git.vanillacore.net/govstack/gsrun/runtime/journal"
)

// planVersion is the version of the form of saved plans.
const planVersion = 1

// A planFile is a saved plan: what `plan --out` writes and `run --plan` does.
type planFile struct {
	Version int       `json:"gsrun_plan"`
	Gsrun   string    `json:"gsrun"`
	Time    time.Time `json:"time"`
	Site    string    `json:"site"`
	Recipe  string    `json:"recipe"`
	Source  string    `json:"source"` // what the recipe was called; a file's path is absolute
	// Given are the texts of the inputs that were given; Inputs is all of them,
	// in the journal's form, where a secret is a digest.
	Given   map[string]string    `json:"given"`
	Inputs  json.RawMessage      `json:"inputs"`
	About   json.RawMessage      `json:"about"`  // the site's values, ctx.site
	Code    map[string]string    `json:"code"`   // digests of the steps' code
	Values  map[string]string    `json:"values"` // from the clock and from chance
	Order   []string             `json:"order"`  // of the steps, to show them
	Changes []effect.SavedChange `json:"changes"`
	Stops   []savedStop          `json:"stops"` // steps, and items, that were planned only in part
	Same    int                  `json:"unchanged"`
}

// A savedStop says where the plan of a step stopped.
type savedStop struct {
	Step   string `json:"step"`
	Reason string `json:"reason"`
	Pos    string `json:"pos,omitempty"`
}

// stopped returns the steps whose plan stopped.
func (p *planFile) stopped() []string {
	paths := make([]string, len(p.Stops))
	for i, s := range p.Stops {
		paths[i] = s.Step
	}
	return paths
}

// data returns the plan for people to see.
func (p *planFile) data() (view.PlanData, error) {
	d := view.PlanData{Recipe: p.Recipe, Order: p.Order, Unchanged: p.Same, Budget: -1}
	for _, c := range p.Changes {
		planned, err := c.Planned()
		if err != nil {
			return d, fault.Wrap("reading the saved plan of", c.Step, err)
		}
		d.Changes = append(d.Changes, planned)
	}
	for _, s := range p.Stops {
		d.Stops = append(d.Stops, view.Stop{Step: s.Step, Err: fault.New(fault.Deferred, "%s", s.Reason), Pos: s.Pos})
	}
	return d, nil
}

// deletions returns how many deletions the plan is sure to make.
func (p *planFile) deletions() int {
	n := 0
	for _, c := range p.Changes {
		if c.Change == effect.Delete || c.Change == effect.Replace {
			n++
		}
	}
	return n
}

// write writes the plan to a file, which is replaced in one step.
func (p *planFile) write(file string) error {
	text, err := json.MarshalIndent(p, "", " ")
	if err == nil {
		err = durable.WriteFile(file, append(text, '\n'), 0o600)
	}
	if err != nil {
		return &fault.Error{Op: "writing plan", Target: file, Kind: fault.Failed, Err: err}
	}
	return nil
}

// readPlan reads a saved plan.
func readPlan(file string) (*planFile, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		hint := ""
		if errors.Is(err, fs.ErrNotExist) {
			hint = "make one with gsrun plan RECIPE --out " + file
		}
		return nil, &fault.Error{Op: "reading plan", Target: file, Kind: fault.Invalid, Err: err, Hint: hint}
	}
	var p planFile
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&p); err != nil || p.Version == 0 {
		return nil, fault.Hinted(fault.Invalid, "make one with gsrun plan RECIPE --out FILE", "%s is no saved plan", file)
	}
	if p.Version != planVersion {
		return nil, fault.Hinted(fault.Invalid, "plan again with this gsrun", "plan %s has version %d; this gsrun reads %d", file, p.Version, planVersion)
	}
	return &p, nil
}

// clockMemory keeps what a plan gets from the clock.
type clockMemory struct {
	mu     sync.Mutex
	values map[string]string
}

func (m *clockMemory) Recall(key string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[key]
	return v, ok
}

func (m *clockMemory) Keep(key, value string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = value
	return nil
}

// A planning is a plan in the making: what is shown and what is saved. Its
// events say what it shows.
type planning struct {
	data  view.PlanData
	err   error       // what the plan failed with
	clock clockMemory // what it got from the clock

	mu   sync.Mutex
	stop view.Stops
	asks view.Questions
	seen map[string]bool // targets that are as they should be
}

// newPlanning returns a planning that gets from the clock what values says, if
// that has it.
func newPlanning(values map[string]string) *planning {
	p := &planning{seen: make(map[string]bool), clock: clockMemory{values: make(map[string]string)}}
	maps.Copy(p.clock.values, values)
	return p
}

// Event takes what the door tells.
func (p *planning) Event(e effect.Event) {
	p.stop.Event(e)
	p.asks.Event(e)
	if e.Kind == effect.OpEnd && e.Err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.seen[e.Target] = true
	}
}

// plan plans the recipe of x through door, whose events p gets.
func (p *planning) plan(ctx context.Context, x *session, inputs starlark.StringDict, door *effect.Door) error {
	id, err := newRunID(time.Now())
	if err != nil {
		return err
	}
	door.Memory = &p.clock
	res, err := x.engine.Run(ctx, x.recipe, runtime.Options{ID: id, Site: runtimeSite(x.site), Inputs: inputs, Door: door, Vault: x.vault, Secret: x.secrets.Read})
	p.err = err
	p.data = view.PlanData{Recipe: x.recipe.Path, Changes: door.Planned(), Steps: res.Steps, Stops: p.stop.All(), Questions: p.asks.All(), Order: stepOrder(x.recipe, ""),
		Unchanged: door.Counts().Unchanged, Err: door.Redacted(err)}
	return nil
}

// stops returns where the plan stopped: steps and items, in order.
func (p *planning) stops() []view.Stop {
	all := make(map[string]view.Stop)
	for _, s := range p.data.Steps {
		if s.Status == runtime.Deferred {
			all[s.Path] = view.Stop{Step: s.Path, Err: s.Err}
		}
	}
	for _, s := range p.data.Stops {
		if _, ok := all[s.Step]; !ok {
			all[s.Step] = s
		}
	}
	out := make([]view.Stop, 0, len(all))
	for _, path := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[path])
	}
	return out
}

// file returns the plan as it is saved.
func (p *planning) file(x *session, given map[string]string, inputs starlark.StringDict, saver effect.Saver, r *effect.Redactor) (*planFile, error) {
	out := &planFile{Version: planVersion, Gsrun: versionText(), Time: time.Now().UTC(), Site: x.site.Name, Recipe: x.recipe.Path, Source: x.source,
		Given: make(map[string]string), Values: p.clock.values, Stops: []savedStop{}, Changes: []effect.SavedChange{}, Order: p.data.Order, Same: p.data.Unchanged}
	for _, s := range p.stops() {
		out.Stops = append(out.Stops, savedStop{Step: s.Step, Reason: r.String(s.Err.Error()), Pos: s.Pos})
	}
	for name, text := range given {
		out.Given[name] = r.String(text)
	}
	var err error
	if out.Inputs, err = saver.Form(effect.NewStruct(inputs)); err != nil {
		return nil, fault.Wrap("saving", "the inputs", err)
	}
	if out.About, err = saver.Form(runtimeSite(x.site).Values); err != nil {
		return nil, fault.Wrap("saving", "the site's values", err)
	}
	if out.Code, err = x.engine.Digests(x.recipe); err != nil {
		return nil, fault.Wrap("saving the plan of", x.recipe.Path, err)
	}
	for _, c := range p.data.Changes {
		s, err := saver.Save(c.Step, c.Target, c.Change, c.Pos)
		if err != nil {
			return nil, err
		}
		out.Changes = append(out.Changes, s)
	}
	return out, nil
}

// samePremises returns an error if the recipe, its inputs or the site aren't
// those that the plan was made of.
func (p *planFile) samePremises(x *session, inputs starlark.StringDict, saver effect.Saver) error {
	const again = "plan again"
	if x.site.Name != p.Site {
		return fault.Hinted(fault.Drift, "name that site with --site", "the plan is for the site %s, not %s", p.Site, x.site.Name)
	}
	code, err := x.engine.Digests(x.recipe)
	if err != nil {
		return err
	}
	var differs []string
	for _, path := range slices.Sorted(maps.Keys(code)) {
		if p.Code[path] != code[path] {
			differs = append(differs, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(p.Code)) {
		if code[path] == "" {
			differs = append(differs, path)
		}
	}
	if len(differs) > 0 {
		return fault.Hinted(fault.Drift, again, "the recipe has changed since it was planned: %s", strings.Join(differs, ", "))
	}
	form, err := saver.Form(effect.NewStruct(inputs))
	if err != nil {
		return err
	}
	if !saver.Fulfils(p.Inputs, form) {
		return fault.Hinted(fault.Drift, again, "the inputs of %s aren't those that were planned with: site.yaml or a default has changed", x.recipe.Path)
	}
	if form, err = saver.Form(runtimeSite(x.site).Values); err != nil {
		return err
	}
	if !saver.Fulfils(p.About, form) {
		return fault.Hinted(fault.Drift, again, "the values of the site aren't those that were planned with: values: in site.yaml has changed")
	}
	return nil
}

// drift plans anew and returns an error that lists all in which that differs
// from the saved plan. Nothing is touched.
func (p *planFile) drift(ctx context.Context, x *session, inputs starlark.StringDict, r *effect.Redactor, c *effect.Contract) error {
	now := newPlanning(p.Values)
	door := &effect.Door{Mode: effect.Plan, Clock: effect.SystemClock{}, Emit: now.Event, Redactor: r}
	if err := now.plan(ctx, x, inputs, door); err != nil {
		return err
	}
	if now.err != nil {
		return fmt.Errorf("looking whether the plan still holds: %w", now.err)
	}
	var stops []string
	for _, s := range now.stops() {
		stops = append(stops, s.Step)
	}
	return door.Redacted(c.Drift(now.data.Changes, stops, func(target string) bool { return now.seen[target] }))
}

// begunBefore returns the targets that runs of this very plan began to change.
func (p *planFile) begunBefore(store *journal.Store) (map[string]bool, error) {
	runs, err := store.RunsOfPlans()
	if err != nil {
		return nil, err
	}
	begun := make(map[string]bool)
	for _, run := range runs {
		other, err := readPlan(store.PlanPath(run))
		if err != nil || !other.Time.Equal(p.Time) || other.Recipe != p.Recipe || other.Site != p.Site {
			continue // one that can't be read is another plan
		}
		entries, _, err := store.Read(run)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Type == journal.TypeIntent {
				begun[e.Target] = true
			}
		}
	}
	return begun, nil
}

// printable returns s without what a terminal would take for a command.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}

func (a *app) showCmd() *cobra.Command {
	var full bool
	c := &cobra.Command{
		Use: "show PLANFILE", Short: "Show a saved plan", Args: cobra.ExactArgs(1),
		Example: "  gsrun show gateway.plan",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := readPlan(args[0])
			if err != nil {
				return err
			}
			d, err := p.data()
			if err != nil {
				return err
			}
			if _, err = fmt.Fprintf(cmd.OutOrStdout(), "Plan of %s for site %s, made %s by gsrun %s\n\n", printable(p.Recipe), printable(p.Site), p.Time.Local().Format("2006-01-02 15:04:05"), printable(p.Gsrun)); err != nil {
				return err
			}
			t := a.terminal(a.stdout)
			return view.Plan(cmd.OutOrStdout(), d, view.PlanOptions{Color: t.Color, ASCII: t.ASCII, Full: full})
		},
	}
	c.Flags().BoolVar(&full, "full", false, "show long texts whole")
	return c
}
