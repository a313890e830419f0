package runtime

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
	"git.vanillacore.net/govstack/gsrun/runtime/builtin"
)

// check returns every fault of the recipe's graph: names given twice, needs
// that are no step, parameters that can't be filled, cycles.
func (r *Recipe) check() []error {
	var errs []error
	names := r.names()
	for _, s := range r.Steps {
		if first := r.Step(s.Name); first != s {
			errs = append(errs, at(s.pos, fault.Hinted(fault.Invalid, "a step's name is that of its function; rename one", "two steps are called %s; the first is at %s", s.Name, first.Pos())))
		}
	}
	known := func(fn *starlark.Function, says string) {
		for _, need := range params(fn) {
			if r.Step(need) == nil {
				errs = append(errs, at(fn.Position(), unknownStep(says, need, names)))
			}
		}
	}
	for _, s := range r.Steps {
		for _, fn := range s.functions() {
			known(fn, "step "+s.Name+" needs")
		}
		for i, name := range append(slices.Clone(s.After), s.Before...) {
			what := "after"
			if i >= len(s.After) {
				what = "before"
			}
			if r.Step(name) == nil {
				errs = append(errs, at(s.pos, unknownStep("step "+s.Name+" comes "+what, name, names)))
			}
		}
		if s.original == nil && s.Fn != nil && hasParam(s.Fn, paramOriginal) {
			errs = append(errs, at(s.pos, fault.Hinted(fault.Invalid, "pass it to extend(wrap = {...})", "step %s takes `original`, but wraps nothing", s.Name)))
		}
	}
	if r.Outputs != nil {
		known(r.Outputs, "the outputs need")
	}
	if len(errs) == 0 {
		if cycle := r.cycle(); cycle != nil {
			errs = append(errs, at(r.Step(cycle[0]).pos, fault.Hinted(fault.Invalid, r.cycleHint(cycle), "cycle of steps: %s", strings.Join(cycle, " -> "))))
		}
	}
	return errs
}

func (r *Recipe) names() []string {
	names := make([]string, len(r.Steps))
	for i, s := range r.Steps {
		names[i] = s.Name
	}
	return names
}

func unknownStep(says, need string, names []string) *fault.Error {
	hint := "the steps are " + strings.Join(names, ", ")
	if near := builtin.Nearest(need, names); near != "" {
		hint = fmt.Sprintf("did you mean %s? The steps are %s", near, strings.Join(names, ", "))
	}
	return fault.Hinted(fault.Invalid, hint, "%s %s, which is no step of this recipe", says, need)
}

func hasParam(fn *starlark.Function, name string) bool {
	for i := range fn.NumParams() {
		if n, _ := fn.Param(i); n == name {
			return true
		}
	}
	return false
}

// cycleHint says which arrows of a cycle are there by `after` or `before`.
func (r *Recipe) cycleHint(cycle []string) string {
	var said []string
	for i, name := range cycle[:len(cycle)-1] {
		s, first := r.Step(name), r.Step(cycle[i+1])
		switch {
		case slices.Contains(s.Needs(), first.Name):
		case slices.Contains(s.After, first.Name):
			said = append(said, fmt.Sprintf("%s says after = [%q] (%s)", name, first.Name, s.Pos()))
		default:
			said = append(said, fmt.Sprintf("%s says before = [%q] (%s)", first.Name, name, first.Pos()))
		}
	}
	if len(said) == 0 {
		return "a step can't need its own result"
	}
	return strings.Join(said, ", ")
}

// cycle returns the names along a cycle, the first one again at the end, or
// nil.
func (r *Recipe) cycle() []string {
	const (
		unseen = iota
		open
		done
	)
	state := make(map[string]int)
	var path []string
	var visit func(name string) []string
	visit = func(name string) []string {
		switch state[name] {
		case done:
			return nil
		case open:
			return append(slices.Clone(path[slices.Index(path, name):]), name)
		}
		state[name] = open
		path = append(path, name)
		for _, need := range r.first(r.Step(name)) {
			if c := visit(need); c != nil {
				return c
			}
		}
		path = path[:len(path)-1]
		state[name] = done
		return nil
	}
	for _, s := range r.Steps {
		if c := visit(s.Name); c != nil {
			return c
		}
	}
	return nil
}

// Order returns the steps so that each comes after those it needs; otherwise
// they keep their order.
func (r *Recipe) Order() []*Step {
	var out []*Step
	seen := make(map[string]bool)
	var visit func(s *Step)
	visit = func(s *Step) {
		if seen[s.Name] {
			return
		}
		seen[s.Name] = true
		for _, need := range r.first(s) {
			visit(r.Step(need))
		}
		out = append(out, s)
	}
	for _, s := range r.Steps {
		visit(s)
	}
	return out
}

// checkUses returns the uses of recipes, however deep, that would own the same
// things: those of one recipe with one instance.
func (r *Recipe) checkUses() []error {
	var errs []error
	seen := map[string]string{r.Path + "@": "the recipe itself"}
	var visit func(r *Recipe, prefix, instance string)
	visit = func(r *Recipe, prefix, instance string) {
		for _, s := range r.Steps {
			if s.Use == nil {
				continue
			}
			inner := instance
			if s.Instance != "" {
				inner = strings.TrimPrefix(instance+"-"+s.Instance, "-")
			}
			path, key := prefix+s.Name, s.Use.Path+"@"+inner
			if twin, ok := seen[key]; ok {
				errs = append(errs, at(s.pos, fault.Hinted(fault.Invalid, "give one of them instance = \"NAME\", which becomes part of names and owner marks",
					"%s and %s use the recipe %s alike: both would own the same things", twin, path, s.Use.Path)))
				continue
			}
			seen[key] = path
			visit(s.Use, path+"/", inner)
		}
	}
	visit(r, "", "")
	return errs
}
