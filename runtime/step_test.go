package runtime

import (
	"slices"
	"testing"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

// TestStepsAreTriedAgain goes through all kinds of failure.
func TestStepsAreTriedAgain(t *testing.T) {
	passing := []fault.Kind{fault.NotFound, fault.Conflict, fault.Unreachable, fault.Unavailable, fault.Timeout, fault.Failed}
	for _, k := range fault.Kinds() {
		if got, want := worthRetrying(fault.New(k, "x")), slices.Contains(passing, k); got != want {
			t.Errorf("a step that failed as %s is tried again: %v", k, got)
		}
	}
}
