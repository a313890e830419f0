package coreutils

import (
	"strconv"
	"strings"
	"time"
)

// parseDate reads what date -d and touch -d take, as far as scripts use it.
func parseDate(s string, now time.Time) (time.Time, bool) {
	if sec, ok := strings.CutPrefix(s, "@"); ok {
		n, err := strconv.ParseInt(sec, 10, 64)
		return time.Unix(n, 0), err == nil
	}
	switch s {
	case "now", "":
		return now, true
	case "today":
		return now, true
	case "yesterday":
		return now.AddDate(0, 0, -1), true
	case "tomorrow":
		return now.AddDate(0, 0, 1), true
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02", time.RFC1123Z, time.RFC1123,
		time.UnixDate, "Jan _2 15:04:05 2006 MST"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	f := strings.Fields(s)
	if len(f) >= 2 {
		n, err := strconv.Atoi(f[0])
		if len(f) == 3 && f[2] == "ago" {
			n = -n
		}
		if err == nil {
			switch strings.TrimSuffix(f[1], "s") {
			case "second", "sec":
				return now.Add(time.Duration(n) * time.Second), true
			case "minute", "min":
				return now.Add(time.Duration(n) * time.Minute), true
			case "hour":
				return now.Add(time.Duration(n) * time.Hour), true
			case "day":
				return now.AddDate(0, 0, n), true
			case "week":
				return now.AddDate(0, 0, 7*n), true
			}
		}
	}
	return time.Time{}, false
}
