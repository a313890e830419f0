package agree

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime"
	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// A tally counts what was compared.
type tally struct {
	changes, fields, attrs, values, logs int // claims that were compared and known
	unknown                              int // parts of them that weren't
	steps, skipped, stopped, failed      int // claims on how steps end
	later                                int // changes of which the plan didn't say what they are
	refused                              int // planned changes that the world refused
	surprises                            int // failures of steps in which something wasn't known
}

// A checker compares a plan with the run after it.
type checker struct {
	plan, run *outcome
	tally     *tally
	wrong     []string
}

func (c *checker) claim(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// check returns the claims of the plan that the run didn't keep.
func check(plan, run *outcome, t *tally) []string {
	c := &checker{plan: plan, run: run, tally: t}
	for _, path := range slices.Sorted(maps.Keys(plan.results)) {
		c.step(path)
	}
	c.end()
	c.changes()
	c.logs()
	if plan.err == nil && run.err == nil {
		c.same("the outputs", plan.outputs, run.outputs, &t.values)
	}
	return c.wrong
}

// step compares how a step ended.
func (c *checker) step(path string) {
	p, r := c.plan.results[path], c.run.status(path)
	switch p.Status {
	case runtime.Deferred:
		c.tally.stopped++
		if !hasPlace(p.Err) {
			c.claim("%s: its plan stops without saying where: %v", path, p.Err)
		}
	case runtime.Skipped:
		c.tally.skipped++
		if r != runtime.Skipped && r != runtime.NotRun {
			c.claim("%s: the plan skips it, and it was %s", path, r)
		}
	case runtime.Failed:
		c.tally.failed++
		switch {
		case r == runtime.OK || r == runtime.Skipped:
			c.claim("%s: the plan fails with %v, and it was %s", path, p.Err, r)
		case r == runtime.Failed && !strings.Contains(p.Err.Error(), effect.UnknownText):
			if got := c.run.results[path].Err; fault.KindOf(got) != fault.KindOf(p.Err) || got.Error() != p.Err.Error() {
				c.claim("%s: the plan fails with %v, and it failed with %v", path, p.Err, got)
			}
		}
	case runtime.OK:
		c.tally.steps++
		switch r {
		case runtime.OK:
			var want, got starlark.Value
			var err error
			if want, err = value(p.Value); err == nil {
				got, err = value(c.run.results[path].Value)
			}
			if err != nil {
				c.claim("%s: its result can't be read: %v", path, err)
				return
			}
			c.same("the result of "+path, want, got, &c.tally.values)
		case runtime.Failed:
			c.failure(path)
		case runtime.NotRun:
		default:
			c.claim("%s: the plan runs it, and it was %s", path, r)
		}
	}
}

// failure judges a step that failed though its plan didn't: the world may
// refuse what was planned, and what wasn't known may turn out to be wrong.
func (c *checker) failure(path string) {
	err := c.run.results[path].Err
	for _, m := range c.run.made {
		if m.err != nil && owner(c.run, m.step) == path {
			c.tally.refused++
			return
		}
	}
	if len(c.plan.planned) == 0 && len(c.plan.deferred) == 0 {
		c.claim("%s: all was known, the plan doesn't fail, and it failed with %v", path, err)
		return
	}
	c.tally.surprises++
}

// end compares how the whole ended.
func (c *checker) end() {
	if c.plan.err != nil && c.run.err == nil {
		c.claim("the plan fails with %v, and the run didn't", c.plan.err)
	}
}

// owner returns the step that a step's path, or that of one of its items, is
// listed as in the outcome's results.
func owner(o *outcome, step string) string {
	for {
		if _, ok := o.results[step]; ok {
			return step
		}
		i := strings.LastIndexByte(step, '[')
		if i < 0 {
			return step
		}
		step = step[:i]
	}
}

func hasPlace(err error) bool {
	var e *starlark.EvalError
	if errors.As(err, &e) {
		return true
	}
	return strings.Contains(fmt.Sprint(err), ".star:")
}

// changes compares the planned changes with those that were made: for each
// step and target in their order.
func (c *checker) changes() {
	planned := make(map[string][]effect.Planned)
	applied := make(map[string][]made)
	var loose []effect.Planned // their target isn't known
	for _, p := range c.plan.planned {
		if p.Target.Unknown || strings.Contains(p.Target.String(), effect.UnknownText) {
			loose = append(loose, p)
			c.tally.later++
			continue
		}
		key := p.Step + "\x00" + p.Target.String()
		planned[key] = append(planned[key], p)
	}
	for _, m := range c.run.made {
		key := m.step + "\x00" + m.target
		applied[key] = append(applied[key], m)
	}
	keys := slices.Collect(maps.Keys(planned))
	for key := range applied {
		if planned[key] == nil {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	for _, key := range keys {
		c.target(planned[key], applied[key], loose)
	}
}

// target compares the changes of one target by one step.
func (c *checker) target(planned []effect.Planned, applied []made, loose []effect.Planned) {
	for _, p := range planned {
		name := fmt.Sprintf("%s: %s %s", p.Step, p.Change.Kind, p.Target)
		later := p.Change.Kind == effect.Later
		if later {
			c.tally.later++
		} else {
			c.tally.changes++
		}
		if len(applied) == 0 {
			ended := c.run.status(owner(c.run, p.Step))
			if later || optional(p.Change) || ended != runtime.OK {
				continue
			}
			c.claim("%s was planned and not made", name)
			continue
		}
		m := applied[0]
		if m.kind != p.Change.Kind && (later || optional(p.Change) && len(applied) < len(planned)) {
			if later {
				applied = applied[1:]
			}
			continue
		}
		applied = applied[1:]
		if m.kind != p.Change.Kind {
			c.claim("%s was planned, and made was: %s", name, m)
			continue
		}
		if m.err != nil {
			continue // it didn't get there
		}
		c.fields(name, p.Change, m)
		if p.Change.After != nil {
			c.after(name, p.Change.After, m.attrs)
		}
	}
	for _, m := range applied {
		if c.plan.status(owner(c.plan, m.step)) == runtime.NotRun {
			continue // another step's plan failed first
		}
		if c.plan.stopped(m.step) || slices.ContainsFunc(loose, func(p effect.Planned) bool { return p.Step == m.step && within(m.target, p.Target) }) {
			continue
		}
		if len(planned) > 0 && c.run.status(owner(c.run, m.step)) == runtime.Failed && m.err != nil {
			continue // the same change, tried again
		}
		c.claim("%s was made and not planned", m)
	}
}

// optional reports whether a change is one only if what isn't known yet turns
// out to differ.
func optional(ch effect.Change) bool {
	if ch.Kind != effect.Update {
		return false
	}
	for _, f := range ch.Fields {
		if !unknownWithin(f.New) {
			return false
		}
	}
	return true
}

// within reports whether a target may be the one that a plan didn't know.
func within(target string, t effect.Target) bool {
	t.Unknown = false
	prefix, _, part := strings.Cut(t.String(), effect.UnknownText) // the name shows as far as it is known
	if !part && t.Name != "" {
		prefix = t.Scope
		if t.Kind != "" {
			prefix += "/" + t.Kind
		}
	}
	return strings.HasPrefix(target, prefix)
}

func (c *checker) fields(name string, want effect.Change, got made) {
	have := make(map[string][]effect.Field) // a path may have several, such as the rules of a group
	for _, f := range got.fields {
		have[f.Path] = append(have[f.Path], f)
	}
	for _, f := range want.Fields {
		left := have[f.Path]
		i := slices.IndexFunc(left, func(g effect.Field) bool {
			n := 0
			return c.agrees(decoded(formOf(f.Old)), decoded(formOf(g.Old)), &n) && c.agrees(decoded(formOf(f.New)), decoded(formOf(g.New)), &n)
		})
		switch {
		case i >= 0:
		case len(left) > 0:
			i = 0
		case unknownWithin(f.New):
			continue
		default:
			c.claim("%s: %s was to change from %v to %v, and it didn't", name, f.Path, f.Old, f.New)
			continue
		}
		if f.Old != effect.Mask { // what it was may be shown once it is known that it is no secret
			c.sameData(name+": "+f.Path+" before", f.Old, left[i].Old, &c.tally.fields)
		}
		c.sameData(name+": "+f.Path, f.New, left[i].New, &c.tally.fields)
		have[f.Path] = slices.Delete(slices.Clone(left), i, i+1)
	}
	for path, left := range have {
		for _, f := range left {
			c.claim("%s: %s changed from %v to %v, which wasn't planned", name, path, f.Old, f.New)
		}
	}
}

func (c *checker) after(name string, want, got map[string]any) {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[k]; !ok {
			c.claim("%s: .%s was to be %v, and there is none", name, k, want[k])
			continue
		}
		c.sameData(name+": ."+k, want[k], got[k], &c.tally.attrs)
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			c.claim("%s: the plan lacks .%s", name, k)
		}
	}
}

func withoutDeferred(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return l == deferredLine })
}

// logs compares what recipes logged: a plan runs them for real.
func (c *checker) logs() {
	steps := maps.Clone(c.plan.logs)
	maps.Copy(steps, c.run.logs)
	for step := range steps {
		want, got := c.plan.logs[step], c.run.logs[step]
		if c.plan.stoppedWithin(step) { // then what it defers comes early
			want, got = withoutDeferred(want), withoutDeferred(got)
		}
		ended := c.run.status(owner(c.run, step))
		for i, line := range want {
			if i >= len(got) {
				if ended == runtime.OK {
					c.claim("%s: it was to log %q, and didn't", step, line)
				}
				break
			}
			if strings.Contains(line, effect.UnknownText) {
				c.tally.unknown++
				continue
			}
			c.tally.logs++
			if line != got[i] {
				c.claim("%s: it was to log %q, and logged %q", step, line, got[i])
			}
		}
		if len(got) > len(want) && !c.plan.stoppedWithin(step) && c.plan.status(step) == runtime.OK {
			c.claim("%s: it logged %q, which wasn't planned", step, got[len(want)])
		}
	}
}
