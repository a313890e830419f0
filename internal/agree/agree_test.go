// Package agree holds the test of the plan's promise: for generated recipes and
// states of the lab, what a run does is what the plan before it said, wherever
// the plan claimed to know. What a plan claims:
//
//   - that it changes nothing itself;
//   - of each step, that it is run, skipped, or fails, and then with which
//     error; a step whose plan stopped claims nothing past that place, and says
//     where it is;
//   - of each change, its step, its target, its kind, which fields change,
//     from what and to what, and the attributes after it;
//   - that nothing else is changed: of what isn't known it says so, by a target
//     that isn't known, or by a change of the kind "later";
//   - what each step returns, what it logs, and the outputs;
//   - where it finds nothing to change, that a run changes nothing.
//
// A value that isn't known in a plan (effect.Unknown) claims nothing, and
// neither does the end of a step that met one. A step may also fail because the
// world refuses what was planned.
package agree

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"git.vanillacore.net/govstack/gsrun/runtime/effect"
)

// cases is how many cases there are; GSRUN_AGREE_CASES says otherwise, and
// GSRUN_AGREE_SEED gives the first.
const cases = 1000

// workers is how many run at the same time: each waits for its lab now and then.
const workers = 4

func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func TestPlanAgrees(t *testing.T) {
	n := uint64(cases)
	if testing.Short() {
		n = 40
	}
	n = setting(t, "GSRUN_AGREE_CASES", n)
	first := setting(t, "GSRUN_AGREE_SEED", 1)
	g := newGround(t)
	var all tally
	used := make(map[string]int)
	var mu sync.Mutex
	var next atomic.Uint64
	var converged int
	var failed atomic.Int64
	var wait sync.WaitGroup
	dir := t.TempDir()
	for range workers {
		wait.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= n || failed.Load() > 10 {
					return
				}
				c := generate(first+i, g.git != nil && (first+i)%gitEvery == 0)
				place := fmt.Sprintf("%s/%d", dir, i)
				var tl tally
				wrong, err := g.try(place, c, &tl)
				if err == nil && len(wrong) > 0 {
					kept := wrong
					c, wrong = g.shrink(place, c, wrong)
					if len(wrong) == 0 {
						wrong = kept
					}
				}
				mu.Lock()
				all.add(tl)
				for k, v := range c.used {
					used[k] += v
				}
				if c.converges {
					converged++
				}
				if err != nil || len(wrong) > 0 {
					failed.Add(1)
					t.Errorf("seed %d: %v\n  %s\n%s", c.seed, err, strings.Join(wrong, "\n  "), c.source())
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	t.Logf("%d cases, %d of them planned again and run again with nothing to change", n, converged)
	t.Logf("known claims that were compared: %d changes, %d of their fields, %d attributes, %d parts of results and outputs, %d log lines, the ends of %d steps that run, %d skipped, %d failing",
		all.changes, all.fields, all.attrs, all.values, all.logs, all.steps, all.skipped, all.failed)
	t.Logf("not known: %d values, %d changes, the rest of %d steps; %d changes were refused by the world, %d steps with unknowns failed otherwise", all.unknown, all.later, all.stopped, all.refused, all.surprises)
	var names []string
	for k, v := range used {
		names = append(names, fmt.Sprintf("%s %d", k, v))
	}
	slices.Sort(names)
	t.Logf("constructs: %s", strings.Join(names, ", "))
	if t.Failed() || n < cases {
		return
	}
	for what, enough := range map[string]bool{
		"changes": all.changes > 2*cases, "fields": all.fields > 5*cases, "attributes": all.attrs > 5*cases, "values": all.values > 20*cases, "log lines": all.logs > cases,
		"steps that run": all.steps > 2*cases, "steps that are skipped": all.skipped > cases/10, "steps that fail": all.failed > cases/30, "steps that stop": all.stopped > cases/20,
		"values that aren't known": all.unknown > 5*cases, "changes that aren't known": all.later > cases/2, "cases that end": converged > cases/3, "constructs": len(used) > 130,
	} {
		if !enough {
			t.Errorf("too few %s were compared", what)
		}
	}
	if all.refused+all.surprises > cases/20 {
		t.Error("too many steps failed in a way that the plan didn't claim to know of")
	}
}

// try runs one case: it plans and applies, and does both again if that should
// find nothing to change. It returns the wrong claims; an error says that the
// case couldn't be tried.
func (g *ground) try(dir string, c *testCase, t *tally) (wrong []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	w, err := g.newWorld(dir, c.seed)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := w.close(); err == nil {
			err = cerr
		}
	}()
	own, other := c.before()
	for path, files := range map[string]map[string]string{"main.star": own, "other.star": other} {
		if o := w.run(effect.Apply, files, path); o.err != nil {
			return nil, fmt.Errorf("making the state before: %w", o.err)
		}
	}
	files := c.files()
	for round := 1; round <= 2; round++ {
		before := w.trace()
		plan := w.run(effect.Plan, files, "main.star")
		if le, ok := plan.err.(*loadError); ok {
			return nil, le
		}
		if wrote := w.since(before); len(wrote) > 0 {
			wrong = append(wrong, fmt.Sprintf("round %d: the plan wrote %q", round, wrote))
		}
		before = w.trace()
		run := w.run(effect.Apply, files, "main.star")
		for _, claim := range check(plan, run, t) {
			wrong = append(wrong, fmt.Sprintf("round %d: %s", round, claim))
		}
		nothing := len(plan.planned) == 0 && len(plan.deferred) == 0 && plan.err == nil
		if wrote := w.since(before); nothing && len(wrote) > 0 {
			wrong = append(wrong, fmt.Sprintf("round %d: nothing was planned, and written was %q", round, wrote))
		}
		if round == 1 && (run.err != nil || !c.converges) {
			break // the second round would say nothing more
		}
		if round == 2 && !nothing {
			for _, p := range plan.planned {
				wrong = append(wrong, fmt.Sprintf("round 2: %s: %s %s is planned again: %v", p.Step, p.Change.Kind, p.Target, p.Change.Fields))
			}
			for step, err := range plan.deferred {
				wrong = append(wrong, fmt.Sprintf("round 2: %s stops, though all is there: %v", step, err))
			}
			if plan.err != nil {
				wrong = append(wrong, fmt.Sprintf("round 2: the plan fails: %v", plan.err))
			}
		}
	}
	return wrong, nil
}

func (t *tally) add(o tally) {
	t.changes += o.changes
	t.fields += o.fields
	t.attrs += o.attrs
	t.values += o.values
	t.logs += o.logs
	t.unknown += o.unknown
	t.steps += o.steps
	t.skipped += o.skipped
	t.stopped += o.stopped
	t.failed += o.failed
	t.later += o.later
	t.refused += o.refused
	t.surprises += o.surprises
}
