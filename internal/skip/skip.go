// Package skip is how tests are left out: never silently, and never in CI.
//
// A test that needs what a machine may lack, such as another program, calls
// Unless. A test that starts services, a large fleet or anything else that
// takes over three seconds calls Slow, and isn't part of `make quick`.
package skip

import (
	"fmt"
	"os"
	"testing"
)

// Record names the environment variable with the path of a file that gets one
// line for each test that Unless left out: `go test` shows nothing of tests
// that were skipped, so `make test` ends with this list.
const Record = "GSRUN_SKIPPED"

// Unless leaves the test out unless ok. What it says isn't tested, and why,
// stands in the record and in the verbose output. In CI, where the environment
// variable CI is true, the test fails instead.
func Unless(t testing.TB, ok bool, what, why string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("NOT TESTED: %s: %s; no test may be left out in CI", what, why)
	}
	if path := os.Getenv(Record); path != "" {
		if err := add(path, fmt.Sprintf("NOT TESTED: %s: %s (%s)\n", what, why, t.Name())); err != nil {
			t.Fatalf("NOT TESTED: %s: %s; and that can't be recorded: %v", what, why, err)
		}
	}
	t.Skipf("NOT TESTED: %s: %s", what, why)
}

func add(path, line string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// Slow leaves the test out where only the quick ones are asked for, with
// `go test -short`. Why says what takes its time.
func Slow(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("left out by -short: %s", why)
	}
}
