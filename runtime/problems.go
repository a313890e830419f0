package runtime

import (
	"sort"
	"strings"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// problems collects faults of the input, so that all of them are told at once.
type problems struct {
	names []string
	errs  map[string]error
}

func (p *problems) add(name string, err error) {
	if p.errs == nil {
		p.errs = make(map[string]error)
	}
	if p.errs[name] == nil {
		p.names = append(p.names, name)
		p.errs[name] = err
	}
}

func (p *problems) has(name string) bool { return p.errs[name] != nil }

// err returns all problems as one error, in the order of their names, each
// with its own hint.
func (p *problems) err() error {
	if len(p.names) == 0 {
		return nil
	}
	sort.Strings(p.names)
	all := make([]error, len(p.names))
	for i, n := range p.names {
		all[i] = p.errs[n]
	}
	return invalid(all)
}

// invalid returns the faults of one input as one error of kind Invalid, nil
// if there are none.
func invalid(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		if fault.KindOf(errs[0]) == fault.Invalid {
			return errs[0]
		}
	}
	return &fault.Error{Kind: fault.Invalid, Err: list(errs)}
}

// list is several errors, one on each line, each followed by its hint.
type list []error

func (l list) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
		if h := fault.HintOf(e); h != "" {
			lines[i] += " (" + h + ")"
		}
	}
	return strings.Join(lines, "\n")
}
