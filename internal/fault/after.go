package fault

import (
	"strconv"
	"strings"
	"time"
)

// longestAfter bounds what a peer can ask for: no run waits for longer.
const longestAfter = 24 * time.Hour

// RetryAfter reads the values of an answer's headers Retry-After, in seconds
// or as a date (RFC 9110, 10.2.3), and Date, from which a date counts, so that
// clocks needn't agree; without it this machine's clock does. It returns how
// long the peer asks to wait, 0 if it doesn't, or not in a way that makes sense.
func RetryAfter(value, date string) time.Duration {
	value = strings.TrimSpace(value)
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		if n > int64(longestAfter/time.Second) {
			return longestAfter
		}
		return max(time.Duration(n)*time.Second, 0)
	}
	until, ok := httpDate(value)
	if !ok {
		return 0
	}
	now, ok := httpDate(date)
	if !ok {
		now = time.Now()
	}
	return min(max(until.Sub(now), 0), longestAfter)
}

// httpDate reads a date in one of the three forms of RFC 9110, 5.6.7.
func httpDate(s string) (time.Time, bool) {
	for _, form := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if t, err := time.Parse(form, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
