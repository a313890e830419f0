package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// failures is the error of a run in which several steps failed: that of the
// first, and the names of the others.
type failures struct {
	first  error
	others []string
}

func (f *failures) Error() string {
	steps := "steps"
	if len(f.others) == 1 {
		steps = "step"
	}
	return fmt.Sprintf("%v\n%d more %s failed: %s", f.first, len(f.others), steps, strings.Join(f.others, ", "))
}

func (f *failures) Unwrap() error { return f.first }

// failed adds to the error of a run the names of the other steps that failed on
// their own, and not because a step of theirs did.
func (x *run) failed(err error) error {
	var first *StepError
	if !errors.As(err, &first) {
		return err
	}
	var others []string
	for _, s := range x.steps {
		var se *StepError
		if s.Status == Failed && errors.As(s.Err, &se) && se.Step == s.Path && se.Step != first.Step {
			others = append(others, s.Path)
		}
	}
	if len(others) == 0 {
		return err
	}
	slices.Sort(others)
	return &failures{first: err, others: others}
}
