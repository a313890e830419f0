package effect

import "time"

// Pause returns how long to wait after the given number of failed tries: twice
// as long each time, with jitter, and at least as long as the peer asked for.
func (d *Door) Pause(failed int, asked time.Duration) time.Duration { return d.pause(failed, asked) }
