package agree

import "slices"

// shrink returns a smaller case that still has a wrong claim, and its wrong
// claims: it leaves out one statement, step or part of the state before after
// the other, as long as the recipe still loads.
func (g *ground) shrink(dir string, c *testCase, wrong []string) (*testCase, []string) {
	fails := func(c *testCase) []string {
		w, err := g.try(dir, c, new(tally))
		if err != nil {
			return nil
		}
		return w
	}
	for again := true; again; {
		again = false
		for _, smaller := range c.smaller() {
			if w := fails(smaller); len(w) > 0 {
				c, wrong, again = smaller, w, true
				break
			}
		}
	}
	return c, wrong
}

// smaller returns the cases that lack one thing of c.
func (c *testCase) smaller() []*testCase {
	var out []*testCase
	add := func(change func(*testCase)) {
		d := *c
		d.steps, d.sub = cloned(c.steps), cloned(c.sub)
		change(&d)
		out = append(out, &d)
	}
	for i := range c.steps {
		add(func(d *testCase) { d.steps = slices.Delete(d.steps, i, i+1) })
		add(func(d *testCase) { d.steps = slices.Delete(d.steps, i, i+1); d.outputs = "None" })
	}
	if c.outputs != "None" {
		add(func(d *testCase) { d.outputs = "None" })
	}
	for i := range c.prior {
		add(func(d *testCase) { d.prior = slices.Delete(slices.Clone(c.prior), i, i+1) })
	}
	for i := range c.foreign {
		add(func(d *testCase) { d.foreign = slices.Delete(slices.Clone(c.foreign), i, i+1) })
	}
	for i, s := range c.steps {
		for j := range s.body {
			add(func(d *testCase) { d.steps[i].body = slices.Delete(d.steps[i].body, j, j+1) })
		}
		if s.result != "None" {
			add(func(d *testCase) { d.steps[i].result = "None" })
		}
	}
	for i, s := range c.sub {
		for j := range s.body {
			add(func(d *testCase) { d.sub[i].body = slices.Delete(d.sub[i].body, j, j+1) })
		}
	}
	for i := range c.defs {
		add(func(d *testCase) { d.defs = slices.Delete(slices.Clone(c.defs), i, i+1) })
	}
	return out
}

func cloned(steps []*stepText) []*stepText {
	var out []*stepText
	for _, s := range steps {
		d := *s
		d.body = slices.Clone(s.body)
		out = append(out, &d)
	}
	return out
}
