package fault_test

import (
	"fmt"
	"testing"
	"time"

	"git.vanillacore.net/govstack/gsrun/internal/fault"
)

func TestRetryAfter(t *testing.T) {
	const now = "Sun, 06 Nov 1994 08:49:37 GMT"
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"7", "", 7 * time.Second},
		{" 120 ", now, 2 * time.Minute},
		{"0", "", 0},
		{"-3", "", 0},
		{"", now, 0},
		{"soon", now, 0},
		{"9223372036854775807", "", 24 * time.Hour},
		{"99999999999999999999999", "", 0},
		{"Sun, 06 Nov 1994 08:49:46 GMT", now, 9 * time.Second},
		{"Sunday, 06-Nov-94 08:49:46 GMT", now, 9 * time.Second},
		{"Sun Nov  6 08:49:46 1994", now, 9 * time.Second},
		{"Sun, 06 Nov 1994 08:49:36 GMT", now, 0},
		{"Sun, 06 Nov 2094 08:49:37 GMT", now, 24 * time.Hour},
		{"Sun, 06 Nov 1994 08:49:46 GMT", "", 0}, // long ago
	} {
		if got := fault.RetryAfter(c.value, c.date); got != c.want {
			t.Errorf("%q at %q: %v, want %v", c.value, c.date, got, c.want)
		}
	}
	soon := time.Now().Add(time.Minute).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
	if got := fault.RetryAfter(soon, "never"); got <= 0 || got > time.Minute {
		t.Errorf("by this machine's clock: %v", got)
	}
}

// What the peer asks for is found below what was wrapped around it.
func TestAfterOf(t *testing.T) {
	inner := &fault.Error{Kind: fault.Unavailable, After: 3 * time.Second}
	for _, err := range []error{inner, fault.Wrap("reading", "x", inner), fmt.Errorf("a: %w", fault.Wrap("b", "c", fmt.Errorf("d: %w", inner)))} {
		if got := fault.AfterOf(err); got != 3*time.Second || !fault.KindOf(err).Retryable() {
			t.Errorf("%v: %v, %s", err, got, fault.KindOf(err))
		}
	}
}
