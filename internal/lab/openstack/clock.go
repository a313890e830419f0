package openstack

import (
	"sort"
	"sync"
	"time"
)

// Clock is where a Cloud takes the time from.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f, in a goroutine of its own or in the one that moves the clock, once d has passed.
	AfterFunc(d time.Duration, f func()) Stopper
}

// Stopper cancels what AfterFunc has arranged; false means that it was too late.
type Stopper interface{ Stop() bool }

type wallClock struct{}

func (wallClock) Now() time.Time                              { return time.Now() }
func (wallClock) AfterFunc(d time.Duration, f func()) Stopper { return time.AfterFunc(d, f) }

// ManualClock stands still until it is moved: tests use it to see each state of a server.
type ManualClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*manualTimer
}

type manualTimer struct {
	clock *ManualClock
	due   time.Time
	f     func()
}

// NewManualClock makes a clock that shows start.
func NewManualClock(start time.Time) *ManualClock { return &ManualClock{now: start} }

// Now is the time that the clock shows.
func (m *ManualClock) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// AfterFunc arranges for f to be called by the Advance that reaches d from now.
func (m *ManualClock) AfterFunc(d time.Duration, f func()) Stopper {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &manualTimer{m, m.now.Add(d), f}
	m.timers = append(m.timers, t)
	return t
}

// Advance moves the clock forward and calls what falls due on the way, in order, before it returns.
func (m *ManualClock) Advance(d time.Duration) {
	m.mu.Lock()
	end := m.now.Add(d)
	for {
		sort.SliceStable(m.timers, func(i, j int) bool { return m.timers[i].due.Before(m.timers[j].due) })
		if len(m.timers) == 0 || m.timers[0].due.After(end) {
			break
		}
		t := m.timers[0]
		m.timers = m.timers[1:]
		if t.due.After(m.now) {
			m.now = t.due
		}
		m.mu.Unlock()
		t.f()
		m.mu.Lock()
	}
	m.now = end
	m.mu.Unlock()
}

func (t *manualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	for i, x := range t.clock.timers {
		if x == t {
			t.clock.timers = append(t.clock.timers[:i], t.clock.timers[i+1:]...)
			return true
		}
	}
	return false
}
